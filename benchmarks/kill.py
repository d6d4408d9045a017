"""Kills runs at random moments, and starts them again: is the end that of a run that nobody disturbed?

Four kinds of run: the paper's simulation and a comparison of methods, whose rows are kept in a file; training with
`Neon` and a checkpoint every few steps; the same on several ranks, of which one is hit. A trial hits a run with
SIGKILL, SIGTERM or SIGINT at a random moment, starts it again from what is on the disk, and so on, until it has come to
its end. Rows, without times, and weights are then compared bit for bit. On ranks, those that were not hit must end by
themselves.

torch is imported once: every run is a fork of this process, which takes no gradient itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

# Some of these are imported here so that no fork has to: runs would consist of little else.
import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp
import torch.onnx
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.environment import Report, options, table
from unsaddle import Neon
from unsaddle.experiments import compare, harness, reproduce, rows

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LIMIT = 600.0
"""Seconds after which a run that was hit, or the others of its ranks, count as hung."""
PATIENCE = 30.0
"""Seconds that ranks wait for each other. One that is hit before all have met keeps the others waiting for as long."""
HITS = 3
"""Of a run, at most; then it may end."""
STEPS = 60

Work = Callable[[Path, int], None]
"""What a rank does in a folder."""


def simulation(folder: Path, rank: int) -> None:
    """`unsaddle reproduce`, small."""
    reproduce.reproduce(folder, seed=0, targets=1, iterations=10, num_features=120, processes=1)


def comparison(folder: Path, rank: int) -> None:
    """`unsaddle compare`, small."""
    jobs = compare.jobs(methods=["scsg", "sgd", "noisy-sgd"], problems=["chain"], seeds=2)
    harness.run(jobs, compare.work, folder, experiment="compare", processes=1, describe=str)


def training(folder: Path, rank: int) -> None:
    """Neon around Adam, from a saddle."""
    _train(folder, 0, 1)


def ranks(count: int) -> Work:
    """The same, with the model on several ranks."""

    def work(folder: Path, rank: int) -> None:
        attempt = (folder / "attempt").read_text()
        store = dist.FileStore(str(folder / f"store {attempt}"), count)
        wait = timedelta(seconds=PATIENCE)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=wait)
        _train(folder, rank, count)
        dist.barrier()

    return work


def _train(folder: Path, rank: int, count: int) -> None:
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(3)) * torch.linspace(2.0, 0.5, 4)
    model: nn.Module = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    if count > 1:
        # Else DDP orders its buckets anew after the first step of every run, and sums four ranks in another order then:
        # a resumed run is off by a rounding, with any optimizer.
        model = DistributedDataParallel(model, find_unused_parameters=True)
    neon = Neon(torch.optim.Adam(model.parameters(), lr=0.02), every=10)
    saved, begun = folder / "saved.pt", 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        neon.load_state_dict(state["neon"])
        begun = state["step"]
    for step in range(begun, STEPS):
        batch = data[torch.randperm(64, generator=torch.Generator().manual_seed(step))[:16]].chunk(count)[rank]

        def closure(batch: Tensor = batch) -> Tensor:
            neon.zero_grad()
            loss = (model(batch) - batch).square().mean()
            loss.backward()
            return loss

        neon.step(closure)
        if step % 3 == 2 and rank == 0:
            beside = saved.with_suffix(".tmp")
            torch.save({"model": model.state_dict(), "neon": neon.state_dict(), "step": step + 1}, beside)
            beside.replace(saved)
    if rank == 0:
        torch.save([p.detach() for p in model.parameters()], folder / "weights.tmp")
        (folder / "weights.tmp").replace(folder / "weights.pt")


KINDS: dict[str, tuple[Work, int]] = {
    "reproduce": (simulation, 1),
    "compare": (comparison, 1),
    "training": (training, 1),
    "2 ranks": (ranks(2), 2),
    "4 ranks": (ranks(4), 4),
}


def result(folder: Path) -> str:
    """What a run has come to: its rows without times, or its weights."""
    weights = folder / "weights.pt"
    if weights.exists():
        return hashlib.sha256(b"".join(p.numpy().tobytes() for p in torch.load(weights, weights_only=True))).hexdigest()
    told = [{k: v for k, v in row.items() if k not in ("environment", "seconds")} for row in rows.read(folder)]
    return hashlib.sha256(b"".join(rows.encode(_timeless(row)) for row in told)).hexdigest() + f", {len(told)} rows"


def _timeless(value: Any) -> Any:
    """Without what is measured by a clock."""
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if "second" not in k}
    return [_timeless(v) for v in value] if isinstance(value, list) else value


def start(kind: str, folder: Path) -> list[int]:
    """Forks the ranks of a run; their process ids."""
    work, count = KINDS[kind]
    attempt = folder / "attempt"
    attempt.write_text(str(int(attempt.read_text()) + 1) if attempt.exists() else "0")
    sys.stdout.flush()
    return [_fork(work, folder, rank) for rank in range(count)]


def _fork(work: Work, folder: Path, rank: int) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        silent = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work(folder, rank)
        code = 0
    except BaseException as error:
        os.write(2, f"rank {rank}: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def finish(processes: list[int]) -> list[int] | None:
    """The exit codes, once all have ended; None if one hung. It is killed then."""
    until, codes = time.monotonic() + LIMIT, dict.fromkeys(processes, -1000)
    left = list(processes)
    while left and time.monotonic() < until:
        for process in list(left):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                codes[process] = os.waitstatus_to_exitcode(status)
                left.remove(process)
        time.sleep(0.002)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return None if left else list(codes.values())


def trial(kind: str, r: random.Random, seconds: float, expected: str) -> tuple[Counter[str], str]:
    """Hits one run until it has ended; how often by what, and what was wrong, if something was."""
    hits: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(HITS):
            running = start(kind, folder)
            moment, how, victim = time.monotonic() + r.uniform(0.0, 1.1 * seconds), r.choice(SIGNALS), r.choice(running)
            while not (gone := os.waitpid(victim, os.WNOHANG)[0]) and time.monotonic() < moment:
                time.sleep(0.001)
            if gone:
                if finish([p for p in running if p != victim]) is None:
                    return hits, "hung"
                break
            os.kill(victim, how)
            hits[how.name] += 1
            if finish(running) is None:
                return hits, f"hung after {how.name} on one of {len(running)}"
        codes = finish(start(kind, folder))
        if codes is None or any(codes):
            return hits, f"the last run ended with {codes}: {(folder / 'log').read_text()[-300:]}"
        ended = result(folder)
        left = [path.name for path in folder.iterdir() if path.suffix == ".tmp"]
        return hits, "" if ended == expected else f"ended with {ended} instead of {expected}, beside {left}"


def undisturbed(kind: str) -> tuple[float, str]:
    """How long a run takes, and what it comes to."""
    with tempfile.TemporaryDirectory() as name:
        begun = time.monotonic()
        codes = finish(start(kind, Path(name)))
        if codes is None or any(codes):
            raise RuntimeError(f"{kind} ended with {codes}: {(Path(name) / 'log').read_text()[-800:]}")
        return time.monotonic() - begun, result(Path(name))


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--hits", type=int, default=200, help="signals for each kind of run, at least")
    parser.add_argument("--minutes", type=float, default=60.0, help="at most, for each kind of run")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    report = Report.begin("kill", args)
    lines, bad = [], 0
    for kind in args.only:
        r, hits, wrong, trials = random.Random(f"{args.seed} {kind}"), Counter[str](), 0, 0
        seconds, expected = undisturbed(kind)
        until = time.monotonic() + 60.0 * args.minutes
        while hits.total() < args.hits and time.monotonic() < until:
            if trials % 10 == 9:  # The machine may be busier or quieter than before.
                seconds = undisturbed(kind)[0]
            seen, complaint = trial(kind, r, seconds, expected)
            hits, trials, wrong = hits + seen, trials + 1, wrong + bool(complaint)
            if complaint:
                print(f"  {kind}, trial {trials}: {complaint}", flush=True)
            report.row(settings={"kind": kind, "trial": trials}, status=complaint or "the same", hits=dict(seen))
        bad += wrong
        lines.append([kind, f"{seconds:.1f}", str(trials), *(str(hits[s.name]) for s in SIGNALS), str(wrong)])
        print("  " + "  ".join(lines[-1]), flush=True)
    heads = ["", "seconds", "runs", *(s.name for s in SIGNALS), "other ends"]
    table(f"runs that were hit and started again, seed {args.seed}", heads, lines)
    report.want("runs that hung or did not end as an undisturbed one", bad, 0)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
