"""A model, its loss and its data as an objective."""

import math

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from tests.objectives.regression import DATA, X, Y, gradient, network, regress, rng
from tests.objectives.traces import Everything
from unsaddle import Cost, Function, ModelObjective, is_minimum, negative_curvature
from unsaddle.objective import Objective
from unsaddle.objectives.model.data import Drawn


def test_it_is_an_objective_with_a_point():
    model = network()
    F = ModelObjective(model, regress, DATA)
    assert isinstance(F, Objective)
    assert F.num_samples == 20
    assert repr(F) == "ModelObjective(Sequential, 21 parameters, 20 samples)"
    assert torch.equal(F.point, nn.utils.parameters_to_vector(model.parameters()))


@pytest.mark.parametrize("micro_batch", [1, 7, 20, 100])
def test_micro_batches_of_any_size_add_up_to_the_mean_over_the_rows(micro_batch):
    model = network()
    F = ModelObjective(model, regress, DATA, micro_batch=micro_batch)
    f = F.sample()
    value, grad = f.value_and_grad(F.point)
    torch.testing.assert_close(value, regress(model, (X, Y)).detach())
    torch.testing.assert_close(grad, gradient(model, X, Y))
    torch.testing.assert_close(f.value(F.point), value)
    assert f.cost == Cost(gradients=1, samples=20, values=1, value_samples=20)


def test_no_more_rows_than_a_micro_batch_go_through_the_model_at_once():
    rows = []
    F = ModelObjective(network(), lambda m, b: rows.append(len(b[0])) or regress(m, b), DATA, micro_batch=8)
    F.sample(18, rng()).grad(F.point)
    assert rows == [6, 6, 6]


def test_elsewhere_the_gradient_is_that_of_a_model_with_these_parameters():
    F = ModelObjective(network(), regress, DATA)
    x = F.point + 0.3
    other = network()
    nn.utils.vector_to_parameters(x, other.parameters())
    torch.testing.assert_close(F.sample().grad(x), gradient(other, X, Y))


def test_a_sample_is_frozen_and_the_next_one_is_fresh():
    F = ModelObjective(network(nn.Dropout(0.5)), regress, DATA)
    g = rng()
    f, h = F.sample(20, g), F.sample(20, g)
    assert torch.equal(f.grad(F.point), f.grad(F.point))
    assert not torch.allclose(f.grad(F.point), h.grad(F.point))  # All rows in both, but other masks.
    assert torch.equal(F.sample(5, rng(3)).grad(F.point), F.sample(5, rng(3)).grad(F.point))
    assert torch.equal(F.sample().grad(F.point), F.sample().grad(F.point))


def test_the_same_masks_answer_at_another_point():
    model = network(nn.Dropout(0.5))
    seen = []
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(output == 0.0))
    F = ModelObjective(model, regress, DATA, micro_batch=10)
    f = F.sample()
    f.grad(F.point)
    f.value(F.point + 0.1)
    assert torch.equal(seen[0], seen[2])
    assert torch.equal(seen[1], seen[3])
    assert not torch.equal(seen[0], seen[1])


def test_another_seed_gives_other_masks():
    model = network(nn.Dropout(0.5))
    first, second = (ModelObjective(model, regress, DATA, seed=seed).sample() for seed in (0, 7))
    x = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert not torch.equal(first.grad(x), second.grad(x))


def test_evaluations_leave_no_trace_in_gradients_that_are_there():
    model = network(nn.BatchNorm1d(4), nn.Dropout(0.5))
    regress(model, (X, Y)).backward()
    before = Everything(model)
    F = ModelObjective(model, regress, DATA, micro_batch=6)
    f = F.sample(12, rng())
    f.value_and_grad(F.point + 1.0)
    f.value(F.point)
    before.check()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_loss_that_raises_in_the_middle_leaves_no_trace(error):
    model = network(nn.BatchNorm1d(4))
    calls = []

    def loss(m, batch):
        calls.append(batch)
        if len(calls) == 4:
            raise error("in the middle")
        return regress(m, batch)

    before = Everything(model)
    F = ModelObjective(model, loss, DATA, micro_batch=5)
    with pytest.raises(error, match="in the middle"):
        is_minimum(F)
    before.check()


def test_a_loss_that_is_not_finite_is_named_and_leaves_no_trace():
    model = network(nn.BatchNorm1d(4))
    before = Everything(model)
    F = ModelObjective(model, lambda m, b: regress(m, b) * math.nan, DATA)
    assert negative_curvature(F, F.point).status.name == "NOT_FINITE"
    verdict = is_minimum(F)
    assert verdict.kind == "undecided"
    assert "finite" in verdict.reason
    before.check()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_of_weight_zero_does_not_count_even_if_it_is_not_finite(bad):
    """As on a rank that has none of the rows that were drawn."""
    model = network()
    F = ModelObjective(model, lambda m, b: regress(m, b) * (1.0 if b[0].sum() else bad), DATA)
    weighted = [((X, Y), 0.5), ((0.0 * X, Y), 0.0), ((X, Y), 0.5)]
    torch.testing.assert_close(F._run(Drawn(lambda: weighted, 20, 3), False), regress(model, (X, Y)).detach())


def test_after_training_the_point_is_where_the_model_is():
    model = network()
    F = ModelObjective(model, regress, DATA)
    f, first = F.sample(), F.point
    g = f.grad(first)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    assert torch.equal(f.grad(first), g)  # A frozen function does not mind.
    assert torch.equal(F.point, nn.utils.parameters_to_vector(model.parameters()))
    assert not torch.equal(F.point, first)


def test_a_point_can_be_made_the_models():
    model = network()
    F = ModelObjective(model, regress, DATA)
    F.assign(torch.arange(21.0))
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), torch.arange(21.0))


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (None, ("0.weight", "0.bias", "2.weight", "2.bias")),
        ("2.*", ("2.weight", "2.bias")),
        (["*.bias", "0.weight"], ("0.weight", "0.bias", "2.bias")),
        (lambda name: name.startswith("0"), ("0.weight", "0.bias")),
    ],
)
def test_parameters_are_chosen_by_name_and_the_others_keep_their_gradients(chosen, names):
    model = network()
    model[0].bias.grad = torch.ones(4)
    before = Everything(model)
    F = ModelObjective(model, regress, DATA, parameters=chosen)
    assert F.parameters.names == names
    expected = torch.cat([g.flatten() for n, g in _named_gradients(model).items() if n in names])
    torch.testing.assert_close(F.sample().grad(F.point), expected)
    before.check()


def _named_gradients(model):
    named = dict(model.named_parameters())
    return dict(zip(named, torch.autograd.grad(regress(model, (X, Y)), list(named.values())), strict=True))


def test_names_are_those_of_the_model_inside_torch_compile():
    model = torch.compile(network(), backend="eager")
    assert ModelObjective(model, regress, DATA, parameters="2.*").parameters.names == ("2.weight", "2.bias")


def test_a_name_that_matches_nothing_is_refused():
    with pytest.raises(ValueError, match=r"no parameter is called 'head.\*'; there are 0.weight, 0.bias, 2.weight"):
        ModelObjective(network(), regress, DATA, parameters="head.*")
    with pytest.raises(ValueError, match=r"no parameter that requires a gradient.*look at the filter"):
        ModelObjective(network(), regress, DATA, parameters=lambda name: False)


def test_two_points_inside_one_autocast_context_have_two_gradients():
    F = ModelObjective(network(), regress, DATA)
    f = F.sample()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not torch.equal(f.grad(F.point), f.grad(F.point + 0.1))
        inside = f.grad(F.point)
    model = network()

    def loss(m, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return regress(m, batch)

    assert torch.equal(inside, ModelObjective(model, loss, DATA).sample().grad(F.point))


def test_it_works_inside_no_grad_and_inference_mode():
    F = ModelObjective(network(), regress, DATA)
    f = F.sample()
    expected = f.grad(F.point)
    with torch.no_grad():
        assert torch.equal(f.grad(F.point), expected)
    with torch.inference_mode():
        assert torch.equal(f.grad(F.point), expected)


def test_a_search_without_x_is_at_the_parameters():
    F = ModelObjective(network(), regress, DATA)
    assert torch.equal(negative_curvature(F).direction, negative_curvature(F, F.point).direction)
    with pytest.raises(ValueError, match="x was left out, but this objective has no point of its own; pass x"):
        negative_curvature(Function(lambda x: x.square().sum()))


@pytest.mark.parametrize("method", ["krylov", "neon", "neon2-det", "neon2-online"])
def test_searches_in_inference_mode_find_what_they_find_outside(method):
    F = ModelObjective(network(), regress, DATA)
    outside = negative_curvature(F, F.point, extractor=method, max_gradients=80)
    with torch.inference_mode():
        inside = negative_curvature(F, F.point, extractor=method, max_gradients=80)
    assert inside.status is outside.status
    assert inside.curvature == pytest.approx(outside.curvature, rel=1e-4, nan_ok=True)


def test_a_saddle_and_a_minimum_are_told_apart_on_the_model_itself():
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    F = ModelObjective(model, regress, TensorDataset(X, X))
    verdict = is_minimum(F)
    assert verdict.kind == "saddle"
    # At zero the Hessian couples the layers alone: its lowest eigenvalue is −(2/3)·‖XᵀX/n‖, 2/3 for the mean over 3.
    covariance = X.double().T @ X.double() / len(X)
    lowest = -2.0 / 3.0 * float(torch.linalg.eigvalsh(covariance)[-1])
    assert 1.0001 * lowest <= verdict.curvature <= 0.9 * lowest
    line = nn.Linear(3, 1)
    solution = torch.linalg.lstsq(torch.cat([X, torch.ones(20, 1)], dim=1).double(), Y.double()).solution.float()
    nn.utils.vector_to_parameters(solution.flatten(), line.parameters())
    assert is_minimum(ModelObjective(line, regress, DATA)).kind == "minimum"


@pytest.mark.parametrize("scale", [1.0, -1e-3])
def test_a_gradient_at_a_sum_is_the_gradient_at_that_point(scale):
    F = ModelObjective(network(), regress, DATA)
    f, u = F.sample(), torch.randn(21, generator=rng())
    assert f.adds
    value, grad = f.value_and_grad_at_sum(F.point, u, scale)
    expected = f.value_and_grad(torch.add(F.point, u, alpha=scale))
    torch.testing.assert_close((value, grad), expected, rtol=1e-6, atol=1e-7)
    assert f.cost == Cost(gradients=2, samples=40)


@pytest.mark.parametrize("method", ["neon", "neon-renormalised", "neon+", "neon+-renormalised", "neon2-det", "krylov"])
def test_every_extractor_finds_on_a_model_what_it_finds_on_the_same_function(method):
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False)).double()
    for p in model.parameters():
        nn.init.zeros_(p)
    data = X.double()
    F = ModelObjective(model, regress, TensorDataset(data, data))
    f = Function(lambda x: (data @ x[:6].view(2, 3).T @ x[6:].view(3, 2).T - data).square().mean())
    settings = {"gamma": 0.3, "extractor": method, "hessian_lipschitz": 0.5}
    on_model, on_function = (negative_curvature(G, F.point, **settings) for G in (F, f))
    assert on_model.status is on_function.status
    assert on_model.status.name == "FOUND"
    assert on_model.cost.gradients == on_function.cost.gradients
    assert on_model.curvature == pytest.approx(on_function.curvature, rel=1e-6)
