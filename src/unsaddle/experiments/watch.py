"""Watches one run of a method on a case: its path against its cost, and its arrival.

**Arrival** is the first point with ‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ at which the run evaluated a gradient, of any
batch. The exact gradient and curvature of the case judge it. They are not counted, and their time is subtracted.
Points are judged each time the samples have grown by 2 %, and at every event that the run reports.

**Time** is processor time of all threads, so that other work on the machine matters less.
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
"""Methods that never check where they are. They are stopped when they arrive."""

LOOK_EVERY = 1.02
"""The factor by which samples grow between two judgements."""

PATH_EVERY = 1.1
"""The factor by which samples grow between two points of the path that is kept."""

PATH_FIELDS = ("gradients", "products", "values", "seconds", "value", "gradient_norm", "lowest_curvature")
"""The numbers of a point of the path: IFO, ISO and value calls on components, time, F, ‖∇F‖ and λ_min(∇²F)."""


class Lookout:
    """Records the path and the arrival of a run; `Observed` calls `note` at each gradient.

    Args:
        case: the problem, ε and γ, and exact derivatives.
        stop_at_arrival: whether the run ends when it arrives.
        limit: component gradients after which the run is ended.
        curvature: whether the path has λ_min; otherwise it has nan.
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
        """Processor time since construction, without the time of judging."""
        return time.process_time() - self._begun - self.aside

    def note(self, seen: Evaluation) -> None:
        """Judge the point of an evaluated gradient, if that is due."""
        spent = seen.ledger
        if spent.samples >= self._next:
            # The call after a judged one is judged too: of two calls of SVRG, one is at the anchor.
            due = spent.samples >= LOOK_EVERY * self._next
            self._next = max(LOOK_EVERY * self._next, spent.samples) if due else LOOK_EVERY * spent.samples
            self.look(seen.point, spent)

    def look(self, x: Tensor, spent: Ledger | Cost) -> None:
        """Judge x, where the run is after it has spent `spent`."""
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
        if v is not None:  # A direction below −γ proves that λ_min is. The last one often does.
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
    """Run a method and return its outcome; {} if the method cannot take the problem.

    Args:
        case: the problem, with ε and γ.
        method: a name that `minimize` knows.
        seed: of the start and of the run.
        settings: of the method.
        limit: component gradients after which the run is ended; the case's `max_samples` holds beside it.
        stop_at_arrival: whether the run ends when it arrives; by default only for `BLIND` methods.
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
    if solution.status is Ending.INTERRUPTED:  # `minimize` returned what it had: no outcome of the method.
        raise KeyboardInterrupt
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
