"""Noisy SGD: a little noise in every step, wherever the run is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from unsaddle import checks, vectors
from unsaddle.baselines import constants
from unsaddle.baselines.guard import Guard, end_at
from unsaddle.baselines.samples import batch, batch_for, variance_anchor
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import REPORT_EVERY, Ending, Run, RunEnded

SMALLEST_BATCH = 16
"""Least samples a step. V alone would ask for none at a saddle where every component's gradient vanishes."""

STEP_SHARE = 0.25
"""ηL1 in the practical setting. It is small because L1 may be larger where the run goes than where it is measured."""

SADDLES = 4.0
"""The practical number of steps is enough to leave this many saddles of curvature −γ one after another."""


@dataclass(frozen=True, kw_only=True)
class NoisySgdSettings:
    """Constants of noisy SGD. The paper's letters are in `minimize`."""

    step_size: float
    noise: float
    """The norm of the noise that is added to each gradient. 1 in the paper."""
    batch_size: int
    """Samples a step. 1 in the paper."""
    num_steps: int
    smoothness: float | None = None
    """L1. Measured if not given."""
    measure_again: bool = True
    """Measure V (for b) again every 50 steps, and L1 after 64, 128, … steps: they drift away from those at x0."""

    def __post_init__(self) -> None:
        hint = "leave it out to have it chosen from a measured L1"
        check_settings(self, positive=("step_size",), counts=("batch_size", "num_steps"), hint=hint)
        checks.not_negative(self.noise, "noise", "0 gives plain SGD")


def theory_settings(options: Options) -> NoisySgdSettings:
    """η = min(ε², 1/L1), T = ⌈log(1/δ)/η²⌉, b = 1, ‖n‖ = 1: the orders of the theorem, with all constants 1.

    The theorem hides a polynomial in d in η and T. It does not say which, so d is left out.
    """
    (L1,) = constants.needed(options, "smoothness")
    eta = min(options.eps**2, 1.0 / L1)
    steps = math.ceil(math.log(1.0 / options.delta) / eta**2)
    defaults = {"step_size": eta, "noise": 1.0, "batch_size": 1, "num_steps": steps, "measure_again": False}
    return settings_from(NoisySgdSettings, options.method_settings, **defaults)


def practical_settings(run: Run, options: Options) -> NoisySgdSettings:
    """η = 1/(4L1), ‖n‖ = ε/2, b = 2V/max(ε², ĝ²/4), T = 4·ln(√d/(η‖n‖))/(ηγ). Only what is not given is measured.

    Around a minimum the gradient noise s² = ‖n‖² + V/b keeps E‖∇F‖² ≤ s²ηL1/(2 − ηL1): ‖∇F‖ is a third of ε. At a
    saddle, noise of ‖n‖/√d along a direction of curvature −γ grows to length one in ln(√d/(η‖n‖))/(ηγ) steps.
    """
    known = options.method_settings
    defaults: dict[str, float | int] = {"noise": options.eps / 2.0}
    if "step_size" not in known or "num_steps" not in known:
        L1 = constants.smoothness(run, options)
        eta = float(known.get("step_size", STEP_SHARE / L1))
        noise = float(known.get("noise", 0.0)) or options.eps / 2.0
        growth = max(1.0, math.log(math.sqrt(vectors.dimension(run.x)) / (eta * noise)))
        steps = math.ceil(SADDLES * growth / (eta * constants.curvature_sought(options, L1)))
        defaults |= {"step_size": eta, "num_steps": steps}
    if "batch_size" not in known:
        defaults["batch_size"] = _batch_size(run, run.x, options, 4 * SMALLEST_BATCH)
    return settings_from(NoisySgdSettings, known, **defaults)


def _batch_size(run: Run, x: torch.Tensor, options: Options, anchor_size: int) -> int:
    seen = variance_anchor(run, x, anchor_size)
    if not seen.is_finite:
        raise RunEnded(Ending.DIVERGED if run.ledger.gradients > 100 else Ending.NOT_FINITE)
    return batch_for(seen, eps=options.eps, share=2.0, at_least=SMALLEST_BATCH, num_samples=run.num_samples)


class Drift:
    """η and b of a run, for noisy SGD and SGLD. Those that the caller did not give are measured again on the way."""

    def __init__(self, run: Run, options: Options, step_size: float, batch_size: int, measure_again: bool) -> None:
        self.step_size, self.batch_size = step_size, batch_size
        self._run, self._options = run, options
        known = options.method_settings
        self._measure_step = measure_again and "step_size" not in known and "smoothness" not in known
        self._measure_batch = measure_again and "batch_size" not in known and run.num_samples != 1
        self._next_step = 64

    def follow(self, t: int, x: torch.Tensor) -> None:
        """Measures again what is due before step t, at x."""
        if self._measure_batch and t > 0 and t % REPORT_EVERY == 0:
            self.batch_size = _batch_size(self._run, x, self._options, max(4 * SMALLEST_BATCH, self.batch_size))
        if self._measure_step and t == self._next_step:
            self._next_step *= 2
            self.step_size = min(self.step_size, STEP_SHARE / constants.smoothness(self._run, self._options, x))


def minimize(run: Run, options: Options) -> None:
    """Finds a local minimum of a function whose saddles are strict, by noise alone.

        x ← x − η(∇f(x; ξ) + n),   n uniform on the unit sphere,   at every step

    Ge, Huang, Jin, Yuan (2015), Algorithm 1. The output is the last iterate. Nothing is checked on the way, so the run
    ends with `OUTPUT`, and the gradient that it reports is measured once, at the end.

    Letters: η = `step_size`, ‖n‖ = `noise`, b = `batch_size`, T = `num_steps`.

    Departures: the norm of the noise is a setting, since unit noise keeps the gradient above √(ηL1) for every ε. In
    the practical setting η, b and T come from measured L1 and V, and η and b are measured again on the way.

    Cost: b component gradients a step, and 2 to 10 % more for measuring.
    """
    settings = theory_settings(options) if options.theory else practical_settings(run, options)
    drift = Drift(run, options, settings.step_size, settings.batch_size, settings.measure_again and not options.theory)
    guard, x = Guard(run), run.x
    for t in range(settings.num_steps):
        drift.follow(t, x)
        value, g = batch(run, drift.batch_size).value_and_grad(x)
        guard.seen(x, float(value))
        n = vectors.random_direction(x, run.generator).mul_(settings.noise)
        x = torch.sub(x, n.add_(g), alpha=drift.step_size)
        if (t + 1) % REPORT_EVERY == 0:
            run.record("epoch", value=float(value))
    end_at(run, x, 4 * drift.batch_size)
