"""What Neon says and does where training is stuck, where it is flat, and where nothing is the matter.

`python -m benchmarks.stuck` asks the same of five seeds, with random starts and random kicks beside them.
"""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks import stuck_problems
from benchmarks.stuck import spread, train
from tests.torch_optim.training import Saddle, at_a_saddle, batches, closure_over
from tests.torch_optim.training import train as train_model
from unsaddle import Function, ModelObjective, Neon, negative_curvature
from unsaddle.curvature.result import ZERO_HESSIAN
from unsaddle.measure.confidence_sequence import SETTLING
from unsaddle.torch_optim import policy
from unsaddle.torch_optim.events import VERDICTS, Event

STEPS = 500
CASES = [
    pytest.param(make(), name, id=f"{make().name}, {name}")
    for i, make in enumerate(stuck_problems.STUCK)
    for j, name in enumerate(stuck_problems.OPTIMIZERS)
    if i == j or (make in (stuck_problems.lora, stuck_problems.skip_gram) and j % 2 == 0)
]


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "name"), CASES)
def test_the_bare_optimizer_stays_where_it_is_stuck_and_neon_leaves(problem, name):
    plain = train(problem, name, 0, "plain", STEPS)
    assert plain.broken == spread(problem.make(0, True)) == 0.0
    neon = train(problem, name, 0, "neon", STEPS)
    random = train(problem, name, 0, "random", STEPS)
    assert neon.events[0].verdict == "saddle"
    assert neon.final < random.final + 0.15 * (plain.final - random.final)
    assert neon.gradients <= policy.WORST_CASE


@pytest.mark.parametrize("make", stuck_problems.NOT_SADDLES)
def test_what_is_no_strict_saddle_is_not_called_one(make):
    problem = make()
    run = train(problem, "sgd", 0, "neon", 150)
    assert [event.verdict for event in run.events] == [problem.verdict]


def test_a_flat_model_is_told_what_is_flat_and_what_to_do():
    (event,) = train(stuck_problems.dead_relu(), "adam", 0, "neon", 150).events
    assert "3 of 4 tensors" in event.sentence
    assert "re-initialise" in event.sentence


@pytest.mark.parametrize("how", ["objective", "closure"])
def test_layers_that_are_all_zero_are_told_in_the_same_words_by_every_call(how):
    """Three layers at zero: the loss has no Hessian there, and its third derivatives decide."""
    rows = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(*(nn.Linear(i, o, bias=False) for i, o in ((8, 3), (3, 3), (3, 8))))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    objective = ModelObjective(model, lambda model, batch: (model(batch[0]) - batch[0]).square().mean(), [[rows]])
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.1), objective)
    closure = closure_over(neon, lambda: (model(rows) - rows).square().mean())
    event = neon.probe() if how == "objective" else neon.probe(closure)
    assert event.verdict == "undecided"
    assert event.sentence.startswith(ZERO_HESSIAN)
    assert "re-initialise" in event.sentence
    said = str(negative_curvature(objective)).replace("\n             ", " ")
    assert all(part in said for part in ZERO_HESSIAN.split(": "))


def test_a_probe_without_a_target_takes_the_objective_of_neon():
    neon, model = at_a_saddle()
    with pytest.raises(TypeError, match="got none, and this Neon has no objective; for a model that is ModelObj"):
        neon.probe()
    objective = ModelObjective(model, lambda model, batch: model(batch[0]), [[torch.zeros(4, 3)]])
    event = Neon(torch.optim.SGD(model.parameters(), lr=0.1), objective).probe()
    assert event.verdict == "saddle"
    assert event.escaped


def test_at_a_minimum_nothing_is_found():
    model = nn.Linear(3, 1)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    event = neon.probe(closure_over(neon, lambda: (model(x) - x[:, :1]).square().mean()))
    assert event.verdict == "none"
    assert event.curvature > 0.0
    assert neon.events == [event]


def test_curvature_of_one_batch_alone_is_called_that():
    """f_i = ½xᵀ(I + 3·S_i)x with S_i symmetric noise of mean zero: negative on every batch, along another direction."""
    x = nn.Parameter(torch.zeros(30))
    neon = Neon(torch.optim.SGD([x], lr=0.0), every=10)
    generator = torch.Generator().manual_seed(0)
    while not neon.events:
        noise = torch.randn(30, 30, generator=generator)
        hessian = torch.eye(30) + 0.3 * (noise + noise.T)
        neon.step(closure_over(neon, lambda hessian=hessian: x @ hessian @ x / 2))
    assert neon.events[0].verdict == "batch only"
    assert "normal answer in mid-training" in neon.events[0].sentence
    assert torch.equal(x, torch.zeros(30))


def test_an_event_has_the_measured_curvature_and_the_decrease_that_was_tried():
    neon, model = at_a_saddle(every=10)
    stream = batches(0, 3)
    while not neon.events:
        train_model(neon, model, stream, 1)
    (event,) = neon.events
    assert event.curvature == pytest.approx(-2.0, abs=1e-3)
    assert event.error < 0.1
    assert event.decrease == pytest.approx(-float(model(torch.zeros(1, 3)).detach()), rel=1e-5)
    assert event.length == pytest.approx(float(model.x.detach().norm()), rel=1e-5)
    assert event.escaped
    assert event.verdict in VERDICTS
    assert event.step <= 10 + 2 * SETTLING + 8 + policy.TRIALS[0]


def test_without_escape_there_are_verdicts_and_no_jumps():
    neon, model = at_a_saddle(every=10, escape=False)
    train_model(neon, model, batches(0, 3), 40)
    assert [event.verdict for event in neon.events] == ["saddle"]
    assert "escape=False" in neon.events[0].sentence
    assert not neon.events[0].escaped
    assert torch.equal(model.x, torch.zeros(3))


def test_the_callback_hears_every_verdict_and_no_candidate():
    heard = []
    neon, model = at_a_saddle(every=10, callback=heard.append)
    train_model(neon, model, batches(0, 3), 60)
    assert heard == neon.events
    assert all(isinstance(event, Event) and not event.pending for event in heard)


@pytest.mark.slow
def test_the_gradients_of_events_are_all_that_was_spent_and_the_budget_is_kept():
    steps, calls = 1200, 0
    model = Saddle(3)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.0), every=10, max_overhead=0.2, escape=False)
    for _, batch in zip(range(steps), batches(0, 3), strict=False):
        closure = closure_over(neon, lambda batch=batch: model(batch))
        neon.step(closure)
        calls += closure.calls
    assert neon.phase == "idle"
    assert len(neon.events) > 2
    assert sum(event.gradients for event in neon.events) == calls - steps
    assert neon.overhead == (calls - steps) / steps <= 0.2


def test_probing_by_hand_with_closures_goes_from_candidate_to_verdict():
    model = Saddle(3, noise=0.01)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.05))
    stream = batches(0, 3)
    answers = [neon.probe(closure_over(neon, lambda: model(next(iter([torch.zeros(1, 3)])))))]
    while answers[-1].pending:
        batch = next(stream)
        answers.append(neon.probe(closure_over(neon, lambda batch=batch: model(batch))))
    assert {a.verdict for a in answers[:-1]} == {"candidate"}
    assert answers[-1].verdict == "saddle"
    assert neon.events == answers[-1:]
    assert float(model.x.detach().norm()) > 0.5


def test_probing_by_hand_with_the_same_batch_again_is_refused_and_the_candidate_waits_on():
    """Bit for bit the same is no evidence; the model and the phase stay, and other batches bring the verdict."""
    model = Saddle(3, noise=0.01)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.05))
    stream = batches(0, 3)
    closures = (closure_over(neon, lambda batch=batch: model(batch)) for batch in stream)
    answer = neon.probe(next(closures))
    while answer.pending:
        closure = next(closures)
        phase, answer = neon.phase, neon.probe(closure)
        if answer.pending and neon.phase == phase:
            with pytest.raises(ValueError, match="the same as the last one, bit for bit"):
                neon.probe(closure)
            assert neon.phase == phase
            assert torch.equal(model.x, torch.zeros(3))
    assert answer.verdict == "saddle"
    assert "fresh batches" in answer.sentence


def test_training_on_one_batch_is_said_to_be_that():
    neon, model = at_a_saddle(every=10)
    train_model(neon, model, itertools.repeat(torch.zeros(1, 3)), 60)
    assert neon.events[0].verdict == "saddle"
    assert "batches with the same loss" in neon.events[0].sentence


@pytest.mark.parametrize("phase", ["collect", "trial"])
def test_a_loss_that_becomes_nan_in_the_middle_of_a_verdict_is_named(phase):
    neon, model = at_a_saddle(every=10)
    stream = batches(0, 3)
    while neon.phase != phase:
        train_model(neon, model, stream, 1)
    while neon.phase == phase:
        neon.step(closure_over(neon, lambda: model(torch.zeros(1, 3)) * float("nan")))
    assert neon.events[0].verdict in ("undecided", "trial failed")
    assert "was not finite on a fresh batch" in neon.events[0].sentence


def test_what_a_candidate_waits_for_is_said():
    model = Saddle(3, noise=0.01)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.05))
    said = []
    for batch in batches(0, 3):
        said.append(neon.probe(closure_over(neon, lambda batch=batch: model(batch))))
        if not said[-1].pending:
            break
    assert "negative curvature on one batch, and 0 fresh ones are too few to tell" in said[0].sentence
    assert "and 1 fresh ones are too few" in said[1].sentence
    assert any("A step along it is tried on fresh batches: 0 so far, 4 to 16 decide" in e.sentence for e in said)


def autoencoder(scale):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 4, bias=False))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=scale) if scale else nn.init.zeros_(parameter)
    rows = torch.randn(256, 4) * torch.tensor([2.0, 1.0, 1.0, 0.5])
    data = TensorDataset(rows)
    objective = ModelObjective(model, lambda model, batch: (model(batch[0]) - batch[0]).square().mean(), data)
    return model, objective


@pytest.mark.parametrize("samples", [None, 64])
def test_an_objective_gives_a_verdict_at_once_and_neon_jumps(samples):
    model, objective = autoencoder(0.0)
    neon = Neon(torch.optim.SGD(reversed(list(model.parameters())), lr=0.05))
    before = float(objective.sample().value(objective.point))
    event = neon.probe(objective, samples=samples)
    assert (event.verdict, event.escaped) == ("saddle", True)
    after = float(objective.sample().value(objective.point))
    assert after < before
    assert before - after == pytest.approx(event.decrease, rel=1e-3 if samples is None else 0.5)


def test_an_objective_without_escape_is_only_looked_at():
    model, objective = autoencoder(0.0)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.05), escape=False)
    assert neon.probe(objective).verdict == "saddle"
    assert math.isnan(neon.events[0].decrease)
    assert all(torch.equal(p, torch.zeros_like(p)) for p in model.parameters())


def test_an_objective_at_its_minimum_shows_nothing():
    model = nn.Linear(3, 1)
    rows = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(rows, rows[:, :1])
    objective = ModelObjective(model, lambda model, batch: (model(batch[0]) - batch[1]).square().mean(), data)
    assert Neon(torch.optim.SGD(model.parameters(), lr=0.1)).probe(objective).verdict == "none"


def test_an_objective_over_other_parameters_is_refused():
    _, objective = autoencoder(0.0)
    neon, _ = at_a_saddle()
    with pytest.raises(ValueError, match=r"the objective varies '0.weight', which the optimizer does not train"):
        neon.probe(objective)


def test_an_objective_that_is_no_model_s_is_refused():
    neon, _ = at_a_saddle()
    with pytest.raises(TypeError, match=r"needs an objective over the parameters .* got Function"):
        neon.probe(Function(lambda x: x.sum()))


def test_something_that_is_neither_is_refused():
    neon, model = at_a_saddle()
    for target in (3, model):
        with pytest.raises(
            TypeError, match=r"probe needs a closure .*; for a model that is ModelObjective\(model, loss,"
        ):
            neon.probe(target)
    with pytest.raises(ValueError, match="samples is for an objective"):
        neon.probe(closure_over(neon, lambda: model(torch.zeros(1, 3))), samples=8)
