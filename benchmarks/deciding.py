"""Samples until NEON-A knows that it has arrived, by the extractor inside: streams and finite sums.

Each run goes from a saddle to a minimum by `minimize(method="neon-scsg", extractor=...)`. It has to leave the saddle,
and to say at the end that there is nothing below −γ. An answer is right if the exact gradient and the dense Hessian
bear it out: ‖∇F(x)‖ ≤ 1.5ε and λ_min ≥ −γ.

Wanted: all right, with at most 5 (`neon+`) and 30 (`neon`) times the samples of `auto` at the median.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle import FiniteSum, Stream, minimize
from unsaddle.experiments import cases
from unsaddle.experiments.case import Case
from unsaddle.objective import Objective

EXTRACTORS = ("auto", "neon+", "neon", "neon+-renormalised", "neon-renormalised", "neon2-det")
ONLINE = ("neon2-online", "oja-first-order")
"""They take fresh samples at every step, and a number of them that grows with (L1/γ)²."""

WANTED = {"neon+": 5.0, "neon": 30.0}
MAX_SAMPLES = 100_000_000


def noisy_well(finite: int | None = None) -> Case:
    """A double well along x_1 in 12 dimensions, with noise in every sample's gradient and Hessian."""
    d, noise = 12, 0.3
    spectrum = torch.linspace(0.1, 1.0, d, dtype=torch.float64)

    def loss(x: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        weights, tilt = spectrum + noise * s.mean(dim=0), noise * t.mean(dim=0)
        well = torch.zeros_like(x)
        well[0] = x[0] ** 3 - 0.6 * x[0]
        value = 0.5 * (weights * x * x).sum() + tilt @ x + x[0] ** 4 / 4.0 - 0.3 * x[0] ** 2
        return value, weights * x + tilt + well

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        both = torch.randn(2, size, d, generator=generator, dtype=torch.float64)
        return both[0], both[1]

    name, rows, objective = "noisy well, a stream", None, Stream(loss, draw, gradient=True)
    if finite is not None:
        rows = draw(finite, torch.Generator().manual_seed(0))
        rows = tuple(part - part.mean(dim=0) for part in rows)  # So that F is the same.
        name, objective = f"noisy well, n = {finite}", FiniteSum(loss, *rows, gradient=True)
    off = torch.tensor([-0.6] + [0.0] * (d - 1), dtype=torch.float64)
    return Case(
        name=name,
        objective=objective,
        dimension=d,
        start=lambda seed: torch.zeros(d, dtype=torch.float64),
        value=lambda x: float(0.5 * (spectrum * x * x).sum() + x[0] ** 4 / 4.0 - 0.3 * x[0] ** 2),
        gradient=lambda x: spectrum * x + off * x + torch.cat([x[:1] ** 3, torch.zeros(d - 1, dtype=torch.float64)]),
        hessian=lambda x: torch.diag(spectrum + off + torch.cat([3.0 * x[:1] ** 2, torch.zeros(d - 1).double()])),
        eps=0.05,
    )


CASES = {
    "noisy well": noisy_well,
    "noisy well, n = 4000": lambda: noisy_well(4000),
    "noisy chain": lambda: cases.case("noisy chain"),
    "matrix sensing": lambda: cases.case("matrix sensing"),
    "noisy phases": lambda: cases.case("noisy phases"),
    "sigmoid, digits": lambda: cases.case("sigmoid, digits"),
}


def run(case: Case, extractor: str, seed: int) -> dict[str, Any]:
    """One run, and the truth about where it ended."""
    objective: Objective = case.objective
    start = time.perf_counter()
    asked = {"method": "neon-scsg", "eps": case.eps, "gamma": case.gamma, "max_samples": MAX_SAMPLES}
    solution = minimize(objective, case.start(seed), extractor=extractor, seed=seed, **asked)
    seconds = time.perf_counter() - start
    norm, lowest = float(case.gradient(solution.x).norm()), case.lowest_curvature(solution.x)
    return {
        "right": solution.success and norm <= 1.5 * case.eps and lowest >= -case.gamma,
        "ending": solution.status.name,
        "escapes": solution.escapes,
        "samples": solution.cost.samples,
        "seconds": seconds,
    }


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--online", action="store_true", help="also those that take fresh samples at every step")
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES), metavar="CASE")
    args = parser.parse_args()
    report = Report.begin("deciding", args)
    extractors = (*EXTRACTORS, *(ONLINE if args.online else ()))
    rows: list[list[str]] = []
    for name in args.only:
        case, of_auto = CASES[name](), 1.0
        cells = [f"{name} (d = {case.dimension}, γ = {case.gamma:g})"]
        for extractor in extractors:
            runs = [run(case, extractor, args.seed + seed) for seed in range(args.seeds)]
            settings = {"case": name, "extractor": extractor}
            for seed, one in enumerate(runs):
                report.row(settings=settings, status=one.pop("ending"), seed=args.seed + seed, **one)
            median, right = statistics.median(one["samples"] for one in runs), sum(one["right"] for one in runs)
            of_auto = median if extractor == "auto" else of_auto
            cells.append(f"{median:.3g} (×{median / of_auto:.1f})")
            report.want(f"{name}, {extractor}: share that is right", right / len(runs), 1.0, 1.0)
            if extractor in WANTED:
                report.want(f"{name}, {extractor}: samples over auto's", median / of_auto, WANTED[extractor])
        rows.append(cells)
    table(f"Samples until it is known, median of {args.seeds} seeds (times those of auto)", ["", *extractors], rows)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
