"""Stochastic gradient Langevin dynamics: noise at a temperature, and the lowest point that it passed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import constants
from unsaddle.baselines.guard import Guard, check_output
from unsaddle.baselines.noisy_sgd import Drift
from unsaddle.baselines.noisy_sgd import practical_settings as noisy_sgd_settings
from unsaddle.baselines.samples import batch
from unsaddle.objective import SampledFunction
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import REPORT_EVERY, Ending, Run, RunEnded

JUDGES = 1024
"""Samples on which visited points are compared, where a step sees less than everything."""

JUDGING_SHARE = 0.1
"""Component values may be this share of component gradients."""


@dataclass(frozen=True, kw_only=True)
class SgldSettings:
    """Constants of SGLD."""

    step_size: float
    """η."""
    noise: float
    """The noise as it would have to be added to the gradient, a norm: η·noise = √(2ηd/ξ), that of `noisy-sgd`."""
    batch_size: int
    """Samples a step."""
    num_steps: int
    """k_max."""
    acceptance_radius: float
    """D: a longer step is rejected."""
    domain_radius: float = math.inf
    """K is the ball of this radius around x0: a step out of it is rejected."""
    judge_every: int
    """Visited points are compared after so many steps; 1 where a step sees everything, as values are free then."""
    smoothness: float | None = None
    """L1; measured if not given."""
    inverse_temperature: float | None = None
    """ξ, instead of `noise`."""
    measure_again: bool = True
    """As in `noisy-sgd`."""

    def __post_init__(self) -> None:
        hint, counts = "leave it out to have it chosen from a measured L1", ("batch_size", "num_steps", "judge_every")
        check_settings(self, positive=("step_size", "inverse_temperature"), counts=counts, hint=hint)
        checks.not_negative(self.noise, "noise", "0 gives plain SGD")
        checks.positive(self.acceptance_radius, "acceptance_radius", "it is D, the longest step that is accepted")
        if not self.domain_radius > 0.0:
            raise ValueError(f"domain_radius must be > 0, got {self.domain_radius!r}; leave it out for no limit")


def noise_of(*, step_size: float, inverse_temperature: float, dimension: int) -> float:
    """√(2ηd/ξ)/η: the root mean square norm of √(2η/ξ)w, in units of η.

    >>> noise_of(step_size=0.5, inverse_temperature=400.0, dimension=100)
    1.0
    """
    return math.sqrt(2.0 * dimension / (step_size * inverse_temperature))


def inverse_temperature_of(*, step_size: float, noise: float, dimension: int) -> float:
    """ξ = 2d/(η·noise²), the same read backwards."""
    return 2.0 * dimension / (step_size * noise**2)


def theory_settings(run: Run, options: Options) -> SgldSettings:
    """ξ = d/ε², η = ε²/(L1·d), k_max = ⌈log(1/δ)/η²⌉, single samples: all constants 1.

    The theorem names polynomials without their degrees; these are the orders of its proof's first steps.
    """
    (L1,) = constants.needed(options, "smoothness")
    known, d = options.method_settings, vectors.dimension(run.x)
    xi = float(known.get("inverse_temperature", d / options.eps**2))
    eta = float(known.get("step_size", options.eps**2 / (L1 * d)))
    return settings_from(
        SgldSettings,
        known,
        step_size=eta,
        noise=noise_of(step_size=eta, inverse_temperature=xi, dimension=d),
        batch_size=1,
        num_steps=math.ceil(math.log(1.0 / options.delta) / eta**2),
        acceptance_radius=_acceptance_radius(run),
        judge_every=1,
        measure_again=False,
    )


def practical_settings(run: Run, options: Options) -> SgldSettings:
    """η, b, k_max and the noise of `noisy-sgd`, from which ξ follows; D = max(1, ‖x0‖); values a tenth of the work.

    D guards against wild steps; where it is not wide enough for η∇F, the run stands still.
    """
    known = options.method_settings
    names = ("step_size", "noise", "batch_size", "num_steps", "smoothness", "measure_again")
    known_to_both: dict[str, Any] = {name: known[name] for name in names if name in known}
    if "inverse_temperature" in known and "step_size" in known:
        known_to_both["noise"] = noise_of(
            step_size=known["step_size"],
            inverse_temperature=known["inverse_temperature"],
            dimension=vectors.dimension(run.x),
        )
    elif "inverse_temperature" in known:
        raise ValueError(
            f"inverse_temperature needs step_size beside it, got {known['inverse_temperature']!r} alone; pass step_size"
            ", or noise instead"
        )
    base = noisy_sgd_settings(run, replace(options, method_settings=known_to_both))
    n = run.num_samples
    exact = n is not None and base.batch_size >= n
    judges = JUDGES if n is None else min(JUDGES, n)
    return settings_from(
        SgldSettings,
        known,
        step_size=base.step_size,
        noise=base.noise,
        batch_size=base.batch_size,
        num_steps=base.num_steps,
        acceptance_radius=_acceptance_radius(run),
        judge_every=1 if exact else max(REPORT_EVERY, math.ceil(judges / (JUDGING_SHARE * base.batch_size))),
    )


def _acceptance_radius(run: Run) -> float:
    return max(1.0, vectors.norm(run.x))


class Best:
    """The lowest point visited, on one frozen sample for all of them."""

    def __init__(self, run: Run, judges: SampledFunction) -> None:
        self.x, self.value = run.x, math.inf
        self._run, self._judges = run, judges

    def visit(self, x: Tensor, value: float | None = None) -> None:
        """Compare x, with F(x) if it is known."""
        if value is None:
            value = float(self._judges.value(x))
        if value < self.value:
            self.x, self.value = x, value


def accepted(x: Tensor, y: Tensor, centre: Tensor, settings: SgldSettings) -> bool:
    """Whether y is in K ∩ B(x, D)."""
    step, out = y - x, y - centre
    step_squared, out_squared = vectors.dots((step, step), (out, out))
    return step_squared <= settings.acceptance_radius**2 and out_squared <= settings.domain_radius**2


def minimize(run: Run, options: Options) -> None:
    """Find a local minimum by a random walk that hits one, and say which of its points was the lowest.

        y = x − ηg(x) + √(2η/ξ)·w,   w ~ N(0, I)
        x ← y if y ∈ K and ‖y − x‖ ≤ D, else stay
        return the visited x_k with the lowest F

    Zhang, Liang, Charikar (2017), Algorithm 1. The claim is about the time to *hit* the neighbourhood of a
    minimum, hence the comparison of all that was visited; the rejection is part of the proof. √(2η/ξ), not √(2ηξ).

    Letters: η = `step_size`, ξ = `inverse_temperature` (or by `noise`), k_max = `num_steps`, D = `acceptance_radius`,
    K = the ball of `domain_radius` around x0.

    Departures: x0 is the caller's, not uniform on K. F cannot be evaluated where a step sees less than everything:
    there, visited points are compared every `judge_every` steps on one frozen sample of at most 1024.

    Cost: b component gradients a step; values at most a tenth of that, none where b is everything.
    """
    settings = theory_settings(run, options) if options.theory else practical_settings(run, options)
    if settings.inverse_temperature is not None and "noise" in options.method_settings:
        raise ValueError("noise and inverse_temperature say the same thing twice; pass one of them")
    drift = Drift(run, options, settings.step_size, settings.batch_size, settings.measure_again and not options.theory)
    n, centre, x = run.num_samples, run.x, run.x
    best = Best(run, batch(run, JUDGES))
    guard, rejected = Guard(run), 0
    for k in range(settings.num_steps):
        drift.follow(k, x)
        f = batch(run, drift.batch_size)
        value, g = f.value_and_grad(x)
        if n is not None and f.size == n:
            best.visit(x, float(value))
        elif k % settings.judge_every == 0:
            best.visit(x)
        guard.seen(x, float(value))
        run.moved(best.x, best.value)  # Whenever the run ends, this is its output.
        w = vectors.normal(x, run.generator)
        scale = drift.step_size * settings.noise / math.sqrt(vectors.dimension(x))  # = √(2η/ξ)
        y = torch.sub(x, g, alpha=drift.step_size).add_(w, alpha=scale)
        if accepted(x, y, centre, settings):
            x = y
        else:
            rejected += 1
        if (k + 1) % REPORT_EVERY == 0:
            run.record("epoch", value=float(value), note=f"{rejected} steps rejected so far")
    best.visit(x)
    check_output(run, best.x, 4 * drift.batch_size)
    raise RunEnded(Ending.OUTPUT)
