"""Rows of the simulation as tables and figures."""

import pytest

from tests.report.test_page import CURVES, NCFIND, curve
from unsaddle.experiments.observations import ENOUGH
from unsaddle.pictures import journal
from unsaddle.report.reproduce import NCFIND as STAR
from unsaddle.report.reproduce import NCFIND_ITERATE, sections

pytest.importorskip("matplotlib", reason="figures need the extra plot")


def written(targets, **fields):
    with journal():
        return sections([curve(method, target, **fields) for target in range(targets) for method in CURVES])


def table(section, beginning):
    """Its rows, as dictionaries of heads and cells."""
    (found,) = [table for table in section.tables if table.caption.startswith(beginning)]
    return [dict(zip(found.heads, line, strict=True)) for line in found.rows]


@pytest.fixture(scope="module")
def few():
    return written(1)


@pytest.fixture(scope="module")
def enough():
    return written(ENOUGH)


def test_few_targets_judge_nothing_and_the_page_says_so(few):
    judged = table(few[0], "Observations")
    assert {line["verdict"] for line in judged} == {"cannot be judged by one target"}
    assert {line["targets at which it holds"] for line in judged} == {"0 of 1", "1 of 1"}
    assert "The paper's observations cannot be judged by one target: it takes 5" in few[0].paragraphs[1]
    cells = [cell for t in few[0].tables for line in t.rows for cell in line]
    assert not any(isinstance(cell, bool) for cell in cells)  # Only a bool is shown as "true" or "false".
    assert "judged over" not in " ".join([*few[0].paragraphs, *(t.caption for t in few[0].tables)])


def test_enough_targets_judge_and_the_page_names_their_number(enough):
    assert "Judged over 5 targets" in enough[0].paragraphs[1]
    assert enough[0].tables[0].caption == "Observations, judged over 5 targets"
    verdicts = {line["statement"]: line["verdict"] for line in table(enough[0], "Observations")}
    # All curves are the same: NEON overlaps the power method, and NEON⁺ is not faster than NEON.
    assert verdicts["NEON overlaps the power method, over the first 300 iterations"] is True
    assert verdicts["NEON⁺ converges faster than NEON"] is False


def test_seven_is_not_asked_above_minus_gamma_and_the_page_says_at_how_many_targets_it_is():
    rows = [curve(method, target, lowest=-0.9 if target == 2 else -2.0) for target in range(5) for method in CURVES]
    with journal():
        section = sections(rows)[0]
    assert "asked where λ_min ≤ −γ, at 4 of 5 targets" in section.paragraphs[2]
    good = "NEONst finds a good direction by (7)"
    (line,) = [line for line in table(section, "Observations") if line["statement"] == good]
    assert (line["targets at which it holds"], line["verdict"]) == ("4 of 4, not asked at 1", True)
    by_target = [line for line in table(section, "The same") if line["statement"] == good]
    assert [line["within its limit at this target"] for line in by_target] == ["yes", "yes", None, "yes", "yes"]


def test_the_page_says_at_which_iteration_neon_and_power_part_at_each_target():
    power = curve("power")["quotient"]
    parted = power[:12] + [quotient + 0.03 for quotient in power[12:20]] + [quotient + 0.2 for quotient in power[20:]]
    rows = [curve(method) for method in CURVES]
    rows += [curve("neon", 1, quotient=parted, norm=[0.01 * step for step in range(30)])]
    rows += [curve(method, 1) for method in CURVES if method != "neon"]
    with journal():
        lines = table(sections(rows)[0], "Where NEON and the power method part")
    heads = [f"iteration at which they are {share} of |λ_min| apart" for share in ("1%", "5%")]
    found = {(line["target"], line["method"]): [line[head] for head in heads] for line in lines}
    assert found == {
        (0, "NEON"): [None, None],
        (0, "NEON, r = 10⁻⁴"): [None, None],
        (1, "NEON"): [12, 20],
        (1, "NEON, r = 10⁻⁴"): [None, None],
    }
    (line,) = [line for line in lines if (line["target"], line["method"]) == (1, "NEON")]
    assert line["Power is at 90 % of λ_min"] == 24  # 0.9²⁴ is the first power below 0.2/2.3
    assert line["‖u‖ of NEON there"] == pytest.approx(0.24)


def test_ncfinds_star_is_said_to_be_drawn_with_infinite_f_and_the_iterate_is_drawn_too(few):
    figures = few[1]
    assert "𝓕 = ∞" in figures.paragraphs[1]
    assert r"\mathcal{F} = \infty" in STAR
    left, right = figures.figures[0].figure.axes
    legend = [text.get_text() for text in figures.figures[0].figure.legends[0].get_texts()]
    assert {STAR, NCFIND_ITERATE} <= set(legend)
    for axes, place in ((left, "iterations"), (right, "samples")):
        marks = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
        assert marks[STAR] == [[NCFIND[place], NCFIND["quotient"]]]
        assert marks[NCFIND_ITERATE] == [[NCFIND[place], NCFIND["iterate_quotient"]]]
    ended = {line["method"]: line for line in table(few[0], "Iterations and calls")}["NEON⁺st"]
    assert ended["NCFind at τ"] == NCFIND["iterations"]
    assert ended["curvature of y_τ − u_τ, which it returns as 𝓕 = ∞"] == NCFIND["quotient"]
    assert ended["curvature of y_τ"] == NCFIND["iterate_quotient"]
