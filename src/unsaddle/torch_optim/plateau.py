"""The losses of the last steps, and what they tell: whether the loss has stopped falling, how fast it falls."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from torch import Tensor

from unsaddle import ranks
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.state import State

PLATEAU, STANDARD_ERRORS = 1e-3, 2.0
"""On a plateau the mean loss falls, between the halves of the window, by less than this share or standard errors."""


def record(state: State, rules: Rules, loss: Any, gradients: int) -> None:
    """Records a training step that returned `loss`."""
    state.steps += 1
    state.trained += gradients
    if loss is None:
        return
    if isinstance(loss, Tensor):
        loss = loss.detach().reshape(()).clone() if loss.numel() == 1 else math.nan  # The caller may reuse its memory.
    team = ranks.current()
    if team is not None:  # Each rank has the loss of its own batch, and all must decide alike.
        loss = team.mean(torch.as_tensor(loss, dtype=torch.float64 if isinstance(loss, float) else None))
    state.losses.append(loss)
    del state.losses[: -rules.window]


def record_value(state: State, value: float, cost: int) -> None:
    """Records the loss of the objective's sample at the end of a window, and what it cost."""
    state.values = [*state.values[-1:], value]
    state.spent += cost


def plateau(state: State, rules: Rules) -> bool:
    """Whether the loss has stopped falling over a full window. A loss that is not finite is no plateau."""
    if len(state.values) == 2 and not state.losses:
        then, now = state.values  # A whole window apart. The halves of one, below, are half a window apart.
        return math.isfinite(then + now) and then - now <= 2.0 * PLATEAU * abs(now)
    if len(state.losses) < rules.window:
        return False
    losses = [float(loss) for loss in state.losses]
    state.losses = [*losses]
    if not all(math.isfinite(loss) for loss in losses):
        return False
    half = rules.window // 2
    older, newer = losses[:half], losses[half:]
    fall = statistics.fmean(older) - statistics.fmean(newer)
    error = math.sqrt(statistics.variance(older) / len(older) + statistics.variance(newer) / len(newer))
    return fall <= max(STANDARD_ERRORS * error, PLATEAU * abs(statistics.fmean(losses)))


def speed(state: State, rules: Rules) -> float:
    """How much the loss falls in a training step, in the mean over the window; 0 if it does not fall."""
    if len(state.values) == 2 and not state.losses:
        return max(0.0, state.values[0] - state.values[1]) / rules.window
    half = len(state.losses) // 2
    if half == 0:
        return 0.0
    losses = [float(loss) for loss in state.losses]
    return max(0.0, statistics.fmean(losses[:half]) - statistics.fmean(losses[-half:])) / half


def quiet(state: State) -> bool:
    """Whether losses differ so little over the window that batches have no noise to speak of."""
    losses = [float(loss) for loss in state.losses]
    return len(losses) > 1 and statistics.stdev(losses) <= PLATEAU * abs(statistics.fmean(losses))
