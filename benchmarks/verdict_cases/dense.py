"""Dense Hessians with a prescribed spectrum, rotated, shifted, and not quadratic away from the point.

In bf16 the point, the matrix and the product are rounded, as a linear layer under autocast does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, dimension, integer, normal, randomness, rounded, uniform
from unsaddle import Function
from unsaddle.problems import around_threshold, near_ties, positive_semidefinite, random_spectrum


def dense(
    g: torch.Generator,
    spectrum: Tensor,
    precision: str,
    *,
    slope: float = 0.0,
    scaled: bool = False,
    gamma: float | None = None,
) -> Case:
    """f(x) = ½yᵀHy − bᵀy + Σ(c₃y³/6 + c₄y⁴/4)(y − y₀) with y = Dx: rotated, shifted, and not quadratic away from y₀.

    A third of the points are 0, the others anywhere. Hy − b is computed by a product and a difference, so its rounding
    is that of a gradient far from zero.
    """
    d, dtype = spectrum.numel(), DTYPES[precision]
    rotation, _ = torch.linalg.qr(normal(g, d, d))
    hessian = rotation @ torch.diag(spectrum) @ rotation.T
    hessian = (hessian + hessian.T) / 2.0
    scale = 10.0 ** (12.0 * torch.rand(d, generator=g, dtype=torch.float64) - 6.0) if scaled else torch.ones(d).double()
    at_zero = uniform(g, 0.0, 1.0) < 1.0 / 3.0
    size = 0.0 if at_zero else 10.0 ** uniform(g, -1.0, 1.0)
    y0 = size * normal(g, d)
    third, fourth = 10.0 ** uniform(g, -2.0, 0.0), 10.0 ** uniform(g, -2.0, 0.0)
    push = normal(g, d)
    # What is stored is what is true: the matrix and the point as the precision has them.
    if precision == "bf16":
        hessian, scale = rounded(hessian), rounded(scale)
        x = rounded((y0 / scale).float())
    else:
        hessian, scale = hessian.to(dtype).double(), scale.to(dtype).double()
        x = (y0 / scale).to(dtype)
    y0 = scale * x.double()
    push *= slope / float((scale * push).norm()) if slope else 0.0
    b = hessian @ y0 - push
    h, D, b_low, y_low = hessian.to(dtype), scale.to(dtype), b.to(dtype), y0.to(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        y = rounded(x * D) if precision == "bf16" else x * D
        z = y - y_low
        product = (h.bfloat16() @ y.bfloat16()).to(dtype) if precision == "bf16" else h @ y
        value = 0.5 * torch.dot(y, product) - torch.dot(b_low, y) + (third / 6.0 * z**3 + fourth / 4.0 * z**4).sum()
        return value, D * (product - b_low + z * z * (0.5 * third + fourth * z))

    truth = scale[:, None] * hessian * scale
    eigenvalues = torch.linalg.eigvalsh(truth)

    def curvature(v: Tensor) -> float:
        w = scale * v
        return float(w @ hessian @ w)

    return Case(
        objective=Function(value_and_grad, gradient=True),
        x=x,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=curvature,
        gradient_norm=float((scale * push).norm()),
        gamma=gamma,
    )


def random_spectra(index: int, precision: str) -> Case:
    """λ_min from −L1 to +L1/10, the rest uniform; d from 2 to 500."""
    g = randomness("random_spectra", index)
    d, largest = dimension(g), 10.0 ** uniform(g, -3.0, 3.0)
    if index % 2:
        s = random_spectrum(d, lowest=-largest * 10.0 ** uniform(g, -2.5, 0.0), largest=largest, seed=index)
    else:
        zeros = min(d - 1, integer(g, 0, d // 2))
        s = positive_semidefinite(d, largest=largest, zeros=zeros, seed=index)
    return dense(g, s, precision)


def ties(index: int, precision: str) -> Case:
    """Up to 20 eigenvalues within a thousandth of each other at the bottom, or at zero."""
    g = randomness("ties", index)
    count = integer(g, 2, 20)
    d = dimension(g, count + 1, 300)
    lowest = -(10.0 ** uniform(g, -2.0, 0.0)) if index % 2 else 0.0
    if lowest < 0.0:
        s = near_ties(d, lowest=lowest, largest=1.0, ties=count, gap=-lowest * 1e-3 / count, seed=index)
    else:
        s = positive_semidefinite(d, largest=1.0, zeros=count, seed=index)
        s[:count] = 1e-6 * torch.arange(count, dtype=torch.float64)
    return dense(g, s, precision)


def threshold(index: int, precision: str) -> Case:
    """λ_min = −γ(1 ± 0.1), γ given, from 0.003 to 0.3 of L1."""
    g = randomness("threshold", index)
    gamma = 10.0 ** uniform(g, -2.5, -0.5)
    side = "below" if index % 2 else "above"
    s = around_threshold(dimension(g, 2, 400), gamma=gamma, side=side, largest=1.0, seed=index)
    return dense(g, s, precision, gamma=gamma)


def badly_scaled(index: int, precision: str) -> Case:
    """Every variable in units of its own, from 1e-6 to 1e6."""
    g = randomness("badly_scaled", index)
    d = dimension(g, 2, 200)
    if index % 2:
        s = random_spectrum(d, lowest=-(10.0 ** uniform(g, -2.0, 0.0)), largest=1.0, seed=index)
    else:
        s = positive_semidefinite(d, largest=1.0, zeros=0, seed=index)
    return dense(g, s, precision, scaled=True)


def steep(index: int, precision: str) -> Case:
    """‖∇f‖ from 0.01 to 1000 times L1·max(1, ‖x‖): not stationary, whatever the curvature."""
    g = randomness("steep", index)
    d = dimension(g, 2, 300)
    s = random_spectrum(d, lowest=-uniform(g, 0.05, 1.0) if index % 2 else 0.01, largest=1.0, seed=index)
    case_size = 10.0 ** uniform(g, -2.0, 3.0)
    state = g.get_state()
    x = dense(g, s, precision).x
    g.set_state(state)
    return dense(g, s, precision, slope=case_size * max(1.0, float(x.double().norm())))
