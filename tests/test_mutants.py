"""Changes of the source reach the tests: a short run of `python -m benchmarks.mutants`, in a process of its own, since
that one forks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.study
@pytest.mark.parametrize(
    ("tests", "killed"), [("tests/test_cost.py", 4), ("src/unsaddle/cost.py", 2)], ids=["tests", "examples"]
)
def test_changes_of_the_source_are_noticed(tests, killed):
    """Also by the one example of the changed file itself, which pytest would load past the change."""
    command = [sys.executable, "-m", "benchmarks.mutants", "--threads", "1", "--count", "9", "--seed", "1"]
    command += ["--only", "cost.py", "--tests", tests]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert int(re.search(r"killed +(\d+)", ran.stdout)[1]) >= killed, ran.stdout + ran.stderr
