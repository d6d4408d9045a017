"""Curvature at a stationary point, from its eigenvalues or, without a formula for them, from the dense Hessian."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle.objective import Objective, SecondOrderFunction
from unsaddle.problems.problem import Kind, StationaryPoint


def eigenvalues(objective: Objective, point: Tensor) -> Tensor:
    """All eigenvalues of ∇²F at the point, smallest first, by d Hessian products.

    >>> from unsaddle import Function
    >>> eigenvalues(Function(lambda x: x[0] ** 2 - x[1] ** 2), torch.zeros(2)).tolist()
    [-2.0, 2.0]
    """
    f = objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    hessian = torch.stack([f.hvp(point, e) for e in torch.eye(point.numel(), dtype=point.dtype)])
    spectrum: Tensor = torch.linalg.eigvalsh((hessian + hessian.T) / 2.0)
    return spectrum


def stationary_point(point: Tensor, kind: Kind, spectrum: Tensor, dtype: torch.dtype) -> StationaryPoint:
    """A stationary point with these eigenvalues. The point is rounded to the dtype of the problem."""
    lowest, largest = float(spectrum.min()), float(spectrum.abs().max())
    return StationaryPoint(point=point.to(dtype), kind=kind, lowest_curvature=lowest, largest_curvature=largest)
