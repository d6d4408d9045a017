"""What the probe in the training loop claims where there is nothing to claim, and how wide its interval is.

    python -m benchmarks.online [--plateaus 1000] [--only skewed]
    python -m benchmarks.online --turns [--seeds 10]

Plateaus with a known truth: f_B(x) = ½xᵀH_Bx at x = 0, where the mean H of the H_B has no negative curvature, λ_min = 0
exactly, and every single batch has plenty. `Neon.step(closure)` looks, collects and decides, with nothing but its
defaults. Wanted: "saddle" in no more than δ = 5 % of them, by the binomial bound. The interval's coverage is that of
the mean curvature along the directions that were measured, which the known H tells.

With `--turns` something else: how fast the direction turns downwards, with other constants, momentum and a metric
(`online_turns`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks import online_turns
from benchmarks.environment import Report, options, table
from unsaddle import Neon
from unsaddle.measure.confidence_sequence import SETTLING, Interval
from unsaddle.torch_optim import policy
from unsaddle.torch_optim.rules import DELTA

SIZE, STEPS = 12, 160
Draw = Callable[[torch.Generator], Tensor]


def _symmetric(entries: Tensor) -> Tensor:
    return (entries + entries.T) / math.sqrt(2.0)


def _normal(generator: torch.Generator) -> Tensor:
    return _symmetric(torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64))


def _heavy(generator: torch.Generator) -> Tensor:
    """Normal noise over √χ²: Student's t with 3 degrees of freedom for every direction."""
    chi = torch.randn(3, generator=generator, dtype=torch.float64).square().mean()
    return _normal(generator) / chi.sqrt()


def _rows(generator: torch.Generator) -> Tensor:
    """Noise of a batch of 8 rows, ½(aaᵀ − I): skewed towards large positive values."""
    a = torch.randn(8, SIZE, generator=generator, dtype=torch.float64)
    return a.T @ a / 8.0 - torch.eye(SIZE, dtype=torch.float64)


FLAT_PLATEAUS: dict[str, Draw] = {
    "normal noise": _normal,
    "heavy tails": _heavy,
    "skewed, batches of 8": _rows,
    "skewed the other way": lambda generator: -_rows(generator),
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One plateau: the verdict, and whether the interval ever missed the mean curvature of what was measured."""

    verdict: str
    missed: bool
    gradients: int


def plateau(name: str, seed: int, noise: float = 1.0) -> Outcome:
    """Trains on one plateau until there is a verdict."""
    generator, draw = torch.Generator().manual_seed(seed), FLAT_PLATEAUS[name]
    q = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64))[0]
    truth = q @ torch.diag(torch.linspace(0.0, 1.0, SIZE, dtype=torch.float64)) @ q.T
    x = nn.Parameter(torch.zeros(SIZE, dtype=torch.float64))
    neon = Neon(torch.optim.SGD([x], lr=0.0), every=8, escape=False, seed=seed)
    state, curvatures, missed = neon._prober.state, list[float](), False
    for _ in range(STEPS):
        hessian, u = truth + noise * draw(generator), state.direction
        before = len(state.curvatures)

        def closure(hessian: Tensor = hessian) -> Tensor:
            neon.zero_grad()
            loss = x @ hessian @ x / 2.0
            loss.backward()
            return loss

        neon.step(closure)
        if u is not None and len(state.curvatures) == before + 1:
            curvatures.append(float(u @ truth @ u))
            missed = missed or _misses(policy.collected(state), curvatures)
        if neon.events:
            break
    if not neon.events:
        return Outcome(verdict="none yet", missed=missed, gradients=state.spent)
    return Outcome(verdict=neon.events[0].verdict, missed=missed, gradients=neon.events[0].gradients)


def _misses(seen: Interval, curvatures: Sequence[float]) -> bool:
    """Whether the interval leaves out the weighted mean of the true curvatures."""
    weights = range(SETTLING + 1, len(curvatures) + 1)
    if len(weights) == 0:
        return False
    mean = sum(w * c for w, c in zip(weights, curvatures[SETTLING:], strict=True)) / sum(weights)
    return not seen.lower <= mean <= seen.upper


def most_by_chance(count: int, delta: float, sure: float = 0.99) -> int:
    """How many of `count` happen by chance at most, with probability `sure`, if each does with probability δ."""
    total, k = 0.0, -1
    while total < sure:
        k += 1
        total += math.comb(count, k) * delta**k * (1.0 - delta) ** (count - k)
    return k


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--plateaus", type=int, default=1000)
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--turns", action="store_true", help="other ways to turn the direction, instead of plateaus")
    parser.add_argument("--seeds", type=int, default=10, help="of --turns")
    chosen = parser.parse_args(arguments)
    report = Report.begin("online", chosen)
    if chosen.turns:
        online_turns.study(report, chosen.seeds)
        return report.end(chosen.out)
    rows = []
    for name in FLAT_PLATEAUS:
        if chosen.only not in name:
            continue
        outcomes = [plateau(name, seed) for seed in range(report.seed, report.seed + chosen.plateaus)]
        verdicts, missed = Counter(outcome.verdict for outcome in outcomes), sum(o.missed for o in outcomes)
        said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        rows.append([name, said, f"{1.0 - missed / len(outcomes):.3f}"])
        report.row(settings={"case": name, "plateaus": len(outcomes)}, status="done", missed=missed, **dict(verdicts))
        most = most_by_chance(len(outcomes), DELTA)
        report.want(f"{name}: called saddles, of {len(outcomes)}", verdicts["saddle"], at_most=most)
    table("Plateaus without negative curvature", ["case", "first verdicts", "coverage at all times"], rows)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
