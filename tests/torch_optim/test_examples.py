"""The examples run."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_plain_loop_is_stuck_without_neon_and_leaves_with_it(capsys):
    main = runpy.run_path(str(EXAMPLES / "train.py"))["main"]
    stuck = main(plain=True, epochs=20)
    assert "saddle" not in capsys.readouterr().out
    assert main(epochs=20) < 0.7 * stuck
    assert ": saddle. Curvature -" in capsys.readouterr().out
