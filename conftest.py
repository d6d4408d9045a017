"""One thread a process, and one copy of every module.

`make test` runs a worker on every core, and tensors here are small: two threads on them mostly wait for each other,
the more so on a busy machine. Processes that tests start inherit this.
"""

import importlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # Before NumPy and torch are imported, which read it.

import pytest
import torch

torch.set_num_threads(1)

SRC = Path(__file__).parent / "src"

TOGETHER = (
    "tests/distributed/",
    "tests/experiments/test_reproduce.py",
    "tests/interop/ase/",
    "tests/report/test_browser.py",
    "tests/report/test_page.py",
    "tests/test_cli.py",
)
"""One worker takes all tests of a line, which share something slow to make; any worker takes any other test."""

# Adapters to packages that are not installed cannot be looked through for examples.
collect_ignore_glob = [
    f"src/unsaddle/interop/{package}*"
    for package in ("lightning", "transformers", "scipy", "jax", "ase")
    if find_spec(package) is None
]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Files of the package without an example: some would be imported for nothing, with all of a trainer."""
    if collection_path.suffix == ".py" and collection_path.is_relative_to(SRC):
        return ">>>" not in collection_path.read_text() or None
    return None


def pytest_collect_file(file_path: Path) -> None:
    """Imports a module of the package as users do, before its examples are looked for.

    pytest's `importlib` mode imports the parents of a module and then executes the module, even where a parent has
    imported it already: there would be two of it, and a test would patch the one that nobody uses.
    """
    if file_path.suffix == ".py" and file_path.is_relative_to(SRC):
        parts = file_path.relative_to(SRC).with_suffix("").parts
        importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Documents come first: one takes as long as hundreds of tests, and no worker is to wait for it at the end."""
    items.sort(key=lambda item: item.path.suffix != ".md")


@pytest.hookimpl(optionalhook=True)  # There may be no pytest-xdist.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out single tests, and `TOGETHER` first.

    pytest-xdist's own `--dist loadgroup` does nothing under pytest 9.2, which no longer reads the name that it changes.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((line for line in TOGETHER if nodeid.startswith(line)), nodeid)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][scope].values()):  # Else all that is done is counted after every test.
                del self.assigned_work[node][scope]

    return Scheduling(config, log)
