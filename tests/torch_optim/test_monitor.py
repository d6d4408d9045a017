"""The monitor beside real training: it sees λ_max, warns before a spike, and leaves no trace."""

import copy
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from unsaddle import CurvatureMonitor, CurvatureRow, ModelObjective, Neon, eigenpairs

ROWS = torch.randn(128, 6, generator=torch.Generator().manual_seed(0))
LABELS = (ROWS[:, 0] * ROWS[:, 1] > 0.0).long()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))


def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])


def train(model, optimizer, steps, *, closures=True, seed=0, size=64):
    generator, losses = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        chosen = torch.randint(len(ROWS), (size,), generator=generator)

        def closure(chosen=chosen):
            optimizer.zero_grad()
            value = loss(model, (ROWS[chosen], LABELS[chosen]))
            value.backward()
            return value

        if closures:
            value = optimizer.step(closure)
        else:
            value = closure()
            optimizer.step()
        losses.append(float(value.detach()))
    return losses


@pytest.mark.parametrize("closures", [True, False])
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_training_is_the_same_bit_for_bit(make, closures):
    seen = []
    for watched in (False, True):
        model = network()
        optimizer = make(model.parameters(), lr=0.01)
        data = TensorDataset(ROWS, LABELS)
        if watched:
            objective = None if closures else ModelObjective(model, loss, data)
            monitor = CurvatureMonitor(optimizer, objective, samples=None if closures else 64)
        torch.manual_seed(1)
        losses = train(model, optimizer, 150, closures=closures)
        seen.append((losses, [t.clone() for t in model.state_dict().values()], torch.rand(3)))
    (a, b, c), (d, e, f) = seen
    assert a == d
    assert torch.equal(c, f)
    assert all(torch.equal(s, t) for s, t in zip(b, e, strict=True))
    assert math.isfinite(monitor.rows[-1].sharpness)


def test_on_full_batches_it_is_the_highest_eigenvalue_at_the_stated_overhead():
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rows = ROWS.double()
    monitor = CurvatureMonitor(optimizer)

    def closure():
        optimizer.zero_grad()
        value = loss(model, (rows, LABELS))
        value.backward()
        return value

    points = {}
    for step in range(1, 2011):  # The burst that begins at 2000 has ended.
        points[step] = copy.deepcopy(model)
        optimizer.step(closure)
    row = monitor.rows[-1]
    F = ModelObjective(points[row.measured_at], loss, TensorDataset(rows, LABELS))
    pairs = eigenpairs(F, lowest=1, highest=1)
    assert row.sharpness == pytest.approx(pairs.values[-1], rel=0.01)
    at_11 = ModelObjective(points[row.lowest_at], loss, TensorDataset(rows, LABELS))
    assert row.lowest_at == 11
    assert row.lowest == pytest.approx(eigenpairs(at_11, lowest=1).values[0], rel=0.02)
    assert row.limit == pytest.approx(40.0)
    assert [row.measured_at for row in monitor.rows if row.measured_at % 100] == [11]
    assert all(row.step - row.measured_at == row.batches - 1 for row in monitor.rows)
    assert row.step > 1500
    assert row.lowest_error >= 0.0
    assert monitor.overhead <= 0.05
    assert row.gradients == pytest.approx(monitor.overhead * 2010, rel=1e-12)


def test_it_warns_before_the_loss_spikes():
    """The learning rate is warmed up past the limit. The warning comes before the loss exceeds its start."""
    x = nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))
    optimizer = torch.optim.SGD([x], lr=0.01)
    monitor = CurvatureMonitor(optimizer)
    losses = []

    def closure():
        optimizer.zero_grad()
        value = (5.0 * x[0] ** 2 + 0.1 * x[1] ** 2) + 1e-6 * x[0] * x[1]
        value.backward()
        losses.append(float(value.detach()))
        return value

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(400):
            optimizer.param_groups[0]["lr"] = 0.01 + 0.0015 * min(step, 200)
            optimizer.step(closure)
    assert "the loss may spike" in str(caught[0].message)
    (warned,) = [row for row in monitor.rows if row.warning]
    assert warned.sharpness == pytest.approx(10.0, rel=1e-3)
    assert warned.step == pytest.approx((0.2 - 0.01) / 0.0015, abs=2)
    spike = next(i for i, value in enumerate(losses) if value > losses[0])
    assert warned.step < spike


def test_a_run_that_was_saved_goes_on_bit_for_bit():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    monitor = CurvatureMonitor(optimizer)
    torch.manual_seed(1)
    train(model, optimizer, 70)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), monitor.state_dict(), torch.get_rng_state()))
    train(model, optimizer, 130, seed=5)
    other = network()
    again = torch.optim.AdamW(other.parameters(), lr=0.01)
    resumed = CurvatureMonitor(again)
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    resumed.load_state_dict(saved[2])
    torch.set_rng_state(saved[3])
    train(other, again, 130, seed=5)
    assert [row.row() for row in resumed.rows] == [row.row() for row in monitor.rows]


def test_it_watches_an_optimizer_inside_neon_and_stops_when_closed():
    model = network()
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.01))
    seen = []
    monitor = CurvatureMonitor(neon, callback=seen.append)
    train(model, neon, 30)
    assert [(type(row), row.measured_at) for row in seen] == [(CurvatureRow, 11)]
    monitor.close()
    train(model, neon, 1000)
    assert len(monitor.rows) == 1


def test_a_trainer_may_get_its_optimizer_later():
    class Trainer:
        optimizer = None

    trainer, model = Trainer(), network()
    monitor = CurvatureMonitor(trainer)
    train(model, torch.optim.SGD(model.parameters(), lr=0.01), 3)
    assert monitor.state_dict()["steps"] == 0
    trainer.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, trainer.optimizer, 30)
    assert monitor.rows[-1].measured_at == 11


def test_mistakes_say_what_to_write():
    model = network()
    with pytest.raises(TypeError, match=r"CurvatureMonitor\(torch.optim.AdamW"):
        CurvatureMonitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="which the optimizer does not train"):
        CurvatureMonitor(optimizer, ModelObjective(network(), loss, TensorDataset(ROWS, LABELS)))
    with pytest.raises(TypeError, match="ModelObjective"):
        CurvatureMonitor(optimizer, lambda: 0.0)
    monitor = CurvatureMonitor(optimizer, every=5)
    with pytest.warns(RuntimeWarning, match="neither a closure nor an objective"):
        train(model, optimizer, 12, closures=False)
    assert monitor.rows == []
