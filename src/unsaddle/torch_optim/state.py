"""What `Neon` remembers between steps and a checkpoint has to hold."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor

EXPECTED = "Neon's entry of a state_dict must be what state_dict() made"
AFRESH = "delete its entry 'neon' to start afresh"

PHASES = IDLE, COLLECT, TRIAL = "idle", "collect", "trial"


@dataclass(kw_only=True)
class State:
    """Everything that `Neon` remembers and a checkpoint has to hold: numbers, strings and one vector."""

    phase: str = IDLE
    steps: int = 0
    trained: int = 0
    """Gradients spent on training."""
    spent: int = 0
    """Gradients spent on probing."""
    probes: int = 0
    """Extractions begun. Each has another seed."""
    credit_since: int = 0
    """What was spent when the next probe was put on credit; −1 if it is not."""
    wait: int = 0
    """Steps to wait after the last verdict."""
    since: int = 0
    """The step of the last verdict."""
    losses: list[float | Tensor] = field(default_factory=list)
    """The window. Tensors stay tensors until the plateau test, since reading one waits for the device."""
    values: list[float] = field(default_factory=list)
    """The loss of one sample of the objective, at the end of each of the last two windows; without a closure."""
    direction: Tensor | None = None
    """The candidate: a unit vector over all parameters that require gradients."""
    radius: float = math.nan
    """Probe radius of the candidate."""
    gamma: float = math.nan
    """γ of the extraction that found the candidate."""
    found: float = math.nan
    """Curvature of the candidate on the batch it was found on."""
    smoothness: float = 0.0
    """L1: the largest curvature seen by the extraction, or ‖h‖ by the batches after it."""
    curvatures: list[float] = field(default_factory=list)
    """Curvature on each fresh batch, along the direction as it was then."""
    told: bool = False
    """Whether the end of the burst was reported."""
    length: float = math.nan
    """Length of the step on trial."""
    changes: list[float] = field(default_factory=list)
    """Change of the loss by the step, on each fresh batch."""
    opposite: list[float] = field(default_factory=list)
    """Change of the loss by the opposite step, on each fresh batch."""
    gradients: int = 0
    """Gradients spent on the current probe."""
    events: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """A copy for a checkpoint, with losses as plain numbers."""
        copied = {f.name: _copy(getattr(self, f.name)) for f in fields(self)}
        return copied | {"losses": [float(loss) for loss in self.losses]}

    def to_text(self) -> str:
        """Everything but the direction, as JSON."""
        return json.dumps({name: value for name, value in self.to_dict().items() if name != "direction"})

    @classmethod
    def from_text(cls, text: str, direction: Tensor | None = None) -> State:
        """What `to_text` wrote, with a direction. Without one, there is no candidate."""
        try:
            numbers = json.loads(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{EXPECTED}, got {text!r:.100}; {AFRESH}") from error
        if direction is None:
            numbers |= {"phase": IDLE, "gradients": 0}
        return cls.from_dict(numbers | {"direction": direction})

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> State:
        if not isinstance(saved, dict):
            raise TypeError(f"{EXPECTED}, got {type(saved).__name__}; {AFRESH}")
        if unknown := set(saved) - {f.name for f in fields(cls)}:
            raise ValueError(
                f"the checkpoint's state of Neon has {', '.join(sorted(unknown))}, which this version does not know; "
                f"load it with the version that wrote it, or {AFRESH}"
            )
        for name, value in saved.items():
            if not _fits(value, getattr(cls(), name), dict if name == "events" else (int, float)):
                raise ValueError(f"{EXPECTED}, got {name}={value!r}; {AFRESH}")
        state = cls(**{name: _copy(value) for name, value in saved.items()})
        if state.phase not in PHASES:
            raise ValueError(f"{EXPECTED}, got phase={state.phase!r}; {AFRESH}")
        return state

    def check_direction(self, dimension: int) -> None:
        """Raises a ValueError unless the candidate has as many components as there are parameters."""
        held = None if self.direction is None else self.direction.numel()
        if held not in (None, dimension) or (held is None and self.phase != IDLE):
            raise ValueError(
                f"{EXPECTED}, got a direction of {held} components for {dimension} parameters in phase {self.phase!r}; "
                f"{AFRESH}"
            )


def _fits(value: Any, default: Any, element: Any) -> bool:
    """Whether a value has the type of a field with this default, a list also by its elements. None is of a tensor."""
    if default is None:
        return value is None or isinstance(value, Tensor)
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(item, element) for item in value)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list):
        return [dict(item) if isinstance(item, dict) else item for item in value]
    return value
