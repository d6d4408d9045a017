"""Random small changes to the source: does a test notice?

A mutant changes one place of one file: a comparison, an operator, a number, a boolean, a `not`, a returned value, or an
`if` that always or never holds. The tests that mirror the file run on it, with -x, in a fork of this process, which has
imported torch and pytest; those first that run the changed line. A mutant is killed if they fail, or take longer than a
limit. What survives is printed with its line: it is a weak test, or a change that makes no difference.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch  # Imported here, so that no fork has to.

from benchmarks.environment import ROOT, Report, options, table
from tests.test_mirror import ELSEWHERE

SOURCE, TESTS = ROOT / "src" / "unsaddle", ROOT / "tests"
CORE = ("checks.py", "cost.py", "vectors.py", "curvature", "escape", "first_order", "judgement", "measure", "metric")
"""What is mutated by default."""
LIMIT = 300.0
"""Seconds that the tests of a file may take on a mutant."""

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


def tests_of(file: Path) -> list[Path]:
    """The tests that mirror a file of the source."""
    inside = file.relative_to(SOURCE)
    own = TESTS / inside.parent / f"test_{inside.name}"
    others = [TESTS / test for test, sources in ELSEWHERE.items() if str(inside) in sources]
    return [path for path in (own, *others) if path.exists() and "distributed" not in path.parts]


def files(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = SOURCE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if file.name != "__init__.py" and tests_of(file):
                yield file


def survives(file: Path, source: str, node: ast.AST, inside: bool, seen: dict[str, tuple[float, list[int]]]) -> bool:
    """Whether all tests of a file pass with another source.

    Those that run the changed lines come first, quick ones first. If they pass, all run: a test may use what a fixture
    made for another one. A line inside of a function that no test runs survives at once.
    """
    lines = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", None) or 0) + 1)
    chosen = sorted((seconds, name) for name, (seconds, run) in seen.items() if not set(lines).isdisjoint(run))
    if inside and not chosen:
        return True
    if chosen and not _passes(file, source, [name for _, name in chosen]):
        return False
    return len(chosen) == len(seen) or _passes(file, source, list(map(str, tests_of(file))))


def _passes(file: Path, source: str, tests: list[str]) -> bool:
    return in_a_fork(lambda: _test(file, source, tests)) == 0


def in_a_fork(work: Callable[[], int]) -> int:
    """The exit code of `work` in a fork of this process; 1 if it took too long."""
    sys.stdout.flush()
    process = os.fork()
    if not process:
        with contextlib.suppress(BaseException):
            os._exit(work())
        os._exit(1)
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 1


@functools.cache
def covered(file: Path) -> dict[str, tuple[float, list[int]]]:
    """Each test of a file: its seconds, and the lines of the file that it runs. Empty if the tests fail as they are."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"

        def work() -> int:
            watch = _Watch(file)
            code = _test(file, file.read_text(), list(map(str, tests_of(file))), watch)
            told.write_text(json.dumps(watch.seen))
            return code

        if in_a_fork(work) != 0:
            return {}
        seen: dict[str, tuple[float, list[int]]] = json.loads(told.read_text())
        return seen


class _Watch:
    """A plugin of pytest that notes which lines of a file each test runs."""

    def __init__(self, file: Path) -> None:
        self._file, self.seen = str(file), dict[str, tuple[float, list[int]]]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        lines, begun = set[int](), time.monotonic()

        def of_line(frame: FrameType, event: str, _: object) -> Any:
            lines.add(frame.f_lineno)
            return of_line

        def of_call(frame: FrameType, event: str, _: object) -> Any:
            return of_line(frame, event, _) if frame.f_code.co_filename == self._file else None

        sys.settrace(of_call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seen[item.nodeid] = time.monotonic() - begun, sorted(lines)


def _test(file: Path, source: str, tests: list[str], *plugins: object) -> int:
    """Runs tests here, with modules of the package imported anew and one of them from `source`."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader
    plain = loader.get_code

    def mutated(self: importlib.machinery.SourceFileLoader, name: str) -> object:
        return compile(source, str(file), "exec") if Path(self.path).resolve() == file.resolve() else plain(self, name)

    loader.get_code = mutated  # type: ignore[method-assign, assignment]
    for name in [n for n in sys.modules if n.split(".")[0] in ("unsaddle", "tests", "benchmarks") and n != __name__]:
        del sys.modules[name]
    os.chdir(ROOT)
    words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:doctest", "-m", "not study and not slow"]
    return int(pytest.main([*words, "-o", "addopts=--import-mode=importlib", *tests], list(plugins)))


def inside_functions(tree: ast.Module) -> set[int]:
    """Ids of the nodes that run only when a function is called."""
    functions = [f for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.Lambda))]
    bodies = [part for f in functions for part in (f.body if isinstance(f.body, list) else [f.body])]
    return {id(node) for part in bodies for node in ast.walk(part)}


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--count", type=int, default=200, help="mutants")
    parser.add_argument("--minutes", type=float, default=60.0, help="at most")
    parser.add_argument("--only", nargs="+", default=list(CORE), help="files and folders of src/unsaddle")
    args = parser.parse_args()
    report = Report.begin("mutants", args)
    torch.set_num_threads(1)
    r, ends, until = random.Random(args.seed), Counter[str](), time.monotonic() + 60.0 * args.minutes
    choices = [(file, i) for file in files(args.only) for i in range(len(places(ast.parse(file.read_text()))))]
    for file, i in r.sample(choices, min(args.count, len(choices))):
        if time.monotonic() > until:
            break
        if not covered(file):  # Its tests are all slow, or fail as they are.
            ends["left out"] += 1
            continue
        tree = ast.parse(file.read_text())
        node = places(tree)[i]
        before, line = ast.unparse(node).split("\n")[0], getattr(node, "lineno", 0)
        inside, at = id(node) in inside_functions(tree), node.test if isinstance(node, ast.If) else node
        change(node, r)
        alive = survives(file, ast.unparse(ast.fix_missing_locations(tree)), at, inside, covered(file))
        end = "survived" if alive else "killed"
        ends[end] += 1
        where = f"{file.relative_to(SOURCE)}:{line}"
        if alive:
            print(f"  {where}: {before}  became  {ast.unparse(node).split(chr(10))[0]}", flush=True)
        report.row(settings={"file": where, "before": before}, status=end)
    table(f"mutants, seed {args.seed}", ["", "mutants"], [[name, str(count)] for name, count in sorted(ends.items())])
    tried = ends["killed"] + ends["survived"]
    share = ends["killed"] / max(1, tried)
    report.want(f"share of {tried} mutants that tests of their file kill", share, 1.0, at_least=0.92)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
