import math

import pytest

from unsaddle.experiments import complexity as experiment
from unsaddle.experiments.table_one import TABLE_ONE
from unsaddle.experiments.watch import BLIND
from unsaddle.report.complexity import by_dimension, by_gamma, sections, table_one
from unsaddle.report.complexity_curves import count, curves, fit
from unsaddle.report.complexity_figures import DRAWN
from unsaddle.report.complexity_statements import exponents_of, statements_of

pytest.importorskip("matplotlib", reason="figures need the extra plot")

LAW = {"noisy-sgd": 4.0, "sgld": 4.0, "neon-sgd": 3.9, "neon-scsg": 3.3, "neon-svrg": 2.0}


def rows(eps_power=None, d_power=0.0, step_power=1.0, seeds=2):
    """Rows of all jobs by a known law, with two per cent between seeds."""
    found = []
    for job in experiment.jobs(seeds=seeds):
        power = (eps_power or {}).get(job["method"], LAW.get(job["method"], 3.0))
        power = {"slope": power, "one function": 2.0}.get(job["sweep"], 0.0)
        d, off = job["dimension"], 1.0 + 0.02 * job["seed"]
        grown = 100.0 * off * (d / 10.0) ** (d_power if job["sweep"] == "dimension" else 0.0)
        gradients = grown * job["eps"] ** -power * job["gamma"] ** -2.5
        found.append(
            {
                "experiment": "complexity",
                "settings": job,
                "counted": True,
                "counted_to": "arrival" if job["method"] in BLIND else "knowledge",
                "false_claim": False,
                "arrival": gradients / 2.0,
                "status": "SECOND_ORDER_POINT",
                "gradients": gradients,
                "products": 10.0 * off * job["eps"] ** -1.5,
                "values": 0,
                "calls": grown,
                "seconds": 1e-6 * grown * d**step_power,
                "escapes": 1,
            }
        )
    return found


def judged(found):
    return {claim: holds for claim, holds, _ in statements_of(found).rows}


def test_exponents_of_a_known_law_come_back():
    for (method, power, _), curve in curves(rows(), "slope").items():
        fitted = fit(curve, count("gradients"))
        assert abs(fitted.value - (LAW.get(method, 3.0) + 2.5 * power)) < 1e-9
        assert fitted.low < fitted.value < fitted.high


def test_the_table_has_the_papers_exponent_beside_the_measured_one_with_its_interval():
    found = rows()
    table = table_one(curves(found, "slope"), curves(found, "one function"))
    line = next(r for r in table.rows if r[0] == "NEON-SCSG, neon+ inside" and r[1] == "ε^0.5")
    assert line[3:8] == [3.5, 4.55, line[5], line[6], 4.55]
    assert line[5] <= 4.55 <= line[6]
    assert line[12] == 2.0
    assert line[15:] == ["knowledge", 0]
    assert len(table.rows) == len(TABLE_ONE)


def test_no_bound_of_the_paper_stands_beside_krylov():
    found = rows()
    lines = table_one(curves(found, "slope"), curves(found, "one function")).rows
    assert {r[3] for r in lines if "krylov" in r[0]} == {None}
    lines = by_gamma(curves(found, "gamma")).rows
    paper = {r[0]: r[1] for r in lines}
    assert paper["NEON-SCSG, neon inside"] == 3.0
    assert paper["NEON-Natasha, neon+ inside"] == 2.5
    assert paper["NEON-SCSG, krylov inside (auto)"] is None


def test_a_row_says_whether_it_is_counted_to_knowledge_or_to_arrival():
    found = rows()
    to = {r[0]: r[-2] for r in table_one(curves(found, "slope"), curves(found, "one function")).rows}
    assert to["SGLD"] == "arrival"
    assert to["NEON-SGD, neon inside"] == "knowledge"


def test_exponents_are_printed_with_interval_bound_and_what_ran():
    lines = exponents_of(rows())
    (line,) = [x for x in lines if "slope" in x and "NEON-SCSG, neon inside, γ ~ ε^0.5" in x]
    assert line.startswith("exponent of 1/ε, slope: 4.55 [4.5")
    assert ", bound 3.5 " in line
    assert not any("bound" in x for x in lines if "krylov" in x)
    assert sum(x.startswith("exponent of d:") for x in lines) == 12


def test_a_wrong_claim_is_seen():
    claim = next(c for c in judged(rows()) if c.startswith("Every run that can know"))
    found = rows()
    wrong = next(r for r in found if r["settings"]["method"] == "neon-svrg")
    wrong |= {"counted": False, "false_claim": True}
    assert judged(rows())[claim] is True
    assert judged(found)[claim] is False


def test_a_run_that_never_knew_is_counted_and_its_point_left_out():
    found = rows()
    key = ("neon-sgd", 0.5, "neon+")
    lost = next(r for r in found if r["settings"]["sweep"] == "slope" and r["settings"]["method"] == "neon-sgd")
    assert lost["settings"]["extractor"] == "neon+"
    lost["counted"] = False
    fitted = fit(curves(found, "slope")[key], count("gradients"))
    assert (fitted.points, fitted.missing) == (3, 1)


def test_statements_follow_the_rows():
    slow, fast = {"neon-scsg": 1.0}, {"neon-scsg": 3.9}
    claim = next(c for c in judged(rows()) if "NEON-SCSG, neon+ inside, grows more slowly than NEON-SGD" in c)
    assert judged(rows(eps_power=slow))[claim] is True
    assert judged(rows(eps_power=fast))[claim] is False


def test_polynomial_growth_in_d_would_be_seen():
    claim = next(c for c in judged(rows()) if c.startswith("The d^p, p ≥ 4, of Noisy SGD"))
    assert judged(rows(d_power=0.05))[claim] is False
    assert judged(rows(d_power=4.0))[claim] is True
    steps = next(c for c in judged(rows()) if c.startswith("NEON-SCSG, neon+ inside: steps grow at most as ln d"))
    assert judged(rows(d_power=0.05))[steps] is True
    assert judged(rows(d_power=0.5))[steps] is False


def test_a_step_that_grows_faster_than_d_would_be_seen():
    claim = next(c for c in judged(rows()) if c.startswith("NEON-SCSG, neon+ inside: a step takes time"))
    assert judged(rows(step_power=1.0))[claim] is True
    assert judged(rows(step_power=0.8))[claim] is True
    assert judged(rows(step_power=1.2))[claim] is False


def test_bounds_that_are_exceeded_are_named():
    claim = next(c for c in judged(rows()) if c.startswith("On the slope no row"))
    measured = next(m for c, _, m in statements_of(rows(eps_power={"neon-sgd": 9.0})).rows if c == claim)
    assert judged(rows(eps_power={"neon-sgd": 9.0}))[claim] is False
    assert "NEON-SGD" in measured


def test_growth_with_d_is_in_the_table():
    table = by_dimension(curves(rows(d_power=0.1), "dimension"))
    line = next(r for r in table.rows if r[0] == "NEON-SCSG, neon+ inside")
    assert line[3] == pytest.approx(10**0.4, abs=0.01)
    assert line[4] == 0.1
    assert line[7] == 1.0


def test_a_method_that_never_arrives_at_some_d_does_not_break_the_page():
    found = rows()
    for row in found:
        if row["settings"]["sweep"] == "dimension" and row["settings"]["method"] == "sgld":
            row["counted"] = False
    (section,) = sections(found)
    assert all(len(table.rows) for table in section.tables)


def test_figures_have_labelled_axes_and_one_legend():
    (section,) = sections(rows())
    assert [f.name for f in section.figures] == ["complexity-dimension", "complexity-eps", "complexity-gamma"]
    for figure in section.figures:
        assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.figure.axes)
        assert len(figure.figure.legends) == 1
        figure.figure.canvas.draw()


def test_a_part_of_the_rows_is_enough_for_a_page():
    (section,) = sections([r for r in rows() if r["settings"]["sweep"] == "gamma"])
    assert [f.name for f in section.figures] == ["complexity-gamma"]


def test_guides_have_the_slope_that_is_written_beside_them():
    """They are straight where both axes are logarithmic. The steep one of 1/ε ends at twice the highest curve."""
    (section,) = sections(rows())
    dimension, eps, _ = (found.figure for found in section.figures)
    slopes = {"∝ d": 1.0, "ε⁻⁴": 4.0, "ε⁻²": 2.0}
    seen = []
    for axis in (dimension.axes[0], dimension.axes[2], *eps.axes):
        ends = {text.xy: slopes[text.get_text()] for text in axis.texts if text.get_text() in slopes}
        curves = [line for line in axis.get_lines() if len(line.get_xdata()) > 2]
        for line in axis.get_lines():
            (x0, x1), (y0, y1) = (list(part)[:: len(part) - 1] for part in line.get_data())
            if (x1, y1) in ends and len(line.get_xdata()) == 2:
                assert math.log(y1 / y0) / math.log(x1 / x0) == pytest.approx(ends[x1, y1])
                seen.append(ends[x1, y1])
        if axis in eps.axes:
            highest = max(curve.get_ydata()[-1] for curve in curves)
            assert max(y for _, y in ends) == pytest.approx(2.0 * highest, rel=0.02)
    assert sorted(seen) == [1.0, 1.0, 2.0, 2.0, 4.0]


def test_every_method_is_drawn_against_eps():
    (section,) = sections(rows())
    for axis in section.figures[1].figure.axes:
        assert sum(len(line.get_xdata()) > 2 for line in axis.get_lines()) >= len(DRAWN)
