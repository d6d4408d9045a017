"""The source as text: what the suites on the house itself read."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "unsaddle"
TESTS = ROOT / "tests"


@functools.cache
def files() -> dict[str, ast.Module]:
    """Every file of the package, by its path in it."""
    return {p.relative_to(PACKAGE).as_posix(): ast.parse(p.read_text()) for p in sorted(PACKAGE.rglob("*.py"))}


def module(path: str) -> str:
    """The name that a file is imported by."""
    return ".".join(("unsaddle", *Path(path).with_suffix("").parts)).removesuffix(".__init__")
