"""Gradients of the look where BFGS and L-BFGS-B have converged on CUTEst, with what they leave behind and without.

    python -m benchmarks.cutest_looks [--minutes M] [--smallest D]

Problems as in `benchmarks.cutest`, with more than ten variables, from the standard start. After each plain run the look
of the promoted method is made twice at its end point: in x, and with the inverse Hessian that the run has left behind.
That of L-BFGS-B is made of its last ten pairs, on top of the multiple of the identity that the method itself begins
with (SciPy's `hess_inv` begins with 1). The look decides by its first product whether it uses it. The truth is the
exact Hessian: a bound is wrong if λ_min is below it.

Wanted, for each method: fewer gradients in all, no verdict changed, no wrong bound.
"""

from __future__ import annotations

import random
import statistics
import time
import warnings
from typing import Any

import numpy as np
import scipy.optimize

from benchmarks.cutest_problems import LARGEST, Array, Late, Timed, problems
from benchmarks.environment import Report, options, table
from unsaddle.interop.scipy.bounded_verdict import verdict_at
from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.interop.scipy.free_function import EndPoint

ROUNDING = 1e-7
"""Eigenvalues are compared up to this share of the largest."""


def inverse_of(result: Any, method: str) -> Array | None:
    """The inverse Hessian of BFGS; of L-BFGS-B by its pairs, from sᵀy/yᵀy of the last one."""
    if method == "BFGS":
        return np.asarray(result.hess_inv)
    steps, changes = result.hess_inv.sk, result.hess_inv.yk
    if not len(steps):
        return None
    d, (s, y) = len(result.x), (steps[-1], changes[-1])
    inverse = np.eye(d) * (s @ y) / (y @ y)
    for s, y in zip(steps, changes, strict=True):
        shift = np.eye(d) - np.outer(s, y) / (s @ y)
        inverse = shift @ inverse @ shift.T + np.outer(s, s) / (s @ y)
    return inverse


def look(problem: Timed, result: Any, inverse: Array | None) -> dict[str, Any]:
    """The look of the promoted method at the end point, and whether its bound is right."""
    open_ends = np.full(problem.dimension, -np.inf), np.full(problem.dimension, np.inf)
    function = CountedFunction(problem.value, problem.gradient, (), *open_ends)
    function.gradient(result.x)  # Which the run has taken.
    at = EndPoint(
        function=function,
        x=np.array(result.x),
        value=float(result.fun),
        start=problem.x0,
        spent=int(result.njev),
        inverse=inverse,
    )
    verdict = verdict_at(at, gamma=None, delta=0.05, seed=0, by_values=True).verdict
    return {"gradients": function.njev - 1, "kind": str(verdict.kind), "bound": verdict.bound}


def main() -> int:
    parser = options("Gradients of the looks after BFGS and L-BFGS-B, with what they leave behind and without.")
    parser.add_argument("--seconds", type=float, default=2.0, help="of processor time that a run may take")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no further problem is begun")
    parser.add_argument("--smallest", type=int, default=11, metavar="D", help="the least number of variables")
    arguments = parser.parse_args()
    report = Report.begin("cutest looks", arguments)
    warnings.simplefilter("ignore")
    chosen = [p for p in problems() if arguments.smallest <= p[1] <= LARGEST]
    random.Random(arguments.seed).shuffle(chosen)
    rows, began = list[dict[str, Any]](), time.perf_counter()
    for name, d, make in chosen:
        if time.perf_counter() - began > 60.0 * arguments.minutes:
            break
        problem = make()
        for method in ("BFGS", "L-BFGS-B"):
            problem.until = time.process_time() + arguments.seconds
            try:
                result = scipy.optimize.minimize(problem.value, problem.x0, jac=problem.gradient, method=method)
                if not result.success:
                    continue
                problem.until = np.inf
                seen = {"x": look(problem, result, None), "metric": look(problem, result, inverse_of(result, method))}
            except Late:
                continue
            values = np.linalg.eigvalsh(problem.hessian(result.x))
            row = {"problem": name, "d": d, "method": method, "spent": int(result.njev), "lowest": float(values[0])}
            room = ROUNDING * float(np.abs(values).max())
            wrong = any(s["kind"] == "minimum" and values[0] < -s["bound"] - room for s in seen.values())
            rows.append(row | seen | {"wrong": bool(wrong)})
            report.row(settings=row, status="wrong bound" if wrong else "done", **seen)
            print(f"  {name}, {method}: {seen['x']} {seen['metric']}", flush=True)
    tables(report, rows)
    return report.end(arguments.out)


def tables(report: Report, rows: list[dict[str, Any]]) -> None:
    lines = []
    for method in ("BFGS", "L-BFGS-B"):
        mine = [r for r in rows if r["method"] == method]
        if not mine:
            continue
        counts = [(r["x"]["gradients"], r["metric"]["gradients"], r["spent"]) for r in mine]
        before, after = (sum(c[i] for c in counts) for i in (0, 1))
        shares = [100.0 * statistics.median(c[i] / c[2] for c in counts) for i in (0, 1)]
        changed = sum(r["x"]["kind"] != r["metric"]["kind"] for r in mine)
        lines.append(
            [
                method,
                str(len(mine)),
                f"{before}",
                f"{after}",
                f"{sum(c[1] < c[0] for c in counts)}, {sum(c[1] > c[0] for c in counts)}",
                f"{shares[0]:.1f} %, {shares[1]:.1f} %",
                f"{changed}",
            ]
        )
        report.want(f"{method}: gradients with over without", after / max(1, before), 1.0)
        report.want(f"{method}: verdicts changed", changed, 0)
        report.want(f"{method}: wrong bounds", sum(r["wrong"] for r in mine), 0)
    heads = [
        "method",
        "looks",
        "gradients in x",
        "with the inverse Hessian",
        "fewer, more in",
        "share of the run, median",
    ]
    table("Looks where a run has converged", [*heads, "verdicts changed"], lines)


if __name__ == "__main__":
    raise SystemExit(main())
