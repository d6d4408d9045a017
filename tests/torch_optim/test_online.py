"""NEON spread over training steps: finds the lowest direction under noise, claims nothing false, leaves saddles."""

import copy
import io
import itertools
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.online import plateau
from benchmarks.stuck import train as train_problem
from benchmarks.stuck_classifiers import BATCH_SIZES, classifier
from tests.torch_optim.training import Saddle, batches, closure_over, train
from unsaddle import ModelObjective, Neon, vectors
from unsaddle.torch_optim import online, policy
from unsaddle.torch_optim.state import COLLECT, IDLE, TRIAL

PLATEAUS = 200
MOST_FALSE = 18
"""Of 200, if 5 % are false: more with probability 0.8 % (binomial)."""


@pytest.mark.parametrize("seed", range(5))
def test_the_direction_turns_to_the_lowest_one_though_every_batch_has_another_hessian(seed):
    """Truth: a dense Hessian with λ_min = −0.5 and λ_max = 2. Noise: a symmetric matrix of norm about 1.5 a batch."""
    generator, d = torch.Generator().manual_seed(seed), 40
    q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
    values = torch.linspace(0.0, 2.0, d, dtype=torch.float64)
    values[0] = -0.5
    hessian = q @ torch.diag(values) @ q.T
    u = vectors.random_direction(torch.zeros(d, dtype=torch.float64), generator)
    smoothness = 0.0
    for t in range(100):
        noise = torch.randn(d, d, generator=generator, dtype=torch.float64) * 0.08
        seen = online.look(u, torch.zeros_like(u), 0.1 * (hessian + noise + noise.T) @ u, 0.1)
        smoothness = max(smoothness, seen.size)
        u = online.turn(u, seen.product, smoothness=smoothness, number=t)
    assert float(u @ hessian @ u) < -0.3


def test_a_product_of_zero_turns_nothing():
    u = torch.tensor([1.0, 0.0])
    assert torch.equal(online.turn(u, torch.zeros(2), smoothness=0.0, number=0), u)
    assert torch.equal(online.turn(u, u.clone(), smoothness=1.0, number=0), u)


@pytest.mark.study
@pytest.mark.parametrize("name", ["normal noise", "skewed, batches of 8"])
def test_plateaus_without_negative_curvature_are_called_saddles_in_no_more_than_delta(name):
    """λ_min = 0 exactly, and Hessians of batches with large negative eigenvalues. `benchmarks.online` has 1000."""
    claims = [plateau(name, seed).verdict for seed in range(PLATEAUS)]
    assert claims.count("saddle") <= MOST_FALSE


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_classifier_at_zero_leaves_at_the_first_look_at_every_batch_size(name, batch_size):
    for seed in (20, 21, 22):
        run = train_problem(classifier("MLP", "Tanh", batch_size), name, seed, "neon", 180)
        assert [event.escaped for event in run.events] == [True]
        assert run.gradients <= policy.WORST_CASE


class Model(nn.Module):
    """A saddle like `Saddle`, and a parameter that its loss does not use."""

    def __init__(self, noise=0.3):
        super().__init__()
        self.saddle, self.unused = Saddle(3, noise=noise), nn.Parameter(torch.ones(4))

    def forward(self, batch):
        return 1.0 + self.saddle(batch)


ROWS = torch.randn(256, 3, generator=torch.Generator().manual_seed(5))
ROWS -= ROWS.mean(dim=0)


def objective_of(model, sign=1.0):
    loader = DataLoader(TensorDataset(ROWS), batch_size=32)
    return ModelObjective(model, lambda model, batch: sign * model(batch[0]), loader)


def loop(neon, model, steps, sign=1.0, first=0):
    """`loss.backward(); optimizer.step()`, with clipping."""
    for step in range(first, first + steps):
        rows = ROWS[torch.randint(256, (32,), generator=torch.Generator().manual_seed(step))]
        neon.zero_grad()
        (sign * model(rows)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        neon.step()


def test_a_loop_without_closures_probes_its_objective_and_leaves():
    model = Model()
    neon = Neon(torch.optim.SGD(model.parameters(), lr=1e-3), objective_of(model), every=10)
    loop(neon, model, 60)
    assert [event.verdict for event in neon.events][:1] == ["saddle"]
    assert neon.events[0].curvature == pytest.approx(-2.0, abs=1e-2)
    assert float(model(ROWS).detach()) < 0.7


def test_without_a_plateau_of_the_objective_nothing_is_probed():
    model = Model(noise=0.0)
    with torch.no_grad():
        model.saddle.x.copy_(torch.tensor([30.0, 30.0, 0.0]))
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.01), objective_of(model), every=10)
    values = [float(model(ROWS).detach())]
    for _ in range(5):
        for _ in range(10):
            neon.zero_grad()
            model(ROWS).backward()
            neon.step()
        values.append(float(model(ROWS).detach()))
    assert all(b < 0.9 * a for a, b in itertools.pairwise(values))
    assert neon.events == []
    assert neon._prober.state.probes == 0
    assert neon._prober.state.spent == 5  # One value at the beginning of each window.


@pytest.mark.parametrize("by", ["closure", "objective", "probe"])
def test_a_base_that_maximizes_is_led_up(by):
    """The loss −f has a saddle of −1 at 0, and maxima of 0."""
    model = Model()
    base = torch.optim.SGD(model.parameters(), lr=1e-3, maximize=True)
    neon = Neon(base, objective_of(model, -1.0) if by == "objective" else None, every=10)
    if by == "closure":
        stream = batches(0, 3)
        for _ in range(60):
            batch = next(stream)
            neon.step(closure_over(neon, lambda batch=batch: -model(batch)))
    elif by == "objective":
        loop(neon, model, 60, sign=-1.0)
    else:
        neon.probe(objective_of(model, -1.0))
    assert neon.events[0].verdict == "saddle"
    assert float(model(ROWS).detach()) < 0.7
    assert neon.events[0].decrease > 0.0
    assert neon.events[0].sentence.endswith("With maximize=True, all numbers are those of -loss.")


def test_groups_that_disagree_on_the_way_are_refused():
    a, b = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    neon = Neon(torch.optim.SGD([{"params": [a], "maximize": True}, {"params": [b]}], lr=0.1))
    with pytest.raises(ValueError, match="some parameter groups have maximize=True and some not"):
        neon.step()


@pytest.mark.parametrize("by", ["closure", "objective", "probe"])
def test_parameters_that_the_loss_does_not_use_are_not_moved(by):
    model = Model()
    F = objective_of(model)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=1e-3), F if by == "objective" else None, every=10)
    if by == "closure":
        train(neon, model, batches(0, 3), 60)
    elif by == "objective":
        loop(neon, model, 60)
    else:
        neon.probe(F)
    assert neon.events[0].escaped
    assert torch.equal(model.unused, torch.ones(4))


def test_what_is_undecided_is_told_once_and_goes_on_collecting_within_the_budget():
    """Curvature 0 along every direction, with much noise: nothing can be decided, and no number is thrown away."""
    x = nn.Parameter(torch.zeros(4))
    neon = Neon(torch.optim.SGD([x], lr=0.0), every=10, gamma=1e-6)
    generator = torch.Generator().manual_seed(0)
    counts = []
    for _ in range(2000):
        noise = torch.randn(4, 4, generator=generator)
        neon.step(closure_over(neon, lambda noise=noise: x @ (noise + noise.T) @ x / 2))
        counts.append(len(neon._prober.state.curvatures))
        if neon.events and neon.events[0].verdict != "undecided":
            pytest.fail(str(neon.events[0]))
    burst = counts.index(policy.BURST)
    assert counts[burst - policy.BURST + 1 : burst + 1] == list(range(1, policy.BURST + 1))  # One a step,
    assert counts[-1] > policy.BURST + 10  # then now and then,
    assert neon.overhead <= 0.05 + 1e-9  # within the budget.
    assert "Undecided so far whether it is a saddle: curvature " in neon.events[0].sentence
    assert " ± " in neon.events[0].sentence
    assert [event.verdict for event in neon.events] == ["undecided"]
    assert neon.phase == "collect"


def test_the_training_step_s_own_gradient_is_used_so_that_a_measurement_costs_one():
    neon = Neon(torch.optim.SGD((model := Model()).parameters(), lr=1e-3), every=10)
    stream = batches(0, 3)
    while neon.phase != "collect":
        train(neon, model, stream, 1)
    batch = next(stream)
    closure = closure_over(neon, lambda: model(batch))
    neon.step(closure)
    assert closure.calls == 2


@pytest.mark.parametrize("phase", [IDLE, COLLECT, TRIAL])
def test_a_loop_without_closures_that_was_saved_and_loaded_goes_on_bit_for_bit(phase):
    model = Model()
    neon = Neon(torch.optim.Adam(model.parameters(), lr=1e-4), objective_of(model), every=10)
    step = 0
    while neon.phase != phase or step < 5:
        loop(neon, model, 1, first=step)
        step += 1
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "neon": neon.state_dict()}, file)
    loop(neon, model, 60, first=step)

    other = Model()
    resumed = Neon(torch.optim.Adam(other.parameters(), lr=1e-4), objective_of(other), every=10)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["neon"])
    loop(resumed, other, 60, first=step)
    assert any(event.escaped for event in neon.events)
    assert repr(neon.events) == repr(resumed.events)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_copy_forgets_the_objective_which_is_of_the_other_model():
    model = Model()
    neon = Neon(torch.optim.SGD(model.parameters(), lr=1e-3), objective_of(model), every=10, samples=8)
    twin = copy.deepcopy(neon)
    assert twin.objective is None
    assert math.isnan(twin._prober.state.length)


@pytest.mark.parametrize("to_none", [True, False])
def test_a_closure_that_adds_to_gradients_of_earlier_micro_batches_is_measured_alone(to_none):
    """As Lightning's with accumulate_grad_batches=2: .grad is not the gradient of the closure's own batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    rows = torch.randn(512, 6)
    labels = (rows[:, 0] > rows[:, 0].median()).long()
    neon = Neon(torch.optim.AdamW(model.parameters(), lr=1e-3), escape=False)

    def loss_of(batch):
        return nn.functional.cross_entropy(model(rows[batch]), labels[batch]) / 2.0

    for _ in range(160):
        first, second = torch.randint(512, (32,)), torch.randint(512, (32,))
        neon.zero_grad(set_to_none=to_none)
        loss_of(first).backward()

        def closure(batch=second):
            loss = loss_of(batch)
            loss.backward()
            return loss

        neon.step(closure)
    assert [event.verdict for event in neon.events] == ["saddle"]
    assert -1.0 < neon.events[0].curvature < -1e-3


def test_gradients_that_are_set_to_zero_in_place_are_the_closure_s_own():
    """Then a measurement takes one gradient, as where they are set to None."""
    spent = []
    for to_none in (True, False):
        parameter = nn.Parameter(torch.zeros(2))
        neon = Neon(torch.optim.SGD([parameter], lr=0.01), every=10)
        for step in range(60):
            noise = 0.1 * math.sin(step)
            neon.zero_grad(set_to_none=to_none)

            def closure(noise=noise, parameter=parameter):
                loss = parameter[0] ** 2 - parameter[1] ** 2 + parameter[1] ** 4 / 4 + noise * parameter[0]
                loss.backward()
                return loss

            neon.step(closure)
        spent.append(neon.events[0].gradients)
    assert spent[0] == spent[1]
