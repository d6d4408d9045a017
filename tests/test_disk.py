"""Faults around the file of rows: a short run of `python -m benchmarks.disk`."""

import random

import pytest

from benchmarks import disk


@pytest.mark.slow
@pytest.mark.parametrize("kind", disk.KINDS)
def test_no_row_is_lost(kind):
    assert disk.trial(kind, random.Random(0)) == ""


def test_a_lost_row_is_seen(monkeypatch):
    """So that a run without complaints means something."""

    def loses(folder, r):
        disk.squares.run(folder, count=3)
        lines = (folder / disk.rows.FILE).read_bytes().splitlines(keepends=True)
        (folder / disk.rows.FILE).write_bytes(lines[0].replace(b'"square":0', b'"square":5') + lines[1])
        return ""

    monkeypatch.setitem(disk.KINDS, "loses", loses)
    assert "other rows" in disk.trial("loses", random.Random(0))
