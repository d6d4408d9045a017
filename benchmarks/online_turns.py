"""How fast the direction of an online probe turns downwards, for other ways to turn it.

    python -m benchmarks.online --turns [--seeds 10]

A probe looks along u on each fresh batch, h = (∇f_B(x+ru) − ∇f_B(x))/r, and takes u − ηh, normalised, with
η = 1/(L1·(1 + t/FADING)). Tried here, from the same start on the same batches: other values of FADING; the heavy ball
(NEON⁺ on fresh samples): u − ηh + β(u − u₋); and the metric of Adam's second moments. Printed is the true curvature
along u after 16 and 48 batches, as a share of λ_min: the mean of the seeds, and the lowest.

Cases: classifiers at zero after 100 steps of AdamW at batches of 8 and 64; and a soft saddle of known spectrum, from
−0.02 to 1, in badly scaled variables, with noise of 0.1 on every entry of each batch's Hessian.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from benchmarks.environment import Report, table
from benchmarks.stuck_classifiers import classifier
from benchmarks.stuck_problems import OPTIMIZERS, batches
from unsaddle.torch_optim.online import FADING

AFTER = (16, 48)


class Turn(NamedTuple):
    """A way to turn."""

    name: str
    fading: float = FADING
    momentum: float = 0.0
    metric: bool = False


TURNS = (
    *(Turn(f"FADING = {f:g}", fading=f) for f in (2.0, 4.0, FADING, 16.0, 32.0, math.inf)),
    *(Turn(f"heavy ball, β = {b:g}", momentum=b) for b in (0.3, 0.6, 0.9)),
    Turn("metric", metric=True),
    Turn("metric, heavy ball, β = 0.6", metric=True, momentum=0.6),
)


class Case(NamedTuple):
    """A saddle: products of fresh batches with a direction, the true curvature along it, and where to begin."""

    products: Callable[[], Iterator[Callable[[Tensor], Tensor]]]
    curvature: Callable[[Tensor], float]
    lowest: float
    start: Tensor
    sizes: Tensor
    """S, the diagonal of the metric."""


def classifier_at_zero(model: str, activation: str, batch_size: int, seed: int) -> Case:
    problem = classifier(model, activation, batch_size)
    network, data = problem.make(seed, True), problem.data(seed)
    base = OPTIMIZERS["adamw"](list(network.parameters()), problem.rates["adamw"])
    stream = batches(problem, data, seed)
    for _, batch in zip(range(100), stream, strict=False):
        base.zero_grad()
        problem.loss(network, batch).backward()
        base.step()
    moments = torch.cat([base.state[p]["exp_avg_sq"].flatten() for p in network.parameters()])
    names, shapes = zip(*((n, p.shape) for n, p in network.named_parameters()), strict=True)
    x = torch.cat([p.detach().flatten() for p in network.parameters()])

    def gradient(at: Tensor, batch: tuple[Tensor, ...]) -> Tensor:
        at = at.clone().requires_grad_()
        parts = at.split([s.numel() for s in shapes])
        weights = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        loss = problem.loss(lambda rows: functional_call(network, weights, (rows,)), batch)  # type: ignore[arg-type]
        return torch.autograd.grad(loss, at)[0]

    def product(u: Tensor, batch: tuple[Tensor, ...], r: float = 1e-3) -> Tensor:
        return (gradient(x + r * u, batch) - gradient(x - r * u, batch)) / (2.0 * r)

    def products() -> Iterator[Callable[[Tensor], Tensor]]:
        for batch in batches(problem, data, seed + 500):
            yield lambda u, batch=batch: product(u, batch)  # type: ignore[misc]

    first = next(stream)
    start = lowest_of(lambda u: product(u, first), len(x), seed)
    lowest = lowest_of(lambda u: product(u, data), len(x), seed)
    return Case(
        products, lambda u: float(u @ product(u, data)), float(lowest @ product(lowest, data)), start, _sizes(moments)
    )


def soft_saddle(seed: int, size: int = 200, noise: float = 0.1) -> Case:
    generator = torch.Generator().manual_seed(seed)
    q = torch.linalg.qr(torch.randn(size, size, generator=generator))[0]
    scale = torch.logspace(-0.5, 0.5, size)
    values = torch.cat([torch.tensor([-0.02]), torch.linspace(0.0, 1.0, size - 1)])
    hessian = scale[:, None] * (q * values @ q.T) * scale
    lowest = float(torch.linalg.eigvalsh(hessian)[0])

    def products() -> Iterator[Callable[[Tensor], Tensor]]:
        own = torch.Generator().manual_seed(seed + 500)
        while True:
            entries = torch.randn(size, size, generator=own) * noise / math.sqrt(2.0 * size)
            yield lambda u, n=entries + entries.T: hessian @ u + n @ u  # type: ignore[misc]

    first = next(products())
    start = lowest_of(first, size, seed)
    return Case(products, lambda u: float(u @ hessian @ u), lowest, start, _sizes(hessian.diag().abs()))


def _sizes(moments: Tensor) -> Tensor:
    """S = v^(−1/2), as the search of `Neon.probe` has it, with moments of zero at the least that is not zero."""
    least = float(moments[moments > 0.0].min())
    logs = -0.5 * moments.clamp(min=least).log()
    return (logs - logs.mean()).exp()


def lowest_of(product: Callable[[Tensor], Tensor], size: int, seed: int, steps: int = 40) -> Tensor:
    """The lowest Ritz vector of 40 Lanczos steps, orthogonalized."""
    u = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    basis = [u / u.norm()]
    images: list[Tensor] = []
    for _ in range(min(steps, size)):
        images.append(product(basis[-1]))
        w = images[-1].clone()
        for _ in range(2):
            for b in basis:
                w -= (b @ w) * b
        if float(w.norm()) < 1e-6 * float(images[-1].norm()):
            break
        basis.append(w / w.norm())
    columns, h = torch.stack(basis[: len(images)], 1), torch.stack(images, 1)
    projected = columns.T @ h
    ritz = columns @ torch.linalg.eigh((projected + projected.T) / 2.0)[1][:, 0]
    return ritz / ritz.norm()


def shares(case: Case, turn: Turn) -> list[float]:
    """The true curvature along the direction after some batches, over λ_min."""
    s = case.sizes if turn.metric else torch.ones_like(case.sizes)
    w = case.start / s
    w, before, smoothness = w / w.norm(), None, 0.0
    out = []
    for t, product in zip(range(max(AFTER)), case.products(), strict=False):
        u = s * w
        h = s * product(u / u.norm()) * u.norm()
        smoothness = max(smoothness, float(h.norm()))
        moved = w - h / (smoothness * (1.0 + t / turn.fading))
        if before is not None:
            moved = moved + turn.momentum * (w - before)
        before, w = w, moved / moved.norm()
        if t + 1 in AFTER:
            u = s * w
            out.append(case.curvature(u / u.norm()) / case.lowest)
    return out


CASES: dict[str, Callable[[int], Case]] = {
    "MLP, Tanh, batch 8": lambda seed: classifier_at_zero("MLP", "Tanh", 8, seed),
    "conv net, GELU, batch 8": lambda seed: classifier_at_zero("conv net", "GELU", 8, seed),
    "MLP, Tanh, batch 64": lambda seed: classifier_at_zero("MLP", "Tanh", 64, seed),
    "soft saddle": soft_saddle,
}


def study(report: Report, seeds: int) -> None:
    for name, make in CASES.items():
        cases = [make(report.seed + i) for i in range(seeds)]
        rows = []
        for turn in TURNS:
            seen = [shares(case, turn) for case in cases]
            cells = [f"{statistics.fmean(column):.2f} ({min(column):.2f})" for column in zip(*seen, strict=True)]
            rows.append([turn.name, *cells])
            report.row(settings={"case": name, "turn": turn._asdict()}, status="done", shares=seen)
        table(f"{name}: curvature over λ_min, mean of {seeds} (lowest)", ["turn", *(f"after {n}" for n in AFTER)], rows)
