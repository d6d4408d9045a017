"""Imports point one way: a file imports only from what stands before it, or from its own folder without a cycle."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.source import PACKAGE, ROOT, files, module

LAYERS = (
    "told.py",
    "pictures.py",
    "ranks.py",
    "checks.py",
    "vectors.py",
    "cost.py",
    "objective.py",
    "objectives/",
    "objectives/model/",
    "problems/",
    "theory/",
    "measure/",
    "metric/",
    "curvature/",
    "curvature/krylov/",
    "escape/",
    "judgement/",
    "spectrum/",
    "options.py",
    "run_plots.py",
    "run.py",
    "first_order/",
    "framework/",
    "baselines/",
    "progress.py",
    "methods.py",
    "torch_optim/",
    "interop/",
    "interop/ase/",
    "interop/scipy/",
    "experiments/",
    "report/",
    "commands/",
    "cli.py",
)
"""In the order of the table in docs/design.md. A folder inside another is of the same layer."""

FACE = ("__init__.py", "__main__.py")
"""What users see of all layers. `__version__` is all that the package itself may take from it."""

ONLY_TYPES = {
    ("curvature/plots.py", "curvature/result.py"),
    ("judgement/plots.py", "judgement/verdict.py"),
    ("spectrum/plots.py", "spectrum/layers.py"),
    ("spectrum/plots.py", "spectrum/result.py"),
}
"""Imports under `if TYPE_CHECKING` that would be a cycle if they were executed."""

MODULES = {module(path): path for path in files()}


def imports(path: str, *, executed: bool = False) -> Iterator[tuple[str, int]]:
    """Files of the package that a file imports, and in which line; inside functions too.

    Args:
        path: of the file.
        executed: without what stands under `if TYPE_CHECKING`.
    """
    tree, skipped = files()[path], set()
    if executed:
        guarded = (n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))
        skipped = {id(inner) for n in guarded for statement in n.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in (n for n in names if n.split(".")[0] == "unsaddle"):
            known = name if name in MODULES else name.rpartition(".")[0]
            if not (known == "unsaddle" and name == "unsaddle.__version__"):
                yield MODULES[known], node.lineno


def layer(path: str) -> int:
    """Its place in the order, by the outermost folder."""
    top, slash, _ = path.partition("/")
    return LAYERS.index(top + slash)


def inner() -> list[str]:
    return [path for path in files() if path not in FACE]


def test_every_file_and_folder_has_its_place() -> None:
    assert len(set(LAYERS)) == len(LAYERS)
    rooms = {f"{folder}/" for folder, slash, _ in (p.rpartition("/") for p in inner()) if slash}
    assert {path for path in inner() if "/" not in path} | rooms == set(LAYERS)


def test_the_docs_have_the_same_order() -> None:
    """Names in the first column of the table in docs/design.md, from above."""
    text = (ROOT / "docs" / "design.md").read_text().partition("## The one-way flow")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert [name for cell in cells for name in cell.strip(" `").split("`, `")] == list(LAYERS)


@pytest.mark.parametrize("path", inner())
def test_a_file_imports_only_from_before_it(path: str) -> None:
    wrong = [
        f"src/unsaddle/{path}:{line} imports {target}"
        for target, line in imports(path)
        if target in FACE or layer(target) > layer(path)
    ]
    assert not wrong, "\n".join(["imports must point to what stands before in LAYERS:", *wrong])


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {path: {target for target, _ in imports(path)} for path in inner()}
    for path, target in ONLY_TYPES:
        executed = {t for t, _ in imports(path, executed=True)}
        assert target in graph[path] - executed, f"{path} no longer imports {target} for its types alone: unlist it"
        graph[path].discard(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" is imported by ".join(error.args[1]))


@pytest.mark.slow
def test_no_module_is_there_twice_after_its_examples_are_collected(tmp_path) -> None:
    """pytest imports a file whose examples it runs; what it imports must be what everybody else has imported."""
    check = tmp_path / "test_twins.py"
    check.write_text(
        "import sys, types\n"
        "def test_functions_are_those_of_their_module():\n"
        "    ours = [m for name, m in sys.modules.items() if name.split('.')[0] == 'unsaddle']\n"
        "    found = [f for m in ours for f in vars(m).values() if isinstance(f, types.FunctionType)]\n"
        "    found = [f for f in found if f.__module__.startswith('unsaddle') and not hasattr(f, '__wrapped__')]\n"
        "    assert len(found) > 100\n"
        "    assert [f for f in found if f.__globals__ is not vars(sys.modules[f.__module__])] == []\n"
    )
    first = [PACKAGE / "vectors.py", PACKAGE / "curvature" / "krylov" / "lanczos.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *first, check]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
