"""Lightning: return a Neon from `configure_optimizers`, and add `NeonLogger` to the trainer's callbacks.

    def configure_optimizers(self):
        return unsaddle.Neon(torch.optim.AdamW(self.parameters(), lr=1e-3))

    Trainer(callbacks=[NeonLogger()])

Lightning passes a closure to its optimizers, so Neon probes by itself. Checkpoints hold its state. If the trainer clips
gradients, it does so inside that closure, and the curvature that Neon measures is off by the same factor.

`CurvatureLogger` watches λ_max beside the limit of the optimizer's step, with any optimizer:

    Trainer(callbacks=[CurvatureLogger()])
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities import rank_zero_info

from unsaddle.interop.unwrap import neon_in
from unsaddle.torch_optim import CurvatureMonitor


class NeonLogger(Callback):  # type: ignore[misc]
    """Sends the numbers of every verdict to the trainer's loggers, and its sentence to Lightning's own log.

    A CSVLogger gets the verdict itself, too, as a word.
    """

    def __init__(self) -> None:
        self._logged: dict[int, int] = {}

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        for i, optimizer in enumerate(trainer.optimizers):
            neon = neon_in(optimizer)
            events = [] if neon is None else neon.events
            for event in events[self._logged.get(i, 0) :]:
                rank_zero_info(f"Neon, {event}")
                for logger in trainer.loggers:
                    words = {"neon/verdict": event.verdict} if isinstance(logger, CSVLogger) else {}
                    logger.log_metrics(event.scalars() | words, step=trainer.global_step)
            self._logged[i] = len(events)


class CurvatureLogger(Callback):  # type: ignore[misc]
    """Makes a `CurvatureMonitor` of the trainer's optimizer, and sends its rows to the trainer's loggers.

    Args:
        settings: of `CurvatureMonitor`, such as `max_overhead` and `every`.

    Attributes:
        monitor: once training has begun. Checkpoints hold its state.
    """

    def __init__(self, **settings: Any) -> None:
        self.monitor: CurvatureMonitor | None = None
        self._settings, self._logged, self._loaded = settings, 0, dict[str, Any]()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.monitor = CurvatureMonitor(trainer, **self._settings)
        if self._loaded:
            self.monitor.load_state_dict(self._loaded)
        self._logged = len(self.monitor.rows)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any, **kwargs: Any) -> None:
        assert self.monitor is not None
        for row in self.monitor.rows_since(self._logged):
            self._logged += 1
            if row.warning:
                rank_zero_info(f"curvature, {row}")
            for logger in trainer.loggers:
                logger.log_metrics(row.scalars(), step=trainer.global_step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        assert self.monitor is not None
        self.monitor.close()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.monitor is None else self.monitor.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict
