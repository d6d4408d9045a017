"""Table 1, measured: samples to an (ε, γ)-second-order stationary point against ε, γ and d, with all constants known.

Four sweeps over the functions of `families`:

- *slope*: for each ε the function on which first-order steps make the least progress, with a saddle at its end and
  γ = ε^q/2, q from the row of Table 1. L1, L2, V and F(x0) − min F are the same for every ε, as in a bound.
- *one function*: the same function for every ε, with a saddle at its start, as users meet it.
- *gamma*: one saddle of curvature −2γ, equally wide for every γ, at fixed ε.
- *dimension*: one saddle at fixed ε and γ, noise of the same norm, for every d.

A run goes on until it **knows**: until its own last extraction says that there is nothing below −γ, which is paid for
as well. Its row holds what it had spent by then, and beside it the component gradients at its arrival, which is judged
outside of it (`watch`). Noisy SGD and SGLD never know. They are stopped when they arrive, and `counted_to` says so.

NEON rows run with NEON⁺, NEON and `auto` inside (`table_one.EXTRACTORS`). Methods are told L1 (`table_one.told`), and
find V, batch sizes and the curvature themselves. Runs that spend their budget first, or that wrongly believe that they
have arrived, stay in as never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unsaddle.experiments.families import Family, Shape
from unsaddle.experiments.table_one import FINITE_SUM_ONLY, TABLE_ONE, told, what_ran
from unsaddle.experiments.watch import BLIND, solve

NUM_SAMPLES = 3000
"""n, for methods that need a finite sum."""
MAX_SAMPLES = 10**11

SLOPE_EPS = tuple(10.0 ** -(1.25 + k / 4.0) for k in range(4))
SLOW = ("sncg", "natasha2")
"""Methods that take many steps. On the slope their ε are larger by 10^¼."""
ONE_EPS = tuple(10.0 ** -(1.0 + k / 2.0) for k in range(4))
GAMMAS = (0.2, 0.1, 0.05, 0.025)
DIMENSIONS = (10, 100, 1000, 10_000, 31_623, 100_000)
OF_DIMENSION = ("neon-scsg", "neon-sgd", "noisy-sgd", "sgld", "natasha2", "sncg")

Job = dict[str, Any]


def jobs(*, seeds: int = 3, seed: int = 0, quick: bool = False) -> list[Job]:
    """All runs. Long ones come first, so that no process waits for another at the end.

    Args:
        seeds: runs a point.
        seed: the first of them.
        quick: three points a sweep instead of four, and d up to 10⁴.
    """
    points = 3 if quick else None
    runs = [
        *_slope(SLOPE_EPS[:points]),
        *_one_function(ONE_EPS[:points]),
        *_gamma(GAMMAS[:points]),
        *_dimension(DIMENSIONS[:4] if quick else DIMENSIONS),
    ]
    runs.sort(key=_expected_work, reverse=True)
    return [job | {"seed": s} for job in runs for s in range(seed, seed + seeds)]


def _expected_work(job: Job) -> float:
    steps = job["eps"] ** -2 / 100.0 if job["sweep"] == "slope" else 0.1 / job["gamma"]
    return float(job["dimension"] / 1000.0 + steps)


def _job(sweep: str, method: str, extractor: str | None, **settings: Any) -> Job:
    job = {"sweep": sweep, "method": method, "power": None, "slope": None, "extractor": extractor, "deviation": 0.5}
    return job | {"num_samples": NUM_SAMPLES if method in FINITE_SUM_ONLY else None} | settings


def what_runs() -> list[tuple[str, str | None]]:
    """The methods of Table 1, with what is inside each."""
    return list(dict.fromkeys((row.method, row.extractor) for row in TABLE_ONE))


def _slope(values: Sequence[float]) -> Iterator[Job]:
    for row in TABLE_ONE:
        for value in values:
            eps = value * 10.0**0.25 if row.method in SLOW else value
            at = {"eps": eps, "gamma": eps**row.power / 2.0, "dimension": 10}
            yield _job("slope", row.method, row.extractor, power=row.power, **at, slope=2.0 * eps, bend=1.0)


def _one_function(values: Sequence[float]) -> Iterator[Job]:
    for ran in what_runs():
        for eps in values:
            yield _job("one function", *ran, eps=eps, gamma=0.1, dimension=10, bend=0.1)


def _gamma(values: Sequence[float]) -> Iterator[Job]:
    for ran in what_runs():
        for gamma in values:
            yield _job("gamma", *ran, eps=0.1, gamma=gamma, dimension=100, bend=gamma)


def _dimension(values: Sequence[int]) -> Iterator[Job]:
    for method, extractor in what_runs():
        for d in values if method in OF_DIMENSION else ():
            # σ = 0.2 lets the first batch decide at every d. Along a direction that is spread over coordinates the
            # noise of a curvature falls with d; with a larger σ, that would help NEON.
            yield _job("dimension", method, extractor, eps=0.1, gamma=0.1, dimension=d, bend=0.1, deviation=0.2)


def work(job: Job) -> dict[str, Any]:
    """One run until it knows that it has arrived; of a method that never knows, until it arrives."""
    family = Family(
        shape=Shape(dimension=job["dimension"], gamma=job["gamma"], slope=job["slope"], bend=job["bend"]),
        eps=job["eps"],
        hessian_deviation=job["deviation"],
        num_samples=job["num_samples"],
        max_samples=MAX_SAMPLES,
    )
    settings = told(job["method"], job["eps"], family.variance)
    if job["extractor"] is not None:
        settings |= {"extractor": job["extractor"]}
    outcome = solve(family.case(), job["method"], job["seed"], settings, curvature=False)
    arrival, blind = outcome["arrived"], job["method"] in BLIND
    spent = arrival if blind and arrival else outcome
    counts = {key: spent[key] for key in ("gradients", "products", "values", "calls", "seconds")}
    counted = arrival is not None if blind else outcome["claimed"] and not outcome["false_claim"]
    return counts | {
        "counted": counted,
        "counted_to": "arrival" if blind else "knowledge",
        "arrival": arrival["gradients"] if arrival else None,
        "status": outcome["status"],
        "false_claim": outcome["false_claim"],
        "escapes": outcome["escapes"],
    }


def describe(job: Job) -> str:
    """A few words on a job, for the progress."""
    where = f"ε = {job['eps']:.3g}, γ = {job['gamma']:.3g}, d = {job['dimension']}"
    return f"{job['sweep']}: {what_ran(job['method'], job['extractor'])}, {where}"
