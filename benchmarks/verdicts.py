"""How often the verdict of `is_minimum(F, x)` is false, on problems of which the truth is known.

No argument but F and x is given; γ in the family that is about γ and on three of four noisy sums, `samples` on sums
that are sampled. What counts, with the γ and the ε that the verdict states:

- *minimum* is false if λ_min < −γ or the point is not stationary;
- *saddle* is false if the exact curvature along the returned direction is not below zero, or the point is not
  stationary. Between −γ and 0 both minimum and saddle are right;
- *not stationary* is false if ‖∇F(x)‖ ≤ ε;
- *undecided* is never false. It is counted, with its reasons. It is right where λ_min is not positive, the verdict
  names a point to which F falls by terms of higher order, and F does;
- *interval off*: `verdict.interval` does not contain λ_min, of a minimum, or the exact curvature along the direction;
- *bound off*: λ_min < −`verdict.bound`, whatever the kind; or a minimum whose bound is above γ, so that nothing has
  excluded curvature below −γ.

Kinks have a rule of their own, by values (`benchmarks.verdict_cases.kinks`).

Wanted: no false saddle in any precision; everything else that is false no more than δ allows. A family of N instances
passes if it has no more than k false ones, where more than k would come with a probability below 1e-3 if the rate were
δ = 0.05: for N = 300, k = 28. For false minima, N counts the instances that are none.
Undecided at most 5 % where a float64 reference decides (`DECIDED`), and more than 60 % of random spectra decided in
bf16.

`needle, d=1e4` takes most of the time.
"""

from __future__ import annotations

import math
import multiprocessing
import re
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import torch

from benchmarks import verdict_cases
from benchmarks.environment import Report, options, table
from benchmarks.sampled_cases import SAMPLED_FAMILIES
from benchmarks.verdict_cases import DTYPES, ZOO_SEEDS, Case, zoo_points
from unsaddle import Verdict, is_minimum
from unsaddle.judgement.half_precision import STAIRCASE
from unsaddle.judgement.reasons import F_ENDS, KINKS_TURN_UP, VALUES_DO_NOT_FALL
from unsaddle.objective import Forwarding

DELTA, SIGNIFICANT = 0.05, 1e-3
REASONS = {
    "The gradient may": "GRADIENT_UNSURE",
    "So few samples may miss": "TOO_FEW_SAMPLES",
    STAIRCASE: "STAIRCASE",
    VALUES_DO_NOT_FALL: "VALUES",
    F_ENDS: "F_ENDS",
    KINKS_TURN_UP: "KINKS_TURN_UP",
}
"""Of verdicts that are undecided after an extraction that was not."""
ZERO = 1e-6
"""An eigenvalue below this share of the largest is zero: float32 stores it no better."""
OUTCOMES = ("right", "false minimum", "false saddle", "false not stationary", "undecided")
OFF = ("interval off", "bound off")

FAMILIES = verdict_cases.FAMILIES | SAMPLED_FAMILIES

BOTH = ("float64", "float32")
DECIDED = {
    "random spectra": BOTH,
    "near-ties": BOTH,
    "around -gamma": BOTH,
    "needle, d=1e4": BOTH,
    "symmetric": BOTH,
    "equal units": BOTH,
    "equal blocks": BOTH,
    "badly scaled": BOTH,
    "large gradient": BOTH,
    "zoo": BOTH,
    "lower precision inside": BOTH,
    "underflow": BOTH,
    "odd truncation": BOTH,
    "memory": BOTH,
    "soft beside stiff": BOTH,
    "norm of x": BOTH,
    "width at zero": BOTH,
    "kinks beside x": BOTH,
    "kinks at x": BOTH,
    "log barriers": BOTH,
    "drowned values": BOTH,
    "published": BOTH,
    "trained smooth": BOTH,
    "trained ReLU": BOTH,
    "trained conv": BOTH,
}
"""Where at most `UNDECIDED` may stay open, as a float64 reference decides: not on samples, not in bfloat16, not where
the gradient is not that of F, nor with `--as-it-is`, where float32 has no copy in float64."""
UNDECIDED, DECIDED_BF16 = 0.05, 0.6

WITHOUT_BF16 = (
    "zoo",
    "trained ReLU",
    "trained smooth",
    "memory",
    "rough gradients",
    "published",
    "flat to second order",
)
"""The zoo is there for its 50 seeds; what bf16 does to saddles like these, `symmetric` tells. Solvers and functions of
others compute in float32 at least. A rounded x is not where F is flat."""


def allowed(runs: int) -> int:
    """The largest count that is not significantly more than δ·runs: P(more | rate δ) ≥ 1e-3 for every smaller one."""
    below = 0.0
    for k in range(runs + 1):
        below += math.exp(
            math.lgamma(runs + 1)
            - math.lgamma(k + 1)
            - math.lgamma(runs - k + 1)
            + k * math.log(DELTA)
            + (runs - k) * math.log1p(-DELTA)
        )
        if 1.0 - below < SIGNIFICANT:
            return k
    return runs


def judge(verdict: Verdict, case: Case, precision: str) -> str:
    """What the verdict is worth."""
    if verdict.kind == "undecided":
        return "right" if falls_by_higher_order(verdict, case) else "undecided"
    if case.judge is not None:
        return case.judge(verdict)
    stationary = case.gradient_norm <= verdict.eps
    if verdict.kind == "not stationary":
        return "false not stationary" if stationary else "right"
    if verdict.kind == "minimum":
        return "right" if stationary and case.lowest >= -verdict.gamma - rounding(case, precision) else "false minimum"
    return "right" if stationary and along(verdict, case) < 0.0 else "false saddle"


def falls_by_higher_order(verdict: Verdict, case: Case) -> bool:
    """Whether the verdict says so, λ_min is not positive, and F is lower at the point that the verdict names."""
    said = re.search(r"Go on from x \+ ([0-9.e+-]+)·v, with v = verdict.evidence.deciding\[0\]", verdict.reason)
    if said is None or case.lowest > ZERO * case.largest:
        return False
    f, v, length = case.objective.sample(), verdict.evidence.deciding[0], float(said[1])
    return float(f.value(torch.add(case.x, v, alpha=length))) < float(f.value(case.x))


def rounding(case: Case, precision: str) -> float:
    """λ_min = −γ to the last digit is not below it."""
    return 8.0 * torch.finfo(DTYPES[precision]).eps * case.largest


def along(verdict: Verdict, case: Case) -> float:
    """The exact curvature along the direction of a verdict."""
    assert verdict.direction is not None
    v = verdict.direction.double()
    return case.curvature(v / v.norm())


def numbers_off(verdict: Verdict, case: Case, precision: str) -> list[str]:
    """Which of the verdict's numbers exclude the truth, where the Hessian at x is what they are about."""
    if not case.reach > 4.0 * verdict.resolution:
        return []
    off, margin = [], rounding(case, precision)
    if verdict.direction is not None or verdict.kind == "minimum":
        truth = case.lowest if verdict.direction is None else along(verdict, case)
        low, high = verdict.interval
        off += [] if low - margin <= truth <= high + margin else ["interval off"]
    proven = verdict.kind != "minimum" or verdict.bound <= verdict.gamma + margin
    return off if proven and case.lowest >= -verdict.bound - margin else [*off, "bound off"]


class AsItIs(Forwarding):
    """An objective that torch does not see through, so that no copy of it is computed in float64."""

    @property
    def doubles(self) -> bool:
        return False


def run(job: tuple[str, str, int], as_it_is: bool = False) -> dict[str, Any]:
    """One verdict."""
    family, precision, index = job
    case = FAMILIES[family](index, precision)
    objective = AsItIs(case.objective) if as_it_is else case.objective
    start = time.perf_counter()
    verdict = is_minimum(objective, case.x, gamma=case.gamma, samples=case.samples, seed=case.seed)
    seconds = time.perf_counter() - start
    status = verdict.evidence.status.name
    if verdict.kind == "undecided":
        status = next(
            (name for words, name in REASONS.items() if verdict.reason.startswith(words.split("{")[0])), status
        )
    return {
        "outcome": judge(verdict, case, precision),
        "off": numbers_off(verdict, case, precision),
        "is_other": case.judge is not None or case.lowest < 0.0 or case.gradient_norm > verdict.eps,
        "kind": str(verdict.kind),
        "status": status,
        "dimension": case.x.numel(),
        "x_norm": float(case.x.double().norm()),
        "lowest": case.lowest,
        "largest": case.largest,
        "true_curvature": None if verdict.direction is None else along(verdict, case),
        "reach": case.reach,
        "gamma": verdict.gamma,
        "bound": verdict.bound,
        "curvature": verdict.curvature,
        "interval": list(verdict.interval),
        "resolution": verdict.resolution,
        "gradient_norm": verdict.gradient_norm,
        "true_gradient_norm": case.gradient_norm,
        "eps": verdict.eps,
        "gradients": verdict.cost.gradients,
        "seconds": seconds,
        "reason": verdict.reason,
    }


def main() -> int:
    parser = options("False verdicts of is_minimum, on problems of which the truth is known.")
    parser.add_argument("--instances", type=int, default=300, help="of each family and precision")
    names = ", ".join(FAMILIES)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="NAME", help=names)
    parser.add_argument("--precision", nargs="+", choices=DTYPES, default=list(DTYPES))
    how = "without copies in float64, as of functions that torch does not see through"
    parser.add_argument("--as-it-is", action="store_true", help=how)
    arguments = parser.parse_args()
    report = Report.begin("verdicts", arguments)
    first = arguments.seed * 1_000_000
    jobs = [
        (family, precision, index)
        for family in arguments.only
        for precision in arguments.precision
        for index in (
            range(len(zoo_points()) * ZOO_SEEDS) if family == "zoo" else range(first, first + arguments.instances)
        )
        if not (family in WITHOUT_BF16 and precision == "bf16")
    ]
    with ProcessPoolExecutor(
        arguments.threads, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        outcomes = dict(zip(jobs, pool.map(partial(run, as_it_is=arguments.as_it_is), jobs, chunksize=25), strict=True))
    for (family, precision, index), outcome in outcomes.items():
        measured = {key: value for key, value in outcome.items() if key != "status"}
        report.row(
            settings={"family": family, "precision": precision}, status=outcome["status"], seed=index, **measured
        )
    print_false(outcomes)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (family, precision, _), outcome in outcomes.items():
        groups.setdefault((family, precision), []).append(outcome)
    print_outcomes(groups)
    print_wanted(report, groups, {} if arguments.as_it_is else DECIDED)
    return report.end(arguments.out)


def print_false(outcomes: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Every false verdict and every number that is off, with its index, so that it can be asked for again."""
    for (family, precision, index), row in outcomes.items():
        wrong = row["off"] if row["outcome"] in ("right", "undecided") else [row["outcome"], *row["off"]]
        if wrong:
            numbers = ", ".join(f"{key} {row[key]:.3g}" for key in ("lowest", "largest", "gamma", "bound"))
            low, high = row["interval"]
            print(f"  {family}, {precision}, {index}: {', '.join(wrong)}; {numbers}, interval {low:.3g} to {high:.3g}")


def print_outcomes(groups: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    """A line a family and precision: outcomes, numbers that are off, cost, and why verdicts are undecided."""
    lines = []
    for (family, precision), rows in groups.items():
        counts = Counter(row["outcome"] for row in rows)
        off = Counter(name for row in rows for name in row["off"])
        why = Counter(row["status"] for row in rows if row["outcome"] == "undecided")
        gradients = sorted(row["gradients"] for row in rows)
        lines.append(
            [
                family,
                precision,
                str(len(rows)),
                *(str(counts[outcome]) for outcome in OUTCOMES),
                f"{counts['undecided'] / len(rows):.1%}",
                *(str(off[name]) for name in OFF),
                f"{gradients[len(gradients) // 2]}",
                f"{sum(row['seconds'] for row in rows) / len(rows) * 1e3:.0f}",
                ", ".join(f"{status.lower()} {count}" for status, count in why.most_common()) or "-",
            ]
        )
    heads = ["family", "precision", "runs", "right", "false min", "false sad", "false n.s.", "undecided", "share", *OFF]
    table("verdicts", [*heads, "gradients", "ms", "why undecided"], lines)
    print()


def print_wanted(
    report: Report, groups: dict[tuple[str, str], list[dict[str, Any]]], decided: dict[str, tuple[str, ...]]
) -> None:
    """What was wanted beside what came."""
    for precision in DTYPES:
        false = sum(r["outcome"] == "false saddle" for (_, p), rows in groups.items() if p == precision for r in rows)
        report.want(f"false saddles in {precision}", false, at_most=0)
    runs = sum(len(rows) for rows in groups.values())
    for name in ("false minimum", "false not stationary", *OFF):
        total = 0
        for (family, precision), rows in groups.items():
            false = sum(row["outcome"] == name or name in row["off"] for row in rows)
            total += false
            # At a minimum, "minimum" cannot be false: only the other points count.
            n = sum(row["is_other"] for row in rows) if name == "false minimum" else len(rows)
            if false:
                report.want(f"{name}, {family}, {precision}, of {n}", false, at_most=allowed(n))
        report.want(f"{name}, all of {runs}", total, at_most=allowed(runs))
    for (family, precision), rows in groups.items():
        share = sum(row["outcome"] == "undecided" for row in rows) / len(rows)
        if precision in decided.get(family, ()):
            report.want(f"undecided, {family}, {precision}", share, at_most=UNDECIDED)
        elif (family, precision) == ("random spectra", "bf16"):
            report.want(f"decided, {family}, {precision}", 1.0 - share, at_most=1.0, at_least=DECIDED_BF16)


if __name__ == "__main__":
    raise SystemExit(main())
