"""Problems with formulas: needles, symmetries, equal blocks, and every problem of the zoo.

In bf16 the point that goes in and the gradient that comes out are rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, integer, low_precision, normal, randomness, rounded, uniform
from unsaddle import Function
from unsaddle.objective import Objective, SecondOrderFunction
from unsaddle.problems import (
    Problem,
    StationaryPoint,
    linear_network,
    positive_semidefinite,
    prescribed_spectrum,
    rank_one_negative,
    saddle_chain,
    symmetric_factorisation,
    tensor_decomposition,
    zoo,
)


def curvature_by_products(objective: Objective, x: Tensor) -> Callable[[Tensor], float]:
    f = objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    return lambda v: float(torch.dot(v, f.hvp(x, v)))


def known(make: Callable[[torch.dtype], Problem], which: int, precision: str, *, seed: int = 0) -> Case:
    """A stationary point of a problem, in this precision, with the truth from the problem in float64."""
    exact, problem = make(torch.float64), make(DTYPES[precision])
    here, there = (p.stationary_points[which % len(p.stationary_points)] for p in (exact, problem))
    return Case(
        objective=low_precision(problem.objective) if precision == "bf16" else problem.objective,
        x=there.point,
        lowest=here.lowest_curvature,
        largest=here.largest_curvature,
        curvature=curvature_by_products(exact.objective, there.point.double()),
        seed=seed,
    )


def needle(index: int, precision: str) -> Case:
    """One negative eigenvalue among 10 000: −0.011 to −0.3 of L1; every fourth problem has none."""
    g = randomness("needle", index)
    d = 10_000
    lowest = -(10.0 ** uniform(g, math.log10(0.011), math.log10(0.3)))
    s = (
        positive_semidefinite(d, largest=1.0, zeros=d // 4, seed=index)
        if index % 4 == 0
        else rank_one_negative(d, lowest=lowest, largest=1.0, seed=index)
    )
    power, size = integer(g, 3, 4), 10.0 ** uniform(g, -1.0, 0.5)
    exact, problem = (
        prescribed_spectrum(s, power=power, rotation_seed=index, dtype=t) for t in (torch.float64, DTYPES[precision])
    )
    # Half of the points at 0, and half shifted away from it.
    shift = (size * normal(g, d) / 100.0 if index % 2 else torch.zeros(d).double()).to(DTYPES[precision])
    f = problem.objective.sample()
    objective: Objective = Function(lambda x: f.value_and_grad(x - shift), gradient=True)
    if precision == "bf16":
        shift = rounded(shift)
        objective = low_precision(objective)
    return Case(
        objective=objective,
        x=shift,
        lowest=float(s[0]),
        largest=1.0,
        curvature=curvature_by_products(exact.objective, torch.zeros(d, dtype=torch.float64)),
    )


def symmetric(index: int, precision: str) -> Case:
    """Saddles and minima that a symmetry makes exact: factors, chains, tensors, two-layer linear networks."""
    g = randomness("symmetric", index)
    which = integer(g, 0, 30)
    seed = integer(g, 0, 10**6)
    values = (0.5 + 4.0 * torch.rand(3, generator=g, dtype=torch.float64)).sort(descending=True).values
    size, length = integer(g, 4, 12), integer(g, 2, 20)

    def factors(dtype: torch.dtype) -> Problem:
        return symmetric_factorisation(values, size=size, rank=3, seed=seed, dtype=dtype)

    def chain(dtype: torch.dtype) -> Problem:
        return saddle_chain(length=length, dtype=dtype)

    def tensor(dtype: torch.dtype) -> Problem:
        return tensor_decomposition(dimension=size, rotation_seed=seed, dtype=dtype)

    def layers(dtype: torch.dtype) -> Problem:
        return linear_network(values[:2], width=3, inputs=size, outputs=4, num_samples=2 * size, seed=seed, dtype=dtype)

    return known((factors, chain, tensor, layers)[index % 4], which, precision)


def blocks(index: int, precision: str) -> Case:
    """Equal blocks side by side, f(x) = Σ_k f₀(x_k): every eigenvalue as often as there are blocks.

    All blocks at the saddle of f₀, all at its minimum, or one at the saddle and the others at the minimum.
    """
    g = randomness("blocks", index)
    copies, size, seed = integer(g, 2, 12), integer(g, 3, 6), integer(g, 0, 10**6)

    def make(dtype: torch.dtype) -> Problem:
        return tensor_decomposition(dimension=size, rotation_seed=seed, dtype=dtype)

    exact, problem = make(torch.float64), make(DTYPES[precision])
    saddle = integer(g, 0, len(exact.saddles) - 1)
    at_saddle = [index % 3 == 0 or (index % 3 == 1 and k == 0) for k in range(copies)]

    def points(of: Problem) -> list[StationaryPoint]:
        return [of.saddles[saddle] if s else of.minima[0] for s in at_saddle]

    f = problem.objective.sample()

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        answers = [f.value_and_grad(part) for part in x.view(copies, size)]
        return torch.stack([value for value, _ in answers]).sum(), torch.cat([grad for _, grad in answers])

    objective: Objective = Function(value_and_grad, gradient=True)
    x = torch.cat([p.point for p in points(problem)])
    parts = [curvature_by_products(exact.objective, part) for part in x.double().view(copies, size)]
    return Case(
        objective=low_precision(objective) if precision == "bf16" else objective,
        x=x,
        lowest=min(p.lowest_curvature for p in points(exact)),
        largest=max(p.largest_curvature for p in points(exact)),
        curvature=lambda v: sum(q(part) for q, part in zip(parts, v.view(copies, size), strict=True)),
    )


ZOO_SEEDS = 50


@functools.cache
def _zoo(dtype: torch.dtype) -> tuple[Problem, ...]:
    return zoo(dtype)


@functools.cache
def zoo_points() -> tuple[tuple[int, int], ...]:
    """(problem, stationary point) of the zoo, without the degenerate one, which has no right answer but "undecided"."""
    return tuple(
        (i, j)
        for i, problem in enumerate(_zoo(torch.float64))
        for j, point in enumerate(problem.stationary_points)
        if point.kind != "degenerate"
    )


def whole_zoo(index: int, precision: str) -> Case:
    """Every stationary point of every problem of the zoo, 50 seeds each."""
    problem, point = zoo_points()[index // ZOO_SEEDS]
    return known(lambda dtype: _zoo(dtype)[problem], point, precision, seed=index % ZOO_SEEDS)
