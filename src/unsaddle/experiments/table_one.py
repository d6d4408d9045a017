"""The rows of the paper's Table 1, each for what runs in it, and what a method is told when its row is measured.

A NEON row is measured with each of `EXTRACTORS` inside. The paper's bound stands beside `neon+` and `neon`. `auto` is
krylov, which is ours, so it has none. Bounds are derived by `theory.rates`. Two rows are ours: Algorithm 4 around
Natasha1.5 and around SVRG, where the paper's NEON-Natasha and NEON-SVRG put NEON into Natasha2 and into the framework
of Reddi et al.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unsaddle.experiments.families import SMOOTHNESS
from unsaddle.theory import rates

FINITE_SUM_ONLY = ("neon-svrg", "svrg-hessian")

EXTRACTORS = ("neon+", "neon", "auto")
"""What the NEON rows have inside: Algorithm 2, Algorithm 1, and what `minimize` takes unless told."""

OF_THE_PAPER = ("neon+", "neon")

HALF, QUARTER, FOUR_NINTHS = Fraction(1, 2), Fraction(1, 4), Fraction(4, 9)


def what_ran(name: str, extractor: str | None) -> str:
    """The name of a row: the method, and the extractor inside it; None for a method that has its own, or none.

    >>> what_ran("NEON-SCSG", "neon+"), what_ran("neon-sgd", "auto"), what_ran("SGLD", None)
    ('NEON-SCSG, neon+ inside', 'neon-sgd, krylov inside (auto)', 'SGLD')
    """
    if extractor is None:
        return name
    return f"{name}, {'krylov inside (auto)' if extractor == 'auto' else f'{extractor} inside'}".removeprefix(", ")


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of Table 1: samples to an (ε, ε^q)-second-order stationary point, up to logarithms."""

    name: str
    """What ran."""
    method: str
    extractor: str | None
    """None for a method with its own, or with none."""
    power: float
    """q, with γ = ε^q."""
    bound: str
    """The bound without T_g and T_h: as printed, or as `theory.rates` has it. "–" with krylov inside."""
    gradients: float | None
    """The largest exponent of 1/ε in component gradients (IFO). None with krylov inside."""
    products: float | None = None
    """The largest exponent of 1/ε in component Hessian products (ISO); None for methods that use none."""


def _rival(name: str, method: str, q: Fraction, bound: str, gradients: float, products: float | None) -> TableRow:
    return TableRow(
        name=name,
        method=method,
        extractor=None,
        power=float(q),
        bound=bound,
        gradients=gradients,
        products=products,
    )


def _with_products(name: str, method: str, q: Fraction, bound: str, derived: rates.WithProducts) -> TableRow:
    gradients, products = (float(count.exponent) for count in derived)
    return _rival(name, method, q, bound, gradients, products)


Rate = Callable[[Fraction, str], rates.Count]
"""The count of a NEON row, given q and the extractor."""


def _neon(name: str, method: str, q: Fraction, rate: Rate, extractors: tuple[str, ...]) -> Iterator[TableRow]:
    for extractor in extractors:
        count = rate(q, extractor) if extractor in OF_THE_PAPER else None
        yield TableRow(
            name=what_ran(name, extractor),
            method=method,
            extractor=extractor,
            power=float(q),
            bound="–" if count is None else str(count),
            gradients=None if count is None else float(count.exponent),
        )


def _sgd(q: Fraction, extractor: str) -> rates.Count:
    return rates.neon_sgd(q=q, extractor=extractor)


def _scsg(q: Fraction, extractor: str) -> rates.Count:
    return rates.neon_scsg(q=q, extractor=extractor, batch=HALF if q == HALF else Fraction(0))


def _svrg(q: Fraction, extractor: str) -> rates.Count:
    return rates.neon_svrg(q=q, extractor=extractor)


def _natasha2(q: Fraction, extractor: str) -> rates.Count:
    return rates.neon_natasha(q=q, extractor=extractor)


def _natasha15(q: Fraction, extractor: str) -> rates.Count:
    return rates.neon_a_around_natasha15(q=q, extractor=extractor)


def _table() -> Iterator[TableRow]:
    yield _rival("Noisy SGD", "noisy-sgd", QUARTER, "dᵖε⁻⁴, p ≥ 4", 4.0, None)
    yield _rival("SGLD", "sgld", HALF, "dᵖε⁻⁴, p ≥ 4", 4.0, None)
    for q, bound in ((HALF, "ε⁻³·⁵ + ε⁻²·⁵ ISO"), (QUARTER, "ε⁻³·²⁵ + ε⁻¹·⁷⁵ ISO")):
        yield _with_products("Natasha2", "natasha2", q, bound, rates.natasha2(q=q))
    yield _rival("SNCG", "sncg", HALF, "ε⁻⁴ + ε⁻²·⁵ ISO", 4.0, 2.5)
    bound = "n^⅔ε⁻² + nε⁻¹·⁵ + (nε⁻¹·⁵ + n^¾ε⁻¹·⁷⁵) ISO"
    yield _with_products("SVRG-Hessian", "svrg-hessian", HALF, bound, rates.svrg_hessian(q=HALF))
    yield from _neon("NEON-SGD", "neon-sgd", HALF, _sgd, EXTRACTORS)
    yield from _neon("NEON-SM (heavy ball)", "neon-shb", HALF, _sgd, EXTRACTORS)
    yield from _neon("NEON-SM (Nesterov)", "neon-snag", HALF, _sgd, EXTRACTORS)
    for q in (HALF, FOUR_NINTHS):
        yield from _neon("NEON-SCSG", "neon-scsg", q, _scsg, EXTRACTORS)
    for q in (HALF, QUARTER):
        yield from _neon("NEON-Natasha", "natasha2", q, _natasha2, OF_THE_PAPER)
    yield from _neon("NEON-SVRG", "svrg-hessian", HALF, _svrg, OF_THE_PAPER)
    for q in (HALF, QUARTER):
        yield from _neon("NEON-A around Natasha1.5", "neon-natasha", q, _natasha15, EXTRACTORS)
    yield from _neon("NEON-A around SVRG", "neon-svrg", HALF, _svrg, EXTRACTORS)


TABLE_ONE = tuple(_table())
"""Rivals first, then the paper's NEON rows, then ours."""


def name_of(method: str, extractor: str | None) -> str:
    """The name of the rows of a method with an extractor inside.

    >>> name_of("svrg-hessian", "neon+"), name_of("svrg-hessian", None)
    ('NEON-SVRG, neon+ inside', 'SVRG-Hessian')
    """
    return next(row.name for row in TABLE_ONE if (row.method, row.extractor) == (method, extractor))


def told(method: str, eps: float, variance: float) -> dict[str, Any]:
    """The settings of a method that is told L1: its default step for the true L1, without adaptation.

    A method that adapts its step runs down a long slope, which has no curvature, with ever longer steps. That is good
    for users, but Table 1 assumes fixed steps. Natasha's σ = εL1/√V, and p = 1 where it can be set, are those of its
    theorem where V decides. Methods with Hessian products take L1 and keep their guards.
    """
    L1 = SMOOTHNESS
    return {
        "neon-sgd": {"step_size": 0.5 / L1},
        "neon-shb": {"step_size": 1.25 / L1},
        "neon-snag": {"step_size": 1.25 / L1},
        "neon-msgd": {"step_size": 1.0 / L1},
        "neon-scsg": {"step_size": 0.5 / L1},
        "neon-svrg": {"step_size": 0.5 / L1},
        "neon-natasha": {"step_size": 0.5 / L1, "sigma": eps * L1 / variance**0.5},
        "noisy-sgd": {"step_size": 0.25 / L1, "num_steps": 10**9},
        "sgld": {"step_size": 0.25 / L1, "num_steps": 10**9},
        "natasha2": {"smoothness": L1, "sigma": eps * L1 / variance**0.5, "sub_epochs": 1},
        "sncg": {"smoothness": L1},
        "svrg-hessian": {"smoothness": L1},
    }[method]
