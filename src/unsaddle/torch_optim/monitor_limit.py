"""Up to which curvature an optimizer's step is stable, and of which Hessian that is.

On a quadratic, the step x ← x − ηS²∇F(x) diverges along an eigenvector of S∇²F(x)S whose eigenvalue is above a limit:

    SGD                     2/η                       S = 1
    heavy ball, β           2(1+β)/η
    Nesterov, β             2(1+β)/(η(1+2β))
    Adam, AdamW, β1         2(1+β1)/(η(1−β1))         S² = 1/(√v̂ + ε): 38/η for β1 = 0.9
    RMSprop, momentum β     2(1+β)/η                  S² = 1/(√v + ε)
    Adagrad                 2/η                       S² = 1/(√Σg² + ε)

Sources: Cohen et al. 2021 (gradient descent on neural networks typically occurs at the edge of stability), appendix B;
Cohen et al. 2022 (adaptive gradient methods at the edge of stability), section 2.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, Optimizer, RMSprop

from unsaddle import ranks
from unsaddle.objectives.model.parameters import FlatParameters

ADAM = (Adam, torch.optim.AdamW)
ADAPTIVE = (*ADAM, RMSprop, Adagrad)

ROUNDED = 100.0
"""√v̂ below so many roundings of the largest one is no gradient."""


class Limit(NamedTuple):
    """The largest stable curvature, and the learning rate that it is for."""

    curvature: float
    """nan for an optimizer that is none of the above."""
    learning_rate: float
    """η: the largest of all parameter groups."""


def limit(optimizer: Optimizer) -> Limit:
    """The largest stable curvature at the present learning rate.

    With several parameter groups, η is the largest learning rate, and the groups' own are part of S.

    >>> layer = torch.nn.Linear(1, 1)
    >>> limit(torch.optim.SGD(layer.parameters(), lr=0.1)).curvature
    20.0
    >>> round(limit(torch.optim.AdamW(layer.parameters(), lr=1e-3)).curvature)
    38000
    """
    rates = [_rate(optimizer, group) for group in optimizer.param_groups]
    largest = max(rates, default=0.0)
    if not largest > 0.0:
        return Limit(math.inf, largest)
    return Limit(min(_factor(optimizer, group) for group in optimizer.param_groups) / largest, largest)


def _factor(optimizer: Optimizer, group: dict[str, Any]) -> float:
    """The limit times η."""
    beta = float(group.get("momentum", 0.0) or 0.0)
    if isinstance(optimizer, SGD):
        if group["nesterov"]:
            return 2.0 * (1.0 + beta) / (1.0 + 2.0 * beta)
        return 2.0 * (1.0 + beta) / (1.0 - float(group["dampening"]) if beta else 1.0)
    if isinstance(optimizer, ADAM):
        first = float(group["betas"][0])
        return 2.0 * (1.0 + first) / (1.0 - first)
    if isinstance(optimizer, RMSprop):
        return 2.0 * (1.0 + beta)
    return 2.0 if isinstance(optimizer, Adagrad) else math.nan


def _rate(optimizer: Optimizer, group: dict[str, Any]) -> float:
    rate = float(group.get("lr", math.nan))
    if isinstance(optimizer, Adagrad) and group["lr_decay"]:
        steps = [float(optimizer.state[p]["step"]) for p in group["params"] if p in optimizer.state]
        rate /= 1.0 + max(0.0, max(steps, default=1.0) - 1.0) * float(group["lr_decay"])
    return rate


def adapts(optimizer: Optimizer) -> bool:
    """Whether S is not one: for an adaptive optimizer, or for groups with different learning rates."""
    rates = {_rate(optimizer, group) for group in optimizer.param_groups}
    return isinstance(optimizer, ADAPTIVE) or len(rates) > 1


def sizes(optimizer: Optimizer, flat: FlatParameters) -> Tensor | None:
    """S, on this rank, in the order of the flat parameters; None if it is one everywhere.

    Entries that have had no gradient do not move. They get the smallest size of all, so that S is invertible. Entries
    whose gradient is zero but for rounding, as of the biases of attention's keys, get no more than what `ROUNDED` says:
    √v̂ is rounding there, and 1/√v̂ would make rounding the highest curvature of all.
    """
    if not adapts(optimizer):
        return None
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    largest = limit(optimizer).learning_rate
    squares = torch.zeros(flat.dimension, dtype=flat.dtype, device=flat.device)
    for parameter, (_, out) in zip(flat.tensors, flat.pieces(squares), strict=True):
        group = groups.get(id(parameter))
        if group is None:
            continue
        root = _root(optimizer, group, optimizer.state.get(parameter, {}))
        share = _rate(optimizer, group) / largest if largest > 0.0 else 1.0
        if isinstance(optimizer, ADAPTIVE):
            if root is not None:
                own = ranks.local(root).to(out)
                out.copy_(torch.where(own > 0.0, share / (own + float(group["eps"])), 0.0))
        else:
            out.fill_(share)
    team = ranks.current()
    positive = squares[squares > 0.0]
    least = float(positive.min()) if positive.numel() else math.inf
    if team is not None:  # All ranks have to fill in the same.
        least = float(team.rows(torch.tensor([least], dtype=torch.float64)).min())
    if not math.isfinite(least):
        return None
    return squares.clamp_(min=least, max=least / (ROUNDED * torch.finfo(squares.dtype).eps)).sqrt_()


def _root(optimizer: Optimizer, group: dict[str, Any], state: dict[str, Any]) -> Tensor | None:
    """√v̂ of one parameter, as its step divides by; None before the first step."""
    if isinstance(optimizer, ADAM) and "exp_avg_sq" in state:
        moment: Tensor = state["max_exp_avg_sq"] if group.get("amsgrad") else state["exp_avg_sq"]
        correction: float = 1.0 - float(group["betas"][1]) ** float(state["step"])
        return (moment / correction).sqrt()
    if isinstance(optimizer, RMSprop) and "square_avg" in state:
        moment = state["square_avg"]
        if group["centered"]:
            moment = moment.addcmul(state["grad_avg"], state["grad_avg"], value=-1.0).clamp(min=0.0)
        return moment.sqrt()
    if isinstance(optimizer, Adagrad) and "sum" in state:
        total: Tensor = state["sum"]
        return total.sqrt()
    return None
