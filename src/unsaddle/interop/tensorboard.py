"""Neon's verdicts and the monitor's rows as TensorBoard scalars, through a writer of the caller.

writer = torch.utils.tensorboard.SummaryWriter()
optimizer = unsaddle.Neon(base, callback=to_tensorboard(writer))
monitor = unsaddle.CurvatureMonitor(optimizer, callback=to_tensorboard(writer))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unsaddle.torch_optim import CurvatureRow, Event


def to_tensorboard(writer: Any) -> Callable[[Event | CurvatureRow], None]:
    """A callback for `Neon` and `CurvatureMonitor` that writes numbers as scalars, and sentences as text."""
    missing = [name for name in ("add_scalar", "add_text") if not callable(getattr(writer, name, None))]
    if missing:
        raise TypeError(f"writer must be like a SummaryWriter, got {type(writer).__name__} without {missing[0]}")

    def write(event: Event | CurvatureRow) -> None:
        for name, number in event.scalars().items():
            writer.add_scalar(name, number, event.step)
        if isinstance(event, Event):
            writer.add_text("neon/verdict", str(event), event.step)
        elif event.warning:
            writer.add_text("curvature/warning", str(event), event.step)

    return write
