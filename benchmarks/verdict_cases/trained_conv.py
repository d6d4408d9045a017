"""Convolutional classifiers of scikit-learn's digits, in the middle of training or after it: max-pooling, ReLU, batch
norm. Kinks lie nearer to such points than the rounding of float32.

No Hessian tells the truth over so many kinks. It is told by steepest descent in float64, every step of which lowers F:
"not stationary" is right if that falls by half a per cent of F, and a minimum is false if it falls by twice that. A
saddle is right if F in float64 is lower at the verdict's point along its direction.
"""

from __future__ import annotations

import copy
import functools
import math
from itertools import product

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.verdict_cases.case import DTYPES, Case
from unsaddle import ModelObjective, Verdict
from unsaddle.objectives.model.parameters import FlatParameters

ROWS, DECAY, WIDTHS = 300, 1e-3, (8, 16)
KINDS = tuple(product((nn.ReLU, nn.GELU), (nn.MaxPool2d, nn.AvgPool2d), (True, False), (50, 200, 400), ("adam", "sgd")))
"""Activation, pooling, batch norm or none, steps of training, and by what."""

DESCENT, HALVINGS = 400, 20
"""Steps of the descent, at most, and how often one is halved until F is lower."""

FALLS = 0.005


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    decay = sum(p.square().sum() for p in model.parameters())
    return nn.functional.cross_entropy(model(batch[0]), batch[1]) + DECAY * decay


@functools.cache
def _trained(index: int) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A network in float32, and all its rows, which are one batch."""
    from sklearn.datasets import load_digits

    activation, pool, normalised, steps, how = KINDS[index % len(KINDS)]
    digits = load_digits()
    rows = (
        torch.tensor(digits.images[:ROWS], dtype=torch.float32).unsqueeze(1) / 16.0,
        torch.tensor(digits.target[:ROWS]),
    )
    layers, inside = list[nn.Module](), 1
    with torch.random.fork_rng():
        torch.manual_seed(index)
        for width in WIDTHS:
            norm = [nn.BatchNorm2d(width)] if normalised else []
            layers += [nn.Conv2d(inside, width, 3, padding=1), *norm, activation(), pool(2)]
            inside = width
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * inside, 10))
    optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if how == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        _loss(model, rows).backward()
        optimizer.step()
        schedule.step()
    return model, rows


def _objective(model: nn.Module, rows: tuple[Tensor, Tensor]) -> ModelObjective:
    return ModelObjective(model, _loss, TensorDataset(*rows), micro_batch=ROWS)


@functools.cache
def _fall(index: int) -> float:
    """How far steepest descent in float64 lowers F, as a share of F."""
    model, (images, labels) = _trained(index)
    objective = _objective(copy.deepcopy(model).double(), (images.double(), labels))
    f, x, length = objective.sample(), objective.point.clone(), 1e-3
    here = first = float(f.value(x))
    for _ in range(DESCENT):
        grad = f.grad(x).clone()
        way, length = grad / grad.norm(), 4.0 * length
        for _ in range(HALVINGS):
            value = float(f.value(x - length * way))
            if value < here:
                break
            length /= 2.0
        else:
            break
        x, here = x - length * way, value
        if first - here > 2.0 * FALLS * first:
            break
    return (first - here) / first


def trained_conv(index: int, precision: str) -> Case:
    """GELU or ReLU, maximum or mean pooling, with and without batch norm; 50 to 400 steps of Adam or SGD."""
    model, rows = _trained(index)
    flat = FlatParameters(model.parameters())
    x = flat.point().to(DTYPES[precision])
    own = copy.deepcopy(model).to(x.dtype)
    objective = _objective(own, (rows[0].to(x.dtype), rows[1]))

    def judge(verdict: Verdict) -> str:
        fall = _fall(index)
        if verdict.kind == "not stationary":
            return "right" if fall > FALLS else "false not stationary"
        if verdict.kind == "minimum":
            return "right" if fall <= 2.0 * FALLS else "false minimum"
        assert verdict.direction is not None
        exact = _objective(copy.deepcopy(model).double(), (rows[0].double(), rows[1]))
        f, at = exact.sample(), exact.point
        end = torch.add(at, verdict.direction.double(), alpha=verdict.length)
        return "right" if float(f.value(end)) < float(f.value(at)) else "false saddle"

    return Case(
        objective=objective,
        x=x,
        lowest=math.nan,
        largest=math.nan,
        curvature=lambda v: math.nan,
        reach=0.0,
        judge=judge,
        seed=index,
    )
