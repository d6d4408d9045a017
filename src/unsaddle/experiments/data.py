"""Data for the paper's function: embedded digits, a LIBSVM text, or an .npz file.

LIBSVM text, plain or packed (.gz, .bz2), is read by scikit-learn. An .npz file holds one of

    data, indices, indptr, shape, y        sparse rows (CSR) and labels
    X, y                                   dense rows and labels
    x_train, y_train                       images and their classes, as MNIST comes

Errors name the file and, in a text, the line.
"""

from __future__ import annotations

import bz2
import gzip
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from unsaddle.experiments.gisette import gisette_from
from unsaddle.problems import embedded_digits

DENSE = 0.25
"""Rows with a larger share of nonzeros are kept dense, which makes products faster."""


class DataError(ValueError):
    """A file that cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Rows and labels for `sigmoid_least_squares`."""

    name: str
    features: Tensor
    """n × d, float64, dense or CSR."""
    labels: Tensor
    """n zeros and ones."""


def load(path: Path | None = None, *, like: str | None = None, num_features: int = 5000) -> Dataset:
    """The data set of a file, or the embedded digits if no file is given.

    Args:
        path: LIBSVM text, or .npz.
        like: "gisette" makes gisette's kind of features from MNIST's 4 and 9; the file needs x_train and y_train.
        num_features: d of embedded digits and of gisette's kind of features.
    """
    if path is None:
        if like is not None:
            raise DataError("--as gisette needs --data FILE with MNIST's images, an .npz with x_train and y_train")
        features, labels = embedded_digits(num_features=num_features)
        return Dataset(name="embedded digits", features=features, labels=labels)
    if like not in (None, "gisette"):
        raise DataError(f"--as must be gisette, got {like!r}; leave it out to take the file as it is")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    if path.suffix == ".npz":
        return _from_npz(path, like, num_features)
    if like is not None:
        raise DataError(f"--as gisette makes its features from images, an .npz with x_train and y_train, got {path}")
    return _from_libsvm(path)


# ---- .npz


def _from_npz(path: Path, like: str | None, num_features: int) -> Dataset:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # A damaged archive raises whatever its unpacking meets: zlib.error, MemoryError, …
        raise DataError(f"{path}: not a whole .npz file ({error}); it may be truncated, copy it again") from error
    if like == "gisette":
        images, digits = _needed(path, arrays, "x_train", "y_train")
        _same_length(path, len(images), digits)
        features, labels = gisette_from(images, digits, num_features=num_features)
        return Dataset(name=f"{path.stem} as gisette", features=features, labels=labels)
    if "indptr" in arrays or "indices" in arrays:
        values, indices, starts, shape, y = _needed(path, arrays, "data", "indices", "indptr", "shape", "y")
        return _checked(path, _csr(path, values, indices, starts, shape), y)
    if "x_train" in arrays:
        images, y = _needed(path, arrays, "x_train", "y_train")
        return _checked(path, images.reshape(len(images), -1), y)
    rows, y = _needed(path, arrays, "X", "y")
    return _checked(path, rows, y)


def _needed(path: Path, arrays: dict[str, Any], *names: str) -> list[np.ndarray]:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DataError(
            f"{path}: expected the arrays {', '.join(names)}, got {', '.join(arrays) or 'none'}; "
            f"missing: {', '.join(missing)}"
        )
    return [arrays[name] for name in names]


def _csr(path: Path, values: Any, indices: Any, starts: Any, shape: Any) -> Any:
    from scipy.sparse import csr_matrix

    try:
        parts = (values.astype(float), indices.astype(np.int64), starts.astype(np.int64))
        matrix = csr_matrix(parts, shape=tuple(shape))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: data, indices, indptr and shape do not make a sparse matrix: {error}") from error
    return matrix


# ---- LIBSVM text


def _from_libsvm(path: Path) -> Dataset:
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError as error:
        raise ImportError("LIBSVM text is read by scikit-learn: pip install 'unsaddle[cli]'") from error
    try:
        rows, y = load_svmlight_file(str(path))
    except EOFError as error:
        raise DataError(f"{path}: the packed file ends too early; it is truncated, fetch it again") from error
    except (ValueError, OSError, UnicodeDecodeError) as error:
        for number, line in _lines(path):
            wrong = _wrong_in(line)
            if wrong:
                raise DataError(
                    f"{path}, line {number}: expected `label index:value index:value …` with indices that grow, got "
                    f"{wrong}; if it is the last line, the file may be truncated"
                ) from error
        raise DataError(f"{path}: not LIBSVM text: {error}") from error
    if rows.shape[0] == 0:
        raise DataError(f"{path}: there are no rows in it")
    return _checked(path, rows, y, lines=True)


def _opened(path: Path) -> BinaryIO:
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    file: BinaryIO = opener(path, "rb")
    return file


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold a row, with their numbers and without comments."""
    with _opened(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                content = line.partition(b"#")[0].strip()
                if content:
                    yield number, content
        except (EOFError, OSError) as error:
            raise DataError(f"{path}: cannot be unpacked to its end ({error}); fetch it again") from error


def _wrong_in(line: bytes) -> str:
    """The first error in a row of LIBSVM text, or an empty string."""
    label, *pairs = line.split()
    if not _is_number(label):
        return f"the label {_shown(label)}"
    previous = -1
    for pair in pairs:
        index, colon, value = pair.partition(b":")
        if not (colon and index.isdigit() and _is_number(value)):
            return _shown(pair)
        if int(index) <= previous:
            return f"{_shown(pair)} after index {previous}"
        previous = int(index)
    return ""


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))


# ---- both


def _checked(path: Path, rows: Any, y: np.ndarray, *, lines: bool = False) -> Dataset:
    """The data set, after checks of rows and labels. `rows` is dense or a SciPy matrix."""
    if rows.ndim != 2 or 0 in rows.shape:
        raise DataError(f"{path}: expected a matrix with a row for each sample, got shape {tuple(rows.shape)}")
    _same_length(path, rows.shape[0], y)
    sparse = hasattr(rows, "tocsr")
    entries = rows.data if sparse else rows
    if not np.issubdtype(entries.dtype, np.number) or np.iscomplexobj(entries):
        raise DataError(f"{path}: expected numbers, got {entries.dtype}")
    wrong = ~np.isfinite(entries)
    if wrong.any():
        first = np.argwhere(wrong)[0]
        row = int(np.searchsorted(rows.indptr, first[0], side="right") - 1) if sparse else int(first[0])
        raise DataError(f"{_place(path, row, lines)}: {entries[tuple(first)]} among the values; numbers must be finite")
    labels = _two_labels(path, y, lines)
    if sparse and rows.nnz > DENSE * math.prod(rows.shape):
        rows, sparse = rows.toarray(), False
    features = _sparse_tensor(rows) if sparse else torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float64))
    return Dataset(name=path.stem, features=features, labels=labels)


def _sparse_tensor(rows: Any) -> Tensor:
    starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indptr, rows.indices))
    values = torch.from_numpy(rows.data.astype(np.float64))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(starts, columns, values, size=rows.shape, check_invariants=False)


def _same_length(path: Path, rows: int, y: np.ndarray) -> None:
    if y.shape != (rows,):
        raise DataError(f"{path}: expected one label a row, {rows} of them, got labels of shape {y.shape}")


def _two_labels(path: Path, y: np.ndarray, lines: bool) -> Tensor:
    """The smaller of the two labels becomes 0, the other one 1."""
    if np.issubdtype(y.dtype, np.floating) and not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise DataError(f"{_place(path, row, lines)}: the label is {y[row]}; labels must be finite")
    found, first = np.unique(y, return_index=True)
    if len(found) != 2:
        names = ", ".join(str(label) for label in found[:8].tolist()) + (", …" if len(found) > 8 else "")
        where = f" (the third first in {_row(path, int(sorted(first)[2]), lines)})" if len(found) > 2 else ""
        advice = "; MNIST becomes 4 against 9 with --as gisette" if len(found) == 10 else ""
        raise DataError(f"{path}: expected labels of two values, got {len(found)}: {names}{where}{advice}")
    return torch.from_numpy((y == found[1]).astype(np.int64))


def _place(path: Path, row: int, lines: bool) -> str:
    return f"{path}, {_row(path, row, lines)}"


def _row(path: Path, row: int, lines: bool) -> str:
    """Where a row is: its line in a text, which may have comments and empty lines, or else its number."""
    if lines:
        for count, (number, _) in enumerate(_lines(path)):
            if count == row:
                return f"line {number}"
    return f"row {row + 1}"
