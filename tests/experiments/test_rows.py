"""Faults around the file of rows: a full disk, a folder that cannot be written, a clock that jumps, two writers."""

import itertools
import os
import resource
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.experiments import squares
from unsaddle.experiments import harness
from unsaddle.experiments import rows as stored
from unsaddle.experiments.rows import RowFile, identity


@contextmanager
def files_up_to(size):
    """No file of this process may grow beyond, as if the disk were full. Python ignores the signal that comes of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def row(i):
    return {"experiment": "a", "settings": {"i": i}, "text": "x" * 1000}


def _fill(file):
    for i in range(100):
        file.append(row(i))


def test_a_full_disk_is_told_and_costs_no_row(tmp_path):
    with RowFile(tmp_path) as file, files_up_to(20_000):
        with pytest.raises(OSError, match=r"rows so far are kept.*rows\.jsonl"):
            _fill(file)
        whole = len(file.rows)
    assert 10 < whole < 20
    assert (tmp_path / stored.FILE).read_bytes().endswith(b"\n")  # No part of a row is left.
    assert [r["settings"]["i"] for r in stored.read(tmp_path)] == list(range(whole))
    with RowFile(tmp_path) as file:
        file.append(row(whole))
    assert len(stored.read(tmp_path)) == whole + 1


def test_a_disk_that_is_full_while_rows_are_sorted_leaves_them_as_they_were(tmp_path):
    with RowFile(tmp_path) as file:
        for i in range(10):
            file.append(row(i))
        before = (tmp_path / stored.FILE).read_bytes()
        with files_up_to(5000), pytest.raises(OSError, match=r"rows so far are kept.*rows\.tmp"):
            file.sort([identity("a", {"i": i}) for i in reversed(range(10))])
    assert (tmp_path / stored.FILE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [stored.FILE]


def test_a_run_on_a_full_disk_goes_on_from_its_rows(tmp_path):
    with files_up_to(4000), pytest.raises(OSError, match="rows so far are kept"):
        squares.run(tmp_path, count=40)
    kept = stored.read(tmp_path)
    assert 0 < len(kept) < 40
    again = squares.run(tmp_path, count=40)
    assert again[: len(kept)] == kept
    assert [r["square"] for r in again] == [i**2 for i in range(40)]


@pytest.mark.parametrize("folder", ["/sys/unsaddle", "/dev/null/out"])
def test_a_folder_that_cannot_be_written_is_named(folder):
    if not Path(folder).parent.exists():
        pytest.skip("no such place here")
    with pytest.raises(OSError, match=folder):
        squares.run(Path(folder))


def test_a_clock_that_jumps_changes_no_row_and_no_message_is_nonsense(tmp_path, monkeypatch, capsys):
    jumps = itertools.cycle([0.0, 1e9, -1e9, 5.0, -5.0])
    monkeypatch.setattr(time, "time", lambda: 1e9 + next(jumps))
    monkeypatch.setattr(time, "monotonic", lambda: 1e3)  # Too coarse to see anything pass.
    rows = squares.run(tmp_path, count=8)
    assert [r["square"] for r in rows] == [i**2 for i in range(8)]
    assert "nan" not in capsys.readouterr().out


def _second_writer(folder, answer):
    try:
        squares.run(folder, count=8)
        answer.send("wrote")
    except BlockingIOError as error:
        answer.send(str(error))


@pytest.mark.slow
def test_of_two_writers_one_writes_and_the_other_is_told(tmp_path):
    pipes, processes = [], []
    with RowFile(tmp_path):
        for _ in range(2):
            ours, theirs = harness.PROCESSES.Pipe()
            process = harness.PROCESSES.Process(target=_second_writer, args=(tmp_path, theirs))
            process.start()
            pipes.append(ours)
            processes.append(process)
        said = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    assert all("is being written by another run; wait for it, or give another --out" in text for text in said)
    assert stored.read(tmp_path) == []
    assert os.listdir(tmp_path) == [stored.FILE]
