"""Random small changes to the source: does a test notice?

A mutant changes one place of one file: a comparison, an operator, a number, a boolean, a `not`, a returned value, or an
`if` that always or never holds. The tests that run the changed lines run on it, with -x: those that mirror the file
first, then those of other files, quick ones first, up to a limit. Each mutant has a fork of this process, which has
imported torch and pytest. A mutant is killed if a test fails, or takes far longer than before.

What survives is printed with its line: it is a weak test, or a change that makes no difference. equivalent_mutants.json
beside this file lists those that make none, with reasons. They count neither as killed nor as survived.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch  # Imported here, so that no fork has to.

from benchmarks.environment import ROOT, Report, options, table
from tests.test_mirror import ELSEWHERE

SOURCE, TESTS = ROOT / "src" / "unsaddle", ROOT / "tests"
LEFT_OUT = (
    "distributed",
    "report/test_browser.py",
    "test_demo.py",
    "test_fuzz_calls.py",
    "test_kill.py",
    "test_load.py",
    "test_site.py",
    "torch_optim/test_examples.py",
)
"""Tests whose work is done in other processes, which have the source as it is, or that take a minute each."""
PATIENCE = 10.0
"""Seconds that the tests on a mutant took without it, at most; the quickest are chosen. One runs in any case."""
SLOWER = 10.0
"""A mutant whose tests take this many times the processor's time of those without it, and a minute, is killed."""
LIMIT = 600.0
"""Seconds by the clock after which a mutant is killed, too: it may wait for something."""
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")

COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def places(tree: ast.Module) -> list[ast.AST]:
    """The nodes that can be changed. Annotations and docstrings are not among them."""
    found: list[ast.AST] = []

    def visit(node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    if _way(child):
                        found.append(child)
                    visit(child)

    visit(tree)
    return found


def _way(node: ast.AST) -> str:
    """How a node can be changed; "" if it cannot."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        return "comparison"
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in COMPUTED:
        return "operator"
    if isinstance(node, ast.BoolOp):
        return "and, or"
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        return "constant"
    if isinstance(node, ast.If):
        return "if"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        return "sign"
    return ""


def change(node: ast.AST, r: random.Random) -> None:
    """Changes a node in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARED[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        node.op = COMPUTED[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            node.value = not node.value
        else:
            assert isinstance(node.value, (int, float))
            node.value = r.choice((node.value + 1, node.value * 2 if node.value else 1))
    elif isinstance(node, ast.If):
        node.test = ast.copy_location(ast.Constant(r.random() < 0.5), node.test)
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op
        if isinstance(node.op, ast.Not):
            node.operand = ast.copy_location(ast.Constant(False), node.operand)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A changed place."""

    file: Path
    lines: range
    """That are changed; empty if they run at import."""
    before: str
    after: str
    where: str
    """The function or class around it."""
    source: str
    """Of the whole file, changed."""

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE)}, {self.where}: {self.before}  became  {self.after}"


def mutant(file: Path, index: int, r: random.Random) -> Mutant:
    tree = ast.parse(file.read_text())
    node = places(tree)[index]
    before, at = ast.unparse(node), node.test if isinstance(node, ast.If) else node
    first, last = getattr(at, "lineno", 0), getattr(at, "end_lineno", 0)
    inside = id(node) in inside_functions(tree)
    around = [f for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.ClassDef)) and node in ast.walk(f)]
    change(node, r)
    return Mutant(
        file=file, lines=range(first, last + 1) if inside else range(0), before=before.split("\n")[0],
        after=ast.unparse(node).split("\n")[0], where=".".join(f.name for f in around) or "module",
        source=ast.unparse(ast.fix_missing_locations(tree)),
    )  # fmt: skip


def inside_functions(tree: ast.Module) -> set[int]:
    """Ids of the nodes that run only when a function is called."""
    functions = [f for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.Lambda))]
    bodies = [part for f in functions for part in (f.body if isinstance(f.body, list) else [f.body])]
    return {id(node) for part in bodies for node in ast.walk(part)}


def tests_of(file: Path) -> list[str]:
    """The tests that mirror a file of the source, and its examples."""
    inside = file.relative_to(SOURCE)
    own = [str(inside.parent / f"test_{inside.name}")]
    others = [test for test, sources in ELSEWHERE.items() if str(inside) in sources]
    return [*(f"tests/{test}".replace("/./", "/") for test in own + others), str(file.relative_to(ROOT))]


def files(names: list[str]) -> Iterator[Path]:
    """Files of the source that a test mirrors; those that only work on several ranks are left out with their tests."""
    known = {str(path.relative_to(ROOT)) for path in files_of_tests()}
    for name in names:
        path = SOURCE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if file.name != "__init__.py" and known.intersection(tests_of(file)):
                yield file


class Watch:
    """A plugin of pytest that notes which of the wanted lines each test runs; line 0 is anything of the file.

    What a fixture of several tests runs counts for each of them, and so do functions that a test file calls when it is
    imported.
    """

    def __init__(self, mutants: list[Mutant]) -> None:
        self.seen: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        self._wanted: dict[str, set[int]] = {str(m.file): set() for m in mutants}
        for m in mutants:
            self._wanted[str(m.file)].update(m.lines)
        self._codes: dict[CodeType, set[int]] = {}
        self._now, self._shared = set[tuple[str, int]](), dict[str, set[tuple[str, int]]]()
        self.failed = set[str]()

    def _of_line(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_lineno in self._codes[frame.f_code]:
            self._now.add((frame.f_code.co_filename, frame.f_lineno))
        return self._of_line

    def _of_call(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if code.co_filename not in self._wanted or code.co_name == "<module>":
            return None
        self._now.add((code.co_filename, 0))
        if code not in self._codes:
            own = {line for *_, line in code.co_lines() if line is not None}
            self._codes[code] = own & self._wanted[code.co_filename]
        return self._of_line(frame, event, _) if self._codes[code] else None

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before, self._now = self._now, set()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared.setdefault(fixturedef.argname, set()).update(self._now)
            self._now = before | self._now

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        self._now = set()
        sys.settrace(self._of_call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            # Twice for a file: once for its examples, which import it.
            self._shared.setdefault(collector.nodeid, set()).update(self._now)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._now, begun = set(), time.process_time()
        sys.settrace(self._of_call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            names = (item.nodeid.partition("::")[0], *getattr(item, "fixturenames", ()))
            shared = [self._shared.get(name, set()) for name in names]
            self.seen[item.nodeid] = time.process_time() - begun, sorted(self._now.union(*shared))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


Seen = dict[str, tuple[float, set[tuple[str, int]]]]
"""By test: its seconds, and which files and lines it runs."""


def watched(mutants: list[Mutant], jobs: int, tests: Sequence[str] = ()) -> Seen:
    """Runs all tests once, on the source as it is. Those that do not pass are left out."""
    with tempfile.TemporaryDirectory() as folder:

        def work(job: int, own: Sequence[str]) -> int:
            watch = Watch(mutants)
            code = _test(None, list(own), watch)
            passed = {name: of for name, of in watch.seen.items() if name not in watch.failed}
            (Path(folder) / f"{job}.json").write_text(json.dumps(passed))
            return code

        tests = tests or [*map(str, files_of_tests()), str(SOURCE)]
        started = [fork(functools.partial(work, job, tests[job::jobs])) for job in range(jobs)]
        for process in started:
            os.waitpid(process, 0)
        told = [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]
    return {n: (s, {(file, line) for file, line in at}) for part in told for n, (s, at) in part.items()}


def files_of_tests() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("test_*.py")) if not str(path.relative_to(TESTS)).startswith(LEFT_OUT)]


def fork(work: Callable[[], int]) -> int:
    """A process that does `work` and ends with the code that it returns; its id."""
    sys.stdout.flush()
    process = os.fork()
    if not process:
        with contextlib.suppress(BaseException):
            os._exit(work())
        os._exit(1)
    return process


def chosen(m: Mutant, seen: Seen) -> tuple[list[str], float]:
    """The tests for a mutant, in their order, and their seconds."""
    wanted = {(str(m.file), line) for line in m.lines or (0,)}
    mirrored = tests_of(m.file)
    ranked = sorted(
        (not (at & wanted), name.partition("::")[0] not in mirrored, seconds, name)
        for name, (seconds, at) in seen.items()
        if at & wanted or (name.partition("::")[0] in mirrored and (str(m.file), 0) in at)
    )
    names, total = [], 0.0
    for *_, seconds, name in ranked:
        if names and total + seconds > PATIENCE:
            continue
        names.append(name)
        total += seconds
    return names, total


def in_a_fork(work: Callable[[], int], seconds: float) -> int:
    """The exit code of `work` in a fork of this process; 1 if it took too long."""

    def limited() -> int:
        most = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        return work()

    process, until = fork(limited), time.monotonic() + LIMIT
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 1


def _test(changed: Mutant | None, tests: list[str], *plugins: object) -> int:
    """Runs tests here, with modules of the package imported anew and one of them changed."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader
    plain = loader.get_code

    def mutated(self: importlib.machinery.SourceFileLoader, name: str) -> object:
        if changed is not None and Path(self.path).resolve() == changed.file.resolve():
            return compile(changed.source, str(changed.file), "exec")
        return plain(self, name)

    loader.get_code = mutated  # type: ignore[method-assign, assignment]
    for name in [n for n in sys.modules if n.split(".")[0] in ("unsaddle", "tests", "benchmarks") and n != __name__]:
        del sys.modules[name]
    os.chdir(ROOT)
    words = ["-q", "-p", "no:cacheprovider", "-m", "not study", *(["-x"] if changed is not None else [])]
    # pytest would rewrite the asserts of a file that it is asked for by name, and load it past the loader above.
    words += ["-o", "addopts=--import-mode=importlib --doctest-modules", "--assert=plain"]
    return int(pytest.main([*words, *tests], list(plugins)))


def tried(mutants: list[Mutant], seen: Seen, jobs: int, until: float) -> Iterator[tuple[Mutant, int, bool]]:
    """Each mutant that there is time for, with the number of its tests, and whether it survived them."""
    reader, writer = os.pipe()

    def work(job: int) -> int:
        for i in range(job, len(mutants), jobs):
            if time.monotonic() > until:
                break
            tests, seconds = chosen(mutants[i], seen)
            alive = not tests or in_a_fork(lambda: _test(mutants[i], tests), 60.0 + SLOWER * seconds) == 0  # noqa: B023
            os.write(writer, f"{i} {len(tests)} {int(alive)}\n".encode())
        return 0

    started = [fork(functools.partial(work, job)) for job in range(jobs)]
    os.close(writer)
    with os.fdopen(reader) as lines:
        for line in lines:
            i, count, alive = map(int, line.split())
            yield mutants[i], count, bool(alive)
    for process in started:
        os.waitpid(process, 0)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--count", type=int, default=220, help="mutants")
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="+", default=[""], help="files and folders of src/unsaddle")
    parser.add_argument("--tests", nargs="+", default=[], help="paths; all by default")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only those that survived in these rows")
    args = parser.parse_args()
    report = Report.begin("mutants", args)
    torch.set_num_threads(1)
    r, ends, until = random.Random(args.seed), Counter[str](), time.monotonic() + 60.0 * args.minutes
    choices = [(file, i) for file in files(args.only) for i in range(len(places(ast.parse(file.read_text()))))]
    mutants = [mutant(file, i, r) for file, i in r.sample(choices, min(args.count, len(choices)))]
    if args.again is not None:
        rows = map(json.loads, args.again.read_text().splitlines())
        survived = {row["settings"].get("mutant") for row in rows if row["status"] == "survived"}
        mutants = [m for m in mutants if str(m) in survived]
    reasons: dict[str, str] = json.loads(EQUIVALENT.read_text())
    seen = watched(mutants, args.jobs, args.tests)
    print(f"  {len(seen)} tests took {sum(s for s, _ in seen.values()):.0f} s", flush=True)
    for m, tests, alive in tried(mutants, seen, args.jobs, until):
        end = "equivalent" if alive and str(m) in reasons else "survived" if alive else "killed"
        ends[end] += 1
        if alive:
            why = reasons.get(str(m), f"survived {tests} tests")
            print(f"  line {min(m.lines, default=0)} of {m}  ({why})", flush=True)
        report.row(settings={"mutant": str(m)}, status=end, tests=tests)
    table(f"mutants, seed {args.seed}", ["", "mutants"], [[name, str(count)] for name, count in sorted(ends.items())])
    count = ends["killed"] + ends["survived"]
    share = ends["killed"] / max(1, count)
    report.want(f"share of {count} mutants that tests kill", share, 1.0, at_least=0.92)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
