"""Points that are flat to second order along some directions: terms of higher order decide, and are known.

Half of them are no minima, though no curvature is negative: cubic terms, quartic ones of both signs, networks that
begin at zero. The others are minima: quartic and sextic ones, and valleys. "Saddle" is false at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gelu, relu

from benchmarks.verdict_cases.case import DTYPES, Case, integer, low_precision, normal, randomness, rounded, uniform
from unsaddle import Function, Verdict

Form = Callable[[Tensor], Tensor]


def _quartic(weights: Tensor) -> Form:
    return lambda y: (weights.to(y) * y**4).sum()


def cubic(g: torch.Generator, m: int) -> Form:
    """A random cubic form, bounded by y⁴."""
    c = normal(g, m, m, m) / m
    return lambda y: torch.einsum("ijk,i,j,k->", c.to(y), y, y, y) + (y**4).sum()


def indefinite_quartic(g: torch.Generator, m: int) -> Form:
    """a₁y₁⁴ + … with signs of both kinds, bounded by y⁶."""
    weights = 0.3 + 0.7 * torch.rand(m, generator=g, dtype=torch.float64)
    weights[: integer(g, 1, m)] *= -1.0
    quartic = _quartic(weights)
    return lambda y: quartic(y) + (y**6).sum()


def quintic(g: torch.Generator, m: int) -> Form:
    """y₁⁵, beside y₂⁴ and others."""
    quartic = _quartic(torch.cat([torch.zeros(1).double(), torch.rand(m - 1, generator=g, dtype=torch.float64)]))
    return lambda y: y[0] ** 5 + y[0] ** 6 + quartic(y)


def products(g: torch.Generator, m: int) -> Form:
    """(1 − y₁y₂⋯y_m)², or of three at least."""
    return lambda y: ((1.0 - y.prod()) ** 2) if m > 2 else (1.0 - y.prod() * y[0]) ** 2


def positive_quartic(g: torch.Generator, m: int) -> Form:
    quartic = _quartic(0.3 + 0.7 * torch.rand(m, generator=g, dtype=torch.float64))
    return lambda y: quartic(y) + (y @ y) ** 2 / 4.0


def sextic(g: torch.Generator, m: int) -> Form:
    return lambda y: (y**6).sum() + (y[0] * y[-1]) ** 2


def nothing(g: torch.Generator, m: int) -> Form:
    return lambda y: 0.0 * y.sum()


def case_of(fun: Callable[[Tensor], Tensor], x: Tensor, precision: str, is_minimum: bool) -> Case:
    """The case of a function that takes any dtype; its truth is in float64."""
    exact = x.double()
    hessian = torch.autograd.functional.hessian(fun, exact)
    eigenvalues = torch.linalg.eigvalsh(hessian)
    largest = float(eigenvalues.abs().max())
    assert abs(float(eigenvalues[0])) <= 1e-6 * largest  # The mean of float32 targets is one to seven digits.
    at = exact.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(fun(at), at)

    def rule(verdict: Verdict) -> str:
        return f"false {verdict.kind}"

    objective = Function(fun)
    return Case(
        objective=low_precision(objective) if precision == "bf16" else objective,
        x=x,
        lowest=0.0,
        largest=largest,
        curvature=lambda v: max(0.0, float(v @ hessian @ v)),
        gradient_norm=float(gradient.norm()),
        judge=None if is_minimum else rule,
    )


def _polynomial(g: torch.Generator, precision: str, index: int, make: Callable[..., Form], is_minimum: bool) -> Case:
    """s·(½Σλᵢyᵢ² + form(the other y)) + a constant, with y = Q(x − x₀)/w: stiff beside flat, in turned coordinates."""
    flat, stiff = integer(g, 2, 6), 0 if index // 2 % 12 == 11 else integer(g, 1, 30)
    form, d = make(g, flat), flat + stiff
    turn, _ = torch.linalg.qr(normal(g, d, d))
    spectrum = 10.0 ** (-2.0 * torch.rand(stiff, generator=g, dtype=torch.float64))
    norm = 0.0 if index // 24 % 2 else 10.0 ** uniform(g, -1.0, 3.0)
    width = max(1.0, norm) * 10.0 ** uniform(g, -1.0, 0.5)
    size = 10.0 ** uniform(g, -6.0, 6.0)
    constant = 0.0 if index // 48 % 2 else size * uniform(g, -1.0, 1.0)
    x = normal(g, d)
    x = (norm * x / x.norm()).to(DTYPES[precision])
    x = rounded(x) if precision == "bf16" else x

    def fun(point: Tensor) -> Tensor:
        y = turn.to(point) @ (point - x.to(point)) / width
        return size * (0.5 * (spectrum.to(point) * y[flat:] ** 2).sum() + form(y[:flat])) + constant

    return case_of(fun, x, precision, is_minimum)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "gelu": gelu,
    "sigmoid": torch.sigmoid,
    "linear": lambda x: x,
    "relu": relu,
}


def network_at_zero(g: torch.Generator, precision: str, index: int) -> Case:
    """A network of three to five layers whose last ones are zero, and whose bias fits the mean of the targets.

    The output is a product of the zero layers, so that F is flat to the order of their number less one.
    """
    layers, width, rows, inputs = integer(g, 3, 5), integer(g, 2, 4), 40, integer(g, 2, 4)
    activation = list(ACTIVATIONS.values())[index // 24 % 4]
    zero = layers if index // 2 % 2 else integer(g, 3, layers)
    size = 10.0 ** uniform(g, -6.0, 6.0)
    data = normal(g, rows, inputs).to(DTYPES[precision]).double()
    target = torch.tanh(data @ normal(g, inputs)) + 0.5 * data[:, 0] ** 2 + 0.3 * normal(g, rows)
    target = target.to(DTYPES[precision]).double()
    shapes = [(width, inputs), *[(width, width)] * (layers - 2), (1, width)]
    weights = [normal(g, *s) / math.sqrt(s[1]) if k < layers - zero else torch.zeros(s) for k, s in enumerate(shapes)]
    bias = target.mean().view(1)

    def fun(point: Tensor) -> Tensor:
        hidden, at = data.to(point).T, 0
        for k, (rows_of, columns) in enumerate(shapes):
            weight = point[at : at + rows_of * columns].view(rows_of, columns)
            at += rows_of * columns
            hidden = weight @ hidden
            hidden = activation(hidden) if k < layers - 1 else hidden
        return size * ((hidden[0] + point[-1] - target.to(point)) ** 2).mean()

    x = torch.cat([*(w.double().flatten() for w in weights), bias]).to(DTYPES[precision])
    return case_of(fun, rounded(x) if precision == "bf16" else x, precision, is_minimum=False)


def tensor_at_zero(g: torch.Generator, precision: str, index: int) -> Case:
    """‖T − Σ a_r⊗b_r⊗c_r‖² and a mean that is fitted, at a = b = c = 0."""
    n, rank, size = integer(g, 2, 4), integer(g, 1, 3), 10.0 ** uniform(g, -6.0, 6.0)
    target = normal(g, n, n, n).to(DTYPES[precision]).double()

    def fun(point: Tensor) -> Tensor:
        a, b, c = point[:-1].view(3, rank, n)
        return size * (torch.einsum("ri,rj,rk->ijk", a, b, c) + point[-1] - target.to(point)).square().mean()

    x = torch.cat([torch.zeros(3 * rank * n).double(), target.mean().view(1)]).to(DTYPES[precision])
    return case_of(fun, rounded(x) if precision == "bf16" else x, precision, is_minimum=False)


def low_rank_beside_a_fit(g: torch.Generator, precision: str, index: int) -> Case:
    """‖X(w + BA) − y‖² with X of more columns than rows, at w that solves it and B = 0: a valley of minima."""
    rows, columns, rank = integer(g, 2, 5), integer(g, 6, 10), integer(g, 1, 3)
    size, data = 10.0 ** uniform(g, -6.0, 6.0), normal(g, rows, columns).to(DTYPES[precision]).double()
    w, a = normal(g, columns).to(DTYPES[precision]).double(), normal(g, rank, columns)
    target = data @ w

    def fun(point: Tensor) -> Tensor:
        whole = point[:columns] + point[columns : columns + rank] @ point[columns + rank :].view(rank, columns)
        return size * (data.to(point) @ whole - target.to(point)).square().mean()

    x = torch.cat([w, torch.zeros(rank).double(), a.flatten()]).to(DTYPES[precision])
    return case_of(fun, rounded(x) if precision == "bf16" else x, precision, is_minimum=True)


FORMS: tuple[Callable[..., Form], ...] = (cubic, indefinite_quartic, products, quintic)
MINIMA: tuple[Callable[..., Form], ...] = (positive_quartic, sextic, nothing)


def flat(index: int, precision: str) -> Case:
    """Even indices are no minima: polynomials, networks and tensors at zero, by turns. Odd ones are minima."""
    g, turn = randomness("flat", index), index // 2
    if index % 2 == 0:
        if turn % 3 == 0:
            return network_at_zero(g, precision, index)
        if turn % 6 == 4:
            return tensor_at_zero(g, precision, index)
        return _polynomial(g, precision, index, FORMS[turn % 4], is_minimum=False)
    if turn % 4 == 3:
        return low_rank_beside_a_fit(g, precision, index)
    return _polynomial(g, precision, index, MINIMA[turn % 4], is_minimum=True)
