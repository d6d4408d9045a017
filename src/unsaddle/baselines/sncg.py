"""Stochastic negative curvature and gradient descent: at every point, the better of the two steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.baselines import constants
from unsaddle.baselines.guard import Guard
from unsaddle.baselines.lowest_curvature import fresh_curvature, lowest_curvature
from unsaddle.baselines.samples import batch, measured_anchor
from unsaddle.escape import steps as escape
from unsaddle.options import Options, check_settings, settings_from
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction

HESSIAN_BATCH = 1024
"""The first |S2| in the practical setting. It grows fourfold while the curvature may be noise."""

LARGEST_HESSIAN_BATCH = 1 << 18
"""On a stream, a curvature that this many samples do not settle is undecided."""

CURVATURE_EVERY = 10
"""Steps between two searches for negative curvature in the practical setting, where the gradient is large."""

CERTAIN = 3.6
"""Nothing is said to be below −γ before this many standard errors of the curvature fit into γ/2."""


@dataclass(frozen=True, kw_only=True)
class SncgSettings:
    """Constants of SNCG. The paper's letters are in `minimize`."""

    gradient_batch: int | None = None
    """|S1|. By default as many as V, ε and the gradient ask for, measured at every step."""
    hessian_batch: int
    curvature_every: int
    """Steps between two searches for negative curvature where ‖g‖ > ε. 1 in the paper."""
    verify: bool = True
    """Measure the curvature along v again on fresh samples, and grow |S2| where they do not agree."""
    backtracking: bool = True
    """Double L1 where a gradient step does not lower F_S1."""
    gamma: float
    smoothness: float
    """L1. Measured if not given."""
    hessian_lipschitz: float | None = None
    """L2. Without it γ²/ε decides between the two steps, and a line search on S1 the length of the one along v."""
    variance: float | None = None
    """V, for settings='theory'."""

    def __post_init__(self) -> None:
        counts = ("hessian_batch", "curvature_every", "gradient_batch")
        check_settings(self, positive=("gamma", "smoothness"), counts=counts, hint="leave it out to have it measured")
        check_settings(self, positive=("hessian_lipschitz", "variance"), hint="leave it out if it is not known")


def theory_settings(run: Run, options: Options) -> SncgSettings:
    """|S1| = 2V(1 + 8·log(1/δ))/(ε/2)², |S2| = 16L1²·log(2d/δ)/(γ/4)², γ = √(L2ε), and v at every step.

    By Lemmas 3 and 4 of the NEON paper, with V for G², the gradient is then known to ε/2 and the Hessian to γ/4.
    """
    L1, L2, V = constants.needed(options, "smoothness", "hessian_lipschitz", "variance")
    gamma = math.sqrt(L2 * options.eps) if options.gamma is None else options.gamma
    d, delta = vectors.dimension(run.x), options.delta
    S1 = extraction.gradient_sample_size(eps=options.eps / 2.0, sub_gaussian=math.sqrt(V), delta=delta)
    S2 = extraction.hessian_sample_size(eps=gamma / 4.0, smoothness=L1, dimension=d, delta=delta)
    defaults = {"gradient_batch": S1, "hessian_batch": S2, "curvature_every": 1, "verify": False, "backtracking": False}
    return settings_from(SncgSettings, options.method_settings, **defaults, gamma=gamma)


def practical_settings(run: Run, options: Options) -> SncgSettings:
    """|S1| = 4V/max(ε², ĝ²/4), |S2| = 1024 at first, and v every ten steps and wherever ‖g‖ ≤ ε."""
    L1 = constants.smoothness(run, options)
    gamma = constants.curvature_sought(options, L1)
    defaults = {"hessian_batch": HESSIAN_BATCH, "curvature_every": CURVATURE_EVERY, "gamma": gamma, "smoothness": L1}
    return settings_from(SncgSettings, options.method_settings, **defaults)


def prefers_curvature(curvature: float, norm: float, *, smoothness: float, hessian_lipschitz: float) -> bool:
    """2(−vᵀHv)₊³/(3L2²) > ‖g‖²/(2L1): whether the step along v is sure to gain more than the step along −g.

    >>> prefers_curvature(-1.0, 1.0, smoothness=1.0, hessian_lipschitz=1.0)
    True
    """
    return 2.0 * max(0.0, -curvature) ** 3 / (3.0 * hessian_lipschitz**2) > norm**2 / (2.0 * smoothness)


def minimize(run: Run, options: Options) -> None:
    """Finds a second-order stationary point: each step takes the gradient or negative curvature, the better of them.

        g = ∇F_S1(x);   v with vᵀHv ≤ λ_min(H) + γ/2,  H = ∇²F_S2(x),  by Lanczos
        ‖g‖ ≤ ε and vᵀHv > −γ/2:   return x
        2(−vᵀHv)₊³/(3L2²) > ‖g‖²/(2L1):   x ← x − (2|vᵀHv|/L2)·sign(vᵀg)·v
        else:   x ← x − g/L1

    Liu and Yang (2017), NCG-S. The accuracy of Lanczos is max(γ, q)/2, as in their AdaNCD, where q is the least −vᵀHv
    that gains more than g: a curvature that gains less need not be found.

    Letters: |S1| = `gradient_batch`, |S2| = `hessian_batch`, γ = `gamma`, L1 = `smoothness`, L2 = `hessian_lipschitz`.

    Departures: a step along v is taken only for vᵀHv ≤ −γ/2, and then always if ‖g‖ ≤ ε, whichever gains more.

    Departures of the practical setting: v is sought every `curvature_every` steps and where ‖g‖ ≤ ε, and measured
    again on fresh samples. Batch sizes come from measured variances. L1 is doubled where F_S1 does not fall. Without
    L2, steps are compared with γ²/ε in its place, and a line search gives the length of the step along v.

    Cost: a step takes |S1| component gradients, and as many values for backtracking. A step of Lanczos takes |S2|
    products of components, and measuring v again as many. A trial of the line search takes |S1| values.
    """
    settings = theory_settings(run, options) if options.theory else practical_settings(run, options)
    run.gamma = gamma = settings.gamma
    x, eps, L1 = run.x, options.eps, settings.smoothness
    L2 = gamma**2 / eps if settings.hessian_lipschitz is None else settings.hessian_lipschitz
    guard, curvature, since = Guard(run), _Curvature(run, options.delta, settings), settings.curvature_every
    while True:
        seen = measured_anchor(run, x, eps, settings.gradient_batch)
        guard.seen(x, seen.value)
        run.checked(x, value=seen.value, gradient_norm=seen.norm, gradient_error=math.sqrt(seen.squared_error))
        small = seen.norm <= eps if options.theory else seen.passes(eps)
        if small or since >= settings.curvature_every:
            since = 0
            least = (0.75 * L2**2 * seen.norm**2 / L1) ** (1.0 / 3.0)
            q, v, decided = curvature.lowest(x, L1, gamma if small else max(gamma, least))
            if small and q > -gamma / 2.0:
                raise RunEnded(Ending.SECOND_ORDER_POINT if decided else Ending.CURVATURE_UNDECIDED)
            if q <= -gamma / 2.0 and (small or prefers_curvature(q, seen.norm, smoothness=L1, hessian_lipschitz=L2)):
                if settings.hessian_lipschitz is not None:
                    moved: Tensor | None = escape.against_gradient(x, v, seen.gradient, -2.0 * q / L2)
                else:
                    found = escape.by_guessed_lengths(seen.value_at, x, v, seen.value)
                    moved = None if found is None else found[0]
                if moved is not None:
                    run.escaped(moved, curvature=q, note=f"length {vectors.norm(moved - x):.3g}")
                    x = moved
                    continue
                if small:
                    raise RunEnded(Ending.CURVATURE_UNDECIDED)
        since += 1
        x_next = torch.sub(x, seen.gradient, alpha=1.0 / L1)
        while settings.backtracking and not guard.lowered(seen.value_at(x_next), seen, 1.0 / L1):
            if not math.isfinite(L1):
                raise RunEnded(Ending.DIVERGED)
            L1 *= 2.0
            x_next = torch.sub(x, seen.gradient, alpha=1.0 / L1)
        x = x_next


class _Curvature:
    """The lowest curvature on S2. S2 grows until it decides about F."""

    def __init__(self, run: Run, delta: float, settings: SncgSettings) -> None:
        self._run, self._delta, self._verify, self._size = run, delta, settings.verify, settings.hessian_batch

    def lowest(self, x: Tensor, smoothness: float, gamma: float) -> tuple[float, Tensor, bool]:
        """vᵀHv, v, and whether the samples decide: either v is below −γ/2, or nothing is below −γ."""
        run, n = self._run, self._run.num_samples
        while True:
            f = batch(run, self._size, hessian=True)
            q, v = lowest_curvature(run, f, x, smoothness=smoothness, accuracy=gamma / 2.0, delta=self._delta)
            exact = n is not None and f.size == n
            fresh, error = (q, 0.0) if exact or not self._verify else fresh_curvature(run, x, v, f.size)
            run.extracted(curvature=fresh, error=CERTAIN * error, note=f"{f.size} samples")
            found, nothing = fresh <= -gamma / 2.0, q > -gamma / 2.0 and CERTAIN * error <= gamma / 2.0
            if found or nothing:
                return fresh, v, True
            if self._size >= (LARGEST_HESSIAN_BATCH if n is None else n):
                return fresh, v, False
            self._size *= 4
