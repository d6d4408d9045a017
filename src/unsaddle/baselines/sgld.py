"""Stochastic gradient Langevin dynamics: a walk with noise at a temperature, which returns its lowest point."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import constants
from unsaddle.baselines.guard import Guard, end_at
from unsaddle.baselines.noisy_sgd import Drift, NoisySgdSettings
from unsaddle.baselines.noisy_sgd import practical_settings as noisy_sgd_settings
from unsaddle.baselines.samples import batch
from unsaddle.objective import SampledFunction
from unsaddle.options import Options, check_settings, setting_names, settings_from
from unsaddle.run import REPORT_EVERY, Run

JUDGES = 1024
"""Samples on which visited points are compared, if a step sees less than everything."""

JUDGING_SHARE = 0.1
"""Component values that comparing may cost, as a share of the component gradients."""


@dataclass(frozen=True, kw_only=True)
class SgldSettings(NoisySgdSettings):
    """Constants of SGLD. The noise is that of noisy SGD, in units of the gradient: η·noise = √(2ηd/ξ)."""

    acceptance_radius: float
    """D. A longer step is rejected."""
    domain_radius: float = math.inf
    """Radius of K, a ball around x0. A step out of it is rejected."""
    judge_every: int
    """Steps between comparisons of visited points. 1 if a step sees everything, since its value is free."""
    inverse_temperature: float | None = None
    """ξ. Give it instead of `noise`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        hint = "leave it out to have it chosen from a measured L1"
        check_settings(self, positive=("inverse_temperature",), counts=("judge_every",), hint=hint)
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
    """ξ = 2d/(η·noise²), the inverse of `noise_of`."""
    return 2.0 * dimension / (step_size * noise**2)


def theory_settings(run: Run, options: Options) -> SgldSettings:
    """ξ = d/ε², η = ε²/(L1·d), k_max = ⌈log(1/δ)/η²⌉, b = 1, with all constants 1.

    The theorem names polynomials without their degrees. These are the orders of the first steps of its proof.
    """
    (L1,) = constants.needed(options, "smoothness")
    known, d = options.method_settings, vectors.dimension(run.x)
    xi = float(known.get("inverse_temperature", d / options.eps**2))
    eta = float(known.get("step_size", options.eps**2 / (L1 * d)))
    noise, D = noise_of(step_size=eta, inverse_temperature=xi, dimension=d), max(1.0, vectors.norm(run.x))
    steps = math.ceil(math.log(1.0 / options.delta) / eta**2)
    shared = {"step_size": eta, "noise": noise, "batch_size": 1, "num_steps": steps, "measure_again": False}
    return settings_from(SgldSettings, known, **shared, acceptance_radius=D, judge_every=1)


def practical_settings(run: Run, options: Options) -> SgldSettings:
    """η, b, k_max and the noise of noisy SGD; D = max(1, ‖x0‖). Comparing points costs a tenth of the gradients.

    D guards against wild steps. If D is shorter than η∇F, the run stands still.
    """
    known = options.method_settings
    known_to_both = {name: known[name] for name in setting_names(NoisySgdSettings) if name in known}
    if (xi := known.get("inverse_temperature")) is not None:
        if "step_size" not in known:
            raise ValueError(
                f"inverse_temperature needs step_size beside it, got {xi!r} alone; pass step_size, or noise instead"
            )
        d = vectors.dimension(run.x)
        known_to_both["noise"] = noise_of(step_size=known["step_size"], inverse_temperature=xi, dimension=d)
    base = noisy_sgd_settings(run, replace(options, method_settings=known_to_both))
    n = run.num_samples
    exact = n is not None and base.batch_size >= n
    judges = JUDGES if n is None else min(JUDGES, n)
    every = 1 if exact else max(REPORT_EVERY, math.ceil(judges / (JUDGING_SHARE * base.batch_size)))
    D = max(1.0, vectors.norm(run.x))
    return settings_from(SgldSettings, known, **asdict(base), acceptance_radius=D, judge_every=every)


class Best:
    """The lowest point visited. One frozen sample judges all of them."""

    def __init__(self, x: Tensor, judges: SampledFunction) -> None:
        self.x, self.value, self._judges = x, math.inf, judges

    def visit(self, x: Tensor, value: float | None = None) -> None:
        """Compares x with the best so far, by F(x) if it is known."""
        value = float(self._judges.value(x)) if value is None else value
        if value < self.value:
            self.x, self.value = x, value


def accepted(x: Tensor, y: Tensor, centre: Tensor, settings: SgldSettings) -> bool:
    """Whether y is in K ∩ B(x, D)."""
    step, out = y - x, y - centre
    step_squared, out_squared = vectors.dots((step, step), (out, out))
    return step_squared <= settings.acceptance_radius**2 and out_squared <= settings.domain_radius**2


def minimize(run: Run, options: Options) -> None:
    """Finds a local minimum: a random walk hits one, and the lowest point visited is the output.

        y = x − ηg(x) + √(2η/ξ)·w,   w ~ N(0, I)
        x ← y if y ∈ K and ‖y − x‖ ≤ D, else stay
        return the visited x_k with the lowest F

    Zhang, Liang, Charikar (2017), Algorithm 1. The theorem bounds the time to *hit* the neighbourhood of a minimum, so
    all visited points are compared. The rejection is part of the proof. The noise is √(2η/ξ), not √(2ηξ).

    Letters: η = `step_size`, ξ = `inverse_temperature` (or `noise`), b = `batch_size`, k_max = `num_steps`,
    D = `acceptance_radius`, K = the ball of `domain_radius` around x0.

    Departures: x0 is the caller's, not uniform on K, and K is everything unless its radius is given. If a step sees
    less than everything, it does not know F: visited points are then compared every `judge_every` steps, on one frozen
    sample of at most 1024.

    Cost: b component gradients a step. Values are at most a tenth of that, and none if b is everything.
    """
    settings = theory_settings(run, options) if options.theory else practical_settings(run, options)
    if settings.inverse_temperature is not None and "noise" in options.method_settings:
        raise ValueError("noise and inverse_temperature say the same thing twice; pass one of them")
    drift = Drift(run, options, settings.step_size, settings.batch_size, settings.measure_again and not options.theory)
    n, centre, x, rejected = run.num_samples, run.x, run.x, 0
    best, guard = Best(x, batch(run, JUDGES)), Guard(run)
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
    end_at(run, best.x, 4 * drift.batch_size)
