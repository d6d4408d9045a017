"""The paper's observations, on curves made by hand."""

import math

import pytest

from unsaddle.experiments import observations
from unsaddle.experiments.observations import ENOUGH, Observation, cannot_be_judged, parting


def row(method, quotient, *, target=0, lowest=math.inf, each=10, iterations=1000):
    steps = list(range(len(quotient)))
    return {
        "settings": {"method": method, "target": target, "gamma": 1.0, "iterations": iterations},
        "iterations": steps,
        "samples": [each * (step + 1) for step in steps],
        "quotient": quotient,
        "lowest": lowest,
        "ncfind": None,
    }


def judged(*rows):
    return {(o.item, o.statement): o for o in observations.judged(rows)}


LANCZOS = row("lanczos", [0.0, -2.0], lowest=-2.0)
POWER = [0.0, -0.5, -1.0, -1.5, -1.9, -2.0]
OVERLAPS, FASTER = ("(i)", "NEON overlaps the power method"), ("(ii)", "NEON⁺ converges faster than NEON")
AT_FIRST = ("(i)", "NEON overlaps the power method, over the first 300 iterations")


def test_statements_hold_where_they_should_and_nowhere_else():
    other = [0.0, -0.5, -1.0, -1.0, -1.0, 1.0]
    close = judged(LANCZOS, row("power", POWER), row("neon", POWER))[OVERLAPS]
    assert close.everywhere
    assert close.measured == {0: 0.0}
    apart = judged(LANCZOS, row("power", POWER), row("neon", other))[OVERLAPS]
    assert not apart.everywhere
    # At the iteration where Power is past 90 %; what follows is not asked.
    assert apart.measured == {0: pytest.approx(0.45)}
    faster = judged(LANCZOS, row("neon+", [0.0, -1.0]), row("neon", POWER))[FASTER]
    assert faster.everywhere
    assert faster.measured == {0: 0.5}  # One iteration instead of two to 90 % of −1, the lowest that NEON⁺ reaches.
    never = judged(LANCZOS, row("neon", POWER), row("neon+", [0.0] * 9))[FASTER]
    assert not never.everywhere
    assert "never" in str(never)


def test_over_the_first_300_iterations_it_matters_too_what_follows_90_percent():
    power = POWER + [-2.0] * 400
    neon = [*power[:200], 1.0, *power[201:301], 4.0, *power[302:]]
    observed = judged(LANCZOS, row("power", power), row("neon", neon))
    assert observed[OVERLAPS].measured == {0: 0.0}
    assert observed[AT_FIRST].measured == {0: 1.5}  # At iteration 200; iteration 301 is not asked.
    shorter = judged(LANCZOS, row("power", power), row("neon", neon, iterations=299))
    assert OVERLAPS in shorter
    assert AT_FIRST not in shorter


def test_curves_part_at_the_first_iteration_where_they_are_farther_apart_than_the_tolerance():
    power, neon = row("power", [0.0, -1.0, -2.0, -2.0]), row("neon", [0.0, -0.96, -1.8, -2.0])
    assert parting(neon, power, -2.0, 0.01) == 1
    assert parting(neon, power, -2.0, 0.05) == 2
    assert parting(neon, power, -2.0, 0.2) is None
    power["iterations"] = [0, 1, 3, 4]  # Only where both have a point.
    assert parting(neon, power, -2.0, 0.05) is None


def test_a_stochastic_version_is_judged_by_where_it_gets_and_by_how_quickly():
    full = row("neon", [0.0, -0.5, -1.0, -1.5])
    good = judged(LANCZOS, full, row("neon-st", [0.0, -1.0, -1.2], each=1))
    assert good["(iv)", "NEONst finds a good direction"].measured == {0: 0.6}
    assert good["(iv)", "NEONst is quicker than NEON"].measured == {0: 3 / 40}
    assert good["(iv)", "NEONst competes with Lanczos"].measured == {0: 3 / 20}
    assert all(o.everywhere for o in good.values())
    bad = judged(LANCZOS, full, row("neon-st", [0.5, 0.4], each=1))
    assert not any(o.everywhere for o in bad.values())


def test_by_seven_a_direction_is_good_at_half_of_gamma_whatever_the_lowest_eigenvalue_is():
    deep, full = row("lanczos", [0.0, -0.6, -8.0], lowest=-8.0), row("neon", [0.0, -0.5, -8.0])
    observed = judged(deep, full, row("neon-st", [0.0, -0.4, -0.7], each=1))
    assert not observed["(iv)", "NEONst finds a good direction"].everywhere
    by_seven = {s: o for (_, s), o in observed.items() if s.endswith(" by (7)")}
    assert {s: o.measured for s, o in by_seven.items()} == {
        "NEONst finds a good direction by (7)": {0: 0.7},  # −0.7 of −γ = −1.
        "NEONst is quicker than NEON by (7)": {0: 3 / 20},  # The third call of one sample, the second of ten.
        "NEONst competes with Lanczos by (7)": {0: 3 / 20},
    }
    assert all(o.everywhere for o in by_seven.values())
    short_of_it = judged(deep, full, row("neon-st", [0.0, -0.49], each=1))
    assert not any(o.everywhere for (_, s), o in short_of_it.items() if s.endswith(" by (7)"))


def test_seven_is_not_asked_where_the_lowest_eigenvalue_is_above_minus_gamma():
    flat, steep = (row("lanczos", [0.0, low], lowest=low, target=i) for i, low in enumerate((-0.9, -1.0)))
    found = judged(flat, steep, row("neon-st", [0.0, 0.1]), row("neon-st", [0.0, -0.8], target=1))
    good = found["(iv)", "NEONst finds a good direction by (7)"]
    assert good.measured == {0: None, 1: 0.8}
    assert good.holds == {1: True}
    assert good.everywhere
    assert (good.count, good.spread) == ("1 of 1, not asked at 1", "0.8")
    assert not any(s.endswith(" by (7)") for _, s in judged(flat, row("neon-st", [0.0, -0.8])))


def test_that_ncfind_ends_a_run_is_read_off_its_row():
    ended = row("neon+-st", [0.0, -1.0])
    name = ("Fig.", "NEON⁺st terminates earlier since NCFind is executed")
    assert not judged(LANCZOS, ended)[name].everywhere
    ended["ncfind"] = {"iterations": 6, "samples": 1300, "quotient": 0.5, "iterate_quotient": 0.4}
    assert judged(LANCZOS, ended)[name].measured == {0: 6.0}
    assert judged(LANCZOS, ended)[name].everywhere


def observation(*measured):
    return Observation(item="(i)", statement="s", quantity="q", measured=dict(enumerate(measured)), at_most=1.0)


def test_a_statement_is_true_only_if_it_is_at_every_target():
    some = observation(0.5, 2.0, math.inf)
    assert some.holds == {0: True, 1: False, 2: False}
    assert not some.everywhere
    assert (some.count, some.spread) == ("1 of 3", "2 (0.5 to never)")


@pytest.mark.parametrize("value", [0.5, 2.0])
def test_fewer_targets_than_the_paper_shows_give_no_verdict(value):
    holds = value <= 1.0
    for count in range(1, ENOUGH):
        few = observation(*[value] * count)
        assert few.everywhere == holds
        assert few.verdict is None
        assert str(few).startswith("  open ")
    enough = observation(*[value] * ENOUGH)
    assert enough.verdict is holds
    assert str(enough).startswith("  true " if holds else "  FALSE ")
    assert str(enough).endswith("targets: 5 of 5" if holds else "targets: 0 of 5")
    # A target where nothing is asked has been looked at.
    assert observation(*[value] * (ENOUGH - 1), None).verdict is holds


def test_what_is_said_in_place_of_a_verdict_names_the_number_of_targets():
    assert cannot_be_judged(1) == "cannot be judged by one target"
    assert cannot_be_judged(3) == "cannot be judged by 3 targets"
