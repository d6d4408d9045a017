"""Random calls of the public functions with hostile arguments: does anything but our own errors come out?

Each call draws a target (verdicts, searches, minimizers, spectra, models, `Neon`; those for SciPy, ASE, JAX and
trainers; the files that commands read, and the command line) and arguments: usual ones, and for some of them values of
another type, shape, dtype or size, NaN, Inf, classes, and callables that raise, are interrupted, return views of x,
write to x, change their dtype half-way, return rubbish, or call back into the library. A call may return, raise the
callable's own error, or raise a ValueError or TypeError from this package. Nothing else: no other exception, no error
from inside torch, NumPy or SciPy, no call beyond a time limit, no changed x or model, no changed state of the process
(torch's gradient mode, default dtype and threads, random numbers, signals).

Wanted: none of these in all calls. The seed of a call is printed with what it did: `--seed SEED --count 1` repeats it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import random
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import unsaddle
from benchmarks import hostile
from benchmarks.environment import Report, options, table
from benchmarks.hostile import files, library, packages
from benchmarks.hostile.values import HostileError, InterruptError
from unsaddle import ranks

LIMIT = 60
"""Seconds of the processor that a call may take, and ten times that by the clock. Ordinary ones take milliseconds."""
WARM = 8
"""Calls before those that count. Trainers choose among four kinds, each with packages of its own."""
TIMERS = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}

TARGETS: dict[str, Callable[[random.Random], Any]] = {
    "is_minimum": library.verdict,
    "negative_curvature": library.search,
    "minimize": library.descent,
    "spectrum": library.spectrum,
    "ModelObjective": library.model,
    "Neon": library.optimizer,
    "scipy": packages.scipys,
    "files": files.files,
    "ase": packages.ases,
    "jax": packages.jaxes,
    "trainers": packages.trainers,
    "command line": files.command_line,
}

WEIGHTS = {"ase": 0.3, "jax": 0.1, "trainers": 0.1, "command line": 0.1}
"""How often a target is drawn, beside the others: these take longer, or have less to go wrong."""

PACKAGES = {"scipy": ("scipy",), "ase": ("ase",), "jax": ("jax",), "trainers": ("lightning", "transformers")}
"""What a target needs."""


class _SlowError(BaseException):
    """A call that took longer than `LIMIT`."""


def state() -> tuple[Any, ...]:
    """What a call must leave as it was. Hostile callables draw from generators of their own."""
    switches = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), ranks.current()
    chances = int(torch.get_rng_state().sum()), random.getstate()[1][:5], int(np.random.get_state()[1].sum())  # type: ignore[index]
    return *switches, *chances, signal.getsignal(signal.SIGINT)


def _alarm(*_: Any) -> None:
    raise _SlowError


def installed(names: Iterable[str]) -> list[str]:
    """Those of the targets whose packages are there."""
    return [n for n in names if all(importlib.util.find_spec(package) for package in PACKAGES.get(n, ()))]


def outcome(seed: int, names: Sequence[str] = ()) -> tuple[str, str, str]:
    """The target of a call, how it ended, and what was wrong, if something was."""
    r, names = random.Random(seed), names or list(TARGETS)
    name = r.choices(names, [WEIGHTS.get(n, 1.0) for n in names])[0]
    _warm_up(name)
    torch.manual_seed(seed)
    before = state()
    for kind, timer in TIMERS.items():
        signal.signal(kind, _alarm)
        signal.setitimer(timer, LIMIT if kind == signal.SIGPROF else 10 * LIMIT)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            TARGETS[name](r)
        ended, wrong = "returned", ""
    except (HostileError, InterruptError):
        ended, wrong = "its own error", ""
    except _SlowError:
        ended, wrong = "slow", f"took more than {LIMIT} s"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where, files_ = frames[-1], [frame.filename for frame in frames]
        said = (where.line or "").startswith("raise ") and len(str(error)) > 10  # Not by a call of torch's or NumPy's.
        ours = isinstance(error, (ValueError, TypeError)) and _is_ours(where.filename) and said
        last = max((i for i, file in enumerate(files_) if _is_ours(file)), default=-1)
        if ours:
            ended, wrong = "refused", ""
        elif type(error).__name__ == "CalculationError" or (last >= 0 and any(map(_is_hostile, files_[last:]))):
            # Raised below a callable that the library has called, or what ASE's calculator did, told.
            ended, wrong = "its own error", ""
        else:
            ended = "WRONG"
            wrong = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    finally:
        for timer in TIMERS.values():
            signal.setitimer(timer, 0)
    if state() != before:
        ended, wrong = "WRONG", f"left a changed state behind: {before} became {state()}"
    return name, ended, wrong


@functools.cache
def _warm_up(name: str) -> None:
    """Calls a target a few times, so that it imports all it needs: some packages draw random numbers then."""
    for seed in range(WARM):
        with contextlib.suppress(BaseException), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TARGETS[name](random.Random(seed))
    torch.set_grad_enabled(True)


def _is_ours(file: str) -> bool:
    return Path(unsaddle.__file__).parent in Path(file).parents


def _is_hostile(file: str) -> bool:
    return any(Path(folder) in Path(file).parents for folder in hostile.__path__)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="calls")
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most")
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=list(TARGETS), help="targets")
    args = parser.parse_args()
    report = Report.begin("fuzz_calls", args)
    names = installed(args.only)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    seconds: Counter[str] = Counter()
    until = time.monotonic() + 60.0 * args.minutes
    for seed in range(args.seed, args.seed + args.count):
        if time.monotonic() > until:
            break
        begun = time.process_time()
        name, ended, wrong = outcome(seed, names)
        seconds[name] += time.process_time() - begun
        counts[name][ended] += 1
        if wrong:
            print(f"  --seed {seed} --count 1: {name}: {wrong[:300]}", flush=True)
            report.row(settings={"target": name}, status=wrong, seed=seed)
    ways = sorted({ended for counter in counts.values() for ended in counter})
    table(
        f"{sum(c.total() for c in counts.values())} calls from seed {args.seed} on",
        ["", *ways, "ms a call"],
        [[n, *(str(c[w]) for w in ways), f"{1e3 * seconds[n] / max(1, c.total()):.1f}"] for n, c in counts.items()],
    )
    bad = sum(counter["WRONG"] + counter["slow"] for counter in counts.values())
    report.want("calls that ended wrongly", bad, 0)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
