"""How many samples would do: the number has to be one that does."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch

from tests.judgement.test_judge import evidence
from unsaddle import FiniteSum, Stream, is_minimum
from unsaddle.curvature.result import Status
from unsaddle.judgement.enough_samples import RAREST, missed_share, more_samples
from unsaddle.measure.direction import Measurement

DOUBLE = torch.float64
KNOWN = {"gradient_norm": 0.0, "gradient_error": 0.0, "eps": 1.0}


@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-3])
@pytest.mark.parametrize("share", [0.003, 0.05])
def test_a_share_that_may_be_missed_is_missed_with_probability_delta(delta: float, share: float) -> None:
    m = math.ceil(math.log(1.0 / delta) / share)
    assert missed_share(m, delta) <= share < missed_share(m - 1, delta)
    assert (1.0 - share) ** m <= delta


def test_the_gradients_error_falls_with_the_square_root() -> None:
    known = {"gradient_norm": 0.2, "gradient_error": 0.8, "eps": 0.4}  # Four times the distance: 1.5·16 = 24 times.
    nothing = evidence(Status.NOTHING_FOUND)
    assert more_samples(nothing, samples=1000, n=None, delta=0.05, **known) == "pass samples=32768"
    assert more_samples(nothing, samples=1000, n=300_000, delta=0.05, **known) == "pass samples=32768"
    assert (
        more_samples(nothing, samples=1000, n=200_000, delta=0.05, **known)
        == "leave samples out to take all n = 200000"
    )


@pytest.mark.parametrize(
    ("on_sample", "fresh", "error", "number"),
    [
        (-0.4, -0.2, 0.4, 8192),  # To confirm -0.2 ± 0.4: 1.5·4 times.
        (-0.4, 0.7, 0.4, 4096),  # 1.1 between the samples against 0.7 above zero: 1.5·2.5 times.
        (-0.4, -0.001, 0.4, 131072),  # Nobody knows: a hundred times.
    ],
)
def test_a_candidate_is_to_be_confirmed_or_cleared(on_sample: float, fresh: float, error: float, number: int) -> None:
    same, other = (
        Measurement(curvature=c, error=e, radius=1e-4, samples=1000, fresh=f)
        for c, e, f in ((on_sample, 0.0, False), (fresh, error, True))
    )
    found = replace(evidence(Status.SAMPLE_ONLY, sought=0.0), measurements=(same, other))
    assert more_samples(found, samples=1000, n=None, delta=0.05, **KNOWN) == f"pass samples={number}"


def test_no_more_than_a_hundred_times_as_many_are_asked_for() -> None:
    """131 000, as a power of two. Nothing would be enough: the gradient's norm is ε."""
    known = {"gradient_norm": 0.4, "gradient_error": 0.8, "eps": 0.4}
    nothing = evidence(Status.NOTHING_FOUND)
    assert more_samples(nothing, samples=1310, n=None, delta=0.05, **known) == "pass samples=131072"


@pytest.mark.parametrize("samples", [1, 3, 20, 100, 249])
def test_so_few_are_told_the_number_below_which_nothing_is_decided(samples: int) -> None:
    advice = more_samples(evidence(Status.FOUND), samples=samples, n=None, delta=0.05, **KNOWN)
    assert advice == "pass samples=256"
    assert missed_share(4 * 256, 0.05) <= RAREST < missed_share(4 * 249, 0.05)


def test_where_nothing_was_sampled_no_number_is_named() -> None:
    assert "=" not in more_samples(evidence(Status.FOUND), samples=None, n=1, delta=0.05, **KNOWN)


@pytest.mark.slow
@pytest.mark.parametrize("lowest", [-0.3, 0.3])
@pytest.mark.parametrize("samples", [4, 64, 300])
def test_the_number_named_decides(lowest: float, samples: int) -> None:
    """±0.3 with a deviation of 2 along one of five directions; after two pieces of advice it is decided, and right."""
    s = torch.tensor([lowest, 0.5, 0.7, 0.9, 1.0], dtype=DOUBLE)

    def loss(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return 0.5 * (s * x * x).sum() + z.mean() * x[0] ** 2 + 1e-2 * z.mean() * x[1]

    stream = Stream(loss, lambda m, g: (torch.randn(m, generator=g, dtype=DOUBLE),))
    for seed in range(5):
        size = samples
        for _ in range(3):
            verdict = is_minimum(stream, torch.zeros(5, dtype=DOUBLE), samples=size, seed=seed)
            if verdict.kind != "undecided":
                break
            number = re.search(r"[Pp]ass samples=(\d+)", verdict.reason)
            assert number is not None, verdict.reason
            assert int(number[1]) > size
            size = int(number[1])
        assert verdict.kind == ("saddle" if lowest < 0.0 else "minimum"), str(verdict)


def test_of_a_finite_sum_everything_is_named_where_samples_will_not_do() -> None:
    rows = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    objective = FiniteSum(lambda x, a: 0.5 * (0.1 + 20.0 * a.mean()) * x[0] ** 2 + 0.5 * x[1] ** 2, rows - rows.mean())
    verdict = is_minimum(objective, torch.zeros(2, dtype=DOUBLE), samples=100)
    assert verdict.kind == "undecided"
    assert "leave samples out to take all n = 1000" in verdict.reason.lower()
    assert is_minimum(objective, torch.zeros(2, dtype=DOUBLE)).kind == "minimum"
