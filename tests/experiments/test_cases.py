import numpy as np
import pytest
import torch

from unsaddle.experiments import cases, data_cases


@pytest.mark.parametrize("name", cases.KNOWN)
def test_the_exact_answers_of_a_case_are_those_of_its_objective(name):
    if "digits" in name:
        pytest.importorskip("sklearn", reason="the embedded digits come with scikit-learn")
    case = cases.case(name)
    random = torch.Generator().manual_seed(0)
    x = 0.3 * torch.randn(case.dimension, generator=random, dtype=torch.float64)
    v = torch.randn(case.dimension, generator=random, dtype=torch.float64)
    if case.objective.num_samples is not None:
        value, grad = case.objective.sample().value_and_grad(x)
        assert abs(float(value) - case.value(x)) < 1e-10 * max(1.0, abs(float(value)))
        assert torch.allclose(grad, case.gradient(x), atol=1e-10)
    t = 1e-5
    difference = (case.gradient(x + t * v) - case.gradient(x - t * v)) / (2 * t)
    assert torch.allclose(case.hessian(x) @ v, difference, atol=1e-6 * float(difference.norm()))
    assert not case.is_reached(case.start(0))


def test_an_unknown_problem_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'chian' is not a problem; known are: chain; noisy chain"):
        cases.case("chian")


def sparse_file(folder, name, labels, columns=5):
    n = len(labels)
    arrays = {"data": np.ones(n), "indices": np.arange(n) % columns, "indptr": np.arange(n + 1), "shape": (n, columns)}
    np.savez(folder / f"{name}.npz", y=np.array(labels), **arrays)


def test_data_sets_of_a_folder_become_two_problems_each(tmp_path):
    sparse_file(tmp_path, "two", [-1, 1] * 10)
    sparse_file(tmp_path, "three", [0, 1, 2])
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "notes.txt").write_text("no data")
    assert cases.names_of_data(tmp_path) == ["sigmoid, two", "u∘v, two"]
    case = cases.case("u∘v, two", tmp_path)
    assert (case.dimension, case.objective.num_samples) == (10, 20)
    x = torch.full((10,), 0.5, dtype=torch.float64)
    assert torch.allclose(case.objective.sample().grad(x), case.gradient(x))


def test_long_data_sets_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(data_cases, "ROWS", 12)
    sparse_file(tmp_path, "two", [0, 1] * 10)
    features, labels = data_cases.rows_of("two", tmp_path)
    assert features.shape == (12, 5)
    assert set(labels.tolist()) == {0.0, 1.0}


def test_data_with_too_many_features_for_a_dense_hessian_are_refused(tmp_path):
    sparse_file(tmp_path, "wide", [0, 1] * 10, columns=2000)
    with pytest.raises(ValueError, match="d must be at most 1000"):
        data_cases.rows_of("wide", tmp_path)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no folder"):
        cases.known_cases(tmp_path / "nowhere")
