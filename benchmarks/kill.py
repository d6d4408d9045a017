"""Kills runs at random moments, and starts them again: is the end that of a run that nobody disturbed?

Five kinds of run: the paper's simulation and a comparison of methods, whose rows are kept in a file; training with
`Neon` and a checkpoint every few steps; the same on several ranks, of which one is hit; the same under torchrun, where
a rank or torchrun itself is hit. A trial hits a run with SIGKILL, SIGTERM or SIGINT at a random moment, starts it again
from what is on the disk, and so on, until it has come to its end. Rows, without times, and weights are then compared
bit for bit. On ranks, those that were not hit must end by themselves.

torch is imported twice: a run is a fork of this process, which takes no gradient itself, and the ranks of torchrun are
forks of a server, which has one thread. torchrun has four when it starts ranks: now and then, forks of torchrun
stand still, in a lock of the resolver that another thread has held.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

# Some of these are imported here so that no fork has to: runs would consist of little else.
import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.run
import torch.onnx

from benchmarks import kill_training
from benchmarks.environment import Report, options, table
from unsaddle.experiments import compare, harness, reproduce, rows

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LIMIT = 600.0
"""Seconds after which a run that was hit, or the others of its ranks, count as hung."""
HITS = 3
"""Of a run, at most; then it may end."""

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
    kill_training.train(folder, 0, 1)


def ranks(count: int) -> Work:
    """The same, with the model on several ranks."""

    def work(folder: Path, rank: int) -> None:
        attempt = (folder / "attempt").read_text()
        store = dist.FileStore(str(folder / f"store {attempt}"), count)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=kill_training.PATIENCE)
        kill_training.train(folder, rank, count)
        dist.barrier()

    return work


def torchrun(count: int) -> Work:
    """The same under torchrun, whose ranks are forks of our server. It restarts nothing by itself here."""

    def work(folder: Path, rank: int) -> None:
        forkserver._forkserver.ensure_running = lambda: None  # Else it looks among its own children.
        tempfile.tempdir = str(folder)  # What ranks died of stays there, in files.
        launch = ["--standalone", "--nproc-per-node", str(count), "--start-method", "forkserver"]
        launch += ["--redirects", "3", "--log-dir", str(folder / "logs")]
        torch.distributed.run.main([*launch, "--run-path", kill_training.__file__, str(folder)])

    return work


KINDS: dict[str, tuple[Work, int, int]] = {
    "reproduce": (simulation, 1, 0),
    "compare": (comparison, 1, 0),
    "training": (training, 1, 0),
    "2 ranks": (ranks(2), 2, 0),
    "4 ranks": (ranks(4), 4, 0),
    "2 ranks, torchrun": (torchrun(2), 1, 2),
    "4 ranks, torchrun": (torchrun(4), 1, 4),
}
"""What a fork does, how many there are, and how many ranks torchrun starts."""


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


def serve() -> None:
    """Starts the server, if none is there. It stays as long as this process or one that it or the server forked.

    At the end it is said how many semaphores are left of torchruns that were killed. They are removed then.
    """
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}  # As torchrun sets it; as `_fork` does.
    multiprocessing.set_forkserver_preload([
        "benchmarks.environment", "benchmarks.kill_training", "torch._dynamo", "torch.distributed.fsdp",
        "torch.distributed.run", "torch.onnx", "unsaddle.experiments.compare", "unsaddle.experiments.reproduce",
    ])  # fmt: skip
    forkserver.ensure_running()


def start(kind: str, folder: Path) -> tuple[list[int], list[int]]:
    """Forks a run. The process ids of the forks, and those of torchrun's ranks, which are children of the server."""
    work, count, started = KINDS[kind]
    attempt = folder / "attempt"
    attempt.write_text(str(int(attempt.read_text()) + 1) if attempt.exists() else "0")
    sys.stdout.flush()
    begun = [folder / f"rank {rank}" for rank in range(started)]
    for path in [*begun, *folder.glob("ended *")]:
        path.unlink(missing_ok=True)
    running = [_fork(work, folder, rank) for rank in range(count)]
    until = time.monotonic() + LIMIT
    while not all(path.exists() for path in begun) and _alive(running[0]) and time.monotonic() < until:
        time.sleep(0.001)
    return running, [int(path.read_text()) for path in begun if path.exists()]


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _fork(work: Work, folder: Path, rank: int) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        faulthandler.enable()
        silent = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        work(folder, rank)
        code = 0
    except BaseException as error:
        os.write(2, f"rank {rank}: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def finish(processes: list[int], forks: list[int]) -> list[int] | None:
    """The exit codes of our processes, once they and torchrun's ranks have ended; None if one hung. It is killed."""
    until, codes = time.monotonic() + LIMIT, dict.fromkeys(processes, -1000)
    left = list(processes)
    while (left or any(map(_alive, forks))) and time.monotonic() < until:
        for process in list(left):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                codes[process] = os.waitstatus_to_exitcode(status)
                left.remove(process)
        time.sleep(0.002)
    hung = left + [p for p in forks if _alive(p)]
    for process in hung:  # Says where it is.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGABRT)
    time.sleep(1.0 if hung else 0.0)
    for process in hung:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    for process in left:
        os.waitpid(process, 0)
    return None if hung else list(codes.values())


def trial(kind: str, r: random.Random, seconds: float, expected: str) -> tuple[Counter[str], str]:
    """Hits one run until it has ended; how often by what, and what was wrong, if something was."""
    hits: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(HITS):
            running, forks = start(kind, folder)
            moment, how = time.monotonic() + r.uniform(0.0, 1.1 * seconds), r.choice(SIGNALS)
            victim = r.choice(running + forks)
            ended = folder / f"ended {forks.index(victim) if victim in forks else ''}"
            while (alive := _alive(victim) and not ended.exists()) and time.monotonic() < moment:
                time.sleep(0.001)
            if alive:
                os.kill(victim, how)
                hits[how.name] += 1
            if finish(running, forks) is None:
                who = "a rank" if victim in forks else "the first process"
                return hits, f"hung after {how.name if alive else 'no hit'} on {who}: {_log(folder)}"
            if not alive:
                break
        codes = finish(*start(kind, folder))
        if codes is None or any(codes):
            return hits, f"the last run ended with {codes}: {_log(folder)}"
        told = result(folder)
        left = [path.name for path in folder.iterdir() if path.suffix == ".tmp"]
        return hits, "" if told == expected else f"ended with {told} instead of {expected}, beside {left}"


def _log(folder: Path) -> str:
    logs = sorted(folder.rglob("*log"), key=lambda path: path.stat().st_mtime)
    return "".join(path.read_text()[-4000:] for path in logs)[-16000:]


def undisturbed(kind: str) -> tuple[float, str]:
    """How long a run takes, and what it comes to."""
    with tempfile.TemporaryDirectory() as name:
        running, forks = start(kind, Path(name))
        begun = time.monotonic()
        codes = finish(running, forks)
        if codes is None or any(codes):
            raise RuntimeError(f"{kind} ended with {codes}: {_log(Path(name))}")
        return time.monotonic() - begun, result(Path(name))


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--hits", type=int, default=200, help="signals for each kind of run, at least")
    parser.add_argument("--minutes", type=float, default=60.0, help="at most, for each kind of run")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    report = Report.begin("kill", args)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell ignores it for what runs in the background.
    lines, bad = [], 0
    for kind in args.only:
        r, hits, wrong, trials = random.Random(f"{args.seed} {kind}"), Counter[str](), 0, 0
        if KINDS[kind][2]:
            serve()
        seconds, expected = undisturbed(kind)
        until = time.monotonic() + 60.0 * args.minutes
        while hits.total() < args.hits and time.monotonic() < until:
            if trials % 10 == 9:  # The machine may be busier or quieter than before. One long stall is neither.
                seconds = min(undisturbed(kind)[0], 3.0 * seconds)
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
