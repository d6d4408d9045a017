"""Lightning: return a Neon from `configure_optimizers`, and add `NeonLogger` to the trainer's callbacks.

    def configure_optimizers(self):
        return unsaddle.Neon(torch.optim.AdamW(self.parameters(), lr=1e-3))

    Trainer(callbacks=[NeonLogger()])

Lightning passes a closure to its optimizers, so Neon probes by itself. Checkpoints hold its state. If the trainer clips
gradients, it does so inside that closure, and the curvature that Neon measures is off by the same factor.
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.utilities import rank_zero_info

from unsaddle.interop.unwrap import neon_in


class NeonLogger(Callback):  # type: ignore[misc]
    """Sends the numbers of every verdict to the trainer's loggers, and its sentence to Lightning's own log."""

    def __init__(self) -> None:
        self._logged: dict[int, int] = {}

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        for i, optimizer in enumerate(trainer.optimizers):
            neon = neon_in(optimizer)
            events = [] if neon is None else neon.events
            for event in events[self._logged.get(i, 0) :]:
                rank_zero_info(f"Neon, {event}")
                for logger in trainer.loggers:
                    logger.log_metrics(event.scalars(), step=trainer.global_step)
            self._logged[i] = len(events)
