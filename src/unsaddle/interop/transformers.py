"""Hugging Face's Trainer: pass a Neon with an objective as its optimizer, and `NeonCallback` to see its verdicts.

    objective = unsaddle.ModelObjective(model, lambda model, batch: model(**batch).loss, loader)
    optimizer = unsaddle.Neon(torch.optim.AdamW(model.parameters(), lr=1e-3), objective)
    Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None), callbacks=[NeonCallback()])

The Trainer steps without a closure, so Neon draws its batches from the objective. Verdicts are in the optimizer's
`events`, in the trainer's log history, and printed with its next log.

`CurvatureCallback` watches λ_max beside the limit of the optimizer's step, with any optimizer:

    Trainer(model, arguments, train_dataset=data, callbacks=[CurvatureCallback(objective)])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from unsaddle.interop.unwrap import neon_in
from unsaddle.objective import Objective
from unsaddle.torch_optim import CurvatureMonitor


class NeonCallback(TrainerCallback):  # type: ignore[misc]
    """Shows the verdicts of the trainer's Neon in its logs."""

    def __init__(self) -> None:
        self._logged = 0
        self._untold: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        neon = neon_in(kwargs.get("optimizer"))
        if neon is None:
            got = type(kwargs.get("optimizer")).__name__
            advice = "pass optimizers=(unsaddle.Neon(..., objective), None) to the Trainer"
            raise ValueError(f"NeonCallback needs a Neon as the trainer's optimizer, got {got}; {advice}")
        if neon.objective is None:
            advice = "write unsaddle.Neon(optimizer, unsaddle.ModelObjective(model, loss, data))"
            raise ValueError(
                f"the Trainer steps without a closure, so that Neon needs an objective, got none; {advice}"
            )
        self._logged = len(neon.events)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        neon = neon_in(kwargs.get("optimizer"))
        events = [] if neon is None else neon.events
        for event in events[self._logged :]:
            self._untold = {"neon/verdict": str(event)} | event.scalars()
            state.log_history.append({"step": state.global_step, "neon/verdict": event.verdict} | event.scalars())
        self._logged = len(events)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs = kwargs.get("logs")
        if logs is not None:  # Printers come after this callback, and print what is in here.
            logs.update(self._untold)
            self._untold = {}


class CurvatureCallback(TrainerCallback):  # type: ignore[misc]
    """Makes a `CurvatureMonitor` of the trainer's optimizer, and shows its rows in the trainer's logs.

    Args:
        objective: the trained model, its loss and its data, as ModelObjective(model, loss, data).
        settings: of `CurvatureMonitor`, such as `max_overhead` and `every`.

    Attributes:
        monitor: once training has begun.
    """

    def __init__(self, objective: Objective, **settings: Any) -> None:
        self.monitor: CurvatureMonitor | None = None
        self._objective, self._settings, self._logged = objective, settings, 0
        self._untold: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.monitor = CurvatureMonitor(kwargs.get("optimizer"), self._objective, **self._settings)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.monitor is not None
        for row in self.monitor.rows_since(self._logged):
            self._logged += 1
            self._untold = row.scalars() | ({"curvature/warning": row.warning} if row.warning else {})
            state.log_history.append({"step": state.global_step} | self._untold)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs = kwargs.get("logs")
        if logs is not None:  # Printers come after this callback, and print what is in here.
            logs.update(self._untold)
            self._untold = {}

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.monitor is not None
        self.monitor.close()
