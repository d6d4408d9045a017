from __future__ import annotations

import pytest
import torch

from unsaddle.problems import around_threshold, near_ties, positive_semidefinite, random_spectrum, rank_one_negative


def test_a_random_spectrum_attains_its_ends() -> None:
    for d in (2, 1000):
        s = random_spectrum(d, lowest=-0.3, largest=5.0)
        assert s.shape == (d,)
        assert (float(s.min()), float(s.max())) == (-0.3, 5.0)
    assert not torch.equal(s, random_spectrum(1000, lowest=-0.3, largest=5.0, seed=1))


def test_near_ties_sit_in_steps_of_the_gap_above_the_lowest() -> None:
    s = near_ties(20, lowest=-1.0, largest=2.0, ties=4, gap=0.01)
    torch.testing.assert_close(s[:4], torch.tensor([-1.0, -0.99, -0.98, -0.97], dtype=torch.float64))
    assert bool((s[4:] >= 0).all())
    assert float(s.max()) == 2.0


def test_the_threshold_is_missed_by_the_margin_on_either_side() -> None:
    below = around_threshold(9, gamma=0.2, side="below", largest=1.0)
    above = around_threshold(9, gamma=0.2, side="above", largest=1.0)
    assert float(below[0]) == pytest.approx(-0.22)
    assert float(above[0]) == pytest.approx(-0.18)
    assert int((below < 0).sum()) == int((above < 0).sum()) == 1


def test_the_negative_part_has_rank_one() -> None:
    s = rank_one_negative(50, lowest=-0.01, largest=3.0)
    assert int((s < 0).sum()) == 1
    assert (float(s[0]), float(s[-1])) == (-0.01, 3.0)


@pytest.mark.parametrize("zeros", [0, 1, 7])
def test_a_semidefinite_spectrum_has_just_the_zeros_asked_for(zeros: int) -> None:
    s = positive_semidefinite(30, largest=2.0, zeros=zeros)
    assert int((s == 0).sum()) == zeros
    assert bool((s >= 0).all())
    assert float(s.max()) == 2.0


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lowest must be below largest, got 1.0 and 0.0"):
        random_spectrum(3, lowest=1.0, largest=0.0)
    with pytest.raises(ValueError, match="dimension must be at least 2, got 1"):
        random_spectrum(1, lowest=-1.0, largest=1.0)
    with pytest.raises(ValueError, match="the 5 ties must stay below zero"):
        near_ties(10, lowest=-0.1, largest=1.0, gap=1.0)
    with pytest.raises(ValueError, match="side must be one of below, above; got 'left'"):
        around_threshold(3, gamma=1.0, side="left", largest=1.0)
    for lowest in (0.0, 0.5):
        with pytest.raises(ValueError, match=f"lowest must be < 0, got {lowest}; use positive_semidefinite"):
            rank_one_negative(3, lowest=lowest, largest=1.0)
    with pytest.raises(ValueError, match="dimension must be at least 4, got 3"):
        positive_semidefinite(3, largest=1.0, zeros=3)
