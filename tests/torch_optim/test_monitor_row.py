"""Rows of the monitor, in words and numbers."""

from unsaddle import CurvatureRow


def test_numbers_that_were_not_measured_are_left_out():
    row = CurvatureRow(step=3, sharpness=4.0, gradients=27)
    assert row.scalars() == {"curvature/sharpness": 4.0, "curvature/gradients": 27.0}
    assert str(row) == "step 3: λ_max 4 (one batch). 27 gradients."


def test_words_say_the_ratio_the_lowest_and_the_warning():
    row = CurvatureRow(
        step=3, sharpness=30.0, sharpness_error=1.0, limit=20.0, learning_rate=0.1, lowest=-1.0, warning="Too long."
    )
    assert row.ratio == 1.5
    assert "1.50 of the limit 20" in str(row)
    assert "λ_min at most -1 (one batch). Too long." in str(row)


def test_a_number_that_is_old_says_so():
    assert "λ_max 4 (one batch) at step 11." in str(CurvatureRow(step=200, sharpness=4.0, measured_at=11))
    assert str(CurvatureRow(step=11, sharpness=4.0, measured_at=11)).startswith("step 11: λ_max 4 (one batch). ")
