"""Files that are read, and what is said of those that cannot be."""

import bz2
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from unsaddle.experiments.data import DataError, load
from unsaddle.experiments.gisette import gisette_from
from unsaddle.problems import sigmoid_least_squares

pytest.importorskip("sklearn")

TEXT = "# made by hand\n-1 1:0.5 3:2\n\n+1 2:-1 4:1e-3  # the other class\n-1 4:3\n"
DENSE = [[0.5, 0.0, 2.0, 0.0], [0.0, -1.0, 0.0, 1e-3], [0.0, 0.0, 0.0, 3.0]]


def written(path: Path, text: str) -> Path:
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "wt") as file:
        file.write(text)
    return path


def archive(path: Path, **arrays) -> Path:
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("name", ["set", "set.txt", "set.gz", "set.bz2"])
def test_libsvm_text_is_read_plain_and_packed_and_two_labels_become_0_and_1(tmp_path, name):
    dataset = load(written(tmp_path / name, TEXT))
    assert dataset.name == "set"
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.features.dtype is torch.float64
    assert dataset.features.to_dense().tolist() == DENSE


def test_rows_with_many_nonzeros_are_dense_and_others_sparse_and_both_make_the_same_function(tmp_path):
    random = np.random.default_rng(0)
    rows = random.normal(size=(40, 30)) * (random.random((40, 30)) < 0.1)
    y = random.integers(0, 2, 40)
    lines = (
        f"{b} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(a.tolist()) if v)
        for a, b in zip(rows, y, strict=True)
    )
    sparse = load(written(tmp_path / "sparse", "\n".join(lines)))
    dense = load(archive(tmp_path / "dense.npz", X=rows, y=y))
    assert sparse.features.layout is torch.sparse_csr
    assert dense.features.layout is torch.strided
    x = torch.randn(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one, other = (
        sigmoid_least_squares(s.features, s.labels).objective.sample(20, torch.Generator().manual_seed(1)).grad(x)
        for s in (sparse, dense)
    )
    torch.testing.assert_close(one, other)


def test_sparse_npz_is_read(tmp_path):
    arrays = {
        "data": np.array([0.5, 2.0, -1.0, 1e-3, 3.0]),
        "indices": np.array([0, 2, 1, 3, 3], dtype=np.uint8),
        "indptr": np.array([0, 2, 4, 5]),
        "shape": np.array([3, 4]),
    }
    dataset = load(archive(tmp_path / "set.npz", **arrays, y=np.array([1, 2, 1])))
    assert dataset.features.to_dense().tolist() == DENSE
    assert dataset.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the file is empty"),
        ("# nothing but a comment\n", "there are no rows in it"),
        ("1 1:2\n-1 1:3 2\n", r"line 2: expected `label index:value .* got '2'; if it is the last line"),
        ("1 1:2\n-1 1:3 2:\n", "line 2: .* got '2:'"),
        ("1 1:2\nyes 1:3\n", "line 2: .* got the label 'yes'"),
        ("1 1:2\n# comment\n-1 2:1 1:3\n", "line 3: .* got '1:3' after index 2"),
        ("1 1:2\n\n-1 1:nan\n", "line 3: nan among the values"),
        ("1 1:2\n-1 1:inf\n", "line 2: inf among the values"),
        ("1 1:2\nnan 1:2\n", "line 2: the label is nan"),
        (
            "1 1:2\n-1 1:3\n# comment\n0 1:1\n",
            r"labels of two values, got 3: -1.0, 0.0, 1.0 \(the third first in line 4\)",
        ),
        ("1 1:2\n1 1:3\n", "labels of two values, got 1: 1.0"),
    ],
)
def test_what_is_wrong_with_a_text_is_said_with_its_line(tmp_path, text, complaint):
    path = written(tmp_path / "set.txt", text)
    with pytest.raises(DataError, match=re.escape(str(path)) + f".*{complaint}"):
        load(path)


@pytest.mark.parametrize("packed", ["gz", "bz2"])
def test_a_truncated_packed_file_is_called_truncated(tmp_path, packed):
    path = written(tmp_path / f"set.{packed}", TEXT * 500)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"truncated|cannot be unpacked to its end"):
        load(path)


def test_what_is_wrong_with_an_npz_is_said(tmp_path):
    X, y = np.ones((3, 2)), np.array([0, 1, 0])

    def refuses(complaint, like=None, **arrays):
        with pytest.raises(DataError, match=complaint):
            load(archive(tmp_path / "set.npz", **arrays), like=like)

    refuses("expected the arrays X, y, got X; missing: y", X=X)
    refuses("missing: indptr, shape", data=X[0], indices=y, y=y)
    refuses("expected one label a row, 3 of them, got labels of shape", X=X, y=y[:2])
    refuses("row 2: nan among the values", X=np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, 0.0]]), y=y)
    refuses("got 10: .*--as gisette", x_train=np.ones((20, 2, 2)), y_train=np.arange(20) % 10)
    refuses("missing: x_train, y_train", like="gisette", X=X, y=y)
    refuses("do not make a sparse matrix", data=X[0], indices=[0, 7], indptr=[0, 1, 2], shape=[2, 2], y=y[:2])
    refuses("expected numbers, got <U1", X=np.array([["a"], ["b"], ["c"]]), y=y)
    path = archive(tmp_path / "cut.npz", X=np.random.default_rng(0).normal(size=(50, 50)), y=y)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"not a whole \.npz file"):
        load(path)
    with pytest.raises(DataError, match="there is no such file"):
        load(tmp_path / "nowhere.npz")


def test_wrong_combinations_are_refused(tmp_path):
    with pytest.raises(DataError, match="needs --data FILE with MNIST's images"):
        load(like="gisette")
    with pytest.raises(DataError, match="--as must be gisette, got 'iris'"):
        load(written(tmp_path / "set", TEXT), like="iris")
    with pytest.raises(DataError, match="makes its features from images"):
        load(written(tmp_path / "set", TEXT), like="gisette")


def test_without_a_file_it_is_the_embedded_digits():
    dataset = load(num_features=200)
    assert (dataset.name, tuple(dataset.features.shape)) == ("embedded digits", (1797, 200))


def test_gisette_is_made_of_pixels_products_and_probes_of_two_digits(tmp_path):
    random = np.random.default_rng(0)
    digits = random.permutation(np.repeat(np.arange(10), 30)).astype(np.uint8)
    # Where the images of a class are lit tells the class; the last pixel never is.
    images = random.integers(1, 256, (300, 6, 6)) * (random.random((300, 6, 6)) < (0.2 + 0.05 * digits)[:, None, None])
    images[:, -1, -1] = 0
    dataset = load(
        archive(tmp_path / "mnist.npz", x_train=images.astype(np.uint8), y_train=digits),
        like="gisette",
        num_features=300,
    )
    assert dataset.name == "mnist as gisette"
    assert tuple(dataset.features.shape) == (60, 300)
    assert dataset.labels.sum() == 30
    assert torch.equal(dataset.features.amin(dim=0), -torch.ones(300, dtype=torch.float64))
    torch.testing.assert_close(dataset.features.amax(dim=0), torch.ones(300, dtype=torch.float64))
    levels = (dataset.features + 1.0) * 999.0 / 2.0
    torch.testing.assert_close(levels, levels.round())
    again = gisette_from(images, digits, num_features=300)
    assert torch.equal(again[0], dataset.features)
    assert not torch.equal(gisette_from(images, digits, num_features=300, seed=1)[0], dataset.features)
    with pytest.raises(ValueError, match="got 0 of 4"):
        gisette_from(images, np.zeros(300), num_features=300)
    with pytest.raises(ValueError, match="no pixel is lit"):
        gisette_from(0 * images, digits, num_features=300)
