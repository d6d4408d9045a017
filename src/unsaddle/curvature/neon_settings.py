"""The constants of NEON and NEON⁺: the theorems', measured ones, or your own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unsaddle import checks


@dataclass(frozen=True, kw_only=True)
class NeonSettings:
    """Constants of NEON: η = `step_size`, t = `num_steps`, r = `noise_radius`, U = `trust_radius`, 𝓕 = `decrease`.

    With 𝓕 set, Algorithm 1 runs as printed (`curvature.printed`). Else the practical one runs (`curvature.neon`), which
    needs a `target`.

    >>> NeonSettings(step_size=0.1, num_steps=100, noise_radius=0.01, trust_radius=1.0, decrease=1e-3).target is None
    True
    """

    step_size: float
    num_steps: int
    noise_radius: float
    trust_radius: float = math.inf
    """U: printed, iterates beyond it are not returned; practical, one beyond it ends the run."""
    decrease: float | None = None
    """𝓕: return the u_τ of the smallest f̂ within U, if f̂ ≤ −2.5𝓕 (NEON) or −2𝓕 (NEON⁺). math.inf: never."""
    target: float | None = None
    """Without 𝓕: return the first iterate whose curvature is proved to be at most −target. math.inf: never."""
    hessian_lipschitz: float = 0.0
    """L2, which that proof allows for."""
    gamma: float | None = None
    """γ, the curvature sought: a run without 𝓕 ends as soon as the iterate is shorter than curvature −γ allows."""
    least_start: float = 0.0
    """s: the noise is longer than this along a fixed direction, with the probability wanted. 0: a run without 𝓕 takes
    all steps before it says that there is nothing."""
    resolution: float = 0.0
    """Shorter iterates are not tested without 𝓕, as their quotient would be rounding."""
    renormalise: bool = False
    """Rescale the iterate to length r whenever it leaves [r/2, 2r]. U is not needed then, and 𝓕 cannot be used."""

    def __post_init__(self) -> None:
        checks.positive(self.step_size, "step_size")
        checks.count(self.num_steps, "num_steps", at_least=0)
        checks.positive(self.noise_radius, "noise_radius")
        if not self.trust_radius >= self.noise_radius:
            raise ValueError(
                f"trust_radius must be at least noise_radius = {self.noise_radius:.3g}, got {self.trust_radius!r}: "
                "no iterate would count; raise it, or lower noise_radius"
            )
        for name in ("decrease", "target"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0.0):
                raise ValueError(f"{name} must be a number above 0, got {value!r}; leave it out to use the other test")
        if self.decrease is None and self.target is None:
            raise ValueError("the settings need decrease (𝓕, the printed test) or target (a curvature), got neither")
        if self.renormalise and self.decrease is not None:
            raise ValueError(
                f"decrease must be None with renormalise=True, got {self.decrease}: f̂ cannot fall by a given amount "
                "along iterates that are kept short; give target instead"
            )
        if self.gamma is not None:
            checks.positive(self.gamma, "gamma")
        for name in ("hessian_lipschitz", "least_start", "resolution"):
            checks.not_negative(getattr(self, name), name, "0 is its default")


@dataclass(frozen=True, kw_only=True)
class NeonPlusSettings(NeonSettings):
    """Constants of NEON⁺: those of NEON, ζ = `momentum`, and γ = `gamma`, which line 4 of Algorithm 2 needs.

    >>> chosen = {"step_size": 0.1, "num_steps": 100, "noise_radius": 0.01, "trust_radius": 1.0, "decrease": 1e-3}
    >>> NeonPlusSettings(momentum=0.9, gamma=0.1, **chosen).momentum
    0.9
    """

    momentum: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.momentum, int | float) and 0.0 <= self.momentum < 1.0):
            raise ValueError(
                f"momentum must be at least 0 and below 1, got {self.momentum!r}; the paper takes 1 - sqrt(ηγ)"
            )
        if self.decrease is not None and self.gamma is None:
            raise ValueError("the printed NEON⁺ needs gamma, for the test that calls NCFind; got None")
