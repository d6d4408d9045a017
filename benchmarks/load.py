"""Many verdicts at once: are they those of one thread alone, and does memory stay where it is?

1. Threads, each with questions of its own about shared functions and about copies of one model.
2. Processes that do the same.
3. Verdicts one after another in one process: the memory that it holds, at the tenth part of them and at the end.
"""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import TensorDataset

import unsaddle
from benchmarks.environment import Report, options

GROWTH = 8.0
"""MB that a process may grow by over the verdicts; pages of allocators come and go."""


def _network() -> tuple[nn.Module, TensorDataset]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), TensorDataset(torch.randn(20, 2))


NET, ROWS = _network()
FUNCTIONS = (
    unsaddle.Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4),
    unsaddle.Function(lambda x: (x**2).sum() + (x**4).sum()),
    unsaddle.FiniteSum(lambda x, t: ((t @ x) ** 2).mean() - (x**2).sum() / 4, ROWS.tensors[0].double()),
)


def answer(number: int) -> tuple[str, float, float, int]:
    """The verdict of a question, in numbers that are the same whoever asks."""
    which = number % (len(FUNCTIONS) + 1)
    if which == len(FUNCTIONS):
        F = unsaddle.ModelObjective(copy.deepcopy(NET), lambda m, batch: m(batch[0]).square().mean(), ROWS)
        verdict = unsaddle.is_minimum(F, seed=number, max_gradients=40)
    else:
        x = torch.zeros(2, dtype=torch.float64)
        verdict = unsaddle.is_minimum(FUNCTIONS[which], x, seed=number, max_gradients=40)
    return str(verdict.kind), verdict.curvature, verdict.drop, verdict.cost.gradients


def differing(alone: list[object], seen: list[object]) -> int:
    """How many answers are not those of one thread alone. NaN equals NaN."""
    return sum(repr(a) != repr(b) for a, b in zip(alone, seen, strict=True))


def in_threads(count: int, questions: int) -> list[object]:
    """All questions, asked by so many threads that begin together."""
    begin = threading.Barrier(count)

    def work(first: int) -> list[object]:
        begin.wait()
        return [answer(i) for i in range(first, questions, count)]

    with ThreadPoolExecutor(count) as pool:
        parts = list(pool.map(work, range(count)))
    return [parts[i % count][i // count] for i in range(questions)]


def in_processes(count: int, questions: int) -> list[object]:
    """All questions, asked by so many processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__spec__.name])
    with context.Pool(count) as pool:
        return pool.map(answer, range(questions), chunksize=max(1, questions // (4 * count)))


def resident() -> float:
    """MB that this process holds."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(verdicts: int) -> float:
    """MB that the last nine tenths of the verdicts add."""
    early = 0.0
    for i in range(verdicts):
        answer(i)
        if i == verdicts // 10:
            early = resident()
    return resident() - early


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--workers", type=int, default=64, help="threads")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--questions", type=int, default=640)
    parser.add_argument("--verdicts", type=int, default=10_000, help="one after another")
    args = parser.parse_args()
    report = Report.begin("load", args)
    alone: list[object] = [answer(i) for i in range(args.questions)]
    threads = differing(alone, in_threads(args.workers, args.questions))
    report.want(f"of {args.questions} answers in {args.workers} threads, other ones", threads, 0)
    processes = differing(alone, in_processes(args.processes, args.questions))
    report.want(f"of {args.questions} answers in {args.processes} processes, other ones", processes, 0)
    report.want(f"MB that {args.verdicts} verdicts add", growth(args.verdicts), GROWTH)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
