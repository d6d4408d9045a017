"""Rows on disk, one JSON object a line. A process that is killed at any moment leaves whole rows behind.

A row is identified by its experiment and its settings. A line counts once it ends with a newline. Each is flushed to
disk. The next `RowFile` cuts off an unfinished line. JSON has no NaN and no infinities: they are written as the
strings "NaN", "Infinity" and "-Infinity", and read back as numbers.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

FILE = "rows.jsonl"
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Row = dict[str, Any]


def plain(value: Any) -> Any:
    """`value` in the types of JSON. NaN and infinities become words.

    >>> plain({"a": (1, float("inf")), "b": float("nan")})
    {'a': [1, 'Infinity'], 'b': 'NaN'}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    return value


def restored(value: Any) -> Any:
    """The inverse of `plain`, except that tuples have become lists."""
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return WORDS.get(value, value) if isinstance(value, str) else value


def encode(row: Row) -> bytes:
    """One line, with its newline."""
    return json.dumps(plain(row), allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def identity(experiment: str, settings: dict[str, Any]) -> str:
    """The key of a row and of its job."""
    return json.dumps([experiment, plain(settings)], sort_keys=True)


def read(directory: Path) -> list[Row]:
    """The whole rows of `directory`, in the order of the file. An empty list if there is no file."""
    path = directory / FILE
    return _parsed(path, path.read_bytes())[0] if path.exists() else []


def _parsed(path: Path, content: bytes) -> tuple[list[Row], int]:
    """The rows, and where the last whole one ends."""
    rows: list[Row] = []
    end = 0
    lines = content.split(b"\n")[:-1]  # An unfinished line may follow the last newline.
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(_row(json.loads(line)))
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break  # A machine that lost its power may leave anything in the last line.
            raise ValueError(
                f"{path}, line {number}: expected a row, a JSON object with an experiment and settings, got "
                f"{line[:60]!r}; remove the line, or the file to begin again"
            ) from error
        end += len(line) + 1
    return rows, end


def _row(parsed: Any) -> Row:
    """The row of a line. Raises ValueError if it is none."""
    if not (isinstance(parsed, dict) and isinstance(parsed.get("settings"), dict)):
        raise ValueError("no row")
    if not isinstance(parsed.get("experiment"), str):
        raise ValueError("no row")
    row: Row = restored(parsed)
    return row


class RowFile:
    """`rows.jsonl` of a directory, open for one writer.

    Attributes:
        rows: what is there, in the order of the file.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / FILE
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _lock(self._descriptor, self.path)
            self.rows, end = _parsed(self.path, self.path.read_bytes())
            os.ftruncate(self._descriptor, end)
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, row: Row) -> Row:
        """Write `row` to the disk. Return the row as a reader gets it. If the disk takes no more, the rest is kept."""
        line, end = encode(row), os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, end)
            raise _unwritten(error, self.path) from error
        row = restored(plain(row))
        self.rows.append(row)
        return row

    def sort(self, order: list[str]) -> None:
        """Put the rows that `order` names at the end, in that order. All others keep their order before them."""
        rank = {name: i for i, name in enumerate(order)}
        ordered = sorted(self.rows, key=lambda row: rank.get(identity(row["experiment"], row["settings"]), -1))
        if ordered == self.rows:
            return
        beside = self.path.with_suffix(".tmp")
        try:
            with beside.open("wb") as file:
                file.writelines(encode(row) for row in ordered)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise _unwritten(error, beside) from error
        self.rows = ordered

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._descriptor)


def _unwritten(error: OSError, path: Path) -> OSError:
    """The error of a full disk, with the file and what to do."""
    said = f"{error.strerror}; the rows so far are kept, and the same command goes on from them once that is mended"
    return OSError(error.errno, said, str(path))


def _lock(descriptor: int, path: Path) -> None:
    """Lock the file against a second run. The lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no such lock.
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BlockingIOError(f"{path} is being written by another run; wait for it, or give another --out") from error
    if os.fstat(descriptor).st_ino != path.stat().st_ino:
        raise BlockingIOError(f"{path} was replaced by another run that ended just now; start again")
