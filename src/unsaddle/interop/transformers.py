"""Hugging Face's Trainer: pass a Neon as its optimizer, and `NeonCallback` with an objective to probe.

    optimizer = unsaddle.Neon(torch.optim.AdamW(model.parameters(), lr=1e-3))
    objective = unsaddle.ModelObjective(model, lambda model, batch: model(**batch).loss, loader)
    Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None),
            callbacks=[NeonCallback(objective, samples=64)])

The Trainer steps without a closure, so the callback probes between steps, when Neon's wait and budget allow it.
Verdicts are in the optimizer's `events` and in the trainer's log history.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from unsaddle.interop.unwrap import neon_in
from unsaddle.objective import Objective


class NeonCallback(TrainerCallback):  # type: ignore[misc]
    """Probes an objective over the trained model between steps, with `samples` samples (None: all of them)."""

    def __init__(self, objective: Objective, *, samples: int | None = None) -> None:
        self.objective, self.samples = objective, samples

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if neon_in(kwargs.get("optimizer")) is None:
            got, advice = (
                type(kwargs.get("optimizer")).__name__,
                "pass optimizers=(unsaddle.Neon(...), None) to the Trainer",
            )
            raise ValueError(f"NeonCallback needs a Neon as the trainer's optimizer, got {got}; {advice}")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        neon = neon_in(kwargs.get("optimizer"))
        if neon is not None and neon.due:
            event = neon.probe(self.objective, samples=self.samples)
            state.log_history.append({"step": state.global_step, "neon/verdict": event.verdict} | event.scalars())
