"""Student's t, against scipy."""

from __future__ import annotations

import pytest
from scipy import stats

from unsaddle.measure.student import quantile


@pytest.mark.parametrize(
    ("probability", "digits"), [(0.5, 9), (0.6, 9), (0.95, 9), (0.975, 9), (0.9999, 6), (0.99995, 6)]
)
@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 30])
def test_quantiles_have_nine_digits_and_six_far_out(probability: float, digits: int, degrees: int) -> None:
    exact = stats.t.ppf(probability, degrees)
    assert quantile(probability, degrees) == pytest.approx(exact, rel=10.0**-digits, abs=1e-12)


@pytest.mark.parametrize("probability", [0.49, 0.0, 1.0, -1.0])
def test_only_upper_quantiles_are_given(probability: float) -> None:
    with pytest.raises(ValueError, match=r"probability must be in \[0.5, 1\), got"):
        quantile(probability, 7)
