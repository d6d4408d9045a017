"""Random small changes to the source: does a test notice?

A mutant changes one place of one file: a comparison, an operator, a number, a boolean, a `not`, a returned value, or an
`if` that always or never holds. The tests that mirror the file run on it, with -x, in a fork of this process, which has
imported torch and pytest. A mutant is killed if they fail, or take longer than a limit. What survives is printed
with its line: it is a weak test, or a change that makes no difference.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

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


def survives(file: Path, source: str) -> bool | None:
    """Whether the tests pass with another source of the file; None if they took too long."""
    sys.stdout.flush()
    process = os.fork()
    if not process:
        with contextlib.suppress(BaseException):
            os._exit(_test(file, source))
        os._exit(1)
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _test(file: Path, source: str) -> int:
    """Runs the tests here, with modules of the package imported anew and one of them from `source`."""
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
    words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:doctest", "-m", "not study and not slow"]
    return int(pytest.main([*words, "-o", "addopts=--import-mode=importlib", *map(str, tests_of(file))]))


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
        tree = ast.parse(file.read_text())
        node = places(tree)[i]
        before, line = ast.unparse(node).split("\n")[0], getattr(node, "lineno", 0)
        change(node, r)
        alive = survives(file, ast.unparse(ast.fix_missing_locations(tree)))
        end = "survived" if alive else "killed"
        ends[end] += 1
        where = f"{file.relative_to(SOURCE)}:{line}"
        if alive:
            print(f"  {where}: {before}  became  {ast.unparse(node).split(chr(10))[0]}", flush=True)
        report.row(settings={"file": where, "before": before}, status=end)
    table(f"mutants, seed {args.seed}", ["", "mutants"], [[name, str(count)] for name, count in sorted(ends.items())])
    share = ends["killed"] / max(1, ends.total())
    report.want(f"share of {ends.total()} mutants that tests of their file kill", share, 1.0, at_least=0.92)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
