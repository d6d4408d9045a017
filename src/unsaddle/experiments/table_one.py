"""The rows of the paper's Table 1, and what a method is told when its row is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unsaddle.experiments.families import SMOOTHNESS

FINITE_SUM_ONLY = ("neon-svrg", "svrg-hessian")


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of Table 1: samples to an (ε, ε^q)-second-order stationary point, up to logarithms."""

    name: str
    method: str
    power: float
    """q, with γ = ε^q."""
    bound: str
    """The bound as printed, without T_g and T_h."""
    gradients: float
    """The largest exponent of 1/ε in component gradients (IFO)."""
    products: float | None = None
    """The largest exponent of 1/ε in component Hessian products (ISO); None for methods that use none."""


TABLE_ONE = (
    TableRow(name="Noisy SGD", method="noisy-sgd", power=1 / 4, bound="dᵖε⁻⁴, p ≥ 4", gradients=4.0),
    TableRow(name="SGLD", method="sgld", power=1 / 2, bound="dᵖε⁻⁴, p ≥ 4", gradients=4.0),
    TableRow(name="Natasha2", method="natasha2", power=1 / 2, bound="ε⁻³·⁵ + ε⁻²·⁵ ISO", gradients=3.5, products=2.5),
    TableRow(
        name="Natasha2", method="natasha2", power=1 / 4, bound="ε⁻³·²⁵ + ε⁻¹·⁷⁵ ISO", gradients=3.25, products=1.75
    ),
    TableRow(name="SNCG", method="sncg", power=1 / 2, bound="ε⁻⁴ + ε⁻²·⁵ ISO", gradients=4.0, products=2.5),
    TableRow(
        name="SVRG-Hessian",
        method="svrg-hessian",
        power=1 / 2,
        bound="n^⅔ε⁻² + nε⁻¹·⁵ + (nε⁻¹·⁵ + n^¾ε⁻¹·⁷⁵) ISO",
        gradients=2.0,
        products=1.75,
    ),
    TableRow(name="NEON-SGD", method="neon-sgd", power=1 / 2, bound="ε⁻⁴", gradients=4.0),
    TableRow(name="NEON-SM (heavy ball)", method="neon-shb", power=1 / 2, bound="ε⁻⁴", gradients=4.0),
    TableRow(name="NEON-SM (Nesterov)", method="neon-snag", power=1 / 2, bound="ε⁻⁴", gradients=4.0),
    TableRow(name="NEON-SCSG", method="neon-scsg", power=1 / 2, bound="ε⁻³·⁵", gradients=3.5),
    TableRow(name="NEON-SCSG", method="neon-scsg", power=4 / 9, bound="ε⁻³·³³", gradients=10 / 3),
    TableRow(name="NEON-Natasha", method="neon-natasha", power=1 / 2, bound="ε⁻³·⁵", gradients=3.5),
    TableRow(name="NEON-Natasha", method="neon-natasha", power=1 / 4, bound="ε⁻³·²⁵", gradients=3.25),
    TableRow(name="NEON-SVRG", method="neon-svrg", power=1 / 2, bound="n^⅔ε⁻² + nε⁻¹·⁵ + ε⁻²·⁷⁵", gradients=2.75),
)


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
