"""Opening pages in a headless browser, as a reader without network does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

PATIENCE = 10_000  # milliseconds until something that is not there fails a test

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@dataclass(frozen=True)
class Visit:
    """An opened page, and what it has said and asked for since.

    Attributes:
        page: playwright's page.
        messages: everything written to the console.
        errors: exceptions that no script caught.
        requests: addresses that were asked for, the page's own first.
    """

    page: Page
    messages: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def assert_silent_and_offline(self) -> None:
        """Fail if the page said anything, or asked for anything but files and embedded data."""
        assert self.messages == []
        self.assert_sound_and_offline()

    def assert_sound_and_offline(self) -> None:
        """Fail if the page met an error, or asked for anything but files and embedded data."""
        assert self.errors == []
        assert [text for text in self.messages if text.startswith("error: ")] == []
        assert [url for url in self.requests if not url.startswith(("file://", "data:"))] == []


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless Chromium; the test is skipped where none is installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no program 'chromium'; on Debian: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def visit(browser: Browser, path: Path, fragment: str = "", **window: Any) -> Visit:
    """Open a file of this disk in a window of its own.

    Args:
        browser: the browser.
        path: the file.
        fragment: what stands behind `#` in the address.
        window: `width` and `height` in pixels, and further options of the window.
    """
    viewport = {"width": window.pop("width", 1280), "height": window.pop("height", 900)}
    page = browser.new_page(viewport=viewport, **window)
    page.set_default_timeout(PATIENCE)
    opened = Visit(page)
    page.on("console", lambda message: opened.messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.on("request", lambda request: opened.requests.append(request.url))
    page.goto(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
    return opened


SMALL = """() => [...document.querySelectorAll("a, button, summary, select")]
  .map((target) => [target.outerHTML, target.getBoundingClientRect()])
  .filter(([, { width, height }]) => width && (width < 24 || height < 24))
  .map(([html]) => html)"""


def check_accessible(browser: Browser, path: Path) -> None:
    """Check a file on a wide window in light colours, and on a narrow one in dark colours.

    axe-core finds no violation, no target is below 24 pixels, the page stays silent, and none of it
    lies beside the window: what is wider scrolls by itself.
    """
    from axe_playwright_python.sync_playwright import Axe

    for width, scheme in ((1440, "light"), (390, "dark")):
        opened = visit(browser, path, width=width, color_scheme=scheme)
        where = f"{path} at {width} pixels, {scheme}"
        violations = Axe().run(opened.page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in violations] == [], where
        assert opened.page.evaluate(SMALL) == [], where
        beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert opened.page.evaluate(beyond) <= 0, where
        opened.assert_sound_and_offline()
        opened.page.close()
