"""What the rivals have in common: measured constants, a guard against divergence, and steps along negative curvature.

None of it is from the papers, which assume that every constant is known. Where one is given, it is not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.curvature.extract import RELATIVE_GAMMA
from unsaddle.curvature.krylov.lanczos import LanczosSettings, lanczos
from unsaddle.curvature.power import second_order
from unsaddle.curvature.result import Status
from unsaddle.first_order import anchor as anchors
from unsaddle.objective import SampledFunction
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction

REPORT_EVERY = 50
"""Steps between two events of a method whose steps are cheap."""

SMALLEST_LOOK = 64
"""Samples of a look at least: at a saddle where all components' gradients vanish, V asks for none."""

CHUNKS = 8
"""Fresh batches by which a curvature is measured again."""

DIVERGED = 1e8
"""A value that exceeds this many times max(1, |F(x0)|) has diverged."""

SUFFICIENT = 1e-4
"""Share of η‖∇F_S‖² that an epoch or a step must lower F_S by, the usual one of line searches."""

FLAT = 1e-6
"""A measured L1 below it is that of a zero Hessian, up to rounding, and says nothing about L1 a step further."""


# --- Settings -------------------------------------------------------------------------------------------------------


def given(options: Options) -> dict[str, Any]:
    """What the caller set; None counts as not set."""
    return {name: value for name, value in options.method_settings.items() if value is not None}


def needed(options: Options, *names: str) -> list[float]:
    """The constants that a theorem presupposes, which nobody but the caller can know."""
    known = given(options)
    for name in names:
        if name not in known:
            raise ValueError(f"settings='theory' needs {name}, got none; pass {name}=..., or use settings='practical'")
    return [checks.positive(known[name], name) for name in names]


def smoothness(run: Run, options: Options, x: Tensor | None = None) -> float:
    """L1 as given, or as ten Lanczos steps with gradient differences see it; 1 where the Hessian is zero there."""
    known = given(options).get("smoothness")
    if known is not None:
        return checks.positive(known, "smoothness", "leave it out to have it measured")
    measured = anchors.smoothness(run.objective, run.x if x is None else x, run.generator)
    if not math.isfinite(measured):
        raise RunEnded(Ending.NOT_FINITE if x is None else Ending.DIVERGED)
    return measured if measured > FLAT else 1.0


def curvature_sought(options: Options, smoothness: float) -> float:
    """γ as given, or a hundredth of L1."""
    return RELATIVE_GAMMA * smoothness if options.gamma is None else options.gamma


# --- Samples --------------------------------------------------------------------------------------------------------


def batch(run: Run, size: int, *, hessian: bool = False) -> SampledFunction:
    """F_S on `size` fresh samples, or F where that is everything."""
    n = run.num_samples
    return run.objective.sample(None if n is not None and size >= n else size, run.generator, hessian=hessian)


def everything(run: Run, *, hessian: bool = False) -> SampledFunction:
    """F itself, for methods that need it."""
    if run.num_samples is None:
        raise ValueError(
            f"{run.method} needs full gradients, got a stream, which has none; use a method for streams, such as "
            "neon-scsg, or a FiniteSum of samples drawn from it"
        )
    return run.objective.sample(None, hessian=hessian)


def variance_look(run: Run, x: Tensor, size: int) -> anchors.Anchor:
    """A look at x that also sees the variance of single gradients: on less than everything, where that is possible."""
    n = run.num_samples
    return anchors.anchor_at(run.objective, x, size if n is None else max(1, min(size, n - 1)), run.generator)


def batch_for(look: anchors.Anchor, *, eps: float, share: float, at_least: int, num_samples: int | None) -> int:
    """b = share·V/max(ε², ĝ²/4), ĝ the gradient norm without what sampling adds; everything if that is half of it."""
    if math.isnan(look.variance):
        return num_samples or at_least
    squared_norm = max(0.0, look.norm**2 - look.squared_error)
    size = max(at_least, math.ceil(share * look.variance / max(eps**2, squared_norm / 4.0)))
    return num_samples if num_samples is not None and 2 * size > num_samples else size


def measured_look(run: Run, x: Tensor, eps: float, size: int | None) -> anchors.Anchor:
    """∇F_S(x) on `size` samples; without that, a first batch of 64 says how many ε, V and the gradient ask for.

    |S| = max(64, 4V/max(ε², ĝ²/4)): near a stationary point sampling adds at most ε²/4 to the squared norm.
    """
    if size is not None or run.num_samples == 1:
        return anchors.anchor_at(run.objective, x, size, run.generator)
    seen = variance_look(run, x, SMALLEST_LOOK)
    wanted = batch_for(seen, eps=eps, share=4.0, at_least=SMALLEST_LOOK, num_samples=run.num_samples)
    return seen if wanted <= seen.samples else anchors.anchor_at(run.objective, x, wanted, run.generator)


# --- The guard ------------------------------------------------------------------------------------------------------


class Watch:
    """Moves a run to points that were seen to be finite, and ends it where they are not."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._limit = math.nan
        self._largest = 0.0

    def seen(self, x: Tensor, value: float) -> None:
        """F_S(x) = value: go there, or end the run at the last point that was finite."""
        if math.isnan(self._limit):
            if not math.isfinite(value):
                raise RunEnded(Ending.NOT_FINITE)
            self._limit = DIVERGED * max(1.0, abs(value))
        if not math.isfinite(value) or value > self._limit:
            raise RunEnded(Ending.DIVERGED)
        self._largest = max(self._largest, abs(value))
        self.run.moved(x, value)

    def rounding(self, dtype: torch.dtype) -> float:
        """By how much two values may differ for no reason: sixteen roundings of the largest that was seen."""
        return 16.0 * torch.finfo(dtype).eps * self._largest

    def lowered(self, value: float, seen: anchors.Anchor, step_size: float) -> bool:
        """Whether F_S fell to `value` from where it was looked at, by some share of η‖∇F_S‖², up to rounding.

        Merely not rising is not enough: at η = 2/L1 a step goes to and fro. False for NaN.
        """
        return value <= seen.value - SUFFICIENT * step_size * seen.norm**2 + self.rounding(seen.x.dtype)


def final_look(run: Run, x: Tensor, size: int) -> None:
    """Report what there is to be seen at the output; the method itself never checks."""
    seen = anchors.anchor_at(run.objective, x, max(size, 2), run.generator)
    if not seen.is_finite:
        raise RunEnded(Ending.DIVERGED)
    run.checked(x, value=seen.value, gradient_norm=seen.norm, gradient_error=math.sqrt(seen.squared_error))


# --- Negative curvature ---------------------------------------------------------------------------------------------


class Lowest(NamedTuple):
    """The lowest curvature that Lanczos sees, and along what."""

    curvature: float
    direction: Tensor


def lowest_curvature(
    f: SampledFunction, x: Tensor, *, smoothness: float, accuracy: float, delta: float, generator: torch.Generator
) -> Lowest:
    """vᵀ∇²f(x)v ≤ λ_min + accuracy with probability 1 − δ, by Lanczos with Hessian products (Kuczyński–Woźniakowski).

    An L1 that proves too small by half is doubled, and the products are taken again.
    """
    last: list[Tensor] = []
    while True:
        steps = extraction.lanczos_num_steps(smoothness=smoothness, accuracy=accuracy, dimension=x.numel(), delta=delta)
        settings = LanczosSettings(num_steps=steps, target=math.inf, largest=2.0 * smoothness)

        def keep(_: int, v: Tensor) -> None:
            last[:] = [v]

        found = lanczos(second_order(f), x, settings, generator, observer=keep)
        if found.status is Status.NOT_FINITE:
            raise RunEnded(Ending.DIVERGED)
        if found.status is not Status.SMOOTHNESS_EXCEEDED:
            return Lowest(found.lowest, last[0])
        smoothness *= 2.0


def fresh_curvature(run: Run, x: Tensor, v: Tensor, size: int) -> tuple[float, float]:
    """vᵀ∇²F(x)v on `size` samples that v has not seen, in eight batches, and its standard error; or on everything."""
    n = run.num_samples
    if n is not None and size >= n:
        return vectors.dots((v, second_order(everything(run, hessian=True)).hvp(x, v)))[0], 0.0
    seen = []
    for _ in range(CHUNKS):
        f = second_order(batch(run, max(1, size // CHUNKS), hessian=True))
        seen.append(vectors.dots((v, f.hvp(x, v)))[0])
    mean = sum(seen) / CHUNKS
    spread = sum((q - mean) ** 2 for q in seen) / (CHUNKS - 1)
    return mean, math.sqrt(spread / CHUNKS)


def first_length(x: Tensor) -> float:
    """Where a line search begins: a hundredth of ‖x‖, or of 1 if that is more."""
    return 1e-2 * max(1.0, vectors.norm(x))


def line_search(
    value: Callable[[Tensor], float], x: Tensor, v: Tensor, value0: float, length: float
) -> tuple[Tensor, float] | None:
    """The lowest of x ± sv over s = …, length/4, length, 2·length, …: the first s at which one sign is lower, doubled
    while that helps. None where no s is.

    The curvature says how f begins, not how far that reaches, and L2, which would say, is not known.

    >>> moved = line_search(lambda x: float(x**4 - x**2), torch.zeros(1), torch.ones(1), 0.0, 0.1)
    >>> [round(number, 3) for number in (float(moved[0]), moved[1])]
    [0.8, -0.23]
    """
    least = 4.0 * torch.finfo(x.dtype).eps * abs(value0)
    for _ in range(10):
        trials = [(value(torch.add(x, v, alpha=s)), s) for s in (length, -length)]
        best, s = min(trials, key=lambda trial: trial[0])
        if best < value0 - least:
            break
        length /= 4.0
    else:
        return None
    while True:
        further = value(torch.add(x, v, alpha=2.0 * s))
        if not further < best:
            return torch.add(x, v, alpha=s), best
        best, s = further, 2.0 * s
