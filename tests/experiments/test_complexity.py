import json

import pytest

from unsaddle.experiments import complexity, harness
from unsaddle.experiments.table_one import EXTRACTORS, OF_THE_PAPER, TABLE_ONE, told
from unsaddle.methods import method_names


def test_every_row_of_table_one_is_a_method_that_there_is_and_knows_what_it_is_told():
    for row in TABLE_ONE:
        assert row.method in method_names()
        assert told(row.method, 0.1, 1.0)


def test_rows_have_the_exponents_that_the_paper_prints():
    """Table 1, largest exponents of 1/ε in IFO and in ISO, by row and q."""
    printed = {
        ("Noisy SGD", 1 / 4): (4, None),
        ("SGLD", 1 / 2): (4, None),
        ("Natasha2", 1 / 2): (3.5, 2.5),
        ("Natasha2", 1 / 4): (3.25, 1.75),
        ("SNCG", 1 / 2): (4, 2.5),
        ("SVRG-Hessian", 1 / 2): (2, 1.75),
        ("NEON-SGD, neon+ inside", 1 / 2): (4, None),
        ("NEON-SM (heavy ball), neon+ inside", 1 / 2): (4, None),
        ("NEON-SM (Nesterov), neon+ inside", 1 / 2): (4, None),
        ("NEON-SCSG, neon+ inside", 1 / 2): (3.5, None),
        ("NEON-SCSG, neon+ inside", 4 / 9): (10 / 3, None),
        ("NEON-Natasha, neon+ inside", 1 / 2): (3.5, None),
        ("NEON-Natasha, neon+ inside", 1 / 4): (3.25, None),
        ("NEON-SVRG, neon+ inside", 1 / 2): (2.75, None),
    }
    found = {(row.name, row.power): (row.gradients, row.products) for row in TABLE_ONE}
    assert printed.items() <= found.items()


def test_every_neon_row_runs_with_both_of_the_papers_and_only_those_have_a_bound():
    inside = {}
    for row in TABLE_ONE:
        inside.setdefault((row.method, row.power), set()).add(row.extractor)
        assert (row.gradients is None) == (row.extractor == "auto")
        assert row.extractor is None or f"{row.extractor} inside" in row.name or "krylov inside (auto)" in row.name
    assert inside["neon-scsg", 0.5] == set(EXTRACTORS)
    assert inside["natasha2", 0.25] == inside["svrg-hessian", 0.5] == {None, *OF_THE_PAPER}
    assert inside["sgld", 0.5] == {None}


def test_every_sweep_has_neon_and_neon_plus_inside():
    for sweep in ("slope", "one function", "gamma", "dimension"):
        jobs = [job for job in complexity.jobs(seeds=1) if job["sweep"] == sweep]
        assert {job["extractor"] for job in jobs if job["method"] == "neon-scsg"} == set(EXTRACTORS)


def test_jobs_differ_and_a_quick_run_has_fewer():
    full, quick = complexity.jobs(seeds=2), complexity.jobs(seeds=2, quick=True)
    assert len({json.dumps(job, sort_keys=True) for job in full}) == len(full)
    assert len(quick) < len(full)
    assert {job["sweep"] for job in quick} == {"slope", "one function", "gamma", "dimension"}
    assert max(job["dimension"] for job in quick) < max(job["dimension"] for job in full)


def test_one_function_for_every_eps_bends_down_by_gamma():
    jobs = [job for job in complexity.jobs(seeds=1) if job["sweep"] == "one function"]
    assert len({job["eps"] for job in jobs}) > 2
    assert {(job["gamma"], job["bend"], job["dimension"]) for job in jobs} == {(0.1, 0.1, 10)}


def test_gamma_follows_eps_as_each_row_has_it():
    jobs = [job for job in complexity.jobs(seeds=1) if job["sweep"] == "slope"]
    assert {job["method"] for job in jobs} == {row.method for row in TABLE_ONE}
    for job in jobs:
        assert job["gamma"] == job["eps"] ** job["power"] / 2
        assert job["slope"] == 2 * job["eps"]


def test_a_run_goes_on_until_it_knows_and_pays_for_the_last_nothing(tmp_path):
    wanted = ("neon-scsg", "sncg", "noisy-sgd")
    jobs = [j for j in complexity.jobs(seeds=1, quick=True) if j["sweep"] == "dimension" and j["dimension"] == 10]
    jobs = [j for j in jobs if j["method"] in wanted]
    rows = harness.run(
        jobs, complexity.work, tmp_path, experiment="complexity", processes=1, describe=complexity.describe
    )
    assert len(rows) == 5
    for row in rows:
        blind = row["settings"]["method"] == "noisy-sgd"
        assert row["counted"]
        assert row["counted_to"] == ("arrival" if blind else "knowledge")
        assert row["status"] == ("STOPPED" if blind else "SECOND_ORDER_POINT")
        assert (row["gradients"] == row["arrival"]) == blind
        assert row["gradients"] >= row["arrival"] > 0
        assert row["calls"] > 0
        assert (row["products"] > 0) == (row["settings"]["method"] == "sncg")
        assert (row["escapes"] == 0) == blind


def test_a_run_that_ends_without_knowing_is_not_counted(monkeypatch):
    monkeypatch.setattr(complexity, "MAX_SAMPLES", 2000)
    jobs = complexity.jobs(seeds=1, quick=True)
    job = next(j for j in jobs if j["sweep"] == "dimension" and (j["method"], j["extractor"]) == ("neon-scsg", "neon"))
    assert complexity.work(job | {"dimension": 10})["counted"] is False


@pytest.mark.slow
def test_fewer_samples_are_needed_down_the_slope_with_variance_reduction():
    base = next(
        j for j in complexity.jobs(seeds=1, quick=True) if j["sweep"] == "slope" and j["method"] == "neon-sgd"
    ) | {"eps": 10**-1.5, "slope": 2 * 10**-1.5, "gamma": 10**-0.75 / 2, "extractor": "neon+"}
    plain, reduced = (complexity.work(base | {"method": method}) for method in ("neon-sgd", "neon-scsg"))
    assert plain["counted"]
    assert reduced["counted"]
    assert reduced["gradients"] < plain["gradients"] / 3
