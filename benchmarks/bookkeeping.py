"""What a stochastic method takes beyond drawing its batches and evaluating their gradients.

    python -m benchmarks.bookkeeping

The paper's function with n=6000 and d=5000 in float64, on dense random features in [−1, 1]; steps on b = 1 and b = 100
samples. For each method, two loops of equally many steps over the same batches, drawn with the same seed:

- *bare*: draw the batch, evaluate its gradients at the points where the method does (two a step for SCSG and SVRG, one
  for SGD), and drop them: `objective.sample(b, generator)`, `f.grad(x)`;
- *whole*: the method's own loop, `descend` of SCSG and SVRG or `sm` of SGD, heavy ball and Nesterov, on the objective
  that `minimize` hands to it, which counts every call against a budget.

Bookkeeping is whole/bare − 1: the update of x, secants, momentum, counting, and the budget. In each round every whole
loop stands between two bare ones and is divided by their mean, so that whatever else the machine does hits both alike;
judged is the median over rounds. Times are those of the one thread, not of the clock, so that waiting for a core is not
counted; what neighbours do to the caches still is. Shown beside it: what drawing takes by itself, and what is left of a
gradient if its rows are at hand and nothing is checked or counted. On a busy machine, which the benchmark tells, the
ratio of the quickest rounds of both loops is nearer to what a quiet one would show.

The rows of a batch take 4 MB for b = 100. As the C library sees fit, that goes back to the system when a batch is
dropped and is fetched again, page by page, for the next: luck that can double the time of either loop. Where it is
glibc it is asked to keep what it has. `--held` leaves it as it is, and shows the bare loop with its page faults: few if
a batch is dropped before the next is drawn, as the loops do, many if it is held until then.
"""

from __future__ import annotations

import ctypes
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.environment import Report, options, table
from unsaddle.first_order.momentum import MomentumSettings, sm
from unsaddle.first_order.variance_reduced import InnerLoop, descend
from unsaddle.objective import Objective
from unsaddle.problems import sigmoid_least_squares
from unsaddle.run import Run

LIMITS = {1: 0.10, 100: 0.03}
STEPS = {1: 120, 100: 60}
STEP_SIZE = 1e-6
"""So small that no step leads anywhere: what is timed does not depend on where x is."""
SM = {"sgd": (0.0, 1.0), "heavy ball": (0.9, 0.0), "nesterov": (0.9, 1.0)}
"""β and s."""
WHOLE = {"scsg": "bare, two gradients"} | dict.fromkeys(SM, "bare, one gradient")
"""The loops that are judged, and what by."""


LARGEST_LOSS = 0.05
"""Share of the time that the thread may be without a core. Beyond it, others use the caches as well."""


def bare(objective: Objective, points: tuple[Tensor, ...], b: int, steps: int, seed: int, held: bool = False) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        f = objective.sample(b, generator)
        for x in points:
            f.grad(x)
        if not held:
            del f


def draws(objective: Objective, b: int, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        objective.sample(b, generator)


def loops(objective: Objective, x0: Tensor, b: int, steps: int) -> dict[str, Callable[[int], object]]:
    """What is timed, each a function of a seed."""
    counted = Run(objective, x0, method="bookkeeping", eps=1.0, max_samples=10**12).objective
    everything = objective.sample()
    h, x = everything.grad(x0).clone(), x0 + 1e-6
    oracle = objective.sample(b, torch.Generator().manual_seed(0))._oracle  # The rows, and nothing around them.
    inner = InnerLoop(batch_size=b, step_size=STEP_SIZE, num_steps=steps)

    def momentum(beta: float, s: float) -> Callable[[int], object]:
        settings = MomentumSettings(step_size=STEP_SIZE, momentum=beta, s=s, num_steps=steps, batch_size=b)
        return lambda seed: sm(counted, x0, settings, torch.Generator().manual_seed(seed))

    return {
        "drawing alone": lambda seed: draws(objective, b, steps, seed),
        "gradient alone": lambda seed: [oracle.value_and_grad(x0) for _ in range(steps)],
        "bare, one gradient": lambda seed: bare(objective, (x0,), b, steps, seed),
        "bare, two gradients": lambda seed: bare(objective, (x0, x), b, steps, seed),
        "scsg": lambda seed: descend(counted, x0, h, inner, torch.Generator().manual_seed(seed)),
        **{name: momentum(beta, s) for name, (beta, s) in SM.items()},
    }


def keep_memory() -> None:
    """Have malloc return nothing to the system, if it is glibc's: M_TRIM_THRESHOLD is −1, M_MMAP_THRESHOLD −3."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not (mallopt(-1, 1 << 30) and mallopt(-3, 1 << 30)):
        print("  memory is returned to the system as usual: expect noise for b = 100")


def timed(action: Callable[[int], object], seed: int) -> float:
    begin = time.thread_time()
    action(seed)
    return time.thread_time() - begin


def measure(report: Report, objective: Objective, x0: Tensor, b: int, rounds: int) -> None:
    steps = STEPS[b]
    actions = loops(objective, x0, b, steps)
    times: dict[str, list[float]] = {name: [] for name in actions}
    shares: dict[str, list[float]] = {name: [] for name in WHOLE}
    wall, cpu = time.perf_counter(), time.thread_time()
    for turn in range(rounds + 1):
        seed = report.seed + turn
        took = {name: [timed(actions[name], seed) / steps] for name in ("drawing alone", "gradient alone")}
        for name, unit in WHOLE.items():
            before, whole, after = (timed(actions[k], seed) / steps for k in (unit, name, unit))
            took.setdefault(unit, []).extend((before, after))
            took[name] = [whole]
            if turn:  # The first round warms up.
                shares[name].append(2.0 * whole / (before + after) - 1.0)
        for name, seconds in took.items():
            times[name] += seconds if turn else []
    without = 1.0 - (time.thread_time() - cpu) / (time.perf_counter() - wall)
    lines = []
    for name in actions:
        cells = [name, f"{1e6 * statistics.median(times[name]):.1f}"]
        if name in WHOLE:
            low, median, high = statistics.quantiles(shares[name], n=4)
            quickest = min(times[name]) / min(times[WHOLE[name]]) - 1.0
            cells += [f"{100 * median:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %", f"{100 * quickest:.1f} %"]
        lines.append([*cells, *[""] * (5 - len(cells))])
        settings = {"timed": name, "batch": b, "dimension": x0.numel(), "steps": steps, "rounds": rounds}
        report.row(
            settings=settings,
            status=f"timed; without a core {without:.0%} of the time",
            median_seconds=statistics.median(times[name]),
            shares=shares.get(name, []),
        )
    table(
        f"b = {b}: microseconds of the thread's time a step, medians over {rounds} rounds of {steps} steps",
        ["timed", "µs a step", "bookkeeping", "half of the rounds", "of the quickest"],
        lines,
    )
    if without > LARGEST_LOSS:
        print(
            f"  BUSY MACHINE, so these times do not count: no core for {without:.0%} of the time. Wait for a quiet one."
        )
    for name in WHOLE:
        report.want(f"{name}, b = {b}: whole/bare − 1", statistics.median(shares[name]), at_most=LIMITS[b])


def held(report: Report, objective: Objective, x0: Tensor, rounds: int) -> None:
    """What it costs to hold on to a batch until the next is there."""
    lines = []
    b = max(LIMITS)
    for hold in (False, True):
        seconds, faults = [], []
        for turn in range(rounds + 1):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            took = timed(lambda seed, hold=hold: bare(objective, (x0, x0), b, STEPS[b], seed, hold), turn) / STEPS[b]
            faults.append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / STEPS[b])
            seconds.append(took)
        name = "held until the next is drawn" if hold else "dropped first"
        lines.append([name, f"{1e6 * statistics.median(seconds[1:]):.0f}", f"{statistics.median(faults[1:]):.0f}"])
        report.row(settings={"batch": b, "held": hold}, status="timed", seconds=seconds[1:], page_faults=faults[1:])
    table(
        f"two gradients a step on a batch of {b}, medians over {rounds} rounds", ["batch", "µs", "page faults"], lines
    )


def main() -> int:
    parser = options("Time of a stochastic step beyond drawing its batch and evaluating its gradients.")
    parser.add_argument("--rounds", type=int, default=151, help="how often everything is timed in turn")
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--dimension", type=int, default=5000)
    parser.add_argument("--held", action="store_true", help="instead: what holding on to a batch costs")
    parser.set_defaults(threads=1)
    chosen = parser.parse_args()
    if chosen.threads != 1:
        raise SystemExit(f"--threads must be 1, as the time of one thread is measured; got {chosen.threads}")
    report = Report.begin("bookkeeping", chosen)
    random = torch.Generator().manual_seed(report.seed)
    features = torch.empty(chosen.rows, chosen.dimension, dtype=torch.float64).uniform_(-1.0, 1.0, generator=random)
    labels = torch.randint(2, (chosen.rows,), generator=random)
    objective = sigmoid_least_squares(features, labels).objective
    x0 = torch.randn(chosen.dimension, generator=random, dtype=torch.float64) / chosen.dimension**0.5
    if chosen.held:
        held(report, objective, x0, chosen.rounds)
        return report.end(chosen.out)
    keep_memory()
    for b in LIMITS:
        measure(report, objective, x0, b, chosen.rounds)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
