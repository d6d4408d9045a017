"""Runs that are hit by signals, and started again: a short run of `python -m benchmarks.kill`, in a process of its own,
since that one forks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.study
@pytest.mark.parametrize("kind", ["training", "compare", "2 ranks, torchrun"])
def test_runs_that_were_hit_end_with_the_same_rows_or_weights(kind):
    command = [sys.executable, "-m", "benchmarks.kill", "--threads", "1", "--hits", "5", "--only", kind]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    _, runs, *hits, other = re.search(kind + r" +(\S+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)", ran.stdout).groups()
    assert sum(map(int, hits)) >= 5
    assert (int(runs) > 0, int(other)) == (True, 0)
