"""A real browser for tests: Debian's chromium, or another one that is installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needed = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed: apt-get install chromium")


@contextmanager
def opened() -> Iterator[Any]:
    """A browser without a window."""
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
