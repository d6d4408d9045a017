"""The demo's table, on a problem small enough for a test."""

import pytest
import torch

from unsaddle.curvature.extract import EXTRACTORS
from unsaddle.experiments.extractors import extractor_rows, lowest_eigenvalue
from unsaddle.problems import embedded_digits, sigmoid_least_squares

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def setting():
    features, labels = embedded_digits(num_features=300)
    objective = sigmoid_least_squares(features, labels).objective
    return objective, torch.randn(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_every_extractor_has_a_row_and_none_is_below_the_lowest_eigenvalue(setting):
    objective, x = setting
    lowest = lowest_eigenvalue(objective, x, seed=0)
    rows = list(extractor_rows(objective, x, seed=0))
    assert [row.method for row in rows if row.samples is None] == list(EXTRACTORS)
    assert any(row.result.found for row in rows)
    for row in rows:
        if row.samples is None and row.result.found:
            assert lowest - row.result.measurements[0].error <= row.result.curvature < 0.0


def test_the_reference_is_the_lowest_eigenvalue_of_the_dense_hessian(setting):
    objective, x = setting
    f = objective.sample(hessian=True)
    dense = torch.stack([f.hvp(x, e) for e in torch.eye(300, dtype=torch.float64)])
    assert lowest_eigenvalue(objective, x, seed=0) == pytest.approx(float(torch.linalg.eigvalsh(dense)[0]), rel=1e-3)
