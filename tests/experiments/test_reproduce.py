"""The paper's simulation on a small set of the same kind."""

import itertools

import pytest
import torch

from unsaddle.experiments import observations
from unsaddle.experiments.data import load
from unsaddle.experiments.reproduce import KRYLOV_STEPS, METHODS, START_SEED, SUBSAMPLE, observed, reproduce
from unsaddle.problems import sigmoid_least_squares
from unsaddle.vectors import random_in_ball

pytest.importorskip("sklearn")

pytestmark = pytest.mark.slow

TARGET, FEATURES, ITERATIONS = 1, 600, 120


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce")
    return reproduce(out, seed=TARGET, targets=1, iterations=ITERATIONS, num_features=FEATURES, processes=1)


@pytest.fixture(scope="module")
def curves(rows):
    return {row["settings"]["method"]: row for row in rows}


@pytest.fixture(scope="module")
def objective():
    dataset = load(num_features=FEATURES)
    return sigmoid_least_squares(dataset.features, dataset.labels, penalty=3.0).objective


@pytest.fixture(scope="module")
def x():
    return torch.randn(FEATURES, generator=torch.Generator().manual_seed(TARGET), dtype=torch.float64)


@pytest.fixture(scope="module")
def hessian(objective, x):
    """The dense Hessian at the target."""
    f = objective.sample(hessian=True)
    return torch.stack([f.hvp(x, e) for e in torch.eye(FEATURES, dtype=torch.float64)])


def test_every_curve_of_the_figure_is_there_with_the_papers_settings(curves):
    assert list(curves) == list(METHODS)
    for row in curves.values():
        settings = row["settings"]
        assert (settings["step_size"], settings["momentum"], settings["penalty"]) == (0.01, 0.9, 3.0)
        assert settings["noise_radius"] == METHODS[settings["method"]].get("noise_radius")
    assert {curves[m]["settings"]["subsample"] for m in ("neon-st", "neon+-st")} == {100}


def test_curvatures_are_those_of_the_full_hessian_and_lanczos_ends_at_the_lowest_eigenvalue(curves, hessian):
    lowest, highest = torch.linalg.eigvalsh(hessian)[[0, -1]].tolist()
    for row in curves.values():
        assert all(lowest - 1e-6 <= quotient <= highest + 1e-6 for quotient in row["quotient"])
    assert curves["lanczos"]["lowest"] == pytest.approx(lowest, rel=1e-6)
    assert min(curves["krylov"]["quotient"]) < 0.8 * lowest


def test_all_curves_start_from_the_same_direction(curves):
    starts = {
        m: curves[m]["quotient"][0] for m in ("neon", "neon+", "power", "neon-st", "neon+-st", "lanczos", "krylov")
    }
    assert max(starts.values()) - min(starts.values()) < 1e-4


def test_calls_are_counted_by_the_sample_and_the_measuring_of_curves_is_not(curves):
    n = curves["neon"]["num_samples"]
    for method, size in (("neon", n), ("neon+", n), ("neon-st", SUBSAMPLE), ("neon+-st", SUBSAMPLE)):
        row = curves[method]
        # One gradient at x, and one a step.
        assert row["samples"] == [size * (1 + step) for step in row["iterations"]]
        assert row["gradients"] == 1 + row["settings"]["iterations"]
        assert row["hessian_products"] == 0
    assert curves["power"]["samples"] == [n * step for step in curves["power"]["iterations"]]
    assert curves["lanczos"]["samples"] == [n * step for step in curves["lanczos"]["iterations"]]
    assert curves["lanczos"]["hessian_products"] == KRYLOV_STEPS


def test_on_nearly_quadratic_ground_neon_is_the_power_method(curves):
    assert observations.distance(curves["neon-short"], curves["power"], curves["lanczos"]["lowest"]) < 1e-3


def test_ncfind_is_noted_where_algorithm_2_calls_it(curves, objective, x, hessian):
    """Line 4 of Algorithm 2, Δ(y, u) < −(γ/2)‖y − u‖² at the first τ > 0, in its own words."""
    f = objective.sample(SUBSAMPLE, torch.Generator().manual_seed(2 * START_SEED + TARGET))
    value, slope = f.value_and_grad(x)
    y = u = random_in_ball(x, 0.01, torch.Generator().manual_seed(START_SEED + TARGET))

    def f_hat(v):
        return f.value(x + v) - value - slope @ v

    for tau in range(ITERATIONS):
        g = f.grad(x + u) - slope
        if tau and f_hat(y) - f_hat(u) - g @ (y - u) < -0.5 * (y - u) @ (y - u):
            break
        y, before = u - 0.01 * g, y
        u = y + 0.9 * (y - before)
    noted = curves["neon+-st"]["ncfind"]
    assert noted["iterations"] == tau
    for direction, curvature in ((y - u, noted["quotient"]), (y, noted["iterate_quotient"])):
        assert curvature == pytest.approx(float(direction @ hessian @ direction / (direction @ direction)), abs=1e-6)
    # y_τ is on the curve.
    assert noted["iterate_quotient"] == pytest.approx(curves["neon+-st"]["quotient"][tau], abs=1e-4)
    # ∇f(x), a gradient at each of u_0, …, u_τ, and a value at each of y_1, …, y_τ.
    assert noted["samples"] == SUBSAMPLE * (1 + (tau + 1) + tau)
    # On all samples no curvature is below −1, and NCFind is never called.
    assert float(torch.linalg.eigvalsh(hessian)[0]) > -1.0
    assert curves["neon+"]["ncfind"] is None


def test_a_second_run_finds_everything_done(rows, tmp_path, capsys):
    jobs = [row["settings"] for row in rows]
    assert len({str(job) for job in jobs}) == len(METHODS)
    kept = tmp_path / "again"
    reproduce(kept, seed=TARGET, targets=1, iterations=10, num_features=120, processes=1)
    capsys.readouterr()
    again = reproduce(kept, seed=TARGET, targets=1, iterations=10, num_features=120, processes=1)
    assert capsys.readouterr().out == "reproduce: 9 of 9 were finished before\n"
    assert [row["settings"]["method"] for row in again] == list(METHODS)


def test_a_curve_has_every_point_at_first_and_then_one_for_each_three_percent():
    points = [step for step in range(1000) if observed(step)]
    assert points[:60] == list(range(60))
    assert len(points) < 170
    assert all(b < 1.07 * a for a, b in itertools.pairwise(points[59:]))
