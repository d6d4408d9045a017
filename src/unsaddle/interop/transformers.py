"""Hugging Face's Trainer: pass a Neon with an objective as its optimizer, and `NeonCallback` to see its verdicts.

    objective = unsaddle.ModelObjective(model, lambda model, batch: model(**batch).loss, loader)
    optimizer = unsaddle.Neon(torch.optim.AdamW(model.parameters(), lr=1e-3), objective)
    Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None), callbacks=[NeonCallback()])

The Trainer steps without a closure, so Neon draws its batches from the objective. Verdicts are in the optimizer's
`events`, in the trainer's log history, and printed with its next log.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from unsaddle.interop.unwrap import neon_in


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
