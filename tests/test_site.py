"""The site in a real browser, opened from files: the search answers, no host is asked, all fits on a phone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.source import ROOT

pytest.importorskip("mkdocs", reason="the site needs the extra docs")
sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed: apt-get install chromium"),
    pytest.mark.study,
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(scope="module")
def browser() -> Any:
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def test_no_page_names_a_host_to_load_from(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text, page
        assert '<link rel="stylesheet" href="http' not in text, page


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits_and_asks_no_host(site: Path, browser: Any, width: int) -> None:
    page, asked = browser.new_page(viewport={"width": width, "height": 900}), []
    page.on("request", lambda request: asked.append(request.url))
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)"), path
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()


def test_the_search_works_from_files(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "tutorials" / "jax.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("morse")
    page.wait_for_selector(".md-search-result__item")
    assert page.locator(".md-search-result__item").count() >= 2
    page.close()
