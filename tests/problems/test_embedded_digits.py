from __future__ import annotations

import sys

import pytest
import torch
from scipy.sparse.linalg import LinearOperator, eigsh

from unsaddle.objective import SecondOrderFunction
from unsaddle.problems import embedded_digits, sigmoid_least_squares
from unsaddle.problems.arguments import generator, normal


@pytest.mark.slow
def test_the_papers_function_on_the_digits_has_curvature_far_below_its_regularisers() -> None:
    features, labels = embedded_digits()
    assert features.shape == (1797, 5000)
    f = sigmoid_least_squares(features, labels).objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    for seed, expected in ((0, -3.4), (1, -3.8), (2, -10.3)):
        x = normal(5000, random=generator(seed))
        hessian = LinearOperator(
            (5000, 5000), matvec=lambda v, x=x: f.hvp(x, torch.from_numpy(v.ravel())).numpy(), dtype="float64"
        )
        lowest = eigsh(hessian, k=1, which="SA", tol=1e-3, return_eigenvectors=False)[0]
        assert lowest == pytest.approx(expected, abs=0.1)


def test_features_fill_the_interval_and_half_of_them_know_nothing_of_the_label() -> None:
    features, labels = embedded_digits(num_features=1000)
    assert torch.equal(features.amin(dim=0), -torch.ones(1000, dtype=torch.float64))
    torch.testing.assert_close(features.amax(dim=0), torch.ones(1000, dtype=torch.float64))
    assert set(labels.tolist()) == {0, 1}
    signs = 2.0 * labels.double() - 1.0
    centred = features - features.mean(dim=0)
    correlation = ((signs - signs.mean()) @ centred) / (centred.norm(dim=0) * (signs - signs.mean()).norm())
    # A probe's correlation has standard deviation 1/√1797 = 0.024; 500 of 1000 columns are probes.
    assert 0.45 < float((correlation.abs() < 3 * 0.024).double().mean()) < 0.75


def test_the_seed_decides_the_data() -> None:
    first, again, other = (embedded_digits(num_features=200, seed=seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    single = embedded_digits(num_features=200, dtype=torch.float32)[0]
    assert torch.equal(single, first.float())


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install unsaddle\[demo\]"):
        embedded_digits()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="num_features must be even"):
        embedded_digits(num_features=201)
    with pytest.raises(ValueError, match="num_features must be at least 120, got 10"):
        embedded_digits(num_features=10)
