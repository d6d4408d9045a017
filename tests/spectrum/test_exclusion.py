"""What a run excludes is not there, and more steps exclude more."""

from __future__ import annotations

import math

import numpy as np
import torch

from tests.spectrum.test_ends import hessian
from unsaddle.spectrum.ends import Goal, explore
from unsaddle.spectrum.exclusion import excluded
from unsaddle.spectrum.space import Space


def test_bounds_hold_and_become_narrower() -> None:
    """60 starts and two ends at δ = 0.05: 6 of 120 may be wrong; 14 have a probability below 0.4 %."""
    spectrum, wrong = np.linspace(-1.0, 2.0, 300), 0
    H = hessian(spectrum)
    for seed in range(60):
        widths = []
        for steps in (10, 30):
            goal = Goal(lowest=300, num_steps=steps)
            run = explore(H, Space(H.x), goal, 100, torch.Generator().manual_seed(seed))
            low, high = excluded(run, 0.05, 0.0, True, True)
            widths.append(high - low)
        wrong += int(low > -1.0) + int(high < 2.0)
        assert widths[1] < widths[0]
        assert widths[1] < 3.6
    assert wrong <= 13


def test_an_end_that_is_not_asked_for_is_open_and_everything_is_known_exactly() -> None:
    H = hessian(np.linspace(-1.0, 2.0, 30))
    some = explore(H, Space(H.x), Goal(lowest=30, num_steps=8), 30, torch.Generator().manual_seed(0))
    assert excluded(some, 0.05, 0.0, True, False)[1] == math.inf
    all_of_it = explore(H, Space(H.x), Goal(lowest=30), 30, torch.Generator().manual_seed(0))
    assert np.allclose(excluded(all_of_it, 0.05, 0.1, True, True), (-1.1, 2.1), atol=1e-6)
