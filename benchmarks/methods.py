"""Samples to second-order stationarity: every neon- method, and every rival, on chains of saddles, noise and real data.

    python -m benchmarks.methods --data DIR [--extractors neon+ neon auto] [--figure FILE]

Each neon- method runs with each of `--extractors` inside, and its row says which: `neon+` and `neon` are the paper's,
`auto` is krylov. With `neon+` or `neon` inside, natasha2 and svrg-hessian are the paper's NEON-Natasha and NEON-SVRG.

**Arrival** is judged outside of the run, as `unsaddle.experiments.watch` has it; the problems are those of
`unsaddle.experiments.cases`. What counts is component gradients (IFO); values and Hessian products (ISO) stand beside
them. A median is over all seeds, a run that never arrives being infinite.

**Being told.** Most methods go on until they know that they have arrived: what they had spent when they ended, and how
often what they then claimed was true. The last extraction, which finds nothing, is in that. `noisy-sgd` and `sgld`
never look, and are stopped when they arrive.

**Tuning.** The neon- methods and the rivals run at their defaults. `noisy-sgd tuned` and `sgld tuned` each get 33 more
runs on every problem: eleven settings, three seeds of their own. First step sizes 1, 0.3 and 0.1 over L1, each with
batches that follow V, of 128 and of 16, and noise of ε/2; then, with the best of these nine, noise of 0.1ε and 2.5ε. L1
they are told, the largest |eigenvalue| of the exact Hessian at the start and at the end of a neon-scsg run. The setting
whose slowest seed arrives first is taken; where none always arrives in a tenth of the budget, the one that arrives most
often, and among those the one with the lowest F at the end.

`scsg` and `sgd` are the bare methods, without NEON. A method that cannot take a problem (a finite-sum method given a
stream) is left out of its table.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.environment import ROOT, Report, options, table
from unsaddle.experiments.case import Case
from unsaddle.experiments.cases import case, names_of_data
from unsaddle.experiments.data_cases import ROWS
from unsaddle.experiments.table_one import EXTRACTORS, what_ran
from unsaddle.experiments.watch import BLIND, PATH_FIELDS, solve
from unsaddle.methods import RIVALS, method_names, minimize
from unsaddle.pictures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION

NEON = tuple(name for name in method_names() if name.startswith("neon-"))
WITH_NEON_INSIDE = tuple(name for name, rival in RIVALS.items() if rival.takes_extractor)
"""Rivals in which the paper puts NEON."""
BARE = ("scsg", "sgd")
KNOWN = ("chain", "noisy chain", "matrix sensing", "noisy phases")
DATA = ("phishing", "mushrooms", "a9a", "w8a")
TUNING_SEEDS = (1000, 1001, 1002)
STEPS, BATCHES = (1.0, 0.3, 0.1), (None, 128, 16)
FIRST_NOISE, OTHER_NOISES = 0.5, (0.1, 2.5)
BUDGETS = 10
"""Times the budget of a case, which is made for arrival: the last "nothing" of NEON takes longer."""

Job = tuple[str, str, int, dict[str, Any], Path | None]
"""Problem, method, seed, settings of the method, data."""

Entry = tuple[str, str, str | None]
"""A row of the tables: its name, the method, the extractor inside it; None for a method that has its own, or none."""


def entries(extractors: Sequence[str]) -> list[Entry]:
    """All rows. `auto` in a rival is the rival's own method, which has a row already."""
    inside = [(m, e) for m in NEON for e in extractors]
    inside += [(m, e) for m in WITH_NEON_INSIDE for e in extractors if e != "auto"]
    alone = [*RIVALS, *(f"{name} tuned" for name in BLIND), *BARE]
    return [*((what_ran(m, e), m, e) for m, e in inside), *((m, m.split()[0], None) for m in alone)]


def names(data: Path | None) -> list[str]:
    """Of all cases; those on real data only where the data are."""
    there = names_of_data(data)
    on_data = [f"{kind}, {name}" for kind in ("sigmoid", "u∘v") for name in DATA]
    return [*KNOWN, *(name for name in on_data if name in there)]


def with_budget(problem: str, data: Path | None) -> Case:
    """The case, with samples enough to know."""
    at = case(problem, data)
    return replace(at, max_samples=BUDGETS * at.max_samples)


def run(job: Job) -> dict[str, Any]:
    problem, method, seed, settings, data = job
    return solve(with_budget(problem, data), method, seed, settings, curvature=False)


Score = tuple[float, float, float]
"""Seeds that never arrived, samples of the slowest, the sum of F at the end: the least is the best."""


def tune(job: Job) -> dict[str, Any]:
    """The settings of a blind method whose slowest tuning seed arrives first."""
    problem, method, _, _, data = job
    at = case(problem, data)
    assert at.hessian is not None
    seed = TUNING_SEEDS[0]
    x0, limits = at.start(seed), {"eps": at.eps, "gamma": at.gamma, "max_samples": at.max_samples}
    reference = minimize(at.objective, x0, method="neon-scsg", seed=seed, **limits)
    L1 = max(float(torch.linalg.eigvalsh(at.hessian(x)).abs().max()) for x in (x0, reference.x))
    best: dict[str, Any] = {}
    least: Score = (math.inf, math.inf, math.inf)
    tried: list[list[Any]] = []

    def try_all(candidates: Iterable[tuple[float, int | None, float]]) -> None:
        nonlocal best, least
        for step, batch, noise in candidates:
            n = at.objective.num_samples
            if batch is not None and n is not None and batch > n:
                continue  # The chain has one sample, whatever is asked for.
            settings = {"step_size": step / L1, "batch_size": batch, "noise": noise * at.eps, "num_steps": 10**9}
            score = rate(at, method, {k: v for k, v in settings.items() if v is not None}, least)
            tried.append([step, batch, noise, *score[:2]])
            if score < least or not best:
                best, least = settings, score

    try_all(itertools.product(STEPS, BATCHES, (FIRST_NOISE,)))
    step, batch = best["step_size"] * L1, best["batch_size"]
    try_all((step, batch, noise) for noise in OTHER_NOISES)
    return {"settings": {k: v for k, v in best.items() if v is not None}, "smoothness": L1, "tried": tried}


def rate(at: Case, method: str, settings: dict[str, Any], least: Score) -> Score:
    """How it does on the tuning seeds; it is stopped where it has lost to `least`."""
    runs: list[dict[str, Any]] = []
    for seed in TUNING_SEEDS:
        runs.append(solve(at, method, seed, settings, limit=least[1], curvature=False))
        if least[0] == 0 and not runs[-1]["arrived"]:
            break  # It has lost to one that always arrives, and sooner.
    missed = len(TUNING_SEEDS) - sum(bool(o["arrived"]) for o in runs)
    slowest = math.inf if missed else max(o["arrived"]["gradients"] for o in runs)
    values = [o["value"] if math.isfinite(o["value"]) else math.inf for o in runs]
    return missed, slowest, sum(values)


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
        f"{problem}: d = {at.dimension}, n = {'∞' if n is None else n}, ε = {at.eps:g}, γ = {at.gamma:g}, "
        f"at most {thousands(at.max_samples)} samples a run"
    )
    heads = ["method", "arrive", "IFO", "spread", "values", "ISO", "told", "IFO then", "false", "s"]
    table(title, heads, lines)


def judge(report: Report, by_problem: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Which of what the theory promises is to be seen."""
    print("\nwhat was wanted")
    every = [(p, m, o) for p, methods in by_problem.items() for m, runs in methods.items() for o in runs]
    of_neon = [(p, m, o) for p, m, o in every if " inside" in m]
    report.want(f"false claims with NEON inside, of {len(of_neon)} runs", sum(o["false_claim"] for *_, o in of_neon), 0)
    late = [f"{m} on {p}" for p, m, o in of_neon if not o["claimed"]]
    print(f"  of them, runs that did not end at a second-order point: {len(late)} of {len(of_neon)}")
    for name in dict.fromkeys(late):
        print(f"    {name}: {late.count(name)}")
    pairs = []
    for extractor in EXTRACTORS:
        scsg, sgd, svrg = (what_ran(name, extractor) for name in ("neon-scsg", "neon-sgd", "neon-svrg"))
        pairs += [(scsg, sgd), (svrg, sgd), *((scsg, f"{blind} tuned") for blind in BLIND)]
    for left, right in pairs:
        both = {problem: methods for problem, methods in by_problem.items() if left in methods and right in methods}
        if both:
            print(f"\n  {left} against {right}: median IFO to arrival")
        for problem, methods in both.items():
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
    what_ran("neon-scsg", "neon+"): VERMILION,
    what_ran("neon-svrg", "neon+"): GREEN,
    what_ran("neon-sgd", "neon+"): BLUE,
    "noisy-sgd tuned": ORANGE,
    "sgld tuned": PURPLE,
    "svrg-hessian": BLACK,
    "scsg": GREY,
}


def curve(outcome: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Component gradients and Hessian products together, and F."""
    gradients, products, value = (PATH_FIELDS.index(name) for name in ("gradients", "products", "value"))
    return [p[gradients] + p[products] for p in outcome["path"]], [p[value] for p in outcome["path"]]


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
        everything = [v for runs in methods.values() for o in runs for v in curve(o)[1]]
        lowest = min(v for v in everything if math.isfinite(v))
        start = max(curve(o)[1][0] for runs in methods.values() for o in runs if o["path"])
        for method, colour in LINES.items():
            for k, o in enumerate(methods.get(method, [])):
                if not o["path"]:
                    continue
                samples, values = curve(o)
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
    parser.add_argument("--extractors", nargs="+", default=list(EXTRACTORS), help="inside the promoted methods")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the objective against samples")
    chosen = parser.parse_args(arguments)
    data = chosen.data if chosen.data.is_dir() else None
    known = names(data)
    unknown = sorted(set(chosen.only or ()) - set(known))
    if unknown:
        raise SystemExit(f"--only: {unknown[0]!r} is not one of {'; '.join(known)}")
    problems = [name for name in known if name in (chosen.only or known)]
    rows, wanted = entries(chosen.extractors), chosen.methods
    rows = [r for r in rows if wanted is None or r[0] in wanted or (r[1] in wanted and "tuned" not in r[0])]
    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    report = Report.begin("methods", chosen)
    print(f"{chosen.seeds} seeds; data sets cut to {ROWS} rows", flush=True)
    by_problem: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with ProcessPoolExecutor(
        chosen.threads, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        blind = [name for name in BLIND if f"{name} tuned" in [row[0] for row in rows]]
        for problem in problems:
            tuning = [(problem, name, 0, {}, data) for name in blind]
            tuned = dict(zip(blind, pool.map(tune, tuning), strict=True))
            jobs: dict[tuple[str, int], Job] = {}
            for row, method, extractor in rows:
                settings = tuned[method]["settings"] if row.endswith("tuned") else {}
                settings = settings if extractor is None else {"extractor": extractor}
                jobs |= {(row, seed): (problem, method, seed, settings, data) for seed in seeds}
            outcomes = dict(zip(jobs, pool.map(run, jobs.values()), strict=True))
            by_problem[problem] = keep(report, problem, data, jobs, outcomes)
            at = with_budget(problem, data)
            show(at, problem, by_problem[problem])
            for name, chose in tuned.items():
                step, noise = chose["settings"]["step_size"] * chose["smoothness"], chose["settings"]["noise"] / at.eps
                batch = chose["settings"].get("batch_size", "follows V")
                print(f"  {name} tuned: step {step:.2g}/L1, batch {batch}, noise {noise:.2g}ε", flush=True)
                found = {"problem": problem, "tuned": name} | chose["settings"]
                report.row(settings=found, status="tuned", smoothness=chose["smoothness"], tried=chose["tried"])
    judge(report, by_problem)
    if chosen.figure:
        draw(by_problem, chosen.figure)
    return report.end(chosen.out)


def keep(
    report: Report,
    problem: str,
    data: Path | None,
    jobs: dict[tuple[str, int], Job],
    outcomes: dict[tuple[str, int], dict[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Write the rows of one problem; its runs by method, those left out that a method could not take."""
    at = with_budget(problem, data)
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
