"""From every strict saddle of the zoo, and 1e-8 beside it: how often each promoted method ends where it should.

Nothing is tuned, and nothing is given but ε = 1e-3 and a bound on the samples. An answer is right if the run says that
it is at a second-order stationary point and the truth, from the gradient of the whole sum and the dense Hessian, bears
it out: ‖∇F(x)‖ ≤ 1.5ε and λ_min ≥ −γ, with the γ that the solution states. Whatever else comes is listed.

Each method runs with each of `--extractors` inside, and its row says which: `neon+` and `neon` are the paper's, `auto`
is krylov. A run goes on until its own last extraction says "nothing", which is in its count.

Wanted: all right. And the counterpart: the same method without NEON stays at each saddle where the gradient of every
component vanishes, to the last digit, for every seed.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle import Ending, minimize
from unsaddle.experiments.table_one import EXTRACTORS, what_ran
from unsaddle.methods import FIRST_ORDER
from unsaddle.objective import Objective
from unsaddle.problems import Problem, zoo
from unsaddle.problems.dense import eigenvalues

EPS = 1e-3
MAX_SAMPLES = 5_000_000
DISTANCES = (0.0, 1e-8)

Job = tuple[str, str | None, int, int, float, int]
"""Method, the extractor inside it, problem, saddle, distance from it, seed."""


@cache
def problems() -> tuple[Problem, ...]:
    return zoo()


def beside(point: Tensor, distance: float, seed: int) -> Tensor:
    off = torch.randn(point.numel(), generator=torch.Generator().manual_seed(seed), dtype=point.dtype)
    return point + distance * off / off.norm()


def run(job: Job) -> dict[str, Any]:
    """One run, and the truth about where it ended."""
    method, extractor, p, s, distance, seed = job
    problem = problems()[p]
    saddle = problem.saddles[s].point
    start = time.perf_counter()
    x0 = beside(saddle, distance, seed) if distance else saddle
    inside = {} if extractor is None else {"extractor": extractor}
    solution = minimize(problem.objective, x0, method=method, eps=EPS, max_samples=MAX_SAMPLES, seed=seed, **inside)
    seconds = time.perf_counter() - start
    norm = float(problem.objective.sample().grad(solution.x).norm())
    lowest = float(eigenvalues(problem.objective, solution.x)[0])
    if extractor is not None:
        right = solution.success and norm <= 1.5 * EPS and lowest >= -solution.gamma
    else:
        right = solution.status is Ending.FIRST_ORDER_POINT and bool(torch.equal(solution.x, saddle))
    return {
        "right": right,
        "ending": solution.status.name,
        "gradient_norm": norm,
        "lowest": lowest,
        "gamma": solution.gamma,
        "escapes": solution.escapes,
        "samples": solution.cost.samples,
        "value_samples": solution.cost.value_samples,
        "seconds": seconds,
    }


def every_gradient_vanishes(objective: Objective, point: Tensor) -> bool:
    random, n = torch.Generator().manual_seed(0), objective.num_samples
    assert n is not None
    return all(bool((objective.sample(1, random).grad(point) == 0.0).all()) for _ in range(20 * n))


def main() -> int:
    parser = options("How often every promoted method ends at a second-order stationary point.")
    parser.add_argument("--seeds", type=int, default=20, help="for each method, saddle and distance")
    parser.add_argument("--extractors", nargs="+", default=list(EXTRACTORS), help="inside the promoted methods")
    arguments = parser.parse_args()
    report = Report.begin("promotion", arguments)
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    saddles = [(p, s) for p, problem in enumerate(problems()) for s in range(len(problem.saddles))]
    stuck = [(p, s) for p, s in saddles if every_gradient_vanishes(problems()[p].objective, _point(p, s))]
    jobs: list[Job] = [
        (f"neon-{name}", extractor, p, s, distance, seed)
        for seed in seeds
        for extractor in arguments.extractors
        for name in FIRST_ORDER
        for p, s in saddles
        for distance in DISTANCES
    ]
    jobs += [(name, None, p, s, 0.0, seed) for seed in seeds for name in FIRST_ORDER for p, s in stuck]
    print(f"{len(saddles)} saddles, {len(stuck)} of them where every component's gradient vanishes; {len(jobs)} runs")
    with ProcessPoolExecutor(
        arguments.threads, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        outcomes = list(zip(jobs, pool.map(run, jobs, chunksize=10), strict=True))
    for (method, extractor, p, s, distance, seed), outcome in outcomes:
        where = {"problem": problems()[p].name, "saddle": s, "distance": distance, "eps": EPS}
        report.row(
            settings={"method": method, "extractor": extractor} | where,
            seed=seed,
            status="right" if outcome["right"] else "wrong",
            **outcome,
        )
    print_outcomes(report, outcomes)
    return report.end(arguments.out)


def _point(p: int, s: int) -> Tensor:
    return problems()[p].saddles[s].point


def print_outcomes(report: Report, outcomes: list[tuple[Job, dict[str, Any]]]) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (method, extractor, *_), outcome in outcomes:
        groups[what_ran(method, extractor)].append(outcome)
    lines = []
    for method, rows in groups.items():
        samples = sorted(row["samples"] + row["value_samples"] for row in rows)
        lines.append(
            [
                method,
                f"{sum(row['right'] for row in rows)} of {len(rows)}",
                f"{statistics.median(samples):.0f}",
                f"{samples[len(samples) // 4]} … {samples[3 * len(samples) // 4]}",
                f"{samples[-1]}",
                f"{statistics.fmean(row['escapes'] for row in rows):.1f}",
                f"{sum(row['seconds'] for row in rows):.0f}",
            ]
        )
    heads = ["method", "right", "samples, median", "middle half", "most", "escapes", "seconds, all"]
    table("from strict saddles (alone: right is to stay)", heads, lines)
    wrong = [(job, outcome) for job, outcome in outcomes if not outcome["right"]]
    if wrong:
        table(
            "what was not right",
            ["method", "problem", "saddle", "beside", "seed", "ending", "‖∇F‖", "λ_min", "γ"],
            [
                [
                    what_ran(method, extractor),
                    problems()[p].name,
                    str(s),
                    f"{distance:g}",
                    str(seed),
                    outcome["ending"],
                    f"{outcome['gradient_norm']:.1e}",
                    f"{outcome['lowest']:.2e}",
                    f"{outcome['gamma']:.1e}",
                ]
                for (method, extractor, p, s, distance, seed), outcome in wrong
            ],
        )
    print()
    alone = [outcome for (_, extractor, *_), outcome in outcomes if extractor is None]
    for inside in dict.fromkeys(extractor for (_, extractor, *_), _ in outcomes if extractor is not None):
        promoted = [outcome for (_, extractor, *_), outcome in outcomes if extractor == inside]
        name = f"promoted with {what_ran('', inside)}, wrong of {len(promoted)}"
        report.want(name, sum(not o["right"] for o in promoted), at_most=0)
    report.want(f"alone, left the saddle of {len(alone)}", sum(not o["right"] for o in alone), at_most=0)


if __name__ == "__main__":
    raise SystemExit(main())
