"""Random objectives against dense Hessians: how often is a verdict wrong?

Each objective is ½zᵀHz + c·Σφ(w_iᵀz), z = x − x0, at its stationary point x0, with φ(t) = t³/6, t⁴ or 1 − cos t − t²/2,
whose second derivative is zero there: so the Hessian is H, to the last digit. Random are the dimension (1 to 60), the
spectrum (soft modes beside stiff ones, ties, zeros, signs), its size (1e-6 to 1e6), whether H is rotated, ‖x0‖ (0, or
1e-6 to 1e6), the weight of φ, and float64 or float32.

A minimum is wrong if λ_min < −γ, or λ_min < −bound, as the verdict states them; a saddle if vᵀHv ≥ 0; "not stationary"
is always wrong. φ has structure of width 1. Where the verdict states a resolution of more than a third of that, as in
float32 at ‖x0‖ = 1e5, it cannot be seen; such verdicts are counted apart.

Wanted: no wrong saddle, and other wrong verdicts no more often than δ = 0.05.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle import Function, Verdict, is_minimum

DELTA = 0.05


def problem(seed: int) -> tuple[Function, Tensor, Tensor, dict[str, Any]]:
    """An objective, its stationary point, its Hessian there in float64, and what was drawn."""
    g = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=g, dtype=torch.float64))

    def choice(*of: Any) -> Any:
        return of[int(torch.randint(len(of), (), generator=g))]

    d, dtype = int(uniform(1, 61)), choice(torch.float64, torch.float64, torch.float32)
    size = 10.0 ** uniform(-6, 6)
    kind = choice("spread", "soft", "ties", "zeros", "positive")
    spectrum = torch.rand(d, generator=g, dtype=torch.float64) + 0.05
    if kind == "spread":
        spectrum -= uniform(0.0, 0.6)
    elif kind == "soft":
        spectrum[0] = choice(-1.0, 1.0) * 10.0 ** uniform(-6, -2)
    elif kind == "ties":
        spectrum = torch.tensor([choice(-1.0, 1.0) if i == 0 else 1.0 for i in range(d)], dtype=torch.float64)
    elif kind == "zeros":
        spectrum[: max(1, d // 3)] = 0.0
        spectrum[0] = choice(0.0, -(10.0 ** uniform(-3, 0)))
    Q = torch.eye(d, dtype=torch.float64)
    if choice(True, False):
        Q = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64)).Q
    H = size * (Q @ torch.diag(spectrum) @ Q.T)
    H = ((H + H.T) / 2.0).to(dtype)
    x0 = torch.randn(d, generator=g, dtype=torch.float64)
    norm = choice(0.0, 10.0 ** uniform(-6, 6))
    x0 = (norm * x0 / x0.norm()).to(dtype)
    W = (torch.randn(d, d, generator=g, dtype=torch.float64) / math.sqrt(d)).to(dtype)
    weight, term = size * choice(0.0, 10.0 ** uniform(-3, 1)), choice("cubic", "quartic", "cosine")

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        t, Hz = W @ z, H @ z
        if term == "cubic":
            phi, slope = t**3 / 6.0, t**2 / 2.0
        elif term == "quartic":
            phi, slope = t**4, 4.0 * t**3
        else:
            phi, slope = 1.0 - torch.cos(t) - t**2 / 2.0, torch.sin(t) - t
        return 0.5 * z @ Hz + weight * phi.sum(), Hz + weight * (W.T @ slope)

    drawn = {"d": d, "dtype": str(dtype), "kind": kind, "size": size, "norm": norm, "weight": weight, "term": term}
    return Function(value_and_grad, gradient=True), x0, H.double(), drawn


def worth(verdict: Verdict, H: Tensor) -> str:
    """Right, undecided, or what is wrong."""
    lowest = float(torch.linalg.eigvalsh(H)[0])
    rounding = 1e-12 * float(H.abs().max())
    if verdict.kind == "undecided":
        return "undecided"
    if verdict.kind == "not stationary":
        return "wrong: not stationary"
    if verdict.kind == "saddle":
        assert verdict.direction is not None
        v = verdict.direction.double()
        return "saddle" if float(v @ H @ v) < 0.0 else "wrong: saddle"
    if lowest < -verdict.gamma - rounding:
        return "wrong: minimum"
    return "minimum" if lowest >= -verdict.bound - rounding else "wrong: bound"


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    args = parser.parse_args()
    report = Report.begin("fuzz", args)
    counts: dict[str, Counter[str]] = {}
    for seed in range(args.seed, args.seed + args.count):
        f, x0, H, drawn = problem(seed)
        verdict = is_minimum(f, x0, seed=seed)
        result = worth(verdict, H)
        if result.startswith("wrong") and drawn["weight"] > 0.0 and verdict.resolution > 0.3:
            result = "below resolution"
        group = f"{drawn['kind']}, {drawn['dtype'][6:]}"
        counts.setdefault(group, Counter())[result] += 1
        report.row(settings=drawn, status=result, seed=seed, gradients=verdict.cost.gradients)
        if result.startswith("wrong"):
            print(f"  seed {seed}: {result}, {drawn}, {verdict.kind} {verdict.curvature:.3g}", flush=True)
    kinds = sorted({result for counter in counts.values() for result in counter})
    rows = [[group, *(str(counter[kind]) for kind in kinds)] for group, counter in sorted(counts.items())]
    table(f"{args.count} objectives from seed {args.seed} on", ["", *kinds], rows)
    total: Counter[str] = sum(counts.values(), Counter())
    report.want("wrong saddles", total["wrong: saddle"], 0)
    others = sum(n for kind, n in total.items() if kind.startswith("wrong"))
    report.want("share of wrong verdicts", others / args.count, DELTA)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
