"""The evidence on a candidate, and the verdicts that follow from it as fields of an `Event`."""

from __future__ import annotations

from typing import Any, NamedTuple

from unsaddle.told import measured
from unsaddle.torch_optim import policy
from unsaddle.torch_optim.state import State

Fields = dict[str, Any]
"""Fields of an `Event` by name."""


def of_step(length: float, change: float, error: float) -> Fields:
    """A step that was tried, and the mean change of the loss with its error."""
    return {"decrease": -change, "decrease_error": error, "length": abs(length)}


def of_the_negative(fields: Fields) -> Fields:
    """The same where the base maximizes: the sentence says that the signs are those of the negative of the loss."""
    return fields | {"sentence": f"{fields['sentence']} With maximize=True, all numbers are those of -loss."}


class Evidence(NamedTuple):
    """The curvature measured along a candidate's direction."""

    curvature: float
    error: float
    on: str
    """The samples it was measured on, as " on 4 fresh batches"; empty for all samples."""

    @classmethod
    def of(cls, state: State) -> Evidence:
        """From the curvatures of batches. If the loss was the same on all, nothing shows that they were fresh."""
        seen, n = policy.collected(state), len(state.curvatures)
        losses = [float(loss) for loss in state.losses[-n:]]
        repeated = len(losses) > 1 and len(set(losses)) == 1
        return cls(
            seen.mean,
            policy.one_sided(state, seen),
            f" on {n} batches with the same loss" if repeated else f" on {n} fresh batches",
        )

    def __str__(self) -> str:
        return f"Curvature {measured(self.curvature, self.error)}{self.on}"

    def noise(self, found: float, of: str) -> Fields:
        """Negative curvature only on the batch or sample it was found on."""
        own = f"Curvature {found:.3g} on the {of} it was found on, {measured(self.curvature, self.error)}{self.on}"
        return {"verdict": "batch only", "sentence": f"{own}: noise of one {of}, the normal answer in mid-training."}

    def not_left(self) -> Fields:
        """A saddle, with escapes switched off."""
        return {"verdict": "saddle", "sentence": f"{self}. Not left, since escape=False."}

    def no_step(self) -> Fields:
        """A step of length 0 was the best."""
        return {"verdict": "trial failed", "sentence": f"{self}, but no step along the direction lowers the loss."}

    def tried(self, length: float, change: float, error: float, on: str = "", *, taken: bool) -> Fields:
        """A step was tried on fresh samples, and taken if the loss fell."""
        step = f"a step of length {abs(length):.3g} changes the loss by {measured(change, error)}{on}"
        sentence = f"{self}; {step}. Taken." if taken else f"{self}, but {step}. Not taken."
        verdict = {"verdict": "saddle" if taken else "trial failed", "sentence": sentence, "escaped": taken}
        return of_step(length, change, error) | verdict
