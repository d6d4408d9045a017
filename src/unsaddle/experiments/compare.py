"""Methods × problems × seeds: the path of each run against its cost, and its arrival.

`watch` defines arrival, `cases` the problems. Every method runs at its defaults. If a method cannot take a problem (a
finite-sum method on a stream), its row says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unsaddle import checks
from unsaddle.experiments import cases
from unsaddle.experiments.watch import PATH_FIELDS, solve
from unsaddle.methods import method_names

DEFAULT_METHODS = (
    "neon-sgd",
    "neon-scsg",
    "neon-svrg",
    "noisy-sgd",
    "sgld",
    "pgd",
    "natasha2",
    "sncg",
    "svrg-hessian",
    "scsg",
)
DEFAULT_PROBLEMS = ("chain", "noisy chain", "noisy phases", "sigmoid, digits", "u∘v, digits")
DEMO_PROBLEMS = ("noisy chain", "u∘v, digits")
"""The problems of `unsaddle compare --demo`. On the first, every method that looks arrives; on the second, few do."""

NOT_APPLICABLE = "NOT_APPLICABLE"
"""The status of a row whose method cannot take the problem."""

Job = dict[str, Any]


def jobs(
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    problems: Sequence[str] = DEFAULT_PROBLEMS,
    seeds: int = 5,
    seed: int = 0,
    data: Path | None = None,
) -> list[Job]:
    """All runs, problem by problem.

    >>> len(jobs(methods=["neon-scsg", "scsg"], problems=["chain"], seeds=5))
    10
    """
    cases.unknown(methods, method_names(), "method")
    cases.unknown(problems, cases.known_cases(data), "problem")
    checks.count(seeds, "seeds")
    for problem in dict.fromkeys(problems):
        if problem in cases.names_of_data(data):
            cases.case(problem, data)  # A file that cannot be used raises its error here, before anything runs.
    folder = None if data is None else str(data)
    return [
        {"problem": problem, "method": method, "data": folder, "seed": s}
        for problem in dict.fromkeys(problems)
        for method in dict.fromkeys(methods)
        for s in range(seed, seed + seeds)
    ]


def work(job: Job) -> dict[str, Any]:
    """One run."""
    at = cases.case(job["problem"], None if job["data"] is None else Path(job["data"]))
    question: dict[str, Any] = {"eps": at.eps, "gamma": at.gamma, "max_samples": at.max_samples}
    question |= {"dimension": at.dimension, "num_samples": at.objective.num_samples}
    outcome = solve(at, job["method"], job["seed"])
    if not outcome:
        return question | {"status": NOT_APPLICABLE}
    path = {name: [_short(point[k]) for point in outcome["path"]] for k, name in enumerate(PATH_FIELDS)}
    return question | outcome | {"path": path}


def _short(number: float) -> float:
    """Six digits: paths are for drawing."""
    return float(f"{number:.6g}") if math.isfinite(number) else number


def describe(job: Job) -> str:
    """A few words on a job, for the progress."""
    return f"{job['problem']}: {job['method']}, seed {job['seed']}"
