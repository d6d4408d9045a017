"""Whether the probes of a search saw a Hessian: "nothing found" counts only then."""

from __future__ import annotations

import math
from dataclasses import replace

from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.attempts import FARTHEST
from unsaddle.curvature.krylov.certificate import KrylovCandidate
from unsaddle.measure.direction import opposite_probes

CHECK_GRADIENTS = 8
"""Gradients that `checked` takes."""

STEADY = 0.25
"""The highest curvature may change by this share between r and 2r. A kink changes it by a half, and |x|^{3/2} by 0.29:
L1, and γ with it, would then mean nothing."""

CONSTANT = 0.8
"""Even parts at two radii count as equal from this ratio on. Rounding and a third derivative have one half, or two."""


def checked(f_hat: DisplacedFunction, candidate: KrylovCandidate, central: bool) -> tuple[KrylovCandidate, bool]:
    """Whether the probes saw a Hessian; and the candidate, with what the check tells about L2 and λ_min.

    Products must be symmetric. Along the lowest and the highest direction, their even part,
    ‖∇f(x+rv) + ∇f(x−rv) − 2∇f(x)‖/(2r), must be small; central ones have none. At twice the radius, or at half of
    it far out, the curvature must be the same: along the lowest direction up to γ/2, along the highest up to a share,
    or L1 may come from a kink.
    """
    scale = candidate.scale
    if candidate.asymmetry > scale.gamma / 2.0:
        return candidate, False
    r, rounding = scale.radius, 1.2 * scale.noise / scale.radius
    other = r / 2.0 if r > FARTHEST * (f_hat.x_norm or 1.0) else 2.0 * r
    ends = candidate.deciding[0], candidate.deciding[-1]
    for v in {id(v): v for v in ends}.values():
        near, change, _ = opposite_probes(f_hat.f, f_hat.x, v, r, f_hat.grad0)
        if v is ends[0]:
            candidate = replace(candidate, hessian_lipschitz=change)
        if not central and not change * r / 2.0 <= scale.gamma / 2.0 + rounding:
            return candidate, False
        far, far_change, _ = opposite_probes(f_hat.f, f_hat.x, v, other, f_hat.grad0)
        if _hessian_jumps(change * r / 2.0, far_change * other / 2.0, scale.gamma):
            return candidate, False
        odd, grows = abs(far - near), (abs(near) - abs(far)) * math.copysign(1.0, other - r)
        candidate = replace(candidate, jump=max(candidate.jump, grows * max(r, other)))
        if v is ends[0]:
            candidate = replace(candidate, upper=max(near, candidate.lowest) + odd + rounding)
            if not odd <= scale.gamma / 2.0 + rounding:
                return candidate, False
    return candidate, odd <= STEADY * abs(near) + rounding


def _hessian_jumps(even: float, far_even: float, gamma: float) -> bool:
    """Whether the Hessian is another one on the other side of x, as that of z|z| is.

    The even part of a product falls as 1/t where it is rounding, and grows with t where it is a third derivative. A
    jump of the Hessian makes it constant.
    """
    return min(even, far_even) > gamma / 2.0 and CONSTANT * even <= far_even <= even / CONSTANT
