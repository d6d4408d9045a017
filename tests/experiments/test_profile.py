import math

import pytest

from unsaddle.experiments.profile import profile, ratios


def test_a_profile_is_that_of_dolan_and_more_by_hand():
    # Three instances; b is best on the first, a on the second, nobody solves the third.
    of = ratios({"a": [30.0, 5.0, math.inf], "b": [10.0, 20.0, math.inf]})
    assert of == {"a": [3.0, 1.0, math.inf], "b": [1.0, 4.0, math.inf]}
    assert profile(of["a"]) == ([1.0, 3.0], [1 / 3, 2 / 3])
    assert profile(of["b"]) == ([1.0, 4.0], [1 / 3, 2 / 3])


def test_a_method_that_never_arrives_has_a_profile_of_zero():
    assert profile([math.inf, math.inf]) == ([1.0], [0.0])


def test_methods_must_have_run_on_the_same_instances():
    with pytest.raises(ValueError, match="every instance"):
        ratios({"a": [1.0], "b": [1.0, 2.0]})
