"""Samples to second-order stationarity: every neon- method, and every rival, on chains of saddles, noise and real data.

    python -m benchmarks.methods --data DIR [--figure FILE]

**Arrival.** A run has arrived at the first point at which it evaluated a gradient, of whatever batch, that has
‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ. That is judged outside of the run with the exact gradient and the dense Hessian
(`method_problems`), which are not counted; points are looked at each time the samples have grown by 2 %, and at every
event that the run reports. What counts is component gradients (IFO); values and Hessian products (ISO) stand beside
them. A median is over all seeds, a run that never arrives being infinite.

**Being told.** Most methods go on until they know that they have arrived: what they had spent when they ended, and how
often what they then claimed was true. `noisy-sgd` and `sgld` never look, and are stopped when they arrive.

**Tuning.** The neon- methods and the rivals run at their defaults. `noisy-sgd tuned` and `sgld tuned` each get 27 more
runs on every problem: step sizes 0.1, 0.3 and 1 over L1, noise of 0.1, 0.5 and 2.5 times ε, three seeds of their own.
L1 they are told, the largest |eigenvalue| of the exact Hessian at the start and at the end of a neon-scsg run. The pair
whose slowest seed arrives first is taken; where none always arrives, the one that arrives most often, and among those
the one with the lowest F at the end.

`scsg` and `sgd` are the bare methods, without NEON. A method that cannot take a problem (a finite-sum method given a
stream) is left out of its table.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.environment import ROOT, Report, options, table
from benchmarks.method_problems import ROWS, Case, case, names
from unsaddle.cost import Cost, Ledger
from unsaddle.methods import METHODS, RIVALS, minimize
from unsaddle.objective import SampledFunction
from unsaddle.run import Ending, RunEnded

NEON = tuple(name for name in METHODS if name.startswith("neon-"))
BLIND = ("noisy-sgd", "sgld")
"""Methods that never look where they are."""
BARE = ("scsg", "sgd")
LOOK_EVERY = 1.02
TUNING_SEEDS, STEPS, NOISES = (1000, 1001, 1002), (1.0, 0.3, 0.1), (0.5, 2.5, 0.1)

Job = tuple[str, str, int, dict[str, Any], Path | None]
"""Problem, method, seed, settings of the method, data."""


class Watched:
    """An objective that shows every point at which a gradient is asked for to somebody outside."""

    def __init__(self, at: Case, stop: bool, limit: float = math.inf) -> None:
        self._at, self._stop, self._limit = at, stop, limit
        self._next, self._lowest = 0.0, None
        self.arrived: dict[str, int] | None = None
        self.path: list[tuple[int, float]] = []

    @property
    def num_samples(self) -> int | None:
        return self._at.objective.num_samples

    def sample(
        self,
        size: int | None = None,
        generator: torch.Generator | None = None,
        *,
        replacement: bool = False,
        hessian: bool = False,
        ledger: Ledger | None = None,
    ) -> SampledFunction:
        f = self._at.objective.sample(size, generator, replacement=replacement, hessian=hessian, ledger=ledger)
        inner = f.value_and_grad

        def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
            answer = inner(x)
            self._look(x, f.ledger)
            return answer

        f.value_and_grad = value_and_grad  # type: ignore[method-assign]
        return f

    def _look(self, x: Tensor, spent: Ledger) -> None:
        if spent.samples < self._next:
            return
        if spent.samples >= LOOK_EVERY * self._next:  # The next call is looked at too: of two, one may be at an anchor.
            self._next = max(LOOK_EVERY * self._next, spent.samples)
        else:
            self._next = LOOK_EVERY * spent.samples
        self.look(x, spent)

    def look(self, x: Tensor, spent: Ledger | Cost) -> None:
        """The run is at x, after what it has spent."""
        if self.arrived is not None:
            return
        self.path.append((spent.samples + spent.hessian_samples, self._at.value(x)))
        if self._is_reached(x):
            self.arrived = {
                "gradients": spent.samples,
                "values": spent.value_samples,
                "products": spent.hessian_samples,
            }
            if self._stop:
                raise RunEnded(Ending.STOPPED)
        if spent.samples > self._limit:
            raise RunEnded(Ending.STOPPED)

    def _is_reached(self, x: Tensor) -> bool:
        at = self._at
        if not float(at.gradient(x).norm()) <= at.eps:
            return False
        v = self._lowest
        if v is not None:  # Any direction below −γ shows that λ_min is, and the last one often does.
            t = 1e-4
            if float(v @ (at.gradient(x + t * v) - at.gradient(x - t * v))) / (2.0 * t) < -1.1 * at.gamma:
                return False
        H = at.hessian(x)
        eigenvalues, vectors = torch.linalg.eigh(H)
        self._lowest = vectors[:, 0]
        return float(eigenvalues[0]) >= -at.gamma


def solve(at: Case, method: str, seed: int, settings: dict[str, Any], limit: float = math.inf) -> dict[str, Any]:
    """One run, and what became of it; {} if the method cannot take the problem."""
    objective = Watched(at, stop=method in BLIND, limit=limit)
    begin = time.perf_counter()
    try:
        solution = minimize(
            objective,
            at.start(seed),
            method=method,
            eps=at.eps,
            gamma=at.gamma,
            max_samples=at.max_samples,
            seed=seed,
            callback=lambda state: objective.look(state.x, state.cost),
            **settings,
        )
    except ValueError as error:
        if "stream" in str(error):
            return {}
        raise
    claimed = solution.success
    return {
        "arrived": objective.arrived,
        "status": solution.status.name,
        "claimed": claimed,
        "false_claim": claimed and not at.is_reached(solution.x),
        "gradients": solution.cost.samples,
        "values": solution.cost.value_samples,
        "products": solution.cost.hessian_samples,
        "escapes": solution.escapes,
        "value": at.value(solution.x),
        "gradient_norm": float(at.gradient(solution.x).norm()),
        "path": objective.path,
        "seconds": time.perf_counter() - begin,
    }


def run(job: Job) -> dict[str, Any]:
    problem, method, seed, settings, data = job
    return solve(case(problem, data), method, seed, settings)


def tune(job: Job) -> dict[str, Any]:
    """The settings of a blind method whose slowest tuning seed arrives first."""
    problem, method, _, _, data = job
    at = case(problem, data)
    seed = TUNING_SEEDS[0]
    x0, limits = at.start(seed), {"eps": at.eps, "gamma": at.gamma, "max_samples": at.max_samples}
    reference = minimize(at.objective, x0, method="neon-scsg", seed=seed, **limits)
    L1 = max(float(torch.linalg.eigvalsh(at.hessian(x)).abs().max()) for x in (x0, reference.x))
    best, least, tried = {}, (math.inf, math.inf, math.inf), []
    for step in STEPS:
        for noise in NOISES:
            settings = {"step_size": step / L1, "noise": noise * at.eps, "num_steps": 10**9}
            runs: list[dict[str, Any]] = []
            for seed in TUNING_SEEDS:
                runs.append(solve(at, method, seed, settings, limit=least[1]))
                if least[0] == 0 and not runs[-1]["arrived"]:
                    break  # It has lost to one that always arrives, and sooner.
            missed = len(TUNING_SEEDS) - sum(bool(o["arrived"]) for o in runs)
            slowest = math.inf if missed else max(o["arrived"]["gradients"] for o in runs)
            values = [o["value"] if math.isfinite(o["value"]) else math.inf for o in runs]
            tried.append([step, noise, missed, slowest])
            if (missed, slowest, sum(values)) < least or not best:
                best, least = settings, (missed, slowest, sum(values))
    return {"settings": best, "smoothness": L1, "tried": tried}


# --- Tables -----------------------------------------------------------------------------------------------------------


def median(outcomes: Sequence[dict[str, Any]], what: str = "gradients") -> float:
    """Of what had been spent at arrival, never being infinite."""
    return statistics.median(o["arrived"][what] if o["arrived"] else math.inf for o in outcomes)


def thousands(count: float) -> str:
    if not math.isfinite(count):
        return "never"
    return f"{count:.0f}" if count < 10_000 else f"{count / 1000:.0f}k"


def show(at: Case, problem: str, outcomes: dict[str, list[dict[str, Any]]]) -> None:
    lines = []
    for method, runs in outcomes.items():
        arrived = [o["arrived"] for o in runs if o["arrived"]]
        counts = [a["gradients"] for a in arrived]
        spread = f"{thousands(min(counts))}–{thousands(max(counts))}" if counts else "–"
        beside = [
            thousands(statistics.median(a[k] for a in arrived)) if arrived else "–" for k in ("values", "products")
        ]
        claimed = [o for o in runs if o["claimed"]]
        told = "–"
        if method.split()[0] not in BLIND and claimed:
            told = thousands(statistics.median(o["gradients"] if o["claimed"] else math.inf for o in runs))
        lines.append(
            [
                method,
                f"{len(arrived)}/{len(runs)}",
                thousands(median(runs)),
                spread,
                *beside,
                f"{len(claimed)}/{len(runs)}",
                told,
                str(sum(o["false_claim"] for o in runs)),
                f"{statistics.median(o['seconds'] for o in runs):.1f}",
            ]
        )
    n = at.objective.num_samples
    title = (
        f"{problem}: d = {at.start(0).numel()}, n = {'∞' if n is None else n}, ε = {at.eps:g}, γ = {at.gamma:g}, "
        f"at most {thousands(at.max_samples)} samples a run"
    )
    heads = ["method", "arrive", "IFO", "spread", "values", "ISO", "told", "IFO then", "false", "s"]
    table(title, heads, lines)


def judge(report: Report, by_problem: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Which of what the theory promises is to be seen."""
    print("\nwhat was wanted")
    of_neon = [(p, m, o) for p, methods in by_problem.items() for m, runs in methods.items() for o in runs if m in NEON]
    report.want(f"false claims of neon- methods, of {len(of_neon)} runs", sum(o["false_claim"] for *_, o in of_neon), 0)
    late = [f"{m} on {p}" for p, m, o in of_neon if not o["claimed"]]
    print(f"  neon- runs that did not end at a second-order point: {len(late)} of {len(of_neon)}")
    for name in dict.fromkeys(late):
        print(f"    {name}: {late.count(name)}")
    pairs = [("neon-scsg", "neon-sgd"), ("neon-svrg", "neon-sgd")]
    pairs += [("neon-scsg", f"{blind} tuned") for blind in BLIND]
    for left, right in pairs:
        print(f"\n  {left} against {right}: median IFO to arrival")
        for problem, methods in by_problem.items():
            if left not in methods or right not in methods:
                continue
            a, b = median(methods[left]), median(methods[right])
            word = "AHEAD " if a < b else "behind" if a > b else "equal "
            ratio = "" if math.isinf(a) or math.isinf(b) else f", ratio {a / b:.2f}"
            print(f"    {word}  {problem}: {thousands(a)} to {thousands(b)}{ratio}")
            report.row(
                settings={"claim": f"{left} before {right}", "problem": problem},
                status="holds" if a < b else "does not hold",
                medians=[a, b],
            )


# --- The figure -------------------------------------------------------------------------------------------------------

PANELS = ("chain", "noisy chain", "noisy phases", "sigmoid, a9a", "u∘v, phishing", "u∘v, mushrooms")
LINES = {
    "neon-scsg": "C0",
    "neon-svrg": "C2",
    "neon-sgd": "C1",
    "noisy-sgd tuned": "C3",
    "sgld tuned": "C4",
    "svrg-hessian": "C5",
    "scsg": "0.6",
}


def draw(by_problem: dict[str, dict[str, list[dict[str, Any]]]], file: Path) -> None:
    """Lowest F so far against samples, all seeds; a dot is arrival, and a line without one ends with the budget."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = [p for p in PANELS if p in by_problem]
    columns = min(3, len(panels))
    figure, axes = plt.subplots(
        math.ceil(len(panels) / columns),
        columns,
        figsize=(4 * columns, 3.2 * math.ceil(len(panels) / columns)),
        squeeze=False,
    )
    for ax, problem in zip(axes.flat, panels, strict=False):
        methods = by_problem[problem]
        lowest = min(v for runs in methods.values() for o in runs for _, v in o["path"] if math.isfinite(v))
        start = max(v for runs in methods.values() for o in runs for _, v in o["path"][:1])
        for method, colour in LINES.items():
            for k, o in enumerate(methods.get(method, [])):
                if not o["path"]:
                    continue
                samples, values = zip(*o["path"], strict=True)
                floor = 1e-5 * (start - lowest)
                gaps = list(itertools.accumulate((max(v - lowest, floor) for v in values), min))
                ax.plot(samples, gaps, color=colour, lw=1.0, alpha=0.8, label=method if k == 0 else None)
                if o["arrived"]:
                    ax.plot(samples[-1], gaps[-1], "o", ms=3.5, color=colour)
        ax.set(xscale="log", yscale="log", title=problem, xlabel="component gradients (and Hessian products)")
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for row in axes:
        row[0].set_ylabel("lowest F so far − lowest of all")
    handles = [plt.Line2D([], [], color=c, label=m) for m, c in LINES.items()]
    figure.legend(handles=handles, ncols=len(LINES), loc="lower center", fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=80)
    print(f"\nfigure written: {file.name}, {file.stat().st_size / 1024:.0f} KB")


# --- All of it --------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of .npz data sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", action="append", metavar="NAME", help="one problem; can be repeated")
    parser.add_argument("--methods", action="append", metavar="NAME", help="one method; can be repeated")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the objective against samples")
    chosen = parser.parse_args(arguments)
    known = names(chosen.data)
    unknown = sorted(set(chosen.only or ()) - set(known))
    if unknown:
        raise SystemExit(f"--only: {unknown[0]!r} is not one of {'; '.join(known)}")
    problems = [name for name in known if name in (chosen.only or known)]
    methods = [*NEON, *RIVALS, *(f"{name} tuned" for name in BLIND), *BARE]
    methods = [m for m in methods if m in (chosen.methods or methods)]
    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    report = Report.begin("methods", chosen)
    print(f"{chosen.seeds} seeds; data sets cut to {ROWS} rows", flush=True)
    by_problem: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with ProcessPoolExecutor(
        chosen.threads, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        blind = [name for name in BLIND if f"{name} tuned" in methods]
        for problem in problems:
            tuning = [(problem, name, 0, {}, chosen.data) for name in blind]
            tuned = dict(zip(blind, pool.map(tune, tuning), strict=True))
            jobs: dict[tuple[str, int], Job] = {}
            for method in methods:
                name = method.split()[0]
                settings = tuned[name]["settings"] if method.endswith("tuned") else {}
                jobs |= {(method, seed): (problem, name, seed, settings, chosen.data) for seed in seeds}
            outcomes = dict(zip(jobs, pool.map(run, jobs.values()), strict=True))
            by_problem[problem] = keep(report, problem, chosen.data, jobs, outcomes)
            at = case(problem, chosen.data)
            show(at, problem, by_problem[problem])
            for name, chose in tuned.items():
                step, noise = chose["settings"]["step_size"] * chose["smoothness"], chose["settings"]["noise"] / at.eps
                print(f"  {name} tuned: step {step:.2g}/L1, noise {noise:.2g}ε", flush=True)
                found = {"problem": problem, "tuned": name} | chose["settings"]
                report.row(settings=found, status="tuned", smoothness=chose["smoothness"], tried=chose["tried"])
    judge(report, by_problem)
    if chosen.figure:
        draw(by_problem, chosen.figure)
    return report.end(chosen.out)


def keep(
    report: Report,
    problem: str,
    data: Path,
    jobs: dict[tuple[str, int], Job],
    outcomes: dict[tuple[str, int], dict[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Write the rows of one problem; its runs by method, those left out that a method could not take."""
    at = case(problem, data)
    limits = {"problem": problem, "eps": at.eps, "gamma": at.gamma, "max_samples": at.max_samples}
    by_method: dict[str, list[dict[str, Any]]] = {}
    for (method, seed), outcome in outcomes.items():
        if not outcome:
            continue
        by_method.setdefault(method, []).append(outcome)
        measured = {key: value for key, value in outcome.items() if key not in ("path", "status")}
        settings = limits | {"method": method} | jobs[method, seed][3]
        report.row(settings=settings, status=outcome["status"], seed=seed, **measured)
    return by_method


if __name__ == "__main__":
    raise SystemExit(main())
