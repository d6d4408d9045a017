"""A lower precision inside: the dtype of x promises digits that the function does not have, but for smooth terms.

Within a step of the stairs only the smooth terms are seen, such as a weight decay, and they are convex.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, dimension, integer, randomness, uniform
from benchmarks.verdict_cases.equal_units import copied_units
from benchmarks.verdict_cases.landscape import point, rotated, saddle_or_minimum
from unsaddle import Function

INNER = {"float64": torch.float32, "float32": torch.bfloat16, "bf16": torch.bfloat16}
"""What is computed inside, by the precision of the family."""


def lower_precision_inside(index: int, precision: str) -> Case:
    """float32 behind a float64 x, bfloat16 behind a float32 x, plus a ridge in the precision of x.

    Two of three are quadratics with other terms. "float32" computes only products in bfloat16, "bf16" all but a ridge;
    "float64" does the one and the other in float32. The third is a network of equal units, around bfloat16 under
    `torch.autocast`.
    """
    kind = index // 2 % 3
    if kind == 2:
        return _network(index, precision)
    return _quadratic(index, precision, everything=kind == 1 if precision == "float64" else precision == "bf16")


def _network(index: int, precision: str) -> Case:
    g = randomness("inner_network", index)
    units, dtype = copied_units(index // 6, integer(g, 2, 4)), DTYPES[precision]
    inner = INNER[precision]

    def loss(x: Tensor) -> Tensor:
        if inner is torch.bfloat16:
            return units.loss(x, autocast=True) + units.decay(x)
        return units.loss(x.to(inner)).to(dtype) + units.decay(x)

    return units.case(Function(loss), units.x.to(dtype), index)


def _quadratic(index: int, precision: str, *, everything: bool) -> Case:
    """f(x) = [½xᵀHx + Σ(c₃t³/(6w) + c₄t⁴/(24w²))]_low + ½μ‖x‖² − bᵀx, t = x − x₀, λ_min(H + μ) as prescribed.

    w is 0.1 to 10 times ‖x₀‖, but at least ‖x₀‖ around bfloat16; μ is 1e-4 to 0.1 of L1.
    """
    g = randomness("inner_quadratic", index)
    d, dtype, inner = dimension(g, 2, 200), DTYPES[precision], INNER[precision]
    s = saddle_or_minimum(g, index, d)
    mu = 10.0 ** uniform(g, -4.0, -1.0)
    size = 10.0 ** uniform(g, -2.0, 2.0)
    matrix, _ = rotated(g, s - mu)
    norm = 10.0 ** uniform(g, -2.0, 2.0) if index // 6 % 6 else 0.0
    width = (norm or 1.0) * 10.0 ** uniform(g, -1.0 if inner is torch.float32 else 0.0, 1.0)
    third, fourth = size * uniform(g, 0.0, 1.0) / width, size * uniform(g, 0.1, 1.0) / width**2
    x0 = point(g, d, norm, "bf16" if inner is torch.bfloat16 else "float64").to(dtype)
    h, decay = (size * matrix).to(inner), size * mu
    true = h.double() + decay * torch.eye(d, dtype=torch.float64)
    b = true @ x0.double()
    where = inner if everything else dtype
    b_outer, x_low = b.to(dtype), x0.to(where)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        y, product = x.to(where), (h @ x.to(inner)).to(where)
        t = y - x_low
        grad = product + t * t * (0.5 * third + fourth / 6.0 * t)
        value = 0.5 * torch.dot(y, product) + (t**3 * (third / 6.0 + fourth / 24.0 * t)).sum()
        ridge = 0.5 * decay * torch.dot(x, x) - torch.dot(b_outer, x)
        return value.to(dtype) + ridge, grad.to(dtype) + decay * x - b_outer

    eigenvalues = torch.linalg.eigvalsh(true)
    return Case(
        objective=Function(value_and_grad, gradient=True),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ true @ v),
        gradient_norm=float((b_outer.double() - b).norm()),
    )
