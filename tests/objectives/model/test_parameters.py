"""Parameters as one vector, and back."""

import pytest
import torch
from torch import nn

from tests.objectives.traces import bits
from unsaddle.objectives.model.parameters import FlatParameters, same_bits


def flat_of(model: nn.Module) -> FlatParameters:
    return FlatParameters(model.named_parameters())


def test_the_point_is_what_torch_makes_of_the_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.Conv2d(1, 2, 3))
    torch.testing.assert_close(flat_of(model).point(), nn.utils.parameters_to_vector(model.parameters()).detach())


def test_assigning_writes_into_the_parameters_own_memory_without_a_trace_in_autograd():
    model = nn.Linear(3, 2)
    held = model.weight.view(-1)[:2]
    versions, places = [p._version for p in model.parameters()], [p.data_ptr() for p in model.parameters()]
    x = torch.arange(8.0)
    flat_of(model).assign(x)
    assert held.tolist() == [0.0, 1.0]
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), x)
    assert [p._version for p in model.parameters()] == versions
    assert [p.data_ptr() for p in model.parameters()] == places


def test_a_graph_that_was_built_before_can_be_differentiated_after_the_values_are_back():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    flat = flat_of(model)
    pending = model(torch.ones(3, 2)).sum()
    (expected,) = torch.autograd.grad(pending, model[0].weight, retain_graph=True)
    x = flat.point()
    flat.assign(x + 1.0)
    flat.assign(x)
    assert torch.equal(torch.autograd.grad(pending, model[0].weight)[0], expected)


def test_tied_parameters_count_once_and_frozen_ones_not_at_all():
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    model["b"].weight = model["a"].weight
    model["a"].bias.requires_grad_(False)
    flat = flat_of(model)
    assert flat.names == ("a.weight", "b.bias")
    assert flat.dimension == 12
    assert FlatParameters([model["a"].weight, model["b"].weight]).dimension == 9  # Also if they come twice.


def test_parameters_in_another_memory_format_keep_it():
    conv = nn.Conv2d(2, 3, 3, bias=False).to(memory_format=torch.channels_last)
    flat, stride = flat_of(conv), conv.weight.stride()
    torch.testing.assert_close(flat.point(), conv.weight.detach().flatten())
    flat.assign(torch.arange(54.0))
    assert conv.weight.stride() == stride
    assert torch.equal(conv.weight.flatten(), torch.arange(54.0))


@pytest.mark.parametrize("release", [False, True])
def test_a_gradient_that_is_missing_is_zero_and_a_sparse_one_is_made_dense(release):
    model = nn.ModuleDict({"bag": nn.EmbeddingBag(4, 2, sparse=True, mode="sum"), "unused": nn.Linear(1, 1)})
    model["bag"](torch.tensor([[1, 1, 3]])).sum().backward()
    flat = flat_of(model)
    assert model["bag"].weight.grad.is_sparse
    assert flat.gradient(release=release).tolist() == [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert flat.has_gradient() == (not release)


def test_the_point_is_remembered_as_long_as_the_parameters_stay():
    model = nn.Linear(2, 2)
    flat = flat_of(model)
    first = flat.remembered()
    assert flat.remembered() is first
    nn.init.zeros_(model.bias)
    second = flat.remembered()
    assert second is not first
    assert flat.is_at(second)
    second.add_(1.0)  # Nobody should, but then it is not the point any more.
    assert flat.is_at(flat.remembered())
    flat.forget()
    assert flat._remembered is None


def test_points_are_compared_by_their_bits():
    model = nn.Linear(1, 1)
    flat = flat_of(model)
    flat.assign(torch.tensor([0.0, float("nan")]))
    assert flat.is_at(torch.tensor([0.0, float("nan")]))
    assert flat.differing(torch.tensor([-0.0, 1.0])) == ["weight", "bias"]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float64, torch.complex128])
def test_bits_of_any_dtype_are_compared(dtype):
    a = torch.tensor([1, 0]).to(dtype)
    assert same_bits(a, a.clone())
    assert not same_bits(a, torch.tensor([1, 1]).to(dtype))
    assert bits(a) == bits(a.clone())


def test_without_trainable_parameters_there_is_nothing_to_probe():
    model = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that requires a gradient; call requires_grad_"):
        flat_of(model)
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        FlatParameters([])


def test_mixed_precisions_are_refused_by_name():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(
        TypeError, match=r"got torch.float32 on cpu in '0.weight' and torch.float64 on cpu in '1.weight'"
    ):
        flat_of(model)


def test_mixed_devices_are_refused_by_name():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(TypeError, match=r"in '0.weight' and torch.float32 on meta in '1.weight'"):
        flat_of(model)
    with pytest.raises(ValueError, match="'weight' is on the meta device"):
        flat_of(model[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_too_coarse_for_small_steps_are_refused(dtype):
    with pytest.raises(
        TypeError, match=r"must be float32 or float64, got .* in 'weight', which rounds small steps away"
    ):
        flat_of(nn.Linear(2, 2).to(dtype))


def test_a_point_of_another_length_or_precision_is_refused():
    flat = flat_of(nn.Linear(2, 1))
    with pytest.raises(ValueError, match=r"one entry a parameter, \(3,\), got \(4,\)"):
        flat.assign(torch.zeros(4))
    with pytest.raises(TypeError, match=r"x is torch.float64 on cpu, but the parameters are torch.float32"):
        flat.assign(torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1.0, -0.3])
def test_a_sum_is_formed_in_the_parameters_own_memory(scale):
    conv = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    flat = flat_of(conv)
    x, u = torch.randn(57), torch.randn(57)
    flat.assign(x, u, scale)
    torch.testing.assert_close(flat.point(), x + scale * u)
    with pytest.raises(ValueError, match=r"u must have the shape of x, \(57,\), got \(3,\)"):
        flat.assign(x, u[:3])


def test_complex_parameters_are_refused_with_a_way_out():
    """.float() would drop their imaginary parts."""
    weight = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"must be real, got torch.complex64 in 'w'; hold its real and imaginary"):
        FlatParameters([("w", weight)])
