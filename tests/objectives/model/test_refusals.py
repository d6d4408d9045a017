"""What hooks, losses and arguments of a ModelObjective may not do, and what is said of it."""

import random

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.objectives.regression import DATA, X, Y, gradient, network, regress, rng
from tests.objectives.traces import Everything
from unsaddle import ModelObjective, is_minimum, negative_curvature


def clip(grad):
    return grad.clamp(-1e-3, 1e-3)


def test_a_hook_that_clips_is_named_and_not_run():
    model = network()
    expected = gradient(model, X, Y)
    model[0].weight.register_hook(clip)
    before = Everything(model)
    F = ModelObjective(model, regress, DATA)
    with pytest.warns(
        RuntimeWarning, match=r"hooks of parameters are not run while the model is probed \(0.weight: clip\)"
    ):
        f = F.sample()
    torch.testing.assert_close(f.grad(F.point), expected)
    F.sample()  # It is said once.
    before.check()


def test_a_hook_can_be_run_on_demand():
    model = network()
    model[0].weight.register_hook(clip)
    F = ModelObjective(model, regress, DATA, hooks="run")
    assert float(F.sample().grad(F.point)[:12].abs().max()) <= 1.001e-3


def test_an_optimizer_that_steps_in_backward_is_named_and_does_not_step():
    model = network()
    expected = gradient(model, X, Y)
    optimizers = {p: torch.optim.Adam([p]) for p in model.parameters()}

    def step_in_backward(p):
        optimizers[p].step()
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step_in_backward)
    before = Everything(model)
    F = ModelObjective(model, regress, DATA)
    with pytest.warns(RuntimeWarning, match=r"0.weight: .*step_in_backward;.* and 1 more"):
        f = F.sample()
    torch.testing.assert_close(f.grad(F.point), expected)
    before.check()
    assert all(not optimizer.state for optimizer in optimizers.values())
    F = ModelObjective(model, regress, DATA, hooks="run")
    with pytest.raises(RuntimeError, match=r"the loss changed '0.weight' while it was evaluated"):
        F.sample().grad(F.point)
    before.check(versions=False)


def test_a_forward_that_writes_to_its_weights_is_refused_and_undone():
    model = nn.Embedding(5, 3, max_norm=0.1)
    before = Everything(model)
    F = ModelObjective(model, lambda m, b: m(b).square().mean(), [torch.arange(5)])
    with pytest.raises(RuntimeError, match=r"the loss changed 'weight' while it was evaluated.*max_norm"):
        F.sample().grad(F.point)
    before.check(versions=False)


def test_a_forward_that_writes_to_frozen_weights_is_refused():
    model = nn.ModuleDict({"student": nn.Linear(3, 1), "teacher": nn.Linear(3, 1).requires_grad_(False)})

    def loss(m, batch):
        with torch.no_grad():
            m["teacher"].weight.lerp_(m["student"].weight, 0.1)
        return (m["student"](batch[0]) - m["teacher"](batch[0])).square().mean()

    F = ModelObjective(model, loss, DATA)
    with pytest.raises(RuntimeError, match=r"the loss changed 'teacher.weight' while it was evaluated"):
        F.sample().grad(F.point)


def test_numbers_that_cannot_be_drawn_again_are_named():
    own = rng()
    model = network()
    noisy = lambda m, b: regress(m, (b[0] + torch.randn(b[0].shape, generator=own), b[1]))  # noqa: E731
    F = ModelObjective(model, noisy, DATA)
    assert negative_curvature(F, F.point).status.name == "NOT_DETERMINISTIC"
    assert "not deterministic" in is_minimum(F).reason


def test_numbers_of_python_and_numpy_can_be_drawn_again():
    model = network()
    F = ModelObjective(model, lambda m, b: regress(m, b) * random.random(), DATA)
    f = F.sample()
    assert torch.equal(f.grad(F.point), f.grad(F.point))


def test_a_loss_that_changes_its_batch_is_refused():
    def loss(m, batch):
        batch[0].add_(1.0)
        return regress(m, batch)

    F = ModelObjective(network(), loss, DATA)
    with pytest.raises(ValueError, match="the loss changed its batch in place"):
        F.sample(5, rng()).grad(F.point)


def test_a_loss_that_takes_something_out_of_its_batch_is_refused():
    batch = dict(zip(("inputs", "targets"), DATA[:], strict=True))

    def loss(m, batch):
        return regress(m, (batch["inputs"], batch.pop("targets")))

    F = ModelObjective(network(), loss, [batch])
    with pytest.raises(ValueError, match="the loss changed its batch in place"):
        F.sample().grad(F.point)


def test_a_loss_without_a_gradient_is_refused():
    F = ModelObjective(network(), lambda m, b: regress(m, b).detach(), DATA)
    with pytest.raises(ValueError, match="the loss does not depend on the parameters through autograd"):
        F.sample().grad(F.point)
    other = nn.Parameter(torch.ones(()))
    F = ModelObjective(network(), lambda m, b: other * 2.0, DATA)
    with pytest.raises(ValueError, match="the loss left no parameter with a gradient"):
        F.sample().grad(F.point)


def test_a_loss_that_is_no_scalar_is_refused():
    F = ModelObjective(network(), lambda m, b: m(b[0]), DATA)
    with pytest.raises(
        ValueError, match=r"the loss must return a scalar, got a tensor of shape \(20, 1\); reduce it with .mean\(\)$"
    ):
        F.sample().value(F.point)


def test_a_loss_that_is_a_module_is_left_as_it_was_too():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(1)

        def forward(self, model, batch):
            return functional.mse_loss(self.norm(model(batch[0])), batch[1])

    loss = Loss()
    before = Everything(loss)
    F = ModelObjective(network(), loss, DATA)
    F.sample().grad(F.point)
    before.check()


def test_hessian_products_are_refused():
    F = ModelObjective(network(), regress, DATA)
    with pytest.raises(ValueError, match=r"a ModelObjective has gradients only.*krylov, neon or neon\+"):
        negative_curvature(F, F.point, extractor="lanczos")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((lambda x: x, regress, DATA), TypeError, "model must be a torch.nn.Module, got function"),
        ((network(), None, DATA), TypeError, "loss must be callable, got NoneType"),
        ((network(), nn.MSELoss(), DATA), TypeError, r"lambda model, batch: nn.MSELoss\(\)\(model\(batch\[0\]\)"),
        (
            (network(), lambda m, x, y: x, DATA),
            TypeError,
            r"loss is called as loss\(model, batch\), got one that takes",
        ),
        (
            (network(), regress, [X, Y[:, 0]]),
            ValueError,
            r"no batches of the same thing.*TensorDataset\(inputs, targets",
        ),
        ((network(), nn.functional.mse_loss, DATA), TypeError, "loss is called as loss.*, got mse_loss, which takes"),
        ((network().bfloat16(), regress, DATA), TypeError, "must be float32 or float64, got torch.bfloat16"),
        ((network().requires_grad_(False), regress, DATA), ValueError, "no parameter that requires a gradient"),
    ],
)
def test_what_is_no_model_or_loss_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ModelObjective(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"micro_batch": 0}, ValueError, "micro_batch must be at least 1, got 0"),
        ({"hooks": "off"}, ValueError, "hooks must be one of skip, run; got 'off'"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        ModelObjective(network(), regress, DATA, **options)


def test_a_list_of_samples_is_told_from_a_list_of_batches() -> None:
    samples = [(torch.ones(2), torch.tensor(1)), (torch.zeros(2), torch.tensor(0))]
    model = torch.nn.Linear(2, 2)
    F = ModelObjective(
        model, lambda model, batch: torch.nn.functional.nll_loss(model(batch[0])[:, 0], batch[1]), samples
    )
    with pytest.raises(IndexError) as raised:
        F.sample().grad(F.point)
    assert "each of its elements is taken as a batch" in raised.value.__notes__[-1]
    rows = torch.utils.data.DataLoader(samples, batch_size=2)  # As the note says.
    G = ModelObjective(model, lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]), rows)
    assert G.sample().grad(G.point).isfinite().all()


@pytest.mark.parametrize(
    ("inputs", "error"), [(torch.ones(4, 5), RuntimeError), (torch.ones(4, 3, dtype=torch.float64), RuntimeError)]
)
def test_an_error_inside_the_loss_is_told_with_the_shapes_and_dtypes_of_its_batch(inputs, error) -> None:
    data = torch.utils.data.TensorDataset(inputs, torch.zeros(4, dtype=torch.int64))
    F = ModelObjective(nn.Linear(3, 2), lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]), data)
    with pytest.raises(error) as raised:
        is_minimum(F)
    (note,) = raised.value.__notes__
    assert "came out of your own loss, which was called with" in note
    kind = str(inputs.dtype).removeprefix("torch.")
    assert f"({kind} of shape {tuple(inputs.shape)}, int64 of shape (4,))" in note
    assert "loss(model, batch), in this order" in note
