"""`make demo` and the file that README checks, from end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source import ROOT

for package in ("typer", "matplotlib", "sklearn", "scipy", "ase"):
    pytest.importorskip(package)

pytestmark = pytest.mark.study


def run(*command: str) -> subprocess.CompletedProcess[str]:
    path = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=path)


def test_the_demo_shows_the_main_job_first_and_says_where_its_page_is(tmp_path: Path) -> None:
    small = ("--targets", "1", "--iterations", "20", "--features", "120")
    answer = run("examples/demo.py", "--out", str(tmp_path), *small)
    assert answer.returncode == 0, answer.stderr
    assert [line[:6] for line in answer.stdout.splitlines() if " of 4:" in line] == [f"{i} of 4" for i in range(1, 5)]
    assert answer.stdout.splitlines()[-1].startswith(f"The page: {tmp_path / 'index.html'} (")
    page = (tmp_path / "index.html").read_text()
    titles = ("A network that is stuck. A saddle.", "Where the direction lives", "The way down", "SciPy", "A molecule")
    places = [page.index(f"<h2>{title}") for title in (*titles, "Figure 1")]
    assert places == sorted(places)


def test_the_example_of_check_is_a_saddle(tmp_path: Path) -> None:
    answer = run("-m", "unsaddle", "check", "examples/stuck.py", "--out", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stdout.startswith("A saddle. F falls by 0.13")
