"""A stationary point with a prescribed Hessian, size, width and distance from the origin: what several families vary.

Each is a landscape in floating point: the Hessian is known to the last digit, and what is hard is how it is computed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import (
    DTYPES,
    Case,
    dimension,
    integer,
    low_precision,
    normal,
    randomness,
    rounded,
    uniform,
)
from unsaddle import Function
from unsaddle.problems import positive_semidefinite, random_spectrum


def rotated(g: torch.Generator, spectrum: Tensor) -> tuple[Tensor, Tensor]:
    """A symmetric matrix with this spectrum, and its eigenvectors as columns."""
    basis, _ = torch.linalg.qr(normal(g, spectrum.numel(), spectrum.numel()))
    matrix = basis @ torch.diag(spectrum) @ basis.T
    return (matrix + matrix.T) / 2.0, basis


def point(g: torch.Generator, d: int, norm: float, precision: str) -> Tensor:
    """A random point of this norm, as the precision has it."""
    x = normal(g, d)
    x = (norm * x / x.norm()).to(DTYPES[precision])
    return rounded(x) if precision == "bf16" else x


def landscape(
    g: torch.Generator,
    spectrum: Tensor,
    precision: str,
    *,
    norm: float,
    width: float = 1.0,
    size: float = 1.0,
    cubic: float = 0.0,
    quartic: float = 0.0,
    along_lowest: bool = False,
    offset: bool = True,
) -> Case:
    """f(x) = s·(½zᵀHz + L1·Σ(c₃t³/(6w) + c₄t⁴/(24w²))), z = x − x₀, with t = z, or t along the lowest eigenvectors.

    Args:
        g: the randomness of the eigenvectors and of x₀.
        spectrum: of H.
        precision: a key of `DTYPES`.
        norm: ‖x₀‖.
        width: w; at this distance the other terms are as large as c₃ and c₄ times the quadratic one.
        size: s.
        cubic: c₃.
        quartic: c₄.
        along_lowest: whether t is the component along the three lowest eigenvectors only.
        offset: whether the gradient is computed as Hx − Hx₀, with the rounding of a gradient far from zero, or as Hz.
    """
    d, dtype, half = spectrum.numel(), DTYPES[precision], precision == "bf16"
    matrix, basis = rotated(g, spectrum)
    largest = float(spectrum.abs().max())
    x0 = point(g, d, norm, precision)
    # What is stored is what is true.
    h = (size * matrix).to(dtype)
    h = rounded(h) if half else h
    b = (h.double() @ x0.double()).to(dtype)
    third, fourth = size * largest * cubic / width, size * largest * quartic / width**2
    U = basis[:, : min(3, d)].T.contiguous().to(dtype) if along_lowest else None

    def times(y: Tensor) -> Tensor:
        return (h.bfloat16() @ y.bfloat16()).to(dtype) if half else h @ y

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        if offset:
            product = times(x)
            value, grad = 0.5 * torch.dot(x, product) - torch.dot(b, x), product - b
        else:
            grad = times(z)
            value = 0.5 * torch.dot(z, grad)
        t = z if U is None else U @ z
        slope = t * t * (0.5 * third + fourth / 6.0 * t)
        return value + (t**3 * (third / 6.0 + fourth / 24.0 * t)).sum(), grad + (slope if U is None else U.T @ slope)

    truth = h.double() / size
    eigenvalues = torch.linalg.eigvalsh(truth)
    return Case(
        objective=Function(value_and_grad, gradient=True),
        x=x0,
        lowest=size * float(eigenvalues[0]),
        largest=size * float(eigenvalues.abs().max()),
        curvature=lambda v: size * float(v @ truth @ v),
    )


def saddle_or_minimum(g: torch.Generator, index: int, d: int, softest: float = 1e-2) -> Tensor:
    """A spectrum with max |λ| = 1: odd indices are saddles with λ_min from −1 to −`softest`, even ones minima."""
    if index % 2:
        return random_spectrum(d, lowest=-(10.0 ** uniform(g, math.log10(softest), 0.0)), largest=1.0, seed=index)
    return positive_semidefinite(d, largest=1.0, zeros=integer(g, 0, d // 2), seed=index)


SIZES = {
    "float64": ((-200.0, -100.0), (-170.0, -170.0), (-30.0, -10.0), (10.0, 100.0)),
    "float32": ((-30.0, -10.0), (-23.0, -23.0), (-15.0, -5.0), (5.0, 25.0)),
    "bf16": ((-30.0, -10.0), (-23.0, -23.0), (-15.0, -5.0), (5.0, 25.0)),
}
"""log10 of the Hessian's size, by turns: where squares underflow, and where they overflow."""


def underflow(index: int, precision: str) -> Case:
    """Hessians so small or so large that squares of a gradient leave the range of the dtype; half of the points 0."""
    g = randomness("underflow", index)
    d = dimension(g, 2, 200)
    s = saddle_or_minimum(g, index, d)
    size = 10.0 ** uniform(g, *SIZES[precision][index // 2 % 4])
    norm = 0.0 if index // 8 % 2 else 10.0 ** uniform(g, -1.0, 1.0)
    cubic, quartic = 10.0 ** uniform(g, -2.0, 0.0), 10.0 ** uniform(g, -2.0, 0.0)
    return landscape(g, s, precision, norm=norm, size=size, cubic=cubic, quartic=quartic)


def odd_truncation(index: int, precision: str) -> Case:
    """Cubic terms along the lowest eigenvectors, whose own curvature is small: a difference to one side is off.

    |λ_min| is 0.003 to 0.1 of L1. At w, which is 1e-4 to 1 of max(1, ‖x‖), or 0.003 to 1 in float32, the third
    derivative has changed the curvature by L1. A symmetric difference is exact for cubics, and the quartic terms are a
    tenth of the cubic ones at most: so each precision resolves it, from both sides.
    """
    g = randomness("odd_truncation", index)
    d = dimension(g, 2, 200)
    s = random_spectrum(d, lowest=0.2, largest=1.0, seed=index)
    soft = min(3, d - 1)
    s[:soft] = 10.0 ** uniform(g, -2.5, -1.0) * torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)[:soft]
    s[0] *= -1.0 if index % 2 else 1.0
    norm = 0.0 if index // 2 % 3 == 0 else 10.0 ** uniform(g, -2.0, 2.0)
    width = max(1.0, norm) * 10.0 ** uniform(g, -4.0 if precision == "float64" else -2.5, 0.0)
    return landscape(
        g,
        s,
        precision,
        norm=norm,
        width=width,
        cubic=uniform(g, 0.3, 1.0),
        quartic=uniform(g, 0.0, 0.1),
        along_lowest=True,
        offset=index // 6 % 2 == 0,
    )


def soft_beside_stiff(index: int, precision: str) -> Case:
    """λ_min/λ_max from ±1e-2 to ±1e-6, d ≤ 60; the rest uniform, or spread evenly over the orders of magnitude."""
    g = randomness("soft_beside_stiff", index)
    d = dimension(g, 2, 60)
    ratio = 10.0 ** uniform(g, -6.0, -2.0)
    rest = torch.rand(d, generator=g, dtype=torch.float64)
    s = ratio ** (1.0 - rest) if index // 2 % 2 else 0.05 + 0.95 * rest
    s[0], s[-1] = (-ratio if index % 2 else ratio), 1.0
    norm = 0.0 if index // 4 % 3 == 0 else 10.0 ** uniform(g, -1.0, 1.0)
    # Other terms follow the stiff modes, or, by turns, would hide the soft ones beyond a thousandth of their width.
    strength = 10.0 ** uniform(g, -2.0, 0.0) * (ratio if index // 12 % 2 else 1.0)
    size = 10.0 ** uniform(g, -3.0, 3.0)
    return landscape(g, s, precision, norm=norm, size=size, cubic=strength, quartic=strength)


def norm_of_x(index: int, precision: str) -> Case:
    """‖x‖ from 1e-6 to 1e6; the width of the structure from its narrowest share of ‖x‖ to max(1, 100·‖x‖).

    The narrowest that each precision resolves with room to spare: 1e-6·‖x‖ in float64, 0.01·‖x‖ in float32, ‖x‖ in
    bf16. Rounding of x and of Hx takes 1e-16, 6e-8 and 4e-3 of ‖x‖, so that at a hundredth of the width a difference is
    good to a thousandth of L1 in float64 and float32.
    """
    g = randomness("norm_of_x", index)
    d = dimension(g, 2, 200)
    s = saddle_or_minimum(g, index, d)
    norm = 10.0 ** uniform(g, -6.0, 6.0)
    narrowest = {"float64": 1e-6, "float32": 1e-2, "bf16": 1.0}[precision] * norm
    width = 10.0 ** uniform(g, math.log10(narrowest), math.log10(max(1.0, 100.0 * norm)))
    cubic, quartic = uniform(g, 0.0, 1.0), uniform(g, 0.1, 1.0)
    offset = index // 2 % 2 == 0
    return landscape(g, s, precision, norm=norm, width=width, cubic=cubic, quartic=quartic, offset=offset)


def drowned_values(index: int, precision: str) -> Case:
    """A large constant in F, so that values show no fall, and a λ_min just below −γ beside many just above it.

    The constant is 1e2 to 1e7, in float64 1e6 to 1e14; λ_min of saddles is −0.0105 to −0.02 of L1, and 2 to 29 others
    are −0.006 to −0.0095. Minima have none of them.
    """
    g = randomness("drowned_values", index)
    d = dimension(g, 40, 200)
    s = torch.rand(d, generator=g, dtype=torch.float64)
    s[-1] = 1.0
    if index % 2:
        s[: integer(g, 3, 30)] = -uniform(g, 0.006, 0.0095)
        s[0] = -uniform(g, 0.0105, 0.02)
    case = landscape(g, s, precision, norm=10.0 ** uniform(g, -1.0, 1.0), cubic=0.1, quartic=0.1)
    constant = 10.0 ** (uniform(g, 6.0, 14.0) if precision == "float64" else uniform(g, 2.0, 7.0))
    f = case.objective.sample()

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = f.value_and_grad(x)
        return value + constant, grad

    return replace(case, objective=Function(value_and_grad, gradient=True))


def width_at_zero(index: int, precision: str) -> Case:
    """x = 0, and structure of a width of 1e-7 to 0.1 (1e-5 to 0.1 in float32): nothing tells the scale beforehand.

    Every precision resolves every width there.
    """
    g = randomness("width_at_zero", index)
    s = saddle_or_minimum(g, index, dimension(g, 2, 200))
    width = 10.0 ** uniform(g, -7.0 if precision == "float64" else -5.0, -1.0)
    return landscape(g, s, precision, norm=0.0, width=width, cubic=uniform(g, 0.0, 1.0), quartic=uniform(g, -1.0, 1.0))


def barriers(index: int, precision: str) -> Case:
    """Σ c_i(x_i/x⁰_i − log x_i) − ½Σ k_i(x_i − x⁰_i)²: a pole beside x, at the distance x⁰_i along each axis.

    x⁰_i is 1e-6 to 1 and all curvatures are at most 1. Beyond the pole values are nan, and gradients are finite, as
    those of `torch.log`. float64 has a radius that suits all axes, float32 has none.
    """
    g = randomness("barriers", index)
    d, dtype = dimension(g, 2, 60), DTYPES[precision]
    s = saddle_or_minimum(g, index, d)
    x0 = (10.0 ** (-6.0 * torch.rand(d, generator=g, dtype=torch.float64))).to(dtype)
    x0 = rounded(x0) if precision == "bf16" else x0
    weight, down = (s.clamp(min=0.0) * x0.double().square()).to(dtype), (-s).clamp(min=0.0).to(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        value = torch.dot(weight, x / x0 - torch.log(x)) - 0.5 * torch.dot(down, z * z)
        return value, weight * (1.0 / x0 - 1.0 / x) - down * z

    curvatures = weight.double() / x0.double().square() - down.double()
    objective = Function(value_and_grad, gradient=True)
    return Case(
        objective=low_precision(objective) if precision == "bf16" else objective,
        x=x0,
        lowest=float(curvatures.min()),
        largest=float(curvatures.abs().max()),
        curvature=lambda v: float(torch.dot(curvatures, v * v)),
    )
