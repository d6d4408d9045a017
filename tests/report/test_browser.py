"""The page in a real browser."""

import pytest

from tests import chromium
from tests.report.test_page import CURVES, curve
from unsaddle import Function, is_minimum
from unsaddle.experiments.rows import RowFile
from unsaddle.report import check
from unsaddle.report.page import write

pytest.importorskip("matplotlib")

pytestmark = [chromium.needed, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser():
    with chromium.opened() as browser:
        yield browser


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    with RowFile(directory) as file:
        for target in (0, 1):
            for method in CURVES:
                file.append(curve(method, target, lowest=-2.0 - target))
    return write(directory)


@pytest.fixture
def opened(browser, path):
    """The page, what the console said, and what was fetched."""
    page, said, fetched = browser.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(path.as_uri())
    yield page, said, fetched
    page.close()


def test_it_loads_without_an_error_and_without_the_network(opened, path):
    page, said, fetched = opened
    assert page.title() == "unsaddle: the paper's experiments, measured"
    assert said == []
    assert [url for url in fetched if not url.startswith("data:")] == [path.as_uri()]


def test_figures_are_visible_and_have_something_to_see(opened):
    page, _, _ = opened
    images = page.locator("figure img")
    assert images.count() == 3
    for i in range(3):
        image = images.nth(i)
        assert image.is_visible()
        assert image.evaluate("e => e.complete && e.naturalWidth > 300 && e.naturalHeight > 100")
        assert image.get_attribute("alt")


def test_a_table_sorts_on_a_click_and_the_other_way_on_a_second(opened):
    page, _, _ = opened
    table = page.locator("table").nth(2)
    column = table.locator("thead th").nth(2)
    assert column.inner_text().startswith("λ_min")

    def values() -> list[str]:
        return table.locator("tbody td:nth-child(3)").all_inner_texts()

    assert values() == ["−2"] * 9 + ["−3"] * 9
    column.locator("button").click()
    assert column.get_attribute("aria-sort") == "ascending"
    assert values() == ["−3"] * 9 + ["−2"] * 9
    column.locator("button").click()
    assert column.get_attribute("aria-sort") == "descending"
    assert values() == ["−2"] * 9 + ["−3"] * 9
    names = table.locator("thead th").nth(1)
    names.locator("button").press("Enter")  # The keyboard does it, too.
    assert names.get_attribute("aria-sort") == "ascending"
    assert column.get_attribute("aria-sort") is None
    first = table.locator("tbody td:nth-child(2)").all_inner_texts()
    assert first[:2] == ["krylov (ours)"] * 2


def test_cells_without_a_number_stay_last_either_way(opened):
    page, _, _ = opened
    table = page.locator("table").nth(2)
    for _ in range(2):
        table.locator("thead th").nth(10).locator("button").click()
        cells = table.locator("tbody td:nth-child(11)").all_inner_texts()
        known = [cell for cell in cells if cell != "–"]
        assert known
        assert cells[: len(known)] == known


def test_a_verdict_on_a_file_in_deep_folders_fits_a_phone(browser, tmp_path):
    verdict = is_minimum(Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4), [0.0, 0.0])
    path = check.write(tmp_path, verdict, f"{'a_folder/' * 8}{'a_long_name_' * 5}.py")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_on_a_phone_nothing_but_tables_and_figures_is_wider_than_the_screen(browser, path):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
