"""Equal hidden units of a small network: saddles that a symmetry makes. In bf16 it runs under `torch.autocast`."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, integer, normal, randomness
from unsaddle import Function

UNITS_DATA, UNITS_INPUTS, UNITS_NETS = 24, 3, 40


def _network_loss(x: Tensor, inputs: Tensor, targets: Tensor, width: int, autocast: bool = False) -> Tensor:
    w, a = x[: width * UNITS_INPUTS].view(width, UNITS_INPUTS), x[width * UNITS_INPUTS :].view(1, width)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        outputs = torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(inputs, w)), a)
    return 0.5 * (outputs.to(x.dtype)[:, 0] - targets).square().mean() + 0.005 * x.square().sum()


@functools.cache
def _narrow_network(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Data of two units, and a stationary point of a network with one, by Newton's method to the last digit."""
    for attempt in range(100):
        g = torch.Generator().manual_seed(1000 * seed + attempt)
        inputs = normal(g, UNITS_DATA, UNITS_INPUTS)
        targets = torch.tanh(inputs @ normal(g, UNITS_INPUTS, 2)) @ normal(g, 2)
        x = normal(g, UNITS_INPUTS + 1)

        def loss(x: Tensor, inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
            return _network_loss(x, inputs, targets, 1)

        x.requires_grad_(True)
        lbfgs = torch.optim.LBFGS([x], max_iter=200, line_search_fn="strong_wolfe")

        def closure(x: Tensor = x, lbfgs: torch.optim.LBFGS = lbfgs) -> Tensor:
            lbfgs.zero_grad()
            value = loss(x)
            value.backward()
            return value

        lbfgs.step(closure)
        x = x.detach()
        for _ in range(4):
            x = x - torch.linalg.solve(torch.func.hessian(loss)(x), torch.func.grad(loss)(x))
        if float(torch.func.grad(loss)(x).norm()) < 1e-13 and abs(float(x[-1])) > 0.1:
            return inputs, targets, x
    raise RuntimeError(f"no stationary point found for network {seed}")


class EqualUnits(NamedTuple):
    """A trained tanh unit, copied: loss + 0.005·Σ penalty·x², stationary at x in exact arithmetic."""

    x: Tensor
    inputs: Tensor
    targets: Tensor
    copies: int
    penalty: Tensor

    def loss(self, x: Tensor, autocast: bool = False) -> Tensor:
        """The loss without the penalty, in the dtype of x."""
        inputs, targets = self.inputs.to(x.dtype), self.targets.to(x.dtype)
        return _network_loss(x, inputs, targets, self.copies, autocast) - 0.005 * x.square().sum()

    def decay(self, x: Tensor) -> Tensor:
        """The penalty, in the dtype of x."""
        return 0.005 * (self.penalty.to(x.dtype) * x.square()).sum()

    def case(self, objective: Function, x: Tensor, seed: int) -> Case:
        """The case of x, with the truth of loss and penalty in float64."""

        def truth(x: Tensor) -> Tensor:
            return self.loss(x) + self.decay(x)

        hessian = torch.func.hessian(truth)(x.double())
        eigenvalues = torch.linalg.eigvalsh(hessian)
        return Case(
            objective=objective,
            x=x,
            lowest=float(eigenvalues[0]),
            largest=float(eigenvalues.abs().max()),
            curvature=lambda v: float(v @ hessian @ v),
            gradient_norm=float(torch.func.grad(truth)(x.double()).norm()),
            seed=seed,
        )


def copied_units(network: int, copies: int) -> EqualUnits:
    """One of `UNITS_NETS` trained units, copied: w_j = w and a_j = a/k for k equal units.

    The penalty 0.005‖(w, a)‖² of one unit becomes 0.005(Σ‖w_j‖²/k + kΣa_j²): the same slope along equal units, so that
    the gradient stays zero.
    """
    inputs, targets, narrow = _narrow_network(network % UNITS_NETS)
    w, a = narrow[:UNITS_INPUTS], narrow[UNITS_INPUTS:]
    penalty = torch.cat([torch.full((copies * UNITS_INPUTS,), 1.0 / copies), torch.full((copies,), float(copies))])
    return EqualUnits(torch.cat([w.repeat(copies), (a / copies).repeat(copies)]), inputs, targets, copies, penalty)


def equal_units(index: int, precision: str) -> Case:
    """A trained tanh unit copied into 2 to 4 equal ones: stationary by symmetry, most often a saddle."""
    units = copied_units(index, integer(randomness("equal_units", index), 2, 4))
    low = precision == "bf16"
    objective = Function(lambda x: units.loss(x, low) + units.decay(x))
    return units.case(objective, units.x.to(DTYPES[precision]), index)
