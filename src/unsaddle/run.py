"""One run of a method, whichever it is: its budget, its trace, its callback, and how it ends.

Methods own their updates. Counting, stopping and telling are written here once: a method draws from `run.objective`,
whose every evaluation is counted, and says what it did with `moved`, `checked`, `extracted` and `escaped`. A run ends
by an exception of this file or by Ctrl-C, and `run.finish` makes a `Solution` of either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unsaddle.cost import Cost, Ledger
from unsaddle.objective import Forwarding, Objective, SampledFunction

REPORT_EVERY = 50
"""Steps between two events of a method whose steps are cheap."""


class Ending(Enum):
    """How a run ended; the value is a sentence."""

    SECOND_ORDER_POINT = "the gradient is small and nothing below -gamma was found: a second-order stationary point"
    FIRST_ORDER_POINT = "the gradient is small; curvature was not looked at: use a neon- method to have it looked at"
    CURVATURE_UNDECIDED = "the gradient is small, but the curvature could not be decided: see the last extraction"
    OUTPUT = "the method took all its steps and returned its output; nothing about it was checked: ask is_minimum"
    BUDGET_SPENT = "max_samples was spent before a second-order stationary point was reached: raise it, eps or gamma"
    INTERRUPTED = "interrupted: the best point so far is returned"
    STOPPED = "the callback stopped the run"
    STALLED = "the value falls no more, up to rounding, but the gradient is above eps: raise eps, or use float64"
    DIVERGED = "values stopped being finite: lower step_size, or there is no minimum; the last finite point is kept"
    NOT_FINITE = "the value or the gradient at x0 is not finite: start elsewhere"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class TraceEvent:
    """Something that happened on the way, with what had been spent by then."""

    kind: str
    """"check", "extraction", "escape" or "epoch"."""
    samples: int
    """IFO calls so far."""
    hessian_samples: int
    """ISO calls so far."""
    value_samples: int
    seconds: float
    """Since the run began."""
    value: float = math.nan
    """F_S, where the event saw it."""
    gradient_norm: float = math.nan
    curvature: float = math.nan
    note: str = ""
    """A status, a sign, a length: what the other fields do not say."""


class Trace(tuple[TraceEvent, ...]):
    """Every event of a run, in order."""

    __slots__ = ()

    def rows(self) -> list[dict[str, Any]]:
        """The events as dictionaries of plain values, for a table or a file."""
        return [asdict(event) for event in self]

    def of(self, kind: str) -> Trace:
        """The events of one kind."""
        return Trace(event for event in self if event.kind == kind)


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The answer of `minimize`."""

    x: Tensor = field(repr=False)
    value: float
    """F_S(x) on the last samples that were seen there; F(x) where those were everything."""
    status: Ending
    gradient_norm: float
    """‖∇F(x)‖ as the last check saw it."""
    gradient_error: float
    """Its standard error from sampling; 0 where the check saw everything."""
    curvature: float
    """The lowest curvature seen at x; nan where none was looked at."""
    curvature_error: float
    """How far sampling may hide a lower one, at confidence 1 − δ; 0 where everything was seen."""
    eps: float
    """What the gradient was asked to be; nan where it was to follow L1 and the run ended before that was measured."""
    gamma: float
    """nan where curvature was never looked at."""
    method: str
    cost: Cost
    escapes: int
    trace: Trace = field(repr=False)

    @property
    def success(self) -> bool:
        """Whether x was found to be a second-order stationary point, at the confidence asked for."""
        return self.status is Ending.SECOND_ORDER_POINT

    def __str__(self) -> str:
        c = self.cost
        return (
            f"{self.method}: {self.status}. Value {self.value:.6g}, gradient norm {self.gradient_norm:.3g} "
            f"± {self.gradient_error:.1g} (eps {self.eps:.3g}), lowest curvature seen {self.curvature:.3g} (gamma "
            f"{self.gamma:.3g}). {self.escapes} escapes; {c.samples} component gradients, {c.value_samples} values, "
            f"{c.hessian_samples} Hessian products."
        )


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a callback is shown."""

    x: Tensor = field(repr=False)
    """The point the run is at; not to be changed or kept."""
    event: TraceEvent
    escapes: int
    cost: Cost


Callback = Callable[[Snapshot], Any]
"""Called at every event; a true answer stops the run."""


class RunEnded(Exception):  # noqa: N818  (an outcome, not an error)
    """Ends a run from wherever it is."""

    def __init__(self, status: Ending) -> None:
        super().__init__(status.value)
        self.status = status


class Budget(Ledger):
    """A ledger that ends the run with the call that spends the last of it."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: float = math.inf) -> None:
        super().__init__()
        self.limit = self.left = limit

    def add_gradient(self, size: int) -> None:
        self.gradients += 1  # Not by way of super(), as this happens once a sample.
        self.samples += size
        self._spend(size)

    def add_values(self, size: int, count: int = 1) -> None:
        super().add_values(size, count)
        self._spend(count * size)

    def add_hessian_product(self, size: int) -> None:
        super().add_hessian_product(size)
        self._spend(size)

    def _spend(self, size: int) -> None:
        """Component gradients, values and Hessian products together."""
        self.left -= size
        if self.left <= 0:
            raise RunEnded(Ending.BUDGET_SPENT)


class CountedObjective(Forwarding):
    """An objective whose samples are counted in one ledger, whoever draws them.

    Samples that what is left cannot pay for are not drawn: theory asks for 1e17 of them as if that were nothing.
    """

    def __init__(self, objective: Objective, ledger: Budget) -> None:
        super().__init__(objective)
        self._ledger = ledger

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        """As the objective draws it; a `ledger` is not heeded."""
        if size is not None and size > self._ledger.left:
            raise RunEnded(Ending.BUDGET_SPENT)
        return super().sample(size, generator, **(how | {"ledger": self._ledger}))


class _Checked(NamedTuple):
    """A point with what a check saw there."""

    x: Tensor
    value: float
    gradient_norm: float
    gradient_error: float


class Run:
    """The state that every method shares: where it is, what it spent, what happened."""

    def __init__(
        self,
        objective: Objective,
        x0: Tensor,
        *,
        method: str,
        eps: float,
        max_samples: int | None = None,
        seed: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.ledger = Budget(math.inf if max_samples is None else max_samples)
        self.objective = CountedObjective(objective, self.ledger)
        self.generator = torch.Generator().manual_seed(seed)
        self.method, self.eps = method, eps
        self.gamma = math.nan
        self.smoothness: float | None = None
        """L1 where a method began, if it has measured it."""
        self.x = x0.clone()
        self.value = self.gradient_norm = self.curvature = math.nan
        self.gradient_error = self.curvature_error = 0.0
        self.escapes = 0
        self._callback = callback
        self._events: list[TraceEvent] = []
        self._begun = time.perf_counter()
        self._last: _Checked | None = None
        self._best: _Checked | None = None

    @property
    def num_samples(self) -> int | None:
        return self.objective.num_samples

    def moved(self, x: Tensor, value: float = math.nan) -> None:
        """The run is at x now, of which nothing is known yet but perhaps the value."""
        if x is not self.x:
            self.curvature, self.curvature_error = math.nan, 0.0
            self.gradient_norm, self.gradient_error = math.nan, 0.0
        self.x, self.value = x, value

    def checked(self, x: Tensor, *, value: float, gradient_norm: float, gradient_error: float, note: str = "") -> None:
        """The gradient at x was seen on fresh samples."""
        self.moved(x, value)
        self.gradient_norm, self.gradient_error = gradient_norm, gradient_error
        if math.isfinite(value):
            self._last = _Checked(x, value, gradient_norm, gradient_error)
            if self._best is None or value < self._best.value:
                self._best = self._last
        self.record("check", value=value, gradient_norm=gradient_norm, note=note)

    def extracted(self, *, curvature: float, error: float = 0.0, gamma: float | None = None, note: str = "") -> None:
        """Negative curvature was looked for at x: the lowest seen, and how far sampling may hide a lower one."""
        self.gamma = self.gamma if gamma is None else gamma
        self.curvature, self.curvature_error = curvature, error
        self.record("extraction", value=self.value, gradient_norm=self.gradient_norm, curvature=curvature, note=note)

    def escaped(self, x: Tensor, *, value: float = math.nan, curvature: float = math.nan, note: str = "") -> None:
        """The run has left a saddle for x, where the callback sees it."""
        self.escapes += 1
        self.moved(x, value)
        self.record("escape", value=value, curvature=curvature, note=note)

    def record(self, kind: str, **seen: Any) -> None:
        """Write an event down and show it to the callback."""
        event = TraceEvent(
            kind=kind,
            samples=self.ledger.samples,
            hessian_samples=self.ledger.hessian_samples,
            value_samples=self.ledger.value_samples,
            seconds=time.perf_counter() - self._begun,
            **seen,
        )
        self._events.append(event)
        if self._callback is not None and self._callback(
            Snapshot(x=self.x, event=event, escapes=self.escapes, cost=self.ledger.cost)
        ):
            raise RunEnded(Ending.STOPPED)

    @contextmanager
    def until_ended(self) -> Iterator[None]:
        """The body of a method: however it is ended, `self.status` says how.

        A run that ends at a point of which nothing is known goes back to the last that was checked; an interrupted one
        to the best.
        """
        try:
            yield
        except RunEnded as ended:
            self.status = ended.status
            if math.isnan(self.value):
                self._back_to(self._last)
        except KeyboardInterrupt:
            self.status = Ending.INTERRUPTED
            self._back_to(self._best)

    def _back_to(self, checked: _Checked | None) -> None:
        if checked is not None:
            self.moved(checked.x, checked.value)
            self.gradient_norm, self.gradient_error = checked.gradient_norm, checked.gradient_error

    status: Ending

    def finish(self) -> Solution:
        """The solution, once `status` is set."""
        return Solution(
            x=self.x.clone(),
            value=self.value,
            status=self.status,
            gradient_norm=self.gradient_norm,
            gradient_error=self.gradient_error,
            curvature=self.curvature,
            curvature_error=self.curvature_error,
            eps=self.eps,
            gamma=self.gamma,
            method=self.method,
            cost=self.ledger.cost,
            escapes=self.escapes,
            trace=Trace(self._events),
        )
