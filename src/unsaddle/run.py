"""One run of any method: its budget, its trace, its callback and its ending.

A method draws samples from `run.objective`, which counts them, and reports with `moved`, `checked`, `extracted` and
`escaped`. A run ends by `RunEnded` or by Ctrl-C. `run.finish` then makes a `Solution`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unsaddle.cost import Cost, Ledger
from unsaddle.objective import Forwarding, Objective, SampledFunction
from unsaddle.run_plots import plot_run
from unsaddle.told import as_html, as_text, counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_EVERY = 50
"""A method with cheap steps records an event after this many."""


class Ending(Enum):
    """How a run ended. The value is a sentence."""

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
    """An event of a run, with the cost so far."""

    kind: str
    """"check", "extraction", "escape" or "epoch"."""
    samples: int
    """Component gradients (IFO calls) so far."""
    hessian_samples: int
    """Hessian products of components (ISO calls) so far."""
    value_samples: int
    seconds: float
    """Since the run began."""
    value: float = math.nan
    """F_S, if the event measured it."""
    gradient_norm: float = math.nan
    curvature: float = math.nan
    note: str = ""
    """For example a status, a sign or a length."""


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
    """F_S(x) on the last samples there. F(x) if they were everything."""
    status: Ending
    gradient_norm: float
    """‖∇F(x)‖ as the last check measured it."""
    gradient_error: float
    """Standard error of the gradient from sampling. 0 if the check saw everything."""
    curvature: float
    """The lowest curvature seen at x. nan if none was sought."""
    curvature_error: float
    """At confidence 1 − δ, sampling hides no curvature lower than `curvature` by more than this. 0 on everything."""
    eps: float
    """The gradient norm asked for. nan if it follows L1 and the run ended before L1 was measured."""
    gamma: float
    """The curvature asked for is −γ or above. nan if curvature was never sought."""
    method: str
    cost: Cost
    escapes: int
    trace: Trace = field(repr=False)

    @property
    def success(self) -> bool:
        """Whether x is a second-order stationary point, at the confidence asked for."""
        return self.status is Ending.SECOND_ORDER_POINT

    def __str__(self) -> str:
        return as_text(*self._told())

    def __repr__(self) -> str:
        return f"<Solution {self.method} {self.status.name}: value {self.value:.6g}, {counted(self.escapes, 'escape')}>"

    def _repr_html_(self) -> str:
        """The same for notebooks, with the picture."""
        return as_html(*self._told(), self.plot() if find_spec("matplotlib") else None)

    def plot(self) -> Figure:
        """Draw F and its gradient's norm against component gradients, with the escapes. Needs matplotlib."""
        values = [(event.samples, event.value) for event in self.trace]
        norms = [(event.samples, event.gradient_norm) for event in self.trace]
        return plot_run(values, norms, [event.samples for event in self.trace.of("escape")], self.eps, self.method)

    def _told(self) -> tuple[str, list[tuple[str, str]]]:
        """One line, and the table below it."""
        c, (head, _, advice) = self.cost, self.status.value.partition(": ")
        sought = (
            "not looked for" if math.isnan(self.gamma) else f"{self.curvature:.3g} (sought: below {-self.gamma:.3g})"
        )
        error = f" ± {self.gradient_error:.1g}" if self.gradient_error > 0.0 else ""
        work = [counted(c.samples, "component gradient"), counted(c.value_samples, "value")]
        work += [counted(c.hessian_samples, "Hessian product")] if c.hessian_samples else []
        rows = [("meaning", f"{advice}.")] if advice else []
        rows += [
            ("value", f"{self.value:.6g}"),
            ("gradient", f"{self.gradient_norm:.3g}{error} (eps {self.eps:.3g})"),
            ("curvature", sought),
            ("escapes", f"{self.escapes}"),
            ("method", self.method),
            ("cost", ", ".join(work)),
        ]
        return f"{head[0].upper()}{head[1:]}.", rows


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a callback receives."""

    x: Tensor = field(repr=False)
    """The point of the run. Do not change or keep it."""
    event: TraceEvent
    escapes: int
    cost: Cost


Callback = Callable[[Snapshot], Any]
"""Called at every event. A true answer stops the run."""


class RunEnded(Exception):  # noqa: N818  (an outcome, not an error)
    """Raised to end a run, from anywhere inside it."""

    def __init__(self, status: Ending) -> None:
        super().__init__(status.value)
        self.status = status


class Budget(Ledger):
    """A ledger with a limit on component gradients, values and Hessian products together. Spending it ends the run."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: float = math.inf) -> None:
        super().__init__()
        self.limit = self.left = limit

    def add_gradient(self, size: int) -> None:
        self.gradients += 1  # Without super() for speed: this runs once a sample.
        self.samples += size
        self._spend(size)

    def add_values(self, size: int, count: int = 1) -> None:
        super().add_values(size, count)
        self._spend(count * size)

    def add_hessian_product(self, size: int) -> None:
        super().add_hessian_product(size)
        self._spend(size)

    def _spend(self, size: int) -> None:
        self.left -= size
        if self.left <= 0:
            raise RunEnded(Ending.BUDGET_SPENT)


class CountedObjective(Forwarding):
    """An objective that counts all its samples in one ledger.

    A sample beyond the rest of the budget is not drawn but ends the run: theory may ask for 1e17 samples.
    """

    def __init__(self, objective: Objective, ledger: Budget) -> None:
        super().__init__(objective)
        self._ledger = ledger

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> SampledFunction:
        """A sample of the objective, counted in the ledger of the run. A `ledger` argument is ignored."""
        if size is not None and size > self._ledger.left:
            raise RunEnded(Ending.BUDGET_SPENT)
        return super().sample(size, generator, **(how | {"ledger": self._ledger}))


class Run:
    """The state that every method shares: its point, its cost, its events."""

    status: Ending
    """How the run ended. Not set before."""

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
        self.method, self.eps, self.gamma = method, eps, math.nan
        self.smoothness: float | None = None
        """L1 where the method began, if it measured it."""
        self.x = x0.clone()
        self.value = self.gradient_norm = self.curvature = math.nan
        self.gradient_error = self.curvature_error = 0.0
        self.escapes = 0
        self._callback = callback
        self._events: list[TraceEvent] = []
        self._begun = time.perf_counter()
        # The last and the lowest point checked, each with its value, its gradient norm and the error of that.
        self._last: tuple[Tensor, float, float, float] | None = None
        self._best: tuple[Tensor, float, float, float] | None = None

    @property
    def num_samples(self) -> int | None:
        return self.objective.num_samples

    def moved(self, x: Tensor, value: float = math.nan) -> None:
        """The run has moved to x, where at most the value is known."""
        if x is not self.x:
            self.curvature, self.curvature_error = math.nan, 0.0
            self.gradient_norm, self.gradient_error = math.nan, 0.0
        self.x, self.value = x, value

    def checked(self, x: Tensor, *, value: float, gradient_norm: float, gradient_error: float, note: str = "") -> None:
        """The gradient at x was measured on fresh samples."""
        self.moved(x, value)
        self.gradient_norm, self.gradient_error = gradient_norm, gradient_error
        if math.isfinite(value):
            self._last = (x, value, gradient_norm, gradient_error)
            if self._best is None or value < self._best[1]:
                self._best = self._last
        self.record("check", value=value, gradient_norm=gradient_norm, note=note)

    def extracted(self, *, curvature: float, error: float = 0.0, gamma: float | None = None, note: str = "") -> None:
        """Negative curvature was sought at x: the lowest seen, and how far below it sampling may hide another."""
        self.gamma = self.gamma if gamma is None else gamma
        self.curvature, self.curvature_error = curvature, error
        self.record("extraction", value=self.value, gradient_norm=self.gradient_norm, curvature=curvature, note=note)

    def escaped(self, x: Tensor, *, value: float = math.nan, curvature: float = math.nan, note: str = "") -> None:
        """The run has left a saddle for x."""
        self.escapes += 1
        self.moved(x, value)
        self.record("escape", value=value, curvature=curvature, note=note)

    def record(self, kind: str, **seen: Any) -> None:
        """Adds an event to the trace and calls the callback."""
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
        """Runs the body of a method to its end, and sets `status`.

        A run that ends at a point without a known value goes back to the last checked point. An interrupted run goes
        back to the best one.
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

    def _back_to(self, checked: tuple[Tensor, float, float, float] | None) -> None:
        if checked is not None:
            self.moved(*checked[:2])
            self.gradient_norm, self.gradient_error = checked[2:]

    def finish(self) -> Solution:
        """The solution of a run that has ended."""
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
