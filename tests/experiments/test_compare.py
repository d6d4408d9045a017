import pytest

from unsaddle.experiments import compare, harness


def test_every_method_runs_on_every_problem_with_every_seed():
    jobs = compare.jobs(methods=["neon-scsg", "sgld"], problems=["chain", "noisy chain"], seeds=3, seed=7)
    assert len(jobs) == 12
    assert {job["seed"] for job in jobs} == {7, 8, 9}


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'neon-adam' is not a method; known are: neon-sgd"):
        compare.jobs(methods=["neon-adam"])
    with pytest.raises(ValueError, match="'chains' is not a problem; known are: chain"):
        compare.jobs(problems=["chains"])


@pytest.mark.slow
def test_a_tiny_comparison_goes_through_the_harness_and_is_not_run_twice(tmp_path):
    jobs = compare.jobs(methods=["neon-scsg", "scsg", "neon-svrg"], problems=["noisy chain"], seeds=1)
    options = {"experiment": "compare", "processes": 1, "describe": compare.describe}
    promoted, bare, finite = harness.run(jobs, compare.work, tmp_path, **options)
    assert promoted["arrived"]["gradients"] > 0
    assert promoted["path"]["gradients"][-1] == promoted["arrived"]["gradients"]
    assert bare["arrived"] is None
    assert finite["status"] == compare.NOT_APPLICABLE
    assert harness.run(jobs, _not_again, tmp_path, **options) == [promoted, bare, finite]


def _not_again(job):
    raise AssertionError(f"{job} was done already")
