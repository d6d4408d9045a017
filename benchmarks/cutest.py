"""SciPy's minimizers on the unconstrained problems of CUTEst, plain and promoted: saddles, and what it costs.

Problems of up to 1000 variables from `sif2jax` (of the extra `cutest`), larger ones with 120 where their number of
variables is a parameter, in random order, as many as `--minutes` allow. Each method of SciPy that uses gradients, with
its default options and tolerances, starts at the standard point and at stationary points that Newton's method on
∇f = 0 finds from there and from two points beside it; that method does not mind saddles. `trust-ncg`, `trust-krylov`
and `trust-exact` are given the Hessian, which they need, and the look then takes it, too; all others have gradients
only.

The judge is the exact Hessian where a run ended, outside of the run, unless no difference of gradients bears it out. A
success is at a strict saddle if λ_min is below −1e-3 of the largest |eigenvalue|, −1e-4 where d ≤ 200, and if fun falls
along the exact eigenvector by more than the solver's tolerance. Where fun does not fall so far, the saddle is shallow,
and listed apart; softer saddles are listed, too. `verdict.bound` of a promoted success is wrong if λ_min < −bound. Runs
that take longer than `--seconds` are left out, plain and promoted. Extra gradients are those of the runs from the
standard start that ended, plain, at no strict saddle of a problem with d ≥ 10; `values` are the extra calls of fun.
With OMP_NUM_THREADS=1 it is faster on a busy machine.

Wanted: promoted, no success at a strict saddle and no wrong bound; at the median at most 15 % more gradients.
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
from unsaddle.interop.scipy import minimize
from unsaddle.interop.scipy.arguments import METHODS
from unsaddle.interop.scipy.promotion import TOLERANCE

NEED_HESSIAN = ("trust-ncg", "trust-krylov", "trust-exact")
STRICT, STRICT_IN_FEW, FEW = 1e-3, 1e-4, 200
"""A saddle is strict from this −λ_min/λ_max on, and from the second share on where d is at most FEW."""
ROUNDING = 1e-7
"""Eigenvalues are compared up to this share of the largest: products are differences of gradients."""
LENGTHS = np.geomspace(1e-8, 1e4, 121)
"""Lengths of steps along an eigenvector, in units of max(1, ‖x‖): ten a decade."""
STATIONARY = 1e-7
"""The gradient's largest entry where Newton's method has converged."""
GRADIENT_ONLY = "gradients only"
"""All methods but those that have a Hessian, for which a look takes no gradients."""
LEAST = 10
"""Extra gradients are counted for problems of at least so many variables."""
UNKNOWN = dict.fromkeys(("lowest", "largest", "drop"), np.nan) | dict.fromkeys(
    ("strict_saddle", "shallow", "soft"), False
)
"""What is known about an end point that is no success, or where the Hessian is not finite."""


def borne_out(problem: Timed, x: Array, v: Array, curvature: float) -> bool:
    """Whether differences of gradients see half of a curvature along v at any of twelve lengths.

    Where exponentials overflow inside, second derivatives by autodiff may be wrong: RAT43LS has such points.
    """
    lengths = max(1.0, float(np.linalg.norm(x))) * np.geomspace(1e-12, 1e-1, 12)
    seen = [(problem.both(x + h * v)[1] - problem.both(x - h * v)[1]) @ v / (2.0 * h) for h in lengths]
    return bool(np.nanmin(seen) <= curvature / 2.0)


def truth(problem: Timed, x: Array, value: float) -> dict[str, Any]:
    """λ_min and the largest |eigenvalue| of the exact Hessian, and how far fun falls along the eigenvector of λ_min."""
    problem.until = np.inf
    matrix = problem.hessian(x)
    if not np.isfinite(matrix).all():
        return UNKNOWN
    eigenvalues, eigenvectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    lowest, largest = float(eigenvalues[0]), float(np.abs(eigenvalues).max())
    share = STRICT_IN_FEW if problem.dimension <= FEW else STRICT
    drop, below = 0.0, lowest < -ROUNDING * largest
    if below and not borne_out(problem, x, eigenvectors[:, 0], lowest):
        print(f"  {problem.name}: the Hessian claims {lowest:.3g}, and no difference of gradients does", flush=True)
        return UNKNOWN
    if below:
        steps = max(1.0, float(np.linalg.norm(x))) * np.concatenate([LENGTHS, -LENGTHS])
        values = np.array([problem.both(x + step * eigenvectors[:, 0])[0] for step in steps])
        drop = value - float(np.min(values, initial=value, where=np.isfinite(values)))
    negative, falls = below and lowest <= -share * largest, drop > TOLERANCE * max(1.0, abs(value))
    return {
        "lowest": lowest,
        "largest": largest,
        "drop": drop,
        "strict_saddle": bool(negative and falls),
        "shallow": bool(negative and not falls),
        "soft": bool(below and not negative and falls),
    }


def newton(problem: Timed, x: Array, seconds: float) -> Array | None:
    """A stationary point, by Newton's method on ∇f = 0 with steps halved until ‖∇f‖ falls; None if there is none."""
    problem.until = time.process_time() + seconds
    try:
        grad = problem.both(x)[1]
        for _ in range(100):
            if np.abs(grad).max() <= STATIONARY:
                return x
            step = np.linalg.lstsq(problem.hessian(x), -grad, rcond=1e-12)[0]
            for halvings in range(30):
                there = x + 0.5**halvings * step
                new = problem.both(there)[1]
                if np.linalg.norm(new) < (1.0 - 1e-4 * 0.5**halvings) * np.linalg.norm(grad):
                    break
            else:
                return None
            x, grad = there, new
    except (Late, np.linalg.LinAlgError):
        pass
    return None


def starts(problem: Timed, seed: int, seconds: float) -> dict[str, Array]:
    """The standard start, and the different stationary points that Newton's method finds."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for trial in range(3):
        beside = 0.5 * trial * generator.standard_normal(problem.dimension) * np.maximum(1.0, np.abs(problem.x0))
        point = newton(problem, problem.x0 + beside, seconds)
        if point is not None and not any(np.allclose(point, other, atol=1e-4) for other in found.values()):
            found[f"newton {trial}"] = point
    return {"standard": problem.x0} | found


def run(problem: Timed, start: Array, method: str, promoted: bool, seconds: float) -> dict[str, Any] | None:
    """One run, and the truth about where it ended; None if it was late or broke down."""
    minimizer = minimize if promoted else scipy.optimize.minimize
    began = time.process_time()
    problem.until = began + seconds
    try:
        result = minimizer(
            problem.value,
            start,
            jac=problem.gradient,
            method=method,
            hess=problem.hessian if method in NEED_HESSIAN else None,
        )
    except (Late, np.linalg.LinAlgError, OverflowError):
        return None
    except ValueError as refusal:
        print(f"  {problem.name}, {method}: {refusal}", flush=True)
        return None
    took = time.process_time() - began
    ended = {
        "success": bool(result.success),
        "gradients": int(result.get("njev", result.nfev)),
        "values": int(result.nfev),
        "seconds": took,
        "fun": float(result.fun),
    } | (truth(problem, result.x, float(result.fun)) if result.success else UNKNOWN)
    if not promoted:
        return ended
    verdict = result.verdict
    kind, bound = ("none", np.inf) if verdict is None else (verdict.kind, verdict.bound)
    # A bound is stated for a minimum, and for a success at a shallow saddle.
    wrong = result.success and ended["lowest"] < -bound - ROUNDING * ended["largest"]
    return ended | {"escapes": result.escapes, "verdict": kind, "bound": bound, "wrong_bound": bool(wrong)}


def main() -> int:
    parser = options("SciPy's minimizers on CUTEst: saddles called success, and extra gradients, plain and promoted.")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of processor time that one plain run may take; promoted, twice"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no further problem is begun")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--smallest", type=int, default=1, metavar="D", help="the least number of variables")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="D", help="the largest number of variables")
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME", help="problems, by the start of their names")
    arguments = parser.parse_args()
    report = Report.begin("cutest", arguments)
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    began, left_out = time.perf_counter(), 0
    chosen = [p for p in problems() if arguments.smallest <= p[1] <= arguments.largest]
    random.Random(arguments.seed).shuffle(chosen)  # So that what time allows is no choice of ours.
    for name, _, make in chosen:
        if arguments.only and not name.startswith(tuple(arguments.only)):
            continue
        if time.perf_counter() - began > 60.0 * arguments.minutes:
            left_out += 1
            continue
        problem = make()
        value, grad = problem.both(problem.x0)
        if not (np.isfinite(value) and np.isfinite(grad).all()):
            print(f"  {name}: not finite at its start", flush=True)
            continue
        problem.hessian(problem.x0)  # Compiled, so that no run waits for it.
        for start, x0 in starts(problem, arguments.seed, arguments.seconds).items():
            for method in arguments.methods:
                plain = run(problem, x0, method, False, arguments.seconds)
                if plain is None:
                    continue
                # A run that did not succeed is the same, promoted.
                ours = run(problem, x0, method, True, 2.0 * arguments.seconds) if plain["success"] else plain
                row = {"problem": name, "d": problem.dimension, "start": start.split()[0], "method": method}
                rows.append(row | {"plain": plain, "promoted": ours})
                report.row(settings=row, status="late" if ours is None else "done", plain=plain, promoted=ours)
        print(f"  {name}: {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{len({row['problem'] for row in rows})} problems; {left_out} left out for want of time")
    tables(report, rows, arguments.methods)
    return report.end(arguments.out)


def tables(report: Report, rows: list[dict[str, Any]], methods: list[str]) -> None:
    for start in ("standard", "newton"):
        lines = []
        for method in [*methods, "all"]:
            mine = [r for r in rows if r["start"] == start and method in (r["method"], "all") and r["plain"]["success"]]
            both = [r for r in mine if r["promoted"] is not None]
            at_saddle = [r for r in both if r["plain"]["strict_saddle"]]
            undecided = [
                r for r in both if not r["plain"]["strict_saddle"] and r["promoted"].get("verdict") == "undecided"
            ]
            lines.append(
                [
                    method,
                    str(len(both)),
                    f"{len(at_saddle)} ({100.0 * len(at_saddle) / max(1, len(both)):.1f} %)",
                    *(str(sum(r["promoted"][what] for r in both)) for what in ("success", "strict_saddle", "shallow")),
                    str(sum(r["promoted"]["wrong_bound"] for r in both)),
                    f"{len(undecided)}",
                    str(len(mine) - len(both)),
                ]
            )
        heads = ["method", "plain success", "at strict saddle", "promoted success", "at strict saddle", "shallow"]
        table(f"From the {start} start", [*heads, "wrong bound", "undecided", "late"], lines)
    extra(report, rows, methods)
    found = {what: listed(rows, what) for what in ("strict_saddle", "shallow", "soft", "wrong_bound")}
    report.want("successes of promoted methods at strict saddles", found["strict_saddle"], at_most=0)
    report.want("successes of promoted methods with a wrong bound", found["wrong_bound"], at_most=0)


def listed(rows: list[dict[str, Any]], what: str) -> int:
    """Prints the promoted successes of one sort, the methods of a problem in one line; returns their number."""
    cases = [r for r in rows if r["promoted"] and r["promoted"].get(what)]
    print(f"\n{what.replace('_', ' ').upper()}: {len(cases)} promoted successes")
    for name, start in sorted({(r["problem"], r["start"]) for r in cases}):
        mine = [r for r in cases if (r["problem"], r["start"]) == (name, start)]
        ratio, fall, bound = (
            [r["promoted"][key] / r["promoted"][unit] if unit else r["promoted"][key] for r in mine]
            for key, unit in (("lowest", "largest"), ("drop", None), ("bound", "largest"))
        )
        print(
            f"  {name}, d={mine[0]['d']}, {start}: {', '.join(r['method'] for r in mine)}; "
            f"λ_min/λ_max {min(ratio):.2g} to {max(ratio):.2g}, fall {min(fall):.2g} to {max(fall):.2g}, "
            f"bound/λ_max {min(bound):.2g} to {max(bound):.2g}"
        )
    return len(cases)


def extra(report: Report, rows: list[dict[str, Any]], methods: list[str]) -> None:
    """What promotion costs at true minima."""
    cases = [
        r
        for r in rows
        if r["start"] == "standard"
        and r["d"] >= LEAST
        and r["plain"]["success"]
        and not r["plain"]["strict_saddle"]
        and r["promoted"] is not None
        and r["promoted"]["escapes"] == 0
    ]
    lines, medians = [], {}
    groups = {method: (method,) for method in methods}
    groups |= {GRADIENT_ONLY: tuple(m for m in methods if m not in NEED_HESSIAN), "all": tuple(methods)}
    for method, members in groups.items():
        mine = [r for r in cases if r["method"] in members]
        if not mine:
            continue
        shares = [r["promoted"]["gradients"] / r["plain"]["gradients"] - 1.0 for r in mine]
        more = [r["promoted"]["gradients"] - r["plain"]["gradients"] for r in mine]
        values = [r["promoted"]["values"] - r["plain"]["values"] for r in mine]
        times = [r["promoted"]["seconds"] / r["plain"]["seconds"] - 1.0 for r in mine]
        quarters = statistics.quantiles(shares, n=4) if len(shares) > 1 else [shares[0]] * 3
        medians[method] = statistics.median(shares)
        lines.append(
            [
                method,
                str(len(mine)),
                f"{statistics.median(r['plain']['gradients'] for r in mine):.0f}",
                f"{statistics.median(more):.0f}",
                f"{statistics.median(values):.0f}",
                f"{100.0 * medians[method]:.0f} %",
                f"{100.0 * quarters[0]:.0f}–{100.0 * quarters[2]:.0f} %",
                f"{100.0 * statistics.median(times):.0f} %",
            ]
        )
    heads = ["method", "runs", "gradients", "more", "values", "extra, median", "quartiles", "extra time, median"]
    table(f"Extra gradients at second-order points, d ≥ {LEAST}", heads, lines)
    if "all" in medians:
        report.want("extra gradients, share, median over all runs", medians["all"], at_most=0.15)
    if GRADIENT_ONLY in medians:
        report.want(f"the same, {GRADIENT_ONLY}", medians[GRADIENT_ONLY], at_most=0.15)


if __name__ == "__main__":
    raise SystemExit(main())
