"""Random calls of the public functions with hostile arguments: does anything but our own errors come out?

Each call draws a target (verdicts, searches, minimizers, objectives, models, `Neon`, SciPy's and the files that the
commands read) and arguments: usual ones, and for some of them values of another type, shape, dtype or size, NaN, Inf,
classes, and callables that raise, return views of x, write to x, change their dtype half-way, return rubbish, or call
back into the library. A call may return, raise the callable's own error, or raise a ValueError or TypeError from this
package. Nothing else: no other exception, no error from inside torch, NumPy or SciPy, no call beyond a time limit, no
changed x, no changed state of torch (gradient mode, default dtype, threads).

Wanted: none of these in all calls. The seed of a call is printed with what it did: `--seed SEED --count 1` repeats it.
"""

from __future__ import annotations

import math
import random
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsaddle
from benchmarks.environment import Report, options, table
from unsaddle import ranks
from unsaddle.experiments import data, rows

LIMIT = 60
"""Seconds that a call may take. Ordinary ones take milliseconds, the slowest some seconds."""

GRADIENTS = 300
"""A bound on gradients and samples, so that calls are short."""


class HostileError(Exception):
    """What a hostile callable raises."""


class _SlowError(BaseException):
    """A call that took longer than `LIMIT`."""


# --- Values


def odd_value(r: random.Random) -> Any:
    """Something that an argument is probably not meant to be."""
    numbers = (0, -1, 1, 2**63, 10**30, -(10**30), 1e300, 1e-300, 5e-324, -0.0, math.nan, math.inf, -math.inf, 0.5, 1j)
    others = (None, True, "a", "", b"a", [], [1], (), {}, {"a": 1}, object(), int, nn.Linear, len, Ellipsis, range(3))
    arrays = (np.zeros(3), np.int64(3), np.float32(0.1), np.array(["a"]), torch.zeros(3), torch.tensor(0.1), np.nan)
    return r.choice((*numbers, *others, *arrays))


def mostly(r: random.Random, usual: Any, *odd: Any) -> Any:
    """The usual value; one time in ten one of the odd ones, or anything."""
    return r.choice((*odd, odd_value(r))) if r.random() < 0.1 else usual


def point(r: random.Random, d: int = 3) -> Any:
    """x: mostly a point of d variables, in some form."""
    usual = torch.randn(d, generator=torch.Generator().manual_seed(r.randrange(10**6)), dtype=torch.float64)
    usual *= r.choice((0.0, 1.0, 1e-6, 1e6, 1e150, 1e300))
    forms: tuple[Callable[[], Any], ...] = (
        lambda: usual,
        lambda: usual,
        lambda: usual,
        lambda: usual.float(),
        lambda: usual.tolist(),
        lambda: usual.numpy(),
        lambda: usual.numpy()[::-1],
        lambda: usual.int() if usual.abs().max() < 1e9 else usual,
        lambda: usual.reshape(1, d),
        lambda: usual.half(),
        lambda: usual.bfloat16(),
        lambda: usual + 0j,
        lambda: torch.full((d,), math.nan, dtype=torch.float64),
        lambda: torch.full((d,), math.inf),
        lambda: torch.empty(0),
        lambda: usual.to_sparse(),
        lambda: usual.to("meta"),
        lambda: torch.randn(2 * d, dtype=torch.float64)[::2],
        lambda: usual.clone().requires_grad_(),
        lambda: odd_value(r),
    )
    return usual if r.random() < 0.6 else r.choice(forms)()


def torch_callable(r: random.Random) -> Callable[..., Any]:
    """A function of a tensor: usual, or hostile in one way."""
    calls = [0]

    def usual(x: Tensor, *rest: Tensor) -> Tensor:
        return x[0] ** 2 - x[-1] ** 2 + (x**4).sum() / 4 + sum((r.mean() * x.sum() for r in rest), torch.zeros(()))

    def half_way(x: Tensor, *rest: Tensor) -> Any:
        calls[0] += 1
        return usual(x, *rest) if calls[0] < r.randrange(1, 8) else hostile(x, *rest)

    def raising(x: Tensor, *rest: Tensor) -> Any:
        raise HostileError

    def writing(x: Tensor, *rest: Tensor) -> Any:
        x = x.detach().clone()
        x += 1.0
        return x.sum().requires_grad_()

    def again(x: Tensor, *rest: Tensor) -> Any:
        calls[0] += 1
        if calls[0] < 3:
            unsaddle.is_minimum(unsaddle.Function(usual), x.detach(), max_gradients=5)
        return usual(x, *rest)

    rubbish = odd_value(r)
    ways: tuple[Callable[..., Any], ...] = (
        raising,
        writing,
        again,
        lambda x, *rest: x,
        lambda x, *rest: x[:1],
        lambda x, *rest: x.sum().float(),
        lambda x, *rest: x.sum() * math.nan,
        lambda x, *rest: x.sum() * math.inf,
        lambda x, *rest: x.sqrt().sum(),
        lambda x, *rest: 1.0 / x.sum(),
        lambda x, *rest: x.detach().sum(),
        lambda x, *rest: torch.zeros(()),
        lambda x, *rest: x.round().sum(),
        lambda x, *rest: x.abs().sum(),
        lambda x, *rest: torch.rand((), dtype=x.dtype) * x.sum(),
        lambda x, *rest: (x.sum(), x),
        lambda x, *rest: (x.sum(), [1.0]),
        lambda x, *rest: (x.sum(), x.float()),
        lambda x, *rest: rubbish,
    )
    hostile = r.choice(ways)
    return r.choice((usual, usual, usual, usual, hostile, half_way))


def numpy_callable(r: random.Random) -> Callable[..., Any]:
    """A function of an array."""
    calls = [0]

    def usual(x: Any) -> Any:
        return x[0] ** 2 - x[-1] ** 2 + (x**4).sum() / 4

    def writing(x: Any) -> Any:
        value = usual(x)
        x += 1.0
        return value

    def raising(x: Any) -> Any:
        raise HostileError

    def half_way(x: Any) -> Any:
        calls[0] += 1
        return usual(x) if calls[0] < r.randrange(1, 8) else hostile(x)

    rubbish = odd_value(r)
    ways: tuple[Callable[[Any], Any], ...] = (
        writing, raising, lambda x: x, lambda x: np.float32(usual(x)), lambda x: np.nan, lambda x: -np.inf,
        lambda x: (usual(x), x), lambda x: rubbish, lambda x: np.log(x[0]), lambda x: -(x @ x),
        lambda x: np.round(x.sum()),
    )  # fmt: skip
    hostile = r.choice(ways)
    return r.choice((usual, usual, hostile, half_way))


def numpy_gradient(r: random.Random) -> Any:
    rubbish = odd_value(r)

    def usual(x: Any) -> Any:
        g = x**3
        g[0] += 2 * x[0]
        g[-1] -= 2 * x[-1]
        return g

    return r.choice((usual, usual, None, True, "2-point", lambda x: x, lambda x: x[:1], lambda x: rubbish, rubbish))


def arguments(r: random.Random, usual: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Some of the arguments, each usual or odd."""
    chosen = {name: make() for name, make in usual.items() if r.random() < 0.4}
    return {name: odd_value(r) if r.random() < 0.1 else value for name, value in chosen.items()}


# --- Targets


def objective(r: random.Random) -> Any:
    """An objective, or something that is none."""
    random_rows = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: unsaddle.Function(torch_callable(r), gradient=r.random() < 0.1),
        lambda: unsaddle.Function(torch_callable(r)),
        lambda: unsaddle.FiniteSum(torch_callable(r), random_rows),
        lambda: unsaddle.FiniteSum(torch_callable(r), mostly(r, random_rows)),
        lambda: unsaddle.numpy_function(numpy_callable(r), numpy_gradient(r)),
        lambda: unsaddle.Stream(torch_callable(r), mostly(r, lambda n, g: (random_rows[: min(n, 20)],), len)),
        lambda: mostly(r, unsaddle.Function(torch_callable(r)), unsaddle.Function),
    )
    return r.choice(kinds)()


SHARED: dict[str, Callable[[random.Random], Any]] = {
    "gamma": lambda r: 10.0 ** r.uniform(-8, 2),
    "delta": lambda r: r.uniform(0.001, 0.5),
    "seed": lambda r: r.randrange(2**70),
}


def settings(r: random.Random, **more: Callable[[], Any]) -> dict[str, Any]:
    shared = {name: (lambda make=make: make(r)) for name, make in SHARED.items()}
    return arguments(r, shared | more)


def unchanged(call: Callable[[Any], Any], x: Any) -> Any:
    """Calls, and checks that x is as it was."""
    comparable = isinstance(x, (np.ndarray, list)) or (isinstance(x, Tensor) and not x.is_meta and not x.is_sparse)
    before = repr(x) if comparable else ""
    result = call(x)
    if comparable and repr(x) != before:
        raise AssertionError("x was changed")
    return result


def verdict(r: random.Random) -> Any:
    more = {
        "eps": lambda: 10.0 ** r.uniform(-9, 2),
        "samples": lambda: r.randrange(1, 25),
        "metric": lambda: [1.0, 2.0, 3.0],
    }
    how, F = {"max_gradients": GRADIENTS} | settings(r, **more), objective(r)
    return unchanged(lambda x: unsaddle.is_minimum(F, x, **how), point(r))


def search(r: random.Random) -> Any:
    names = ("auto", "krylov", "neon", "neon+", "power", "lanczos", "neon2-det", "neon2-online", "oja-first-order")
    more = {
        "extractor": lambda: r.choice(names),
        "settings": lambda: r.choice(("practical", "theory")),
        "smoothness": lambda: 10.0 ** r.uniform(-3, 3),
        "hessian_lipschitz": lambda: 10.0 ** r.uniform(-3, 3),
        "samples": lambda: r.randrange(1, 25),
        "basis": lambda: r.randrange(3, 9),
    }
    how, F = {"max_gradients": GRADIENTS} | settings(r, **more), objective(r)
    return unchanged(lambda x: unsaddle.negative_curvature(F, x, **how), point(r))


def descent(r: random.Random) -> Any:
    names = ("neon-scsg", "neon-sgd", "scsg", "sgd", "noisy-sgd", "pgd", "natasha2", "sncg", "svrg-hessian")
    more = {
        "method": lambda: r.choice(names),
        "eps": lambda: 10.0 ** r.uniform(-6, 2),
        "step_size": lambda: 10.0 ** r.uniform(-6, 3),
        "batch_size": lambda: r.randrange(1, 25),
        "callback": lambda: len,
    }
    how, F = {"max_samples": GRADIENTS} | settings(r, **more), objective(r)
    return unchanged(lambda x: unsaddle.minimize(F, x, **how), point(r))


def model(r: random.Random) -> Any:
    net = nn.Sequential(
        nn.Linear(2, 3), r.choice((nn.Tanh(), nn.ReLU(), nn.BatchNorm1d(3), nn.Dropout())), nn.Linear(3, 1)
    )
    x = torch.randn(24, 2)
    given = mostly(r, r.choice((TensorDataset(x), [[x]], [[x[:12]], [x[12:]]])), (x,), [x, x[:, 0].long()])

    def usual(m: nn.Module, batch: list[Tensor]) -> Tensor:
        value: Tensor = m(batch[0]).square().mean()
        return value

    loss = mostly(r, usual, nn.MSELoss(), lambda m, batch: m(batch[0]), lambda m, batch: None, lambda m: m)
    how = arguments(r, {"micro_batch": lambda: 5, "seed": lambda: 3})
    F = unsaddle.ModelObjective(mostly(r, net), loss, given, **how)
    return unsaddle.is_minimum(F, max_gradients=GRADIENTS, **arguments(r, {"samples": lambda: r.randrange(1, 24)}))


def optimizer(r: random.Random) -> Any:
    net = nn.Linear(2, 1)
    base = mostly(r, r.choice((torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters()))))
    neon = unsaddle.Neon(base, **arguments(r, {"every": lambda: 1, "max_overhead": lambda: 10.0, "seed": lambda: 1}))
    x = torch.randn(8, 2)

    def closure() -> Tensor:
        neon.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    for _ in range(r.randrange(4)):
        neon.step(closure)
    neon.probe(mostly(r, closure))
    saved = neon.state_dict()
    if r.random() < 0.3:
        saved["neon"] = (
            saved["neon"] | {r.choice(list(saved["neon"])): odd_value(r)} if r.random() < 0.8 else odd_value(r)
        )
        neon.load_state_dict(saved)
    return neon.step(closure)


def scipys(r: random.Random) -> Any:
    from unsaddle.interop.scipy import minimize
    from unsaddle.interop.scipy.arguments import METHODS

    more = {
        "method": lambda: r.choice(METHODS),
        "bounds": lambda: r.choice(([(-1, 1)] * 3, [(0, None)] * 3, [(1, 1)] * 3, zip([0] * 3, [1] * 3, strict=True))),
        "tol": lambda: 10.0 ** r.uniform(-9, 0),
        "options": lambda: r.choice(({"maxiter": r.randrange(9)}, {"maxiter": odd_value(r)}, {"maxfun": 9})),
        "constraints": lambda: r.choice(((), None, [])),
        "max_escapes": lambda: r.randrange(3),
        "callback": lambda: lambda *_: None,
    }
    how, fun = {"jac": numpy_gradient(r)} | settings(r, **more), numpy_callable(r)
    return unchanged(lambda x: minimize(fun, x, **how), point(r))


def files(r: random.Random) -> Any:
    """What the commands read, after random damage."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / r.choice(("a.npz", "a.svm", rows.FILE))
        if path.suffix == ".npz":
            (np.savez if r.random() < 0.5 else np.savez_compressed)(path, X=np.eye(4), y=np.array([0, 1, 0, 1]))
        elif path.suffix == ".svm":
            path.write_text("1 1:0.5 3:2\n-1 2:1e3\n1 1:1\n")
        else:
            path.write_bytes(rows.encode({"experiment": "a", "settings": {"n": 1}, "value": math.nan}) * 3)
        content = bytearray(path.read_bytes())
        for _ in range(r.randrange(4)):
            at = r.randrange(len(content))
            content[at : at + r.randrange(1, 20)] = bytes(r.randrange(256) for _ in range(r.randrange(20)))
        path.write_bytes(content)
        return rows.read(Path(folder)) if path.name == rows.FILE else data.load(path)


TARGETS: dict[str, Callable[[random.Random], Any]] = {
    "is_minimum": verdict,
    "negative_curvature": search,
    "minimize": descent,
    "ModelObjective": model,
    "Neon": optimizer,
    "scipy": scipys,
    "files": files,
}


# --- The judge


def state() -> tuple[Any, ...]:
    """What a call must leave as it was. Random numbers are the callables' own business."""
    return torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), ranks.current(), signal.SIGALRM


def _alarm(*_: Any) -> None:
    raise _SlowError


def outcome(seed: int) -> tuple[str, str, str]:
    """The target of a call, how it ended, and what was wrong, if something was."""
    r = random.Random(seed)
    name = r.choice(list(TARGETS))
    torch.manual_seed(seed)
    before = state()
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            TARGETS[name](r)
        ended, wrong = "returned", ""
    except HostileError:
        ended, wrong = "its own error", ""
    except _SlowError:
        ended, wrong = "slow", f"took more than {LIMIT} s"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where, files_ = frames[-1], [frame.filename for frame in frames]
        ours = isinstance(error, (ValueError, TypeError)) and _is_ours(where.filename) and len(str(error)) > 10
        last = max((i for i, file in enumerate(files_) if _is_ours(file)), default=-1)
        if ours:
            ended, wrong = "refused", ""
        elif last >= 0 and __file__ in files_[last:]:  # Raised below a callable of ours that the library has called.
            ended, wrong = "its own error", ""
        else:
            ended = "WRONG"
            wrong = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    finally:
        signal.alarm(0)
    if state() != before:
        ended, wrong = "WRONG", f"left a changed state behind: {before} became {state()}"
    return name, ended, wrong


def _is_ours(file: str) -> bool:
    return Path(unsaddle.__file__).parent in Path(file).parents


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="calls")
    args = parser.parse_args()
    report = Report.begin("fuzz_calls", args)
    counts: dict[str, Counter[str]] = {name: Counter() for name in TARGETS}
    for seed in range(args.seed, args.seed + args.count):
        name, ended, wrong = outcome(seed)
        counts[name][ended] += 1
        if wrong:
            print(f"  seed {seed}: {name}: {wrong[:300]}", flush=True)
            report.row(settings={"target": name}, status=wrong, seed=seed)
    ways = sorted({ended for counter in counts.values() for ended in counter})
    table(
        f"{args.count} calls from seed {args.seed} on",
        ["", *ways],
        [[n, *(str(c[w]) for w in ways)] for n, c in counts.items()],
    )
    bad = sum(counter["WRONG"] + counter["slow"] for counter in counts.values())
    report.want("calls that ended wrongly", bad, 0)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
