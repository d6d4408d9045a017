"""Constants of NEON and NEON⁺ that cannot be right are refused, with what to do."""

import math

import pytest

from unsaddle import NeonPlusSettings, NeonSettings

GOOD = {"step_size": 0.1, "num_steps": 40, "noise_radius": 0.01, "trust_radius": 0.5, "decrease": 1e-2}


def test_good_ones_pass():
    assert NeonSettings(**GOOD | {"decrease": math.inf}).trust_radius == 0.5
    assert NeonPlusSettings(momentum=0.0, gamma=1.0, **GOOD).momentum == 0.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"decrease": 0.0}, "decrease must be a number above 0, got 0.0"),
        ({"decrease": -1.0}, "decrease must be a number above 0, got -1.0"),
        ({"decrease": math.nan}, "decrease must be a number above 0, got nan"),
        ({"decrease": None}, "need decrease .* or target"),
        ({"decrease": None, "target": -1.0}, "target must be a number above 0"),
        ({"step_size": 0.0}, "step_size must be"),
        ({"step_size": math.inf}, "step_size must be"),
        ({"noise_radius": -1.0}, "noise_radius must be"),
        ({"trust_radius": 0.001}, "trust_radius must be at least noise_radius = 0.01, got 0.001"),
        ({"trust_radius": math.nan}, "trust_radius must be at least"),
        ({"num_steps": -1}, "num_steps must be"),
        ({"num_steps": 1.5}, "num_steps must be"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"hessian_lipschitz": -1.0}, "hessian_lipschitz must be"),
        ({"renormalise": True}, "decrease must be None with renormalise=True"),
    ],
)
def test_bad_constants_of_neon(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        NeonSettings(**GOOD | wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1, got 1.0"),
        ({"momentum": -0.1}, "momentum must be at least 0 and below 1"),
        ({"momentum": math.nan}, "momentum must be at least 0 and below 1"),
        ({"gamma": None}, "needs gamma"),
    ],
)
def test_bad_constants_of_neon_plus(wrong, message):
    with pytest.raises(ValueError, match=message):
        NeonPlusSettings(**GOOD | {"momentum": 0.9, "gamma": 1.0} | wrong)
