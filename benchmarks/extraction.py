"""Gradients to a direction, and to "nothing", of every gradient-only extractor: what `auto` rests on.

    python -m benchmarks.extraction

A problem with a known spectrum (one eigenvalue at −γ, the rest spread over [0, L1]), γ/L1 = 10⁻², in two dimensions
and two precisions; L1, L2 and γ are given to those that need them. Medians and ranges over seeds; what is found is
verified with exact Hessian products outside of the run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle import negative_curvature
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import KrylovSettings, krylov
from unsaddle.curvature.power import second_order
from unsaddle.problems import Problem, positive_semidefinite, prescribed_spectrum, rank_one_negative

GAMMA, L1, L2 = 1e-2, 1.0, 1e-2
EXTRACTORS = ("krylov", "neon", "neon+", "neon-renormalised", "neon+-renormalised", "neon2-det")
BASES = (10, 20, 400)


def problem(spectrum: Tensor, dtype: torch.dtype) -> Problem:
    return prescribed_spectrum(spectrum, power=3, scale=L2, dtype=dtype)


def front_door(extractor: str, at: Problem, seed: int) -> tuple[int, float | None]:
    """Gradients spent and, if there is a direction, its true curvature."""
    x = torch.zeros(at.dimension, dtype=at.dtype)
    constants = {} if extractor == "krylov" else {"smoothness": L1, "hessian_lipschitz": L2}
    result = negative_curvature(at.objective, x, gamma=GAMMA, extractor=extractor, seed=seed, **constants)
    return result.cost.gradients, None if result.direction is None else true_curvature(at, result.direction)


def with_basis(basis: int) -> Callable[[Problem, int], tuple[int, float | None]]:
    def run(at: Problem, seed: int) -> tuple[int, float | None]:
        f = at.objective.sample()
        f_hat = DisplacedFunction(f, torch.zeros(at.dimension, dtype=at.dtype))
        eps = torch.finfo(at.dtype).eps
        settings = KrylovSettings(num_steps=5000, delta=0.05, gamma=GAMMA, smallest_radius=eps**0.5, basis=basis)
        found = krylov(f_hat, settings, torch.Generator().manual_seed(seed))
        return f.cost.gradients, None if found.vector is None else true_curvature(at, found.vector)

    return run


def true_curvature(at: Problem, v: Tensor) -> float:
    f = second_order(at.objective.sample(hessian=True))
    return float(v @ f.hvp(torch.zeros_like(v), v) / (v @ v))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    chosen = parser.parse_args(arguments)
    report = Report.begin("extraction", chosen)
    runs: dict[str, Callable[[Problem, int], tuple[int, float | None]]] = {
        extractor: (lambda at, seed, extractor=extractor: front_door(extractor, at, seed)) for extractor in EXTRACTORS
    }
    runs |= {f"krylov alone, basis {basis}": with_basis(basis) for basis in BASES}
    for dimension in (1000, 100_000):
        for dtype in (torch.float64, torch.float32):
            saddle = problem(rank_one_negative(dimension, lowest=-GAMMA, largest=L1), dtype)
            minimum = problem(positive_semidefinite(dimension, largest=L1), dtype)
            seeds = range(chosen.seed, chosen.seed + (chosen.seeds if dimension <= 1000 else max(5, chosen.seeds // 4)))
            lines = []
            for name, run in runs.items():
                at_saddle = [run(saddle, seed) for seed in seeds]
                at_minimum = [run(minimum, seed) for seed in seeds]
                found = [g for g, c in at_saddle if c is not None and c <= -GAMMA / 2.0]
                false = sum(c is not None for _, c in at_minimum)
                nothing = [g for g, _ in at_minimum]
                lines.append([name, _spread(found), f"{len(found)}/{len(seeds)}", _spread(nothing), str(false)])
                report.row(
                    settings={"extractor": name, "dimension": dimension, "dtype": str(dtype), "gamma": GAMMA},
                    status="done",
                    found=found,
                    nothing=nothing,
                    false=false,
                )
            table(
                f"d = {dimension}, {str(dtype).removeprefix('torch.')}, γ/L1 = {GAMMA / L1:g}",
                ["extractor", "gradients to −γ/2", "found", 'gradients to "nothing"', "false"],
                lines,
            )
    return report.end(chosen.out)


def _spread(counts: Sequence[int]) -> str:
    return f"{statistics.median(counts):.0f} ({min(counts)}–{max(counts)})" if counts else "–"


if __name__ == "__main__":
    raise SystemExit(main())
