"""The loop and the search of the monitor, on batches with a known Hessian."""

import pytest
import torch
from torch import nn

from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim.closure import ClosureObjective
from unsaddle.torch_optim.monitor_track import SEARCH_GRADIENTS, Track, begin, measure, search

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


def test_a_search_sees_both_ends_and_stays_within_its_gradients():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    search(track, batch(x), None, 0)
    assert (track.lowest_seen[0], track.sharpness[0]) == pytest.approx((-3.0, 10.0), rel=1e-2)
    assert track.searching <= SEARCH_GRADIENTS
    assert torch.equal(x.detach(), torch.ones(D, dtype=torch.float64))


@pytest.mark.parametrize("scaled", [False, True])
def test_measurements_follow_the_highest_curvature_of_shs(scaled):
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    sizes = torch.linspace(1.0, 2.0, D).double() if scaled else None
    true = float((SPECTRUM * (1.0 if sizes is None else sizes**2)).max())
    search(track, batch(x), sizes, 0)
    track.highest = torch.nn.functional.normalize(torch.ones(D, dtype=torch.float64), dim=0)
    for i in range(100):
        if track.size == 0:
            begin(track)
        measure(track, batch(x, 0.5, i), None, sizes)
    assert track.sharpness[0] == pytest.approx(true, rel=0.1)
    low = float((SPECTRUM * (1.0 if sizes is None else sizes**2)).min())
    assert track.lowest_seen[0] == pytest.approx(low, abs=1.0)


def test_negative_curvature_larger_than_the_highest_is_not_followed():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    spectrum = SPECTRUM.clone()
    spectrum[0] = -30.0
    search(track, batch(x, spectrum=spectrum), None, 0)
    for i in range(30):
        if track.size == 0:
            begin(track)
        measure(track, batch(x, 0.5, i, spectrum), None, None)
    assert track.sharpness[0] == pytest.approx(10.0, rel=0.1)


def test_a_burst_says_the_step_that_it_ended_at_and_what_is_not_finite_ends_it_without_a_number():
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    search(track, batch(x), None, 0)
    before = track.sharpness
    begin(track)
    track.steps, track.fresh = 7, False
    measure(track, batch(x, spectrum=SPECTRUM * torch.nan), None, None)
    assert (track.size, track.burst, track.sharpness, track.fresh) == (0, [], before, False)
    begin(track)
    for step in range(7, 7 + track.size):
        track.steps = step
        measure(track, batch(x), None, None)
    assert (track.measured_at, track.fresh, track.burst) == (12, True, [])


def test_a_state_is_loaded_by_torch_without_trust(tmp_path):
    x, track = nn.Parameter(torch.ones(D, dtype=torch.float64)), Track()
    search(track, batch(x), None, 0)
    begin(track)
    for i in range(track.size):
        measure(track, batch(x, 0.5, i), None, None)
    torch.save(track.to_dict(), tmp_path / "state")
    again = Track.from_dict(torch.load(tmp_path / "state", weights_only=True))
    assert again.noise == track.noise != Track().noise
    assert again.sharpness == track.sharpness


def test_a_state_that_is_not_the_monitor_s_is_refused():
    with pytest.raises(ValueError, match="expected what CurvatureMonitor"):
        Track.from_dict({"steps": 3})
