"""The browser that is installed, for tests of what browsers show."""

import shutil

import pytest

_WHERE = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, driven by Playwright; skips where one of them is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, _WHERE)), None)
    if path is None:
        pytest.skip("no Chromium on PATH")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=_FLAGS)
        yield opened
        opened.close()
