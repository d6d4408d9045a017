import math
from dataclasses import replace

import pytest

from unsaddle.cost import Ledger
from unsaddle.experiments import cases
from unsaddle.experiments.watch import PATH_FIELDS, Lookout, solve
from unsaddle.methods import minimize


@pytest.mark.slow
def test_a_watched_run_spends_what_it_would_have_spent_unwatched():
    case = cases.case("noisy chain")
    limits = {"eps": case.eps, "gamma": case.gamma, "max_samples": case.max_samples}
    alone = minimize(case.objective, case.start(3), method="neon-scsg", seed=3, **limits)
    watched = solve(case, "neon-scsg", 3)
    assert (watched["gradients"], watched["values"]) == (alone.cost.samples, alone.cost.value_samples)
    assert watched["claimed"]
    assert not watched["false_claim"]
    assert watched["arrived"]["gradients"] <= watched["gradients"]


@pytest.mark.slow
def test_the_path_ends_at_arrival_with_what_the_case_says_of_that_point():
    case = cases.case("chain")
    outcome = solve(case, "neon-scsg", 0)
    path = [dict(zip(PATH_FIELDS, point, strict=True)) for point in outcome["path"]]
    assert [p["gradients"] for p in path] == sorted(p["gradients"] for p in path)
    assert path[-1]["gradients"] == outcome["arrived"]["gradients"]
    assert path[-1]["gradient_norm"] <= case.eps
    assert path[-1]["lowest_curvature"] >= -case.gamma
    assert all(p["gradient_norm"] > case.eps or p["lowest_curvature"] < -case.gamma for p in path[:-1])
    assert path[0]["lowest_curvature"] == -1.0
    assert all(p["seconds"] >= 0.0 for p in path)


def test_a_direction_that_proves_the_saddle_again_spares_the_hessian():
    """Two looks at one saddle: the second asks for two gradients along the direction of the first."""
    case, asked = cases.case("chain"), []

    def hessian(x):
        asked.append(x)
        return case.hessian(x)

    lookout = Lookout(replace(case, hessian=hessian), curvature=False)
    for _ in range(2):
        lookout.look(case.start(0), Ledger())
    assert len(asked) == 1
    assert lookout.arrived is None


def test_a_method_that_never_looks_is_stopped_when_it_arrives():
    outcome = solve(cases.case("chain"), "noisy-sgd", 0)
    assert outcome["status"] == "STOPPED"
    assert outcome["arrived"]["gradients"] == outcome["gradients"]
    assert not outcome["claimed"]


def test_a_method_without_neon_stays_and_has_not_arrived():
    outcome = solve(cases.case("chain"), "scsg", 0)
    assert outcome["arrived"] is None
    assert outcome["status"] == "FIRST_ORDER_POINT"


def test_a_run_is_ended_at_its_limit():
    outcome = solve(cases.case("noisy chain"), "noisy-sgd", 0, limit=5000)
    assert outcome["arrived"] is None
    assert 5000 < outcome["gradients"] < 8000


def test_a_finite_sum_method_has_nothing_to_say_of_a_stream():
    assert solve(cases.case("noisy chain"), "neon-svrg", 0) == {}


def test_the_path_can_do_without_curvature():
    outcome = solve(cases.case("chain"), "noisy-sgd", 0, curvature=False)
    assert all(math.isnan(point[PATH_FIELDS.index("lowest_curvature")]) for point in outcome["path"])


def test_ctrl_c_leaves_no_outcome_behind():
    case = cases.case("chain")
    judged = []

    def gradient(x):
        judged.append(x)
        if len(judged) == 5:
            raise KeyboardInterrupt
        return case.gradient(x)

    with pytest.raises(KeyboardInterrupt):
        solve(replace(case, gradient=gradient), "scsg", 0)
