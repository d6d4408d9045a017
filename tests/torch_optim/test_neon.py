"""Neon is an optimizer like any other, for schedulers, checkpoints, copies, hooks, scalers, and trains as its base."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from tests.torch_optim.training import Saddle, at_a_saddle, batches, closure_over, train
from unsaddle import Function, Neon

BASES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw, foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adamw, fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=4),
}


class Dropping(nn.Module):
    """With dropout and batch statistics, so that any trace of a probe would show in the training."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, batch):
        return (self.layers(batch).squeeze(1) - batch[:, 0] * batch[:, 1]).square().mean()


def trainable(**kind):
    return torch.zeros(1, requires_grad=True, **kind)


def parameters_of(model):
    return [p.detach().clone() for p in model.parameters()]


def assert_equal(model, other):
    for a, b in zip([*model.parameters(), *model.buffers()], [*other.parameters(), *other.buffers()], strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("make", BASES.values(), ids=BASES.keys())
def test_where_it_only_looks_training_is_bit_for_bit_that_of_the_base(make):
    plain, watched = Dropping(), Dropping()
    base = make(plain.parameters())
    torch.manual_seed(0)
    train(base, plain, batches(0, 4), 120)
    neon = Neon(make(watched.parameters()), every=10, max_overhead=10.0, escape=False)
    torch.manual_seed(0)
    train(neon, watched, batches(0, 4), 120)
    assert neon.events
    assert_equal(plain, watched)


@pytest.mark.slow
@pytest.mark.parametrize("make", BASES.values(), ids=BASES.keys())
def test_every_base_leaves_a_saddle(make):
    model = Saddle(3)
    neon = Neon(make(model.parameters()), every=10)
    train(neon, model, batches(0, 3), 150)
    assert neon.events[0].verdict == "saddle"
    assert float(model(torch.zeros(1, 3)).detach()) < -0.9


def plain_steps(neon, model, count):
    for _ in range(count):
        neon.zero_grad()
        model(torch.zeros(1, 3)).backward()
        assert neon.step() is None


def test_a_step_with_neither_closure_nor_objective_costs_what_the_base_costs_and_says_once_that_it_cannot_look():
    neon, model = at_a_saddle(every=8)
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    plain_steps(neon, model, 15)
    with pytest.warns(RuntimeWarning, match=r"cannot look for saddles: write Neon\(optimizer, objective="):
        plain_steps(neon, model, 1)
    plain_steps(neon, model, 34)
    assert len(calls) == 50
    assert neon.events == []


def test_a_loop_that_probes_by_hand_or_wants_no_probes_is_not_told_so():
    neon, model = at_a_saddle(every=8, max_overhead=0.0)
    plain_steps(neon, model, 20)
    neon, model = at_a_saddle(every=8)
    plain_steps(neon, model, 8)
    neon.probe(closure_over(neon, lambda: model(torch.zeros(1, 3))))
    plain_steps(neon, model, 20)


def test_a_step_with_a_closure_calls_it_once_unless_it_probes():
    neon, model = at_a_saddle(every=10)
    closure = closure_over(neon, lambda: model(torch.zeros(1, 3)))
    for _ in range(9):
        neon.step(closure)
    assert closure.calls == 9
    assert float(neon.step(closure).detach()) == 0.0
    assert closure.calls > 10


def test_groups_and_state_are_the_base_s_own_also_after_a_checkpoint_was_loaded():
    neon, _ = at_a_saddle()
    assert neon.param_groups is neon.base.param_groups
    neon.load_state_dict(neon.state_dict())
    assert neon.param_groups is neon.base.param_groups
    assert neon.state is neon.base.state
    assert neon.defaults is neon.base.defaults
    assert isinstance(neon, torch.optim.Optimizer)


def test_a_scheduler_moves_the_base_s_learning_rate_and_does_not_complain():
    neon, model = at_a_saddle()
    scheduler = torch.optim.lr_scheduler.StepLR(neon, step_size=1, gamma=0.5)
    neon.step(closure_over(neon, lambda: model(torch.zeros(1, 3))))
    scheduler.step()
    assert neon.base.param_groups[0]["lr"] == 0.025


def test_parameters_that_are_added_are_trained_and_a_waiting_candidate_is_dropped():
    neon, model = at_a_saddle(every=10)
    train(neon, model, batches(0, 3), 11)
    assert neon.phase == "collect"
    extra = nn.Parameter(torch.ones(2))
    neon.add_param_group({"params": [extra], "lr": 0.5})
    assert neon.base.param_groups[1]["lr"] == 0.5
    assert (neon.phase, neon.events[-1].verdict) == ("idle", "undecided")
    assert "parameters changed" in neon.events[-1].sentence
    neon.step(closure_over(neon, lambda: model(torch.zeros(1, 3)) + extra.square().sum()))
    assert float(extra.detach()[0]) < 1.0


def test_parameters_that_are_frozen_on_the_way_drop_a_waiting_candidate_too():
    neon, model = at_a_saddle(every=10)
    extra = nn.Parameter(torch.ones(2))
    neon.add_param_group({"params": [extra]})
    closure = closure_over(neon, lambda: model(torch.zeros(1, 3)) + 0.0 * extra.sum())
    while neon.phase == "idle":
        neon.step(closure)
    extra.requires_grad_(False)
    neon.step(closure)
    assert neon.events[-1].verdict == "undecided"


def test_a_copy_has_its_own_parameters_and_goes_on_as_the_original_does():
    neon, model = at_a_saddle(every=10)
    train(neon, model, batches(0, 3), 12)
    twin, twin_model = copy.deepcopy((neon, model))
    train(neon, model, batches(1, 3), 30)
    assert not torch.equal(model.x, twin_model.x)
    train(twin, twin_model, batches(1, 3), 30)
    assert torch.equal(model.x, twin_model.x)
    assert [e.row() for e in twin.events] == [e.row() for e in neon.events]


def test_it_can_be_pickled_without_its_callback():
    neon, model = at_a_saddle(callback=lambda event: None)
    train(neon, model, batches(0, 3), 12)
    again = pickle.loads(pickle.dumps(neon))
    assert (again.callback, again.phase, again.rules) == (None, neon.phase, neon.rules)
    assert again.base.param_groups[0]["lr"] == 0.05


def test_hooks_are_called_with_neon():
    neon, model = at_a_saddle()
    called = []
    neon.register_step_pre_hook(lambda optimizer, *_: called.append(("pre", optimizer is neon)))
    neon.register_step_post_hook(lambda optimizer, *_: called.append(("post", optimizer is neon)))
    neon.register_state_dict_pre_hook(lambda optimizer: called.append(("save", optimizer is neon)))
    neon.register_state_dict_post_hook(lambda optimizer, saved: saved | {"extra": 1})
    neon.register_load_state_dict_pre_hook(lambda optimizer, saved: called.append(("load", optimizer is neon)))
    neon.register_load_state_dict_post_hook(lambda optimizer: called.append(("loaded", optimizer is neon)))
    neon.step(closure_over(neon, lambda: model(torch.zeros(1, 3))))
    saved = neon.state_dict()
    assert saved["extra"] == 1
    neon.load_state_dict(saved)
    assert called == [("pre", True), ("post", True), ("save", True), ("load", True), ("loaded", True)]


@pytest.mark.parametrize("fused", [False, True])
def test_a_grad_scaler_skips_what_is_infinite_and_steps_otherwise(fused):
    model = nn.Linear(2, 1)
    neon = Neon(torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused))
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    for factor, moves in ((float("inf"), False), (1.0, True)):
        before = parameters_of(model)
        neon.zero_grad()
        scaler.scale(model(torch.ones(1, 2)).sum() * factor).backward()
        scaler.step(neon)
        scaler.update()
        assert all(torch.equal(a, b) for a, b in zip(before, parameters_of(model), strict=True)) != moves
    assert scaler.get_scale() == 8.0
    assert not hasattr(neon, "found_inf")


def test_what_only_the_base_has_is_reached_through_neon():
    class Modal(torch.optim.SGD):
        def train(self):
            return "training"

    neon = Neon(Modal([nn.Parameter(torch.zeros(1))], lr=0.1))
    assert neon.train() == "training"
    with pytest.raises(AttributeError, match="no attribute"):
        neon.no_such_thing  # noqa: B018


def test_a_checkpoint_of_the_base_alone_can_be_loaded_and_the_base_can_load_neon_s():
    neon, model = at_a_saddle()
    train(neon, model, batches(0, 3), 12)
    neon.base.load_state_dict(neon.state_dict())
    neon.load_state_dict(neon.base.state_dict())
    assert (neon.phase, neon.events) == ("idle", [])


def test_a_checkpoint_can_be_loaded_as_weights_only():
    neon, model = at_a_saddle()
    train(neon, model, batches(0, 3), 12)
    file = io.BytesIO()
    torch.save(neon.state_dict(), file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["neon"]["phase"] == "collect"


def test_names_of_parameters_are_used_where_the_optimizer_has_them():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(model[0].bias, -100.0)
    neon = Neon(torch.optim.SGD(model.named_parameters(), lr=0.1))
    event = neon.probe(closure_over(neon, lambda: (model(torch.ones(3, 2)) - 1.0).square().mean()))
    assert event.verdict == "flat"
    assert "0.weight, 0.bias, 2.weight" in event.sentence


def test_it_says_what_it_is():
    assert repr(at_a_saddle()[0]).startswith("Neon(SGD (")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"optimizer": torch.optim.SGD}, TypeError, "must be an instance of a torch optimizer, .* got the class SGD"),
        ({"optimizer": [nn.Parameter(torch.zeros(1))], "lr": 0.1}, TypeError, r"AdamW\(model.parameters\(\), lr=0.1\)"),
        ({"lr": 0.1}, TypeError, "Neon has no argument lr; pass it to the base"),
        ({"objective": Function(lambda x: x.sum())}, TypeError, "needs an objective over the parameters"),
        ({"samples": 0}, ValueError, "samples must be at least 1"),
        ({"optimizer": nn.Linear(1, 1)}, TypeError, "got Linear; write Neon"),
        ({"gamma": -1.0}, ValueError, "gamma must be a finite number > 0"),
        ({"every": 0}, ValueError, "every must be at least 1"),
        ({"max_overhead": -0.1}, ValueError, "max_overhead must be a finite number >= 0"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"callback": 3}, TypeError, "callback must take an Event, got 3"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    given = {"optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)} | arguments
    with pytest.raises(error, match=message):
        Neon(**given)


def test_neon_around_neon_is_refused():
    with pytest.raises(TypeError, match="is a Neon already"):
        Neon(at_a_saddle()[0])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ([torch.zeros(1)], ValueError, "no parameter that requires a gradient"),
        ([trainable(), trainable(dtype=torch.float64)], TypeError, "must share one dtype and one device"),
        ([trainable(), trainable(device="meta")], TypeError, "must share one dtype and one device"),
        ([trainable(dtype=torch.bfloat16)], TypeError, "must be float32 or float64"),
    ],
)
def test_parameters_that_could_not_be_probed_are_refused_at_once(parameters, error, message):
    with pytest.raises(error, match=message):
        Neon(torch.optim.SGD(parameters, lr=0.1))


def test_a_closure_without_backward_is_refused_at_the_first_step_and_the_model_is_as_it_was():
    neon, model = at_a_saddle()
    with torch.no_grad():
        model.x.fill_(1.0)
    with pytest.raises(ValueError, match="the closure did not call backward"):
        neon.step(lambda: model(torch.zeros(1, 3)))
    assert torch.equal(model.x, torch.ones(3))


@pytest.mark.parametrize("when", ["idle", "collect", "trial"])
def test_a_closure_that_raises_in_a_probe_leaves_model_and_policy_where_they_were(when):
    neon, model = at_a_saddle(every=10)
    stream = batches(0, 3)
    while not (neon.phase == when and (when != "idle" or len(neon._prober.state.losses) == 9)):
        train(neon, model, stream, 1)
    calls = []

    def failing():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        neon.zero_grad()
        loss = model(torch.zeros(1, 3))
        loss.backward()
        return loss

    before = model.x.detach().clone()
    with pytest.raises(RuntimeError, match="out of memory"):
        neon.step(failing)
    assert neon.phase == when
    assert torch.equal(model.x, before)  # The gradient is zero here, so the base's step was none.
    train(neon, model, stream, 200)
    assert neon.events[0].verdict == "saddle"


def test_a_closure_that_returns_nothing_is_warned_of_once():
    neon, model = at_a_saddle()

    def closure():
        neon.zero_grad()
        model(torch.ones(1, 3)).backward()

    with pytest.warns(RuntimeWarning, match="the closure returned None.*add 'return loss'"):
        neon.step(closure)
    neon.step(closure)


def test_an_optimizer_of_another_model_is_suspected():
    (neon, _), other = at_a_saddle(), Saddle(3)
    with pytest.raises(ValueError, match="not of a loss of the optimizer's parameters"):
        neon.step(closure_over(neon, lambda: other(torch.ones(1, 3))))


def test_a_loss_that_is_nan_is_trained_on_as_the_base_would_and_not_probed():
    neon, model = at_a_saddle(every=8)
    closure = closure_over(neon, lambda: model(torch.zeros(1, 3)) + float("nan"))
    for _ in range(20):
        neon.step(closure)
    assert (closure.calls, neon.events) == (20, [])


def test_a_loss_that_is_nan_is_refused_by_a_probe():
    neon, model = at_a_saddle()
    with pytest.raises(ValueError, match="there is nothing to probe here"):
        neon.probe(closure_over(neon, lambda: model(torch.zeros(1, 3)) + float("nan")))
    assert torch.equal(model.x, torch.zeros(3))
