"""What the printed test of NEON⁺ costs and gains beside the test on lengths, by the public call.

Both run the same iteration (14), with the same η, ζ and r, on the same noise. The printed one tests line 4 of
Algorithm 2, which calls NCFind, at every step, and takes one value a step for that. The default tests lengths. Rows:
gradients and values until a direction is returned, those of measuring it included, and its true curvature as a share of
γ, medians over seeds. t is that of the default at δ = 0.05, U = 1 and 𝓕 = γ/8. Functions have L1 = 1 and one curvature
of −2γ or −γ in 500 dimensions, and differ in the rest of their spectrum. At −γ, line 4 never holds, and the printed
algorithm takes all t steps.

Wanted: every direction has true curvature of at most −γ/2.
"""

from __future__ import annotations

import itertools
import math
import statistics

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle import Function, NeonPlusSettings, negative_curvature
from unsaddle.theory import quadratics

DIMENSION, RADIUS = 500, 1e-4


def spectra(gamma: float, lowest: float) -> dict[str, Tensor]:
    """The lowest curvature, 1, and what is between them."""
    d = DIMENSION - 2
    between = {
        "zeros": torch.zeros(d),
        "spread over [0, 1]": torch.linspace(0.0, 1.0, d),
        "a bulk at -γ/3": torch.full((d,), -gamma / 3.0),
    }
    ends = torch.tensor([lowest, 1.0])
    return {name: torch.cat([ends, rest]).double() for name, rest in between.items()}


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    report = Report.begin("printed", args)
    rows = []
    for gamma, times in itertools.product((1e-2, 1e-3), (2.0, 1.0)):
        steps = quadratics.neon_plus_num_steps(step_size=0.5, gamma=gamma, dimension=DIMENSION, delta=0.05)
        for name, spectrum in spectra(gamma, -times * gamma).items():
            f = Function(lambda x, s=spectrum: (0.5 * (s * x * x).sum(), s * x), gradient=True)
            x = torch.zeros(DIMENSION, dtype=torch.float64)
            shared = {"step_size": 0.5, "num_steps": steps, "momentum": 1.0 - math.sqrt(0.5 * gamma), "gamma": gamma}
            shared |= {"noise_radius": RADIUS, "trust_radius": 1.0}
            tests = {
                "printed": NeonPlusSettings(**shared, decrease=gamma / 8.0),
                "lengths": NeonPlusSettings(**shared, target=gamma / 2.0),
            }
            case = f"γ = {gamma:g}, lowest {-times * gamma:g}, {name}"
            cells = [case]
            for test, settings in tests.items():
                seen = []
                for seed in range(args.seed, args.seed + args.seeds):
                    found = negative_curvature(
                        f, x, extractor="neon+", settings=settings, smoothness=1.0, hessian_lipschitz=0.0, seed=seed
                    )
                    v = found.direction
                    share = math.nan if v is None else -float((spectrum * v * v).sum()) / gamma
                    cost = {"gradients": found.cost.gradients, "values": found.cost.values, "share": share}
                    settings_row = {"case": case, "test": test}
                    report.row(settings=settings_row, status=found.status.name, seed=seed, **cost)
                    seen.append(cost)
                median = {key: statistics.median(one[key] for one in seen) for key in ("gradients", "values", "share")}
                cells += [f"{median['gradients']:.0f}", f"{median['values']:.0f}", f"{median['share']:.2f}"]
                least = min(one["share"] for one in seen)
                report.want(f"{case}, {test}: least curvature over -γ", least, math.inf, 0.5)
            rows.append(cells)
    heads = [
        "",
        *(f"{test}: {what}" for test in ("printed", "lengths") for what in ("gradients", "values", "share of γ")),
    ]
    table(f"Medians of {args.seeds} seeds", heads, rows)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
