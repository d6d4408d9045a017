"""The loop and the search of the monitor, on batches with a known Hessian."""

import pytest
import torch
from torch import nn

from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim.closure import ClosureObjective
from unsaddle.torch_optim.monitor_burst import FIRST_BATCHES, UNKNOWN
from unsaddle.torch_optim.monitor_track import FEWEST_STEPS, MOST_STEPS, SEARCH_GRADIENTS, Track, measure, search

D = 40
SPECTRUM = torch.cat([torch.tensor([-3.0]), torch.linspace(0.0, 2.0, D - 2), torch.tensor([10.0])]).double()


def batch(x, noise=0.0, seed=0, spectrum=SPECTRUM):
    """A batch whose Hessian is diagonal, off by symmetric noise."""
    own = spectrum + noise * torch.randn(D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def closure():
        x.grad = None
        loss = 0.5 * (own * x * x).sum()
        loss.backward()
        return loss

    return ClosureObjective(closure, FlatParameters([x]))


def look(track, x, number, *, both_ends=False, sizes=None, noise=0.5, spectrum=SPECTRUM):
    """A search, and as many fresh batches as it takes; returns how many there were."""
    search(track, batch(x, noise, number, spectrum), None, sizes, 0, both_ends=both_ends)
    fresh = 0
    while track.origin is not None:
        fresh += 1
        measure(track, batch(x, noise, 1000 * number + fresh, spectrum))
    return fresh


def test_a_search_sees_both_ends_and_stays_within_its_gradients():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    search(track, batch(x), None, None, 0, both_ends=True)
    assert track.lowest_seen[0] == pytest.approx(-3.0, rel=1e-2)
    assert abs(float(track.highest[-1])) == pytest.approx(1.0, rel=1e-4)
    assert track.searching <= SEARCH_GRADIENTS
    assert torch.equal(x.detach(), torch.ones(D, dtype=torch.float64))


@pytest.mark.parametrize("scaled", [False, True])
def test_a_burst_measures_both_ends_of_shs(scaled):
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    sizes = torch.linspace(1.0, 2.0, D).double() if scaled else None
    true = SPECTRUM * (1.0 if sizes is None else sizes**2)
    look(track, x, 1, both_ends=True, sizes=sizes)
    assert track.sharpness[0] == pytest.approx(float(true.max()), rel=0.1)
    assert track.lowest_seen[0] == pytest.approx(float(true.min()), abs=1.5)
    assert abs(track.sharpness[0] - float(true.max())) <= track.sharpness[1]


def test_a_burst_turns_its_direction_measures_it_and_then_what_lies_beside_it():
    """Batches with noise off the diagonal: their own eigenvectors lack a part of the highest one."""
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()

    def mixed(seed):
        noise = torch.randn(D, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        own = torch.diag(SPECTRUM) + 0.3 * (noise + noise.T)

        def closure():
            x.grad = None
            loss = 0.5 * (x @ own @ x)
            loss.backward()
            return loss

        return ClosureObjective(closure, FlatParameters([x]))

    search(track, mixed(0), None, None, 0, both_ends=True)
    found, asides, count = track.highest, 0, 0
    while track.origin is not None:
        count += 1
        asides += track.aside is not None
        measure(track, mixed(count + 10))
    turned = track.highest
    assert (asides, count) == (1, FIRST_BATCHES + track.noise.size + 1)
    assert abs(float(turned[-1])) > abs(float(found[-1]))
    assert track.spent == 2 * count
    assert track.sharpness[0] == pytest.approx(10.0, abs=track.sharpness[1])


def test_lambda_max_is_that_of_the_point_of_the_search_however_far_training_goes():
    """On Σ λx⁴/12 the Hessian is λx². The parameters leave x, and λ_max stays that of x."""
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()

    def quartic():
        def closure():
            x.grad = None
            loss = (SPECTRUM * x**4).sum() / 12.0
            loss.backward()
            return loss

        return ClosureObjective(closure, FlatParameters([x]))

    search(track, quartic(), None, None, 0, both_ends=True)
    x.data.mul_(3.0)
    while track.origin is not None:
        measure(track, quartic())
    assert track.sharpness == pytest.approx((10.0, 0.0), abs=1e-3)
    assert float(x.detach().max()) == 3.0


def test_a_direction_that_was_overtaken_is_given_up():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    look(track, x, 1, both_ends=True, noise=0.0)
    spectrum = SPECTRUM.clone()
    spectrum[D // 2] = 13.0
    spent = track.spent
    assert look(track, x, 2, noise=0.0, spectrum=spectrum) == FIRST_BATCHES
    assert track.sharpness[0] == pytest.approx(13.0, rel=1e-3)
    assert FEWEST_STEPS + 1 <= track.spent - spent - 2 * FIRST_BATCHES <= MOST_STEPS + 1  # One more is at x.


def test_negative_curvature_larger_than_the_highest_is_not_followed():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    spectrum = SPECTRUM.clone()
    spectrum[0] = -30.0
    for number in range(1, 4):
        look(track, x, number, both_ends=number == 1, spectrum=spectrum)
    assert track.sharpness[0] == pytest.approx(10.0, rel=0.1)


def test_a_burst_says_the_step_of_its_search_and_what_is_not_finite_ends_it_without_a_number():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    look(track, x, 1, both_ends=True, noise=0.0)
    before, track.fresh, track.steps = track.sharpness, False, 7
    search(track, batch(x), None, None, 0, both_ends=False)
    measure(track, batch(x, spectrum=SPECTRUM * torch.nan))
    assert (track.origin, track.burst, track.sharpness, track.fresh) == (None, [], before, False)
    search(track, batch(x), None, None, 0, both_ends=False)
    while track.origin is not None:
        track.steps += 1
        measure(track, batch(x))
    assert (track.measured_at, track.fresh, track.burst) == (7, True, [])


def test_a_state_is_loaded_by_torch_without_trust(tmp_path):
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    look(track, x, 1, both_ends=True)
    search(track, batch(x, 0.5), None, None, 0, both_ends=False)
    measure(track, batch(x, 0.5, 1))
    torch.save(track.to_dict(), tmp_path / "state")
    again = Track.from_dict(torch.load(tmp_path / "state", weights_only=True))
    assert again.noise == track.noise != Track().noise
    assert again.sharpness == track.sharpness
    assert torch.equal(again.origin, track.origin)


def test_a_state_that_is_not_the_monitor_s_is_refused():
    with pytest.raises(ValueError, match="expected what CurvatureMonitor"):
        Track.from_dict({"steps": 3})


def test_batches_that_agreed_earlier_need_not_agree_now():
    """As at the start of a training: without noise in the first burst, the second one took two batches, by chance."""
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    assert look(track, x, 1, both_ends=True, noise=0.0) == FIRST_BATCHES
    assert look(track, x, 2, noise=1.5) >= FIRST_BATCHES + UNKNOWN
    assert track.sharpness[0] == pytest.approx(10.0, abs=track.sharpness[1])
