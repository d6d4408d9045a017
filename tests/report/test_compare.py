import math

import pytest

from unsaddle.experiments.compare import NOT_APPLICABLE
from unsaddle.report.compare import arrivals, by_problem, profiles, sections, slug, statements, summary

pytest.importorskip("matplotlib", reason="figures need the extra plot")


def row(method, seed, gradients, *, problem="chain", products=0, claimed=True):
    arrived = gradients is not None
    spent = gradients if arrived else 5000
    path = {name: [1.0, 10.0, float(spent)] for name in ("gradients", "products", "values", "seconds")}
    path |= {"value": [3.0, 2.0, 1.0], "gradient_norm": [0.0, 1.0, 0.005], "lowest_curvature": [-1.0, -0.5, 0.1]}
    counts = {"gradients": spent, "products": products, "values": 0, "seconds": 0.5, "calls": 9}
    question = {"eps": 0.01, "gamma": 0.1, "max_samples": 10_000, "dimension": 3, "num_samples": 7}
    return {
        "experiment": "compare",
        "settings": {"problem": problem, "method": method, "data": None, "seed": seed},
        "status": "SECOND_ORDER_POINT" if arrived else "BUDGET_SPENT",
        "arrived": counts if arrived else None,
        "claimed": claimed and arrived,
        "false_claim": False,
        "path": path,
        **counts,
        **question,
    }


def cell(table, method, head, problem="chain"):
    return next(dict(zip(table.heads, line, strict=True))[head] for line in table.rows if line[:2] == [problem, method])


def test_medians_are_over_all_seeds_with_failures_kept():
    table = arrivals(by_problem([row("neon-scsg", s, g) for s, g in enumerate((100, 300, None))]))
    assert cell(table, "NEON-SCSG", "IFO, median") == 300
    assert cell(table, "NEON-SCSG", "arrived") == 2
    assert cell(table, "NEON-SCSG", "runs") == 3
    assert (cell(table, "NEON-SCSG", "least"), cell(table, "NEON-SCSG", "most")) == (100, 300)


def test_a_method_that_mostly_fails_never_arrives():
    table = arrivals(by_problem([row("sgd", s, g) for s, g in enumerate((100, None, None))]))
    assert cell(table, "SGD", "IFO, median") == "never"
    assert cell(table, "SGD", "seconds to arrival, median") is None


def test_gradients_and_hessian_products_are_apart():
    table = arrivals(by_problem([row("sncg", 0, 50, products=700)]))
    assert (cell(table, "SNCG", "IFO, median"), cell(table, "SNCG", "ISO, median")) == (50, 700)


def test_methods_that_never_look_are_never_told():
    table = arrivals(by_problem([row("noisy-sgd", 0, 50, claimed=False)]))
    assert cell(table, "noisy SGD", "told") is None
    assert cell(table, "noisy SGD", "false") is None


def test_a_pair_is_judged_by_gradients_and_products_together():
    rows = [row("neon-scsg", 0, 100), row("natasha2", 0, 60, products=50)]
    assert [line[2] for line in statements(by_problem(rows)).rows] == [True]
    rows = [row("neon-scsg", 0, 100), row("natasha2", 0, 60, products=30)]
    assert [line[2] for line in statements(by_problem(rows)).rows] == [False]


def test_a_pair_of_which_nobody_arrives_is_not_judged():
    rows = [row("neon-scsg", 0, None), row("neon-sgd", 0, None)]
    assert [line[2] for line in statements(by_problem(rows)).rows] == [None]


def test_the_profile_draws_the_shares_that_were_computed_by_hand():
    rows = [row("neon-scsg", 0, 100), row("neon-sgd", 0, 400), row("neon-scsg", 1, None), row("neon-sgd", 1, 50)]
    (axis,) = profiles(by_problem(rows)).figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axis.get_lines()}
    assert lines["NEON-SCSG"][0] == [1.0, 0.5]
    assert lines["NEON-SCSG"][-1][1] == 0.5
    assert [4.0, 1.0] in lines["NEON-SGD"]


def test_a_method_that_cannot_take_a_problem_has_not_solved_it_and_has_no_line_in_its_table():
    rows = [row("neon-scsg", 0, 100), row("svrg", 0, 100), row("neon-scsg", 0, 80, problem="noisy chain")]
    rows.append({"settings": {"problem": "noisy chain", "method": "svrg", "seed": 0}, "status": NOT_APPLICABLE})
    runs = by_problem(rows)
    assert [line[1] for line in arrivals(runs).rows] == ["NEON-SCSG", "SVRG", "NEON-SCSG"]
    (axis,) = profiles(runs).figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axis.get_lines()}
    assert lines["SVRG"][-1][1] == 0.5


def test_there_is_a_figure_a_problem_with_axes_that_are_labelled():
    rows = [row("neon-scsg", 0, 100), row("sgd", 0, None), row("neon-scsg", 0, 80, problem="u∘v, digits")]
    (section,) = sections(rows)
    assert [f.name for f in section.figures] == ["compare-profile", "compare-chain", "compare-uv-digits"]
    for figure in section.figures:
        assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.figure.axes)
        assert len(figure.figure.legends) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_run_that_diverged_can_be_drawn(value):
    rows = [row("neon-scsg", 0, 100), row("sgd", 0, None)]
    rows[1]["path"]["value"] = [3.0, value, value]
    (section,) = sections(rows)
    figure = section.figures[1].figure
    figure.canvas.draw()
    assert all(math.isfinite(end) for axis in figure.axes for end in (*axis.get_xlim(), *axis.get_ylim()))


def test_the_curves_fill_their_figure_and_arrival_is_inside():
    (section,) = sections([row("neon-scsg", 0, 100), row("neon-sgd", 0, 400)])
    for axis in section.figures[1].figure.axes:
        longest = max(max(line.get_xdata()) for line in axis.lines if len(line.get_xdata()) == 3)
        assert longest < axis.get_xlim()[1] < 2.0 * longest


def test_names_of_files_are_plain():
    assert slug("sigmoid, a9a") == "sigmoid-a9a"


def test_the_summary_orders_methods_by_samples():
    rows = [row("sgd", 0, None), row("neon-sgd", 0, 400), row("sncg", 0, 50, products=700)]
    assert summary(by_problem(rows))[1] == "  chain: sncg 50 + 700, neon-sgd 400, sgd never"


def test_seconds_are_told_to_a_hundredth():
    found = row("neon-scsg", 0, 100)
    found["arrived"] = found["arrived"] | {"seconds": 0.12345}
    assert cell(arrivals(by_problem([found])), "NEON-SCSG", "seconds to arrival, median") in (0.12, 0.5)
    assert cell(arrivals(by_problem([found])), "NEON-SCSG", "seconds to arrival, median") == 0.12
