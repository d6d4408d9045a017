"""What a step of an extractor takes beyond the gradient that it needs anyway.

(a) The paper's function with n=6000 and d=5000 in float64, on dense random features in [−1, 1]: the time of a step over
    the time of a value-and-gradient.
(b) f(x) = Σ (x⁴/4 − x²/2) with d=1e7 in float32, about the cheapest gradient there is: the time that a step takes
    beyond its gradient, in axpys, `u.add_(v, alpha=a)` of that length. The gradient is written to the same memory each
    time: one made in new memory has to be freed, which here takes as long as two thirds of an axpy, and would be
    charged to the step.

How it is timed. The oracle under the extractor writes down when each of its calls begins and ends. From one beginning
to the next is one step; from an end to the next beginning is the step without its gradient: tests, sweep, checks,
counting, freeing the last gradient. The noise, f̂ and the first step, which touches new memory, are set-up and not
counted. Each round times everything once, one after the other, so that whatever else the machine does hits all of them
alike; medians are taken over all rounds. Two denominators are shown:

- gradient *alone*: called by itself in the same round, its result freed; judged in (a);
- gradient *inside* the run: what the oracle took between two sweeps; "beyond" in (b) is the rest, judged in (b).

`--blocks` repeats (b) for several sizes of `vectors.BLOCK_BYTES`; `--overhead` shows what is left of a step when the
gradient is free and vectors are short.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from benchmarks import separable
from benchmarks.environment import Report, options, table
from benchmarks.extractors import EXTRACTORS
from unsaddle import Function, vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.objective import Oracle, SampledFunction
from unsaddle.problems import sigmoid_least_squares

STEPS = 7
"""Of one timed run: the first is set-up, and the last has no next beginning."""
AXPYS = 5
"""In each round."""
MEETING, MEET = 1 << 17, "threads meet"
"""A sum so short that its time is that of two threads starting and meeting again: tens of microseconds if both have a
core, and a time slice of the scheduler, milliseconds, if others compete for it."""
LONGEST_WAIT, LARGEST_LOSS = 1e-3, 0.05
"""Seconds that threads may take to meet, and share of the time that the main thread may be without a core. Beyond them
the machine is busy, and times say more about it than about the code: long things are hit more often than short ones, so
what is divided by a short one can come out too large or too small."""


class Clocked(Oracle):
    """An oracle that writes down when its gradients begin and end."""

    def __init__(self, f: SampledFunction) -> None:
        self._f = f
        self.begins: list[float] = []
        self.ends: list[float] = []

    def value(self, x: Tensor) -> Tensor:
        return self._f.value(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.begins.append(time.perf_counter())
        answer = self._f.value_and_grad(x)
        self.ends.append(time.perf_counter())
        return answer

    def steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of all steps but the first and the last: whole, inside the gradient, and beyond it. Starts anew."""
        begins, ends = np.array(self.begins), np.array(self.ends)
        self.begins.clear()
        self.ends.clear()
        whole, beyond = begins[2:] - begins[1:-1], begins[2:] - ends[1:-1]
        return whole, whole - beyond, beyond


@dataclass
class Times:
    """Seconds, by what was timed."""

    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wall: float = 0.0
    """All the time that measuring took,"""
    cpu: float = 0.0
    """and how much of it the main thread had a core."""

    @property
    def busy(self) -> str:
        """How other processes spoiled these times; empty if they did not."""
        wait, lost = float(np.percentile(self.samples[MEET], 75)), 1.0 - self.cpu / self.wall
        reasons = []
        if wait > LONGEST_WAIT:
            reasons.append(f"in a quarter of the tries threads took over {1e3 * wait:.1f} ms to meet")
        if lost > LARGEST_LOSS:
            reasons.append(f"the main thread had no core for {lost:.0%} of the time")
        return "; ".join(reasons)

    def join(self, other: Times) -> None:
        for what, samples in other.samples.items():
            self.add(what, np.array(samples))
        self.wall, self.cpu = self.wall + other.wall, self.cpu + other.cpu

    def add(self, what: str, seconds: float | np.ndarray) -> None:
        self.samples[what].extend(np.atleast_1d(seconds).tolist())

    def median(self, what: str) -> float:
        return float(np.median(self.samples[what]))

    def quartiles(self, what: str) -> tuple[float, float]:
        low, high = np.percentile(self.samples[what], [25, 75])
        return float(low), float(high)


def timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def measure(
    f: SampledFunction, x: Tensor, *, rounds: int, steps: int, seed: int, with_axpy: bool, warm_up: bool = True
) -> Times:
    """Time a gradient alone, an axpy, and steps of every extractor, in turn, `rounds` times."""
    clock = Clocked(f)
    f_hat = DisplacedFunction(SampledFunction(clock, f.size), x)
    a, b = torch.zeros_like(x), torch.ones_like(x)
    shared = torch.zeros(MEETING)
    times = Times()
    wall, cpu = time.perf_counter(), time.thread_time()
    for turn in range(0 if warm_up else 1, rounds + 1):
        into = times if turn else Times()
        for _ in range(AXPYS):
            into.add(MEET, timed(lambda: shared.add_(1.0)))
        for _ in range(AXPYS if with_axpy else 0):
            into.add("axpy", timed(lambda: a.add_(b, alpha=1e-3)))
        for name, extractor in EXTRACTORS.items():
            for _ in range(2):  # Before each extractor, so that the gradient alone is sampled all through the round.
                into.add("gradient alone", timed(lambda: f.value_and_grad(x)))
            clock.steps()
            extractor.run(f_hat, steps, torch.Generator().manual_seed(seed + turn))
            whole, inside, beyond = clock.steps()
            into.add(f"{name}: step", whole)
            into.add(f"{name}: gradient inside", inside)
            into.add(f"{name}: beyond the gradient", beyond)
    times.wall, times.cpu = time.perf_counter() - wall, time.thread_time() - cpu
    return times


def show(report: Report, title: str, times: Times, settings: dict[str, object]) -> None:
    lines = []
    for what, samples in times.samples.items():
        low, high = times.quartiles(what)
        lines.append([what, *(f"{1e3 * t:.3f}" for t in (times.median(what), low, high)), str(len(samples))])
        measured = {"median_seconds": times.median(what), "quartiles_seconds": [low, high], "count": len(samples)}
        status = f"timed on a busy machine: {times.busy}" if times.busy else "timed"
        report.row(settings=settings | {"timed": what}, status=status, **measured)
    table(title, ["timed", "median ms", "25 %", "75 %", "count"], lines)
    warn_if_busy(times)


def warn_if_busy(times: Times) -> None:
    if times.busy:
        print(f"  BUSY MACHINE, so these times do not count: {times.busy}. Wait for a quiet one.")


def on_the_papers_function(report: Report, n: int, d: int, rounds: int) -> None:
    generator = torch.Generator().manual_seed(report.seed)
    features = torch.empty(n, d, dtype=torch.float64).uniform_(-1.0, 1.0, generator=generator)
    labels = torch.randint(2, (n,), generator=generator)
    x = torch.randn(d, generator=generator, dtype=torch.float64) / math.sqrt(d)
    f = sigmoid_least_squares(features, labels).objective.sample()
    times = measure(f, x, rounds=rounds, steps=STEPS, seed=report.seed, with_axpy=False)
    settings: dict[str, object] = {"function": "sigmoid least squares", "n": n, "d": d, "dtype": "float64"}
    show(
        report,
        f"(a) the paper's function, n={n}, d={d}, float64, {rounds} rounds",
        times,
        settings | {"rounds": rounds},
    )
    for name, extractor in EXTRACTORS.items():
        step, inside = times.median(f"{name}: step"), times.median(f"{name}: gradient inside")
        print(f"  {name}: step over the gradient inside the same run {step / inside:.4f}")
        ratio = step / times.median("gradient alone")
        report.want(f"(a) {name}: step over gradient", ratio, at_most=extractor.step_over_gradient)


def on_a_separable_function(report: Report, d: int, rounds: int) -> None:
    f, x = _double_wells(d, report.seed)
    times = measure(f, x, rounds=rounds, steps=STEPS, seed=report.seed, with_axpy=True)
    settings: dict[str, object] = {"function": "double wells", "d": d, "dtype": "float32"}
    show(report, f"(b) separable, d={d:.0e}, float32, {rounds} rounds", times, settings | {"rounds": rounds})
    axpy = times.median("axpy")
    for name, extractor in EXTRACTORS.items():
        more = (times.median(f"{name}: step") - times.median("gradient alone")) / axpy
        print(f"  {name}: step minus the gradient alone, in axpys {more:.2f}")
        beyond = times.median(f"{name}: beyond the gradient") / axpy
        report.want(f"(b) {name}: beyond its gradient, in axpys", beyond, at_most=extractor.axpys_beyond_gradient)


def _double_wells(d: int, seed: int) -> tuple[SampledFunction, Tensor]:
    x = separable.point(d, seed)
    return separable.double_wells(buffer=torch.zeros_like(x)).sample(), x


def block_sizes(report: Report, d: int, rounds: int) -> None:
    """(b) for several sizes of a block, in turn."""
    f, x = _double_wells(d, report.seed)
    standard = vectors.BLOCK_BYTES
    sizes = {f"{kib} KiB": kib << 10 for kib in (64, 256, 1024, 2048, 4096, 8192, 16384)} | {"no blocks": 4 * d + 4}
    by_size: dict[str, Times] = {label: Times() for label in sizes}
    try:
        for turn in range(rounds):
            for label, size in sizes.items():
                vectors.BLOCK_BYTES = size
                by_size[label].join(
                    measure(f, x, rounds=1, steps=5, seed=report.seed + turn, with_axpy=True, warm_up=turn == 0)
                )
    finally:
        vectors.BLOCK_BYTES = standard
    axpy = float(np.median(np.concatenate([times.samples["axpy"] for times in by_size.values()])))
    lines = []
    for label, times in by_size.items():
        cells = []
        for name in EXTRACTORS:
            low, high = times.quartiles(f"{name}: beyond the gradient")
            median = times.median(f"{name}: beyond the gradient")
            cells.append(f"{median / axpy:.2f} ({low / axpy:.2f}-{high / axpy:.2f})")
            settings = {"function": "double wells", "d": d, "block_bytes": sizes[label], "extractor": name}
            report.row(settings=settings, status="timed", axpys=median / axpy, quartiles=[low / axpy, high / axpy])
        lines.append([label + (" (as shipped)" if sizes[label] == standard else ""), *cells])
    title = f"blocks: axpys beyond the gradient, d={d:.0e}, float32, one axpy {1e3 * axpy:.2f} ms, {rounds} rounds"
    table(title, ["size of a block", *EXTRACTORS], lines)
    together = Times()
    for times in by_size.values():
        together.join(times)
    warn_if_busy(together)


def overhead(report: Report, rounds: int) -> None:
    """Microseconds of a step whose gradient is there already."""
    lines = []
    for d in (10, 1000, 5000, 50_000):
        answer = (torch.tensor(1.0, dtype=torch.float64), torch.full((d,), 1e-6, dtype=torch.float64))
        f = Function(lambda x, answer=answer: answer, gradient=True).sample()
        times = measure(
            f, torch.ones(d, dtype=torch.float64), rounds=rounds, steps=300, seed=report.seed, with_axpy=True
        )
        cells = [f"{1e6 * times.median(what):.1f}" for what in ("axpy", "gradient alone")]
        for name in EXTRACTORS:
            median = times.median(f"{name}: beyond the gradient")
            cells.append(f"{1e6 * median:.1f}")
            settings = {"function": "constant gradient", "d": d, "extractor": name}
            report.row(settings=settings, status="timed", beyond_seconds=median)
        lines.append([str(d), *cells])
    title = "overhead: microseconds of a step beyond a gradient that is free, float64, medians"
    table(title, ["d", "axpy", "gradient alone", *EXTRACTORS], lines)
    warn_if_busy(times)


def main() -> int:
    parser = options("Time of one step of each extractor over the time of one value-and-gradient.")
    parser.add_argument("--rounds", type=int, default=20, help="how often everything is timed in turn; at least 15")
    parser.add_argument("--rows", type=int, default=6000, help="n of (a)")
    parser.add_argument("--dimension", type=int, default=5000, help="d of (a)")
    parser.add_argument("--length", type=int, default=10**7, help="d of (b)")
    parser.add_argument("--blocks", action="store_true", help="instead: (b) for several sizes of vectors.BLOCK_BYTES")
    parser.add_argument("--overhead", action="store_true", help="instead: microseconds of a step on short vectors")
    arguments = parser.parse_args()
    report = Report.begin("step_cost", arguments)
    rounds = max(15, arguments.rounds)
    if arguments.blocks:
        block_sizes(report, arguments.length, rounds)
    if arguments.overhead:
        overhead(report, rounds)
    if not (arguments.blocks or arguments.overhead):
        on_the_papers_function(report, arguments.rows, arguments.dimension, rounds)
        on_a_separable_function(report, arguments.length, rounds)
    return report.end(arguments.out)


if __name__ == "__main__":
    raise SystemExit(main())
