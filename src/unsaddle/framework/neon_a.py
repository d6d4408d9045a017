"""NEON-A, Algorithm 4."""

from __future__ import annotations

import math

from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.framework.plan import Plan
from unsaddle.run import Ending, Run, RunEnded

STALLED = 200
"""The run gives up after this many tests in a row on everything without a lower value or a gradient norm halved."""

FRUITLESS = 3
"""The run gives up after this many extractions in a row that do not decide, or whose direction does not lead down."""


def neon_a(run: Run, method: FirstOrderMethod, plan: Plan, *, promoted: bool = True) -> None:
    """Run a first-order method 𝒜 to a second-order stationary point.

        (y, z) = 𝒜(x)
        S fresh:  ‖∇F_S(y)‖ > ε:  x = z, again
        S2 fresh: v = NEON(F_S2, y);  none: return y
        x = y ∓ s·v, again

    Departures: The start is tested before 𝒜 is called, so a run does not leave a stationary start by accident, and so
    is the point after an escape. 𝒜 gets the anchor of the test if z is y. "None" has to be decided: after three
    extractions in a row that do not decide, or whose direction does not lead down, the run gives up; and after 200
    tests on everything without progress.

    Without `promoted`, the run ends at the first point that passes the test. It ends by `RunEnded`. `run` then holds
    the cost, the trace and what is known about the last point.
    """
    local = Local(eps=run.eps, num_samples=run.num_samples)
    y = z = good = run.x
    plan.begin(run, y, local)
    fruitless = stalled = 0
    lowest = smallest = math.inf
    while True:
        seen = plan.test(run, y, method, local)
        if not seen.is_finite:
            run.moved(good)
            if good is y or not plan.recover(run, local):
                raise RunEnded(Ending.NOT_FINITE if good is y else Ending.DIVERGED)
            method.forget()
            y = z = good
            continue
        good = y
        error = math.sqrt(seen.squared_error)
        run.checked(y, value=seen.value, gradient_norm=seen.norm, gradient_error=error)
        if seen.value < lowest - seen.rounding or seen.norm < 0.5 * smallest:
            lowest, smallest, stalled = min(lowest, seen.value), min(smallest, seen.norm), 0
        else:
            stalled += seen.everything
        if not plan.is_small(run, seen):
            if stalled == STALLED:
                raise RunEnded(Ending.STALLED)
            y, z = method.advance(run.objective, z, seen if z is y else None, local, run.generator)
            run.moved(z)
            continue
        if not promoted:
            raise RunEnded(Ending.FIRST_ORDER_POINT)
        found = plan.extract(run, y)
        run.extracted(curvature=found.curvature, error=found.error, gamma=found.gamma, note=found.note)
        if found.decided and found.direction is None:
            if found.eps < run.eps:  # L1 or ‖y‖ is smaller here than at the start.
                run.eps = local.eps = found.eps
            if plan.is_small(run, seen):
                raise RunEnded(Ending.SECOND_ORDER_POINT)
            continue
        escaped = None if found.direction is None else plan.escape(run, y, seen, found)
        if escaped is None:
            fruitless += 1
            if fruitless == FRUITLESS:
                raise RunEnded(Ending.CURVATURE_UNDECIDED)
            continue
        fruitless = 0
        lowest, smallest, stalled = math.inf, math.inf, 0
        y = z = escaped
        run.escaped(y, curvature=found.curvature, note=found.note)
        method.forget()
        plan.begin(run, y, local)
