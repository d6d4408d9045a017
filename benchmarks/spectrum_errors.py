"""Are the errors that `eigenpairs` states large enough? Against dense Hessians, or spectra that are known.

Families: smooth networks and networks with ReLU, trained for some hundred steps, in float64 and float32; quadratic
functions with clustered and degenerate spectra, rotated; the same with a quartic term around a point that is not zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.environment import Report, table
from benchmarks.networks import in_double
from benchmarks.trained_networks import BATCH, Network, networks, trained
from unsaddle import Function, ModelObjective, eigenpairs
from unsaddle.objective import Objective
from unsaddle.problems import prescribed_spectrum

TOO_SMALL, WORST = 0.01, 2.0
"""The share of errors that may be too small, and by which factor."""


class Known(NamedTuple):
    """A point with all eigenvalues there, ascending."""

    family: str
    objective: Objective
    x: torch.Tensor
    truth: np.ndarray


def network(activation: type[nn.Module], dtype: torch.dtype, seed: int, steps: int) -> Known:
    torch.manual_seed(seed)
    whole = networks()["MLP, ReLU"]()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), activation(), nn.Linear(8, 8), activation(), nn.Linear(8, 10))
    rows = tuple(part.to(dtype) if part.is_floating_point() else part for part in whole.rows)
    whole = Network(model.to(dtype), rows, whole.loss)
    trained(whole, steps, seed)
    batch = tuple(part[:BATCH] for part in rows)
    f, x = in_double(whole, batch)
    dense = torch.stack([f.hvp(x, e) for e in torch.eye(x.numel(), dtype=torch.float64)])
    values = torch.linalg.eigvalsh((dense + dense.T) / 2.0).numpy()
    F = ModelObjective(whole.model, whole.loss, TensorDataset(*batch))
    return Known(f"{activation.__name__} network, {dtype}", F, F.point, values)


def clusters(rng: np.random.Generator, dtype: torch.dtype) -> Known:
    """Both ends of the spectrum are clusters, some of them degenerate, and a bulk is between them."""
    d = int(rng.integers(60, 400))

    def end() -> np.ndarray:
        width = 10.0 ** rng.uniform(-6.0, -1.0) if rng.random() < 0.7 else 0.0
        return 10.0 ** rng.uniform(-1.0, 0.0) * (1.0 + width * rng.uniform(-1.0, 1.0, int(rng.integers(1, 8))))

    low, high = -end(), end()
    spectrum = np.sort(
        np.r_[low, high, 0.1 * rng.normal(size=d - len(low) - len(high)) * 10.0 ** rng.uniform(-2.0, 0.0)]
    )
    seed = int(rng.integers(1 << 30))
    problem = prescribed_spectrum(torch.from_numpy(spectrum), rotation_seed=seed, dtype=dtype)
    return Known(f"clusters, {dtype}", problem.objective, torch.zeros(d, dtype=dtype), spectrum)


def quartic(rng: np.random.Generator, dtype: torch.dtype) -> Known:
    """½Σλ_i y_i² + Σ y_i³/3 + Σ y_i⁴/4 with y = Qx: a diagonal Hessian in y, which changes around x."""
    d = int(rng.integers(60, 300))
    rotation = torch.linalg.qr(torch.from_numpy(rng.normal(size=(d, d))))[0].to(dtype)
    sizes, x = torch.from_numpy(rng.normal(size=d)).to(dtype), torch.from_numpy(0.3 * rng.normal(size=d)).to(dtype)
    y = rotation.double() @ x.double()
    truth = np.sort((sizes.double() + 2.0 * y + 3.0 * y * y).numpy())

    def fun(point: torch.Tensor) -> torch.Tensor:
        z = rotation @ point
        return (0.5 * sizes * z**2 + z**3 / 3.0 + z**4 / 4.0).sum()

    return Known(f"quartic, {dtype}", Function(fun), x, truth)


def cases(count: int, seed: int, steps: int) -> Iterator[Known]:
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        for dtype in (torch.float64, torch.float32):
            yield clusters(rng, dtype)
            yield quartic(rng, dtype)
            if i % 4 == 0:
                for activation in (nn.Tanh, nn.GELU, nn.ReLU):
                    yield network(activation, dtype, seed + i, steps)


def errors(count: int, seed: int, steps: int, report: Report) -> None:
    """Counts errors that are smaller than the distance to the nearest eigenvalue, among 3 lowest and 3 highest."""
    tally: dict[str, list[float]] = defaultdict(list)
    spent: dict[str, list[int]] = defaultdict(list)
    for i, case in enumerate(cases(count, seed, steps)):
        found = eigenpairs(case.objective, case.x, lowest=3, highest=3, seed=i)
        family = case.family.replace("torch.", "")
        rounding = 1e-12 * np.abs(case.truth).max()
        spent[family].append(found.cost.gradients)
        for value, error in zip(found.values, found.errors, strict=True):
            off = float(np.abs(case.truth - value).min())
            tally[family].append(0.0 if off <= rounding else off / error if error > 0.0 else np.inf)
            if tally[family][-1] > 1.0:
                settings = {"family": family, "case": i}
                report.row(settings=settings, status=found.status.name, value=value, error=error, off=off)
                print(
                    f"    {family}, case {i}: {value:.8g} ± {error:.2g} is off by {off:.2g}, {found.status.name}",
                    flush=True,
                )
    rows = []
    for family, ratios in tally.items():
        beyond = [ratio for ratio in ratios if ratio > 1.0]
        rows.append(
            [family, f"{len(ratios)}", f"{len(beyond)}", f"{max(ratios):.2f}", f"{np.median(spent[family]):.0f}"]
        )
    table("errors of eigenvalues", ["", "values", "error too small", "off by, in errors, at most", "gradients"], rows)
    every = [ratio for ratios in tally.values() for ratio in ratios]
    report.want(f"share of {len(every)} errors too small", sum(r > 1.0 for r in every) / max(1, len(every)), TOO_SMALL)
    report.want("off by, in errors, at most", max(every, default=0.0), WORST)
