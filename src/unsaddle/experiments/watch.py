"""One run of a method on a case, watched from outside: where it was after what it had spent, and when it arrived.

**Arrival.** A run has arrived at the first point at which it evaluated a gradient, of whatever batch, that has
‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ. That is judged with the exact gradient and curvature of the case, which are not
counted, and whose time is taken out of the run's; points are looked at each time the samples have grown by 2 %, and at
every event that the run reports.

**Time** is that of the processor, of all threads together, so that what else the machine does at the time matters less.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor

from unsaddle.cost import Cost, Ledger
from unsaddle.experiments.case import Case
from unsaddle.methods import minimize
from unsaddle.objective import Evaluation, Observed
from unsaddle.run import Ending, RunEnded

BLIND = ("noisy-sgd", "sgld")
"""Methods that never look where they are: they are stopped when they arrive."""

LOOK_EVERY = 1.02
"""By what the samples grow between two looks."""

PATH_EVERY = 1.1
"""By what they grow between two points of the path that is kept."""

PATH_FIELDS = ("gradients", "products", "values", "seconds", "value", "gradient_norm", "lowest_curvature")
"""What a point of the path says: IFO, ISO and value calls on components, time, F, ‖∇F‖ and λ_min(∇²F)."""


class Lookout:
    """Where a run is at each gradient that it evaluates, and whether it has arrived. For `Observed`.

    Args:
        case: what is asked, and the exact answers.
        stop_at_arrival: whether the run ends when it arrives.
        limit: component gradients after which the run is ended.
        curvature: whether λ_min is computed for the path; else it is nan there.
    """

    def __init__(
        self, case: Case, *, stop_at_arrival: bool = False, limit: float = math.inf, curvature: bool = True
    ) -> None:
        self._case, self._stop, self._limit, self._curvature = case, stop_at_arrival, limit, curvature
        self._next = self._next_in_path = 0.0
        self._lowest: Tensor | None = None
        self._begun, self.aside = time.process_time(), 0.0
        self.arrived: dict[str, float] | None = None
        self.path: list[list[float]] = []

    @property
    def seconds(self) -> float:
        """Of the processor since this was made, without what looking took."""
        return time.process_time() - self._begun - self.aside

    def note(self, seen: Evaluation) -> None:
        """A gradient was evaluated: look, if that is due."""
        spent = seen.ledger
        if spent.samples >= self._next:
            # The call after a look is looked at too: of two calls of SVRG, one is at the anchor.
            due = spent.samples >= LOOK_EVERY * self._next
            self._next = max(LOOK_EVERY * self._next, spent.samples) if due else LOOK_EVERY * spent.samples
            self.look(seen.point, spent)

    def look(self, x: Tensor, spent: Ledger | Cost) -> None:
        """The run is at x, after what it has spent."""
        if self.arrived is not None:
            return
        seconds, begun = self.seconds, time.process_time()
        counts = {"gradients": spent.samples, "products": spent.hessian_samples, "values": spent.value_samples}
        if self._is_reached(x):
            calls = spent.gradients + spent.hessian_products + spent.values
            self.arrived = counts | {"seconds": seconds, "calls": calls}
        total = spent.samples + spent.hessian_samples
        if total >= self._next_in_path or self.arrived:
            self._next_in_path = PATH_EVERY * total
            case = self._case
            lowest = case.lowest_curvature(x) if self._curvature else math.nan
            self.path.append([*counts.values(), seconds, case.value(x), float(case.gradient(x).norm()), lowest])
        self.aside += time.process_time() - begun
        if (self.arrived and self._stop) or spent.samples > self._limit:
            raise RunEnded(Ending.STOPPED)

    def _is_reached(self, x: Tensor) -> bool:
        case = self._case
        if case.hessian is None:
            return case.is_reached(x)
        if not float(case.gradient(x).norm()) <= case.eps:
            return False
        v = self._lowest
        if v is not None:  # Any direction below −γ shows that λ_min is, and the last one often does.
            t = 1e-4
            if float(v @ (case.gradient(x + t * v) - case.gradient(x - t * v))) / (2.0 * t) < -1.1 * case.gamma:
                return False
        eigenvalues, vectors = torch.linalg.eigh(case.hessian(x))
        self._lowest = vectors[:, 0]
        return float(eigenvalues[0]) >= -case.gamma


def solve(
    case: Case,
    method: str,
    seed: int,
    settings: dict[str, Any] | None = None,
    *,
    limit: float = math.inf,
    stop_at_arrival: bool | None = None,
    curvature: bool = True,
) -> dict[str, Any]:
    """One run, and what became of it; {} if the method cannot take the problem.

    Args:
        case: the problem and the question.
        method: a name that `minimize` knows.
        seed: of the start and of the run.
        settings: of the method.
        limit: component gradients after which the run is ended; the case's `max_samples` holds beside it.
        stop_at_arrival: whether the run ends when it arrives; by default where the method never looks.
        curvature: whether the path has λ_min.
    """
    stop = method in BLIND if stop_at_arrival is None else stop_at_arrival
    lookout = Lookout(case, stop_at_arrival=stop, limit=limit, curvature=curvature)
    try:
        solution = minimize(
            Observed(case.objective, lookout.note),
            case.start(seed),
            method=method,
            eps=case.eps,
            gamma=case.gamma,
            max_samples=case.max_samples,
            seed=seed,
            callback=lambda state: lookout.look(state.x, state.cost),
            **(settings or {}),
        )
    except ValueError as error:
        if "stream" in str(error):
            return {}
        raise
    seconds, cost = lookout.seconds, solution.cost
    return {
        "arrived": lookout.arrived,
        "status": solution.status.name,
        "claimed": solution.success,
        "false_claim": solution.success and not case.is_reached(solution.x),
        "gradients": cost.samples,
        "values": cost.value_samples,
        "products": cost.hessian_samples,
        "calls": cost.gradients + cost.values + cost.hessian_products,
        "escapes": solution.escapes,
        "value": case.value(solution.x),
        "gradient_norm": float(case.gradient(solution.x).norm()),
        "path": lookout.path,
        "seconds": seconds,
    }
