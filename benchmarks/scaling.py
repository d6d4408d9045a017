"""How many gradients NEON and NEON⁺ need to find curvature −γ, against γ/L1.

f(x) = ½ Σ s_i z_i² + (1/6) Σ |z_i|³ in rotated coordinates (`prescribed_spectrum`), at x = 0, where the spectrum s of
the Hessian is known: λ_min = −γ and λ_max = L1 = 1, with L2 = 1 everywhere. The function with c instead of 1 before the
cubic term is the same one in other units of length, and the radii of the extractors follow L2, so nothing depends on
that 1.

The theorems count L1/γ and √(L1/γ) up to the logarithm of what the direction at −γ has to outgrow. That depends on the
rest of the spectrum:

- `zero modes`: half of it is zero, the rest uniform in [0, L1], as in a model with more parameters than data. The same
  d/2 directions have to be outgrown at every γ, so the logarithm is constant, and the fitted exponent is the power.
  This is the spectrum that the wanted exponents are checked on.
- `uniform bulk`: all of the rest is uniform in [0, L1]. About d·γ/L1 directions lie within γ of zero, so the logarithm
  itself falls from log(d/10) to log(1), and the exponents with it. For comparison.
- `uniform`: everything is uniform in [−γ, L1], so that d·γ/L1 more directions go down too. For comparison.

A run counts as a success only if the curvature along what it returned, taken afterwards with an exact Hessian product
that it is not charged for, is at most −γ/2. Failures stay in as runs that needed infinitely many gradients. What is
counted is the whole bill of `negative_curvature`: one gradient at x, the steps, and those that measure the
result. L1 and L2 are given. All extractors are run at their defaults; none was tuned.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle import negative_curvature
from unsaddle.problems import positive_semidefinite, prescribed_spectrum, random_spectrum, rank_one_negative

EXTRACTORS = ("neon", "neon+", "power", "lanczos")
WANTED_EXPONENT = {"neon": (0.85, 1.15), "neon+": (0.4, 0.6)}
WANTED_RATIO, RATIO_AT = 0.6, 1e-2
LARGEST = 1.0
TOLERANCE = 1e-9
"""By which an exact curvature may miss −γ/2, relative to it: rounding of the check itself."""


def with_zero_modes(dimension: int, *, lowest: float, largest: float, seed: int) -> Tensor:
    """λ_min = `lowest`, half of the rest zero, the other half uniform in [0, `largest`]."""
    rest = (dimension - 1) // 2
    needle = rank_one_negative(dimension - rest, lowest=lowest, largest=largest, seed=seed)
    return torch.cat([needle[:1], torch.zeros(rest, dtype=needle.dtype), needle[1:]])


SPECTRA = {"zero modes": with_zero_modes, "uniform bulk": rank_one_negative, "uniform": random_spectrum}
JUDGED = "zero modes"
NOTHING = "nothing there"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One extraction, and how it is to be judged."""

    spectrum: str
    extractor: str
    gamma: float
    dimension: int
    seed: int


def extract(run: Run) -> dict[str, Any]:
    """Do it, and check the direction outside of it."""
    d, gamma = run.dimension, run.gamma
    s = (
        positive_semidefinite(d, largest=LARGEST, zeros=d // 2, seed=run.seed)
        if run.spectrum == NOTHING
        else SPECTRA[run.spectrum](d, lowest=-gamma, largest=LARGEST, seed=run.seed)
    )
    problem = prescribed_spectrum(s, power=3, rotation_seed=run.seed)
    x = torch.zeros(d, dtype=torch.float64)
    result = negative_curvature(
        problem.objective,
        x,
        gamma=gamma,
        extractor=run.extractor,
        smoothness=LARGEST,
        hessian_lipschitz=problem.hessian_lipschitz,
        seed=run.seed,
    )
    exact = math.nan
    if result.direction is not None:
        v = result.direction
        exact = float(v @ problem.objective.sample(hessian=True).hvp(x, v) / (v @ v))
    return {
        "spent": result.cost.gradients + result.cost.hessian_products,
        "gradients": result.cost.gradients,
        "hessian_products": result.cost.hessian_products,
        "true_curvature": exact,
        "success": exact <= -gamma / 2.0 * (1.0 - TOLERANCE),
        "status": result.status.name,
    }


def exponent(needed: np.ndarray, gammas: np.ndarray) -> float:
    """The slope of log(median over seeds) against log(L1/γ)."""
    medians = np.median(needed, axis=1)
    return (
        float(np.polyfit(np.log(LARGEST / gammas), np.log(medians), 1)[0]) if np.isfinite(medians).all() else math.nan
    )


def interval(needed: np.ndarray, gammas: np.ndarray, seed: int, resamples: int = 1000) -> tuple[float, float]:
    """The exponent's 95 % bootstrap interval, seeds resampled at each γ on their own."""
    rng = np.random.default_rng(seed)
    pick = rng.integers(needed.shape[1], size=(resamples, *needed.shape))
    slopes = [exponent(np.take_along_axis(needed, p, axis=1), gammas) for p in pick]
    low, high = np.percentile(slopes, [2.5, 97.5])
    return float(low), float(high)


def main() -> int:
    parser = options("Gradients that NEON and NEON+ need, against gamma/L1, on known spectra.")
    parser.add_argument("--dimension", type=int, default=1000)
    parser.add_argument("--points", type=int, default=7, help="values of gamma/L1, log-spaced from 1e-1 to 1e-3")
    parser.add_argument("--seeds", type=int, default=20, help="runs a point")
    parser.add_argument("--nothing-seeds", type=int, default=3, help="runs a point where there is nothing to find")
    arguments = parser.parse_args()
    report = Report.begin("scaling", arguments)
    gammas = np.logspace(-1.0, -3.0, arguments.points)
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    runs = [
        Run(spectrum=spectrum, extractor=extractor, gamma=float(gamma), dimension=arguments.dimension, seed=seed)
        for gamma in gammas[::-1]  # The long ones first, so that no process waits for the other at the end.
        for spectrum in (*SPECTRA, NOTHING)
        for extractor in EXTRACTORS
        for seed in (seeds[: arguments.nothing_seeds] if spectrum == NOTHING else seeds)
    ]
    # Only counts are taken here, so the runs can share the cores, one thread each.
    with ProcessPoolExecutor(
        arguments.threads, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        outcomes = dict(zip(runs, pool.map(extract, runs, chunksize=1), strict=True))
    for run, outcome in outcomes.items():
        settings = {
            "spectrum": run.spectrum,
            "extractor": run.extractor,
            "gamma": run.gamma,
            "dimension": run.dimension,
        }
        measured = {key: value for key, value in outcome.items() if key != "status"}
        report.row(settings=settings, status=outcome["status"], seed=run.seed, **measured)

    for spectrum in SPECTRA:
        judge_spectrum(report, spectrum, outcomes, gammas, arguments)
    print_nothing(report, outcomes, gammas)
    return report.end(arguments.out)


def judge_spectrum(
    report: Report,
    spectrum: str,
    outcomes: dict[Run, dict[str, Any]],
    gammas: np.ndarray,
    arguments: argparse.Namespace,
) -> None:
    needed: dict[str, np.ndarray] = {}
    for extractor in EXTRACTORS:
        rows = [
            [
                o["spent"] if o["success"] else math.inf
                for run, o in outcomes.items()
                if (run.spectrum, run.extractor, run.gamma) == (spectrum, extractor, float(gamma))
            ]
            for gamma in gammas
        ]
        needed[extractor] = np.array(rows, dtype=float)

    def cell(values: np.ndarray) -> str:
        low, median, high = np.percentile(values, [10, 50, 90], method="nearest")
        return f"{median:.0f} ({low:.0f}-{high:.0f})"

    table(
        f"{spectrum}: gradients (power, lanczos: Hessian products) until curvature <= -gamma/2, "
        f"median and 10-90 % of {arguments.seeds} seeds, d={arguments.dimension}",
        ["gamma/L1", *EXTRACTORS, "neon+/neon"],
        [
            [
                f"{gamma / LARGEST:.2e}",
                *(cell(needed[extractor][i]) for extractor in EXTRACTORS),
                f"{np.median(needed['neon+'][i]) / np.median(needed['neon'][i]):.3f}",
            ]
            for i, gamma in enumerate(gammas)
        ],
    )
    for extractor in EXTRACTORS:
        slope, (low, high) = exponent(needed[extractor], gammas), interval(needed[extractor], gammas, arguments.seed)
        failures, total = int(np.isinf(needed[extractor]).sum()), needed[extractor].size
        print(
            f"  {extractor:8} exponent {slope:.3f}, 95 % interval [{low:.3f}, {high:.3f}]; "
            f"failures {failures} of {total}"
        )
        report.row(
            settings={"spectrum": spectrum, "extractor": extractor, "dimension": arguments.dimension},
            status="fitted" if math.isfinite(slope) else "not fitted",
            exponent=slope,
            interval=[low, high],
            failures=failures,
            runs=total,
        )
    if spectrum != JUDGED:
        return
    for extractor, (low, high) in WANTED_EXPONENT.items():
        report.want(f"exponent of {extractor}", exponent(needed[extractor], gammas), at_most=high, at_least=low)
    at = int(np.argmin(np.abs(np.log(gammas / (RATIO_AT * LARGEST)))))
    ratio = float(np.median(needed["neon+"][at]) / np.median(needed["neon"][at]))
    report.want(f"gradients of neon+ over neon at gamma/L1 = {gammas[at] / LARGEST:.1e}", ratio, at_most=WANTED_RATIO)


def print_nothing(report: Report, outcomes: dict[Run, dict[str, Any]], gammas: np.ndarray) -> None:
    def at(extractor: str, gamma: float) -> list[dict[str, Any]]:
        return [
            o for r, o in outcomes.items() if (r.spectrum, r.extractor, r.gamma) == (NOTHING, extractor, float(gamma))
        ]

    table(
        "nothing there (half of the spectrum zero, the rest positive): what it costs to say so, median",
        ["gamma/L1", *EXTRACTORS, "neon+/neon"],
        [
            [f"{gamma / LARGEST:.2e}"]
            + [f"{costs[extractor]:.0f}" for extractor in EXTRACTORS]
            + [f"{costs['neon+'] / costs['neon']:.3f}"]
            for gamma in gammas
            for costs in [{m: float(np.median([o["spent"] for o in at(m, gamma)])) for m in EXTRACTORS}]
        ],
    )
    found = sum(o["status"] == "FOUND" for run, o in outcomes.items() if run.spectrum == NOTHING)
    total = sum(run.spectrum == NOTHING for run in outcomes)
    report.want(f"directions found where there are none, of {total}", found, at_most=0)


if __name__ == "__main__":
    raise SystemExit(main())
