import contextlib
import functools
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.experiments import squares
from unsaddle.experiments import rows as stored
from unsaddle.experiments.rows import RowFile, plain, restored

ROOT = Path(__file__).parents[2]


def started(out: Path, processes: int, count: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.experiments.squares", str(out), str(processes), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def lines(out: Path) -> int:
    path = out / stored.FILE
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(condition, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill_after(run: subprocess.Popen, out: Path, count: int, delay: float) -> None:
    wait_for(lambda: lines(out) >= count or run.poll() is not None)
    time.sleep(delay)
    run.kill()
    run.wait()
    run.stdout.close()


@pytest.mark.slow
def test_rows_come_back_in_the_order_of_the_jobs_whichever_ends_first(tmp_path, capsys):
    jobs = [{"i": i, "count": 8, "rows": str(tmp_path / stored.FILE)} for i in range(8)]
    rows = squares.run_jobs(jobs, squares.first_comes_last, tmp_path, 2)
    assert [row["square"] for row in rows] == [i**2 for i in range(8)]
    assert [row["square"] for row in stored.read(tmp_path)] == [i**2 for i in range(8)]
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 8
    assert told[-1].startswith("squares 8/8: square of 0 (")
    assert "left" in told[0]


def test_a_row_says_what_was_asked_what_was_measured_and_where(tmp_path):
    before = torch.get_num_threads()
    row = squares.run(tmp_path, count=1)[0]
    assert list(row) == ["experiment", "settings", "square", "odd", "process", "environment"]
    assert (row["experiment"], row["settings"], row["environment"]["threads"]) == ("squares", {"i": 0}, 1)
    assert torch.get_num_threads() == before


def test_nan_and_infinities_survive_and_the_file_is_json_for_everyone(tmp_path):
    squares.run(tmp_path, count=1)
    (row,) = stored.read(tmp_path)
    assert math.isnan(row["odd"][0])
    assert row["odd"][1:] == [math.inf, -math.inf]
    json.loads((tmp_path / stored.FILE).read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert restored(plain({"a": [1.5, "NaN's", None, True]})) == {"a": [1.5, "NaN's", None, True]}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.study), 2])
def test_killed_at_random_moments_and_started_again_it_ends_with_the_same_rows(tmp_path, processes):
    count, moments = 80, random.Random(processes)
    for share in (0.1, 0.6) if processes == 1 else (0.4,):
        run = started(tmp_path, processes, count)
        kill_after(run, tmp_path, int(share * count), moments.uniform(0.0, 0.02))
        workers = {row["process"] for row in stored.read(tmp_path)} - {run.pid}
        for worker in workers:
            wait_for(functools.partial(ended, worker))  # With their parent.
        # What a write cut short would leave behind; a real kill may leave it or not.
        with (tmp_path / stored.FILE).open("ab") as file:
            file.write(b'{"experiment":"squares","settings":{"i":7')
    before = {row["settings"]["i"]: row["process"] for row in stored.read(tmp_path)}
    assert 0 < len(before) < count
    last = started(tmp_path, processes, count)
    told, _ = last.communicate(timeout=60)
    assert last.returncode == 0
    assert f"squares: {len(before)} of {count} were finished before" in told
    rows = stored.read(tmp_path)
    assert [(row["settings"]["i"], row["square"]) for row in rows] == [(i, i**2) for i in range(count)]
    assert {row["settings"]["i"]: row["process"] for row in rows}.items() >= before.items()  # Nothing was done twice.


@pytest.mark.slow
def test_control_c_keeps_the_rows_so_far(tmp_path):
    run = started(tmp_path, 2, 10_000)
    wait_for(lambda: lines(tmp_path) >= 10)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=30)
    assert run.returncode != 0
    rows = stored.read(tmp_path)
    assert 10 <= len(rows) < 10_000
    assert all(row["square"] == row["settings"]["i"] ** 2 for row in rows)


@pytest.mark.slow
def test_work_that_fails_is_named_and_what_was_done_is_kept(tmp_path):
    with pytest.raises(ArithmeticError, match="two is not liked"):
        squares.run(tmp_path / "one", squares.fails_at_two)
    assert [row["square"] for row in stored.read(tmp_path / "one")] == [0, 1]
    with pytest.raises(RuntimeError, match=r"(?s)'i': 2.* failed; the rows so far are kept.*two is not liked"):
        squares.run(tmp_path / "two", squares.fails_at_two, processes=2)
    with pytest.raises(RuntimeError, match=r"'i': 2.* died with exit code 3"):
        squares.run(tmp_path / "three", squares.dies_at_two, processes=2)


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="processes must be at least 1, got 0"):
        squares.run(tmp_path, processes=0)
    with pytest.raises(ValueError, match="jobs must differ in their settings"):
        squares.harness.run([{"i": 1}, {"i": 1}], squares.square, tmp_path, experiment="squares", describe=str)


def test_two_runs_do_not_share_a_file(tmp_path):
    with RowFile(tmp_path), pytest.raises(BlockingIOError, match="being written by another run"):
        squares.run(tmp_path)


def test_a_broken_line_is_named_unless_it_is_the_last(tmp_path):
    squares.run(tmp_path, count=3)
    path = tmp_path / stored.FILE
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0\0\0\n")
    assert len(stored.read(tmp_path)) == 3
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(ValueError, match=r"rows\.jsonl, line 1: expected a row, .* got b'nonsense'"):
        stored.read(tmp_path)


def test_other_rows_of_the_file_are_kept(tmp_path):
    with RowFile(tmp_path) as file:
        file.append({"experiment": "another", "settings": {"i": 0}, "square": -1})
    squares.run(tmp_path, count=2)
    assert [row["square"] for row in stored.read(tmp_path)] == [-1, 0, 1]


@pytest.mark.slow
def test_on_a_terminal_there_is_a_bar_with_the_time_left(tmp_path):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "tests.experiments.squares", str(tmp_path), "1", "20"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True) as run:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux says so when the other end is closed.
            while part := os.read(ours, 65536):
                shown += part
        assert run.stdout.read() == ""
    os.close(ours)
    assert run.returncode == 0
    assert b"left:" in shown
    assert b"20/20" in shown
