"""What users hand in as `metric=`, made into a map S: sizes, an optimizer, an inverse Hessian, or two maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from unsaddle import ranks, vectors
from unsaddle.metric.maps import Map, dense, diagonal
from unsaddle.objective import Objective, as_objective
from unsaddle.objectives.model.parameters import FlatParameters

DENSE_MOST = 1000
"""Variables up to which a map that is not diagonal is made a matrix. Its eigenvectors then take less than a second."""

FLOOR = 0.03
"""Added to √v̂, as a share of its quadratic mean: so a parameter that has had no gradient has a size, at most 33 times
that of others. Chosen on the networks of `benchmarks.metric`, between 0.1 and 0.01."""

ROUNDED = 1e-10
"""Eigenvalues of an inverse Hessian down to this share of the largest are told from rounding. Smaller ones are raised
to it; below minus it, the matrix is not positive definite."""

CONTAINS = "metric must be positive sizes of the variables, a torch optimizer, an inverse Hessian or an object with "
CONTAINS += "apply and transpose"


@runtime_checkable
class TwoMaps(Protocol):
    """An object with the two maps of x = Sz, for an invertible S."""

    def apply(self, z: Tensor) -> Tensor:
        """Sz."""

    def transpose(self, g: Tensor) -> Tensor:
        """Sᵀg."""


@runtime_checkable
class Operator(Protocol):
    """A linear operator of SciPy, as `LbfgsInvHessProduct`."""

    shape: tuple[int, ...]

    def todense(self) -> Any: ...


def as_map(metric: Any, objective: Objective, x: Tensor) -> Map:
    """The map S of x = Sz that `metric` stands for, on the device and in the dtype of x.

    - a positive vector: the sizes of the variables, as SciPy's `x_scale`;
    - an optimizer (Adam, AdamW, RMSprop, Adagrad): 1/√v̂, bounded, v̂ its second moments. v̂ is about the diagonal of
      the Fisher matrix, and thus of the Hessian's positive part, which then has a diagonal of about 1;
    - a square array, or SciPy's `LbfgsInvHessProduct`: an inverse Hessian B, as `hess_inv`; S is its square root;
    - an object with `apply`, z ↦ Sz, and `transpose`, g ↦ Sᵀg.

    Its scale is normalised: the geometric mean of the singular values of S is 1.

    >>> from unsaddle import Function
    >>> round(as_map([1.0, 1e4], Function(lambda x: x.sum()), torch.zeros(2)).largest, 6)
    100.0
    """
    if isinstance(metric, torch.optim.Optimizer):
        return diagonal(_sizes_of(metric, objective, x))
    if isinstance(metric, Operator) and not isinstance(metric, (Tensor, np.ndarray)):
        _check_small(len(metric.shape) and metric.shape[0])
        metric = metric.todense()
    if isinstance(metric, TwoMaps) and not isinstance(metric, Tensor):
        return _of_two_maps(metric, x)
    try:
        numbers = torch.as_tensor(np.asarray(metric) if isinstance(metric, (list, tuple)) else metric).detach()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{CONTAINS}, got {type(metric).__name__}") from None
    if numbers.ndim not in (1, 2) or numbers.is_complex() or numbers.dtype == torch.bool:
        kind = f"{str(numbers.dtype).removeprefix('torch.')} of shape {tuple(numbers.shape)}"
        raise TypeError(f"{CONTAINS}, got {kind}; sizes have one dimension, an inverse Hessian two")
    if numbers.shape != x.shape * numbers.ndim:
        expected = " or ".join(str(tuple(x.shape) * n) for n in (1, 2))
        raise ValueError(f"metric must have an entry for each variable, shape {expected}, got {tuple(numbers.shape)}")
    return diagonal(_positive(numbers.to(x.device)), x.dtype) if numbers.ndim == 1 else _of_inverse_hessian(numbers, x)


def _positive(sizes: Tensor) -> Tensor:
    with ranks.raised_on_all(ranks.current(), "metric"):
        wrong = (~(sizes.isfinite() & (sizes > 0.0))).nonzero().flatten().tolist()
        if wrong:
            raise ValueError(
                f"metric must have finite sizes > 0, got {float(sizes[wrong[0]])} for variable {wrong[0]}"
                f" ({len(wrong)} are wrong); give the typical size of each variable"
            )
    return sizes


def _check_small(dimension: int) -> None:
    spread = ranks.current()
    if dimension > DENSE_MOST or (spread is not None and spread.dimension is not None):
        raise ValueError(
            f"metric must be sizes or an optimizer for more than {DENSE_MOST} variables or for sharded ones, got a "
            f"matrix or maps of {dimension}; give the typical size of each variable"
        )


def _of_inverse_hessian(inverse: Tensor, x: Tensor) -> Map:
    _check_small(inverse.shape[0])
    inverse = inverse.double().cpu()
    if not bool(inverse.isfinite().all()):
        raise ValueError("metric must be finite, got an inverse Hessian with NaN or infinite entries")
    off = float((inverse - inverse.T).abs().max())
    if off > 1e-6 * float(inverse.abs().max()):
        raise ValueError(
            f"metric must be symmetric, got an inverse Hessian that differs from its transpose by {off:.2g}"
        )
    values, axes = torch.linalg.eigh((inverse + inverse.T) / 2.0)
    lowest, largest = float(values[0]), float(values[-1])
    if not largest > 0.0 or lowest < -ROUNDED * largest:
        raise ValueError(
            f"metric must be positive definite, got an inverse Hessian with an eigenvalue of {lowest:.3g}; add a "
            "multiple of the identity, or leave metric out"
        )
    return dense(axes, values.clamp(min=ROUNDED * largest).sqrt(), x)


def _of_two_maps(metric: TwoMaps, x: Tensor) -> Map:
    """S = UΣUᵀ of the matrix UΣVᵀ that `apply` is: with the same SSᵀ."""
    _check_small(x.numel())
    unit = torch.eye(x.numel(), dtype=x.dtype, device=x.device)
    forth, back = (torch.stack([_answered(f, row) for row in unit]).double() for f in (metric.apply, metric.transpose))
    off, size = float((forth - back.T).abs().max()), float(forth.abs().max())
    if not off <= 1e-3 * size:
        raise ValueError(f"metric.transpose must be the transpose of metric.apply, got maps that differ by {off:.2g}")
    axes, sizes, _ = torch.linalg.svd(forth.T.cpu())
    if not float(sizes[-1]) > torch.finfo(x.dtype).eps * float(sizes[0]):
        raise ValueError(
            f"metric.apply must be invertible, got singular values from {float(sizes[-1]):.2g} to {float(sizes[0]):.2g}"
        )
    return dense(axes, sizes, x)


def _answered(apply: Callable[[Tensor], Tensor], row: Tensor) -> Tensor:
    answer = torch.as_tensor(apply(row)).detach().to(row)
    if answer.shape != row.shape or not bool(answer.isfinite().all()):
        raise ValueError(f"metric's maps must give finite vectors of shape {tuple(row.shape)}, got {answer}")
    return answer


def _sizes_of(optimizer: torch.optim.Optimizer, objective: Objective, x: Tensor) -> Tensor:
    """1/(√v̂ + 0.03·√mean(v̂)) of the optimizer's second moments, in the order of the objective's parameters."""
    flat = as_objective(objective).parameters
    if not isinstance(flat, FlatParameters):
        raise TypeError(
            f"metric may be an optimizer for an objective over a model's parameters, got {type(optimizer).__name__} "
            f"with a {as_objective(objective).name}; give the typical size of each variable"
        )
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    sizes = torch.empty_like(x)
    moments = False
    with ranks.raised_on_all(ranks.current(), "metric"):
        for (_, out), name, parameter in zip(flat.pieces(sizes), flat.names, flat.tensors, strict=True):
            if id(parameter) not in groups:
                raise ValueError(
                    f"metric must be the optimizer of the objective's parameters, got one without {name!r}; pass the "
                    "one that trains it"
                )
            moment = second_moment(optimizer.state.get(parameter, {}), groups[id(parameter)])
            moments |= moment is not None
            out.copy_(torch.zeros_like(out) if moment is None else ranks.local(moment))
        if not moments:
            raise ValueError(
                f"metric must be an optimizer with second moments (Adam, AdamW, RMSprop, Adagrad) that has taken a "
                f"step, got {type(optimizer).__name__} without any; train first, or leave metric out"
            )
        if not bool((sizes.isfinite() & (sizes >= 0.0)).all()):
            raise ValueError(
                "metric must have finite second moments, got an optimizer with NaN, infinite or negative ones"
            )
    root = sizes.sqrt_()
    mean = vectors.norm(root) / math.sqrt(vectors.dimension(root))
    return root.add_(FLOOR * mean).reciprocal_() if mean > 0.0 else torch.ones_like(root)


def has_moments(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer has second moments, of any of its parameters."""
    return any(
        second_moment(optimizer.state[p], group) is not None
        for group in optimizer.param_groups
        for p in group["params"]
        if p in optimizer.state
    )


def second_moment(state: dict[str, Any], group: dict[str, Any]) -> Tensor | None:
    """v̂ of one parameter from its optimizer's state: the mean of squared gradients; None if there is none.

    Adam and AdamW have exp_avg_sq, RMSprop square_avg, both decaying from zero, which is corrected; Adagrad has a sum.
    """
    step, moment = float(state.get("step", 0.0)), None
    if step <= 0.0:
        return None
    if "exp_avg_sq" in state:
        moment = state["exp_avg_sq"] / (1.0 - float(group["betas"][1]) ** step)
    elif "square_avg" in state and "alpha" in group:
        moment = state["square_avg"] / (1.0 - float(group["alpha"]) ** step)
    elif "sum" in state:
        moment = state["sum"] / step
    return moment
