"""Other tools on the task of `benchmarks.spectrum`: the ten lowest and the ten highest eigenvalues of a network.

Each is told, by the truth, the fewest steps or the coarsest tolerance that suffices for one per cent on all twenty; all
begin from the same kind of random start, and hold as many vectors as they take steps.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.trained_networks import Network

PACKAGES = (
    "hessian-eigenthings==1.0.0a5", "curvlinops-for-pytorch==3.0.1", "PyHessian==0.1",
    "backpack-for-pytorch", "einops", "einconv", "linear_operator", "opt_einsum", "unfoldNd", "jaxtyping", "tqdm",
)  # fmt: skip
RADII = (5e-3, 5e-4, 5e-5)
"""`fd_eps` of hessian-eigenthings: the default in float32, and shorter ones, of which it is given the best."""
STEPS = (90, 105, 120, 135, 150, 180)
TOLERANCES = (1e-1, 1e-2, 1e-3)
VECTORS = 80
"""`ncv` of eigsh."""
WITHIN = 0.01


@dataclass(frozen=True)
class Peer:
    """A tool with what it was told, its largest error as a share, and its time; or the reason why it fails."""

    name: str
    told: str
    off: float
    run: Callable[[], Any] | None
    why: str = ""


def install() -> None:
    """The peers, into a folder of their own."""
    folder = Path(tempfile.gettempdir()) / "unsaddle-peers"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *PACKAGES], check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def peers(network: Network, rows: tuple[torch.Tensor, ...], truth: np.ndarray, k: int) -> list[Peer]:
    """Every peer: told by the truth what suffices, and, where it can tell itself, until it says so."""
    install()
    found = [_eigenthings(network, rows, truth, k, "finite_difference", radius) for radius in RADII]
    best = min(found, key=lambda pair: (pair[0].run is None, int((pair[0].told or "0").split()[0])))
    return [
        *best,
        *_eigenthings(network, rows, truth, k, "autograd", None),
        _curvlinops(network, rows, truth, k),
        _pyhessian(network, rows, truth, k),
    ]


def off_by(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(np.sort(values) / truth - 1.0).max())


def _eigenthings(
    network: Network, rows: tuple[torch.Tensor, ...], truth: np.ndarray, k: int, method: str, radius: float | None
) -> list[Peer]:
    """One run for both ends, with reorthogonalisation, without which copies come up."""
    from hessian_eigenthings import HessianOperator
    from hessian_eigenthings.algorithms.lanczos import lanczos_tridiagonal

    name = "hessian-eigenthings, " + ("autograd" if radius is None else f"differences at {radius:g}")
    how = {"method": method} | ({} if radius is None else {"fd_eps": radius})

    def run(steps: int, seed: int = 0) -> tuple[np.ndarray, Any]:
        h = HessianOperator(network.model, [rows], network.loss, **how)
        start = torch.randn(h.size, dtype=h.dtype, generator=torch.Generator().manual_seed(seed))
        tri = lanczos_tridiagonal(h, start, steps)
        return _both_ends(tri.alphas, tri.betas, k), tri

    def with_vectors(steps: int) -> None:
        _, tri = run(steps)
        m = torch.diag(tri.alphas) + torch.diag(tri.betas, 1) + torch.diag(tri.betas, -1)
        pairs = torch.linalg.eigh(m).eigenvectors
        ends = torch.cat([pairs[:, :k], pairs[:, -k:]], dim=1)
        vectors = torch.zeros(2 * k, tri.basis[0].numel(), dtype=m.dtype)
        for row, q in zip(ends, tri.basis, strict=True):  # As its own `lanczos` does.
            vectors.addr_(row, q)

    try:
        _, tri = run(max(STEPS))
    except Exception as error:
        return [Peer(name, "", np.nan, None, f"{type(error).__name__}: {str(error)[:90]}")]
    told, own = [], []
    for steps in STEPS:  # The first steps of a longer run are those of a shorter one.
        off = off_by(_both_ends(tri.alphas[:steps], tri.betas[: steps - 1], k), truth)
        again = partial(with_vectors, steps)
        if off <= WITHIN:
            told.append(Peer(name, f"{steps} steps", off, again))
        if steps < max(STEPS) and _says_so(tri.alphas[:steps], tri.betas[:steps], k):
            own.append(Peer(f"{name}, until it says so", f"{steps} steps", off, again))
    nothing = Peer(name, "", off, None, f"off by {off:.2g} after {max(STEPS)} steps")
    return [(told or [nothing])[0], *own[:1]]


def _says_so(alphas: torch.Tensor, betas: torch.Tensor, k: int) -> bool:
    """Whether its own flags call both ends converged, at a tolerance of one per cent."""
    n = len(alphas)
    m = torch.diag(alphas) + torch.diag(betas[: n - 1], 1) + torch.diag(betas[: n - 1], -1)
    values, pairs = torch.linalg.eigh(m)
    fine = (pairs[-1].abs() * betas[n - 1]) < WITHIN * values.abs()
    return bool(fine[:k].all() and fine[-k:].all())


def _both_ends(alphas: torch.Tensor, betas: torch.Tensor, k: int) -> np.ndarray:
    n = len(alphas)
    betas = betas[: n - 1]
    values = torch.linalg.eigvalsh(torch.diag(alphas) + torch.diag(betas, 1) + torch.diag(betas, -1)).numpy()
    return np.r_[values[:k], values[-k:]]


def _curvlinops(network: Network, rows: tuple[torch.Tensor, ...], truth: np.ndarray, k: int) -> Peer:
    """Its operator in SciPy's eigsh, as its documentation shows."""
    import curvlinops
    from scipy.sparse.linalg import eigsh

    name = "curvlinops, eigsh"
    inputs, targets = _supervised(network, rows)

    def run(tolerance: float) -> np.ndarray:
        operator = curvlinops.HessianLinearOperator(
            _Logits(network.model), torch.nn.CrossEntropyLoss(), list(network.model.parameters()),
            [(inputs, targets)], check_deterministic=False,
        ).to_scipy()  # fmt: skip
        start = np.random.default_rng(0).normal(size=operator.shape[0]).astype(np.float32)
        return np.sort(eigsh(operator, k=2 * k, which="BE", tol=tolerance, ncv=VECTORS, v0=start)[0])

    off = np.nan
    for tolerance in TOLERANCES:
        try:
            off = off_by(run(tolerance), truth)
        except Exception as error:
            return Peer(name, "", np.nan, None, f"{type(error).__name__}: {str(error)[:90]}")
        if off <= WITHIN:
            return Peer(name, f"tol = {tolerance:g}", off, partial(run, tolerance))
    return Peer(name, "", off, None, f"off by {off:.2g} at tol = {TOLERANCES[-1]:g}")


def _pyhessian(network: Network, rows: tuple[torch.Tensor, ...], truth: np.ndarray, k: int) -> Peer:
    """Power iterations with deflation, by its defaults. It has no lowest eigenvalues; the ten highest are asked for."""
    import warnings

    from pyhessian import hessian

    inputs, targets = _supervised(network, rows)

    def run() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            h = hessian(_Logits(network.model), torch.nn.CrossEntropyLoss(), data=(inputs, targets), cuda=False)
            return np.sort(h.eigenvalues(top_n=k)[0])

    before = network.model.training
    try:
        off = off_by(run(), truth[-k:])
    except Exception as error:
        return Peer("PyHessian", "", np.nan, None, f"{type(error).__name__}: {str(error)[:90]}")
    finally:
        network.model.train(before)
        network.model.zero_grad(set_to_none=True)
    return Peer("PyHessian, highest only", "defaults", off, run)


class _Logits(torch.nn.Module):
    """The logits of a network, one row for each label."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits = self.model(inputs)
        return getattr(logits, "logits", logits).flatten(0, -2)


def _supervised(network: Network, rows: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels, as tools want them that take a model and a criterion."""
    if len(rows) == 2:
        return rows
    return rows[0][:, :-1], rows[0][:, 1:].flatten()


def timed(run: Callable[[], object]) -> float:
    """Seconds of the processor: other processes on the machine hardly change them."""
    start = time.process_time()
    run()
    return time.process_time() - start
