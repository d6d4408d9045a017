import json

import pytest

from unsaddle.experiments import complexity, harness
from unsaddle.experiments.table_one import TABLE_ONE, told
from unsaddle.methods import method_names


def test_every_row_of_table_one_is_a_method_that_there_is_and_knows_what_it_is_told():
    for row in TABLE_ONE:
        assert row.method in method_names()
        assert told(row.method, 0.1, 1.0)


def test_jobs_differ_and_a_quick_run_has_fewer():
    full, quick = complexity.jobs(seeds=2), complexity.jobs(seeds=2, quick=True)
    assert len({json.dumps(job, sort_keys=True) for job in full}) == len(full)
    assert len(quick) < len(full)
    assert {job["sweep"] for job in quick} == {"slope", "one function", "gamma", "dimension"}
    assert max(job["dimension"] for job in quick) < max(job["dimension"] for job in full)


def test_gamma_follows_eps_as_each_row_has_it():
    jobs = [job for job in complexity.jobs(seeds=1) if job["sweep"] == "slope"]
    assert {job["method"] for job in jobs} == {row.method for row in TABLE_ONE}
    for job in jobs:
        assert job["gamma"] == job["eps"] ** job["power"] / 2
        assert job["slope"] == 2 * job["eps"]


def test_a_run_arrives_and_tells_what_it_spent(tmp_path):
    wanted = ("neon-scsg", "sncg", "noisy-sgd")
    jobs = [j for j in complexity.jobs(seeds=1, quick=True) if j["sweep"] == "dimension" and j["dimension"] == 10]
    jobs = [j for j in jobs if j["method"] in wanted]
    rows = harness.run(
        jobs, complexity.work, tmp_path, experiment="complexity", processes=1, describe=complexity.describe
    )
    assert len(rows) == 3
    for row in rows:
        assert row["arrived"]
        assert row["gradients"] > 0
        assert row["calls"] > 0
        assert (row["products"] > 0) == (row["settings"]["method"] == "sncg")
        assert (row["escapes"] == 0) == (row["settings"]["method"] == "noisy-sgd")


@pytest.mark.slow
def test_fewer_samples_are_needed_down_the_slope_with_variance_reduction():
    base = next(
        j for j in complexity.jobs(seeds=1, quick=True) if j["sweep"] == "slope" and j["method"] == "neon-sgd"
    ) | {"eps": 10**-1.5, "slope": 2 * 10**-1.5, "gamma": 10**-0.75 / 2}
    plain, reduced = (complexity.work(base | {"method": method}) for method in ("neon-sgd", "neon-scsg"))
    assert plain["arrived"]
    assert reduced["arrived"]
    assert reduced["gradients"] < plain["gradients"] / 3
