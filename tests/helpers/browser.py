"""Open pages in a headless browser, like a reader without network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

PATIENCE = 10_000  # milliseconds to wait for an element before the test fails

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@dataclass(frozen=True)
class Visit:
    """An opened page, with its console messages, errors and requests since then.

    Attributes:
        page: playwright's page.
        messages: everything written to the console.
        errors: uncaught exceptions.
        requests: requested addresses, the page's own first.
    """

    page: Page
    messages: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def assert_silent_and_offline(self) -> None:
        """Fail on console messages, and on requests other than files and embedded data."""
        assert self.messages == []
        self.assert_sound_and_offline()

    def assert_sound_and_offline(self) -> None:
        """Fail on errors, and on requests other than files and embedded data."""
        assert self.errors == []
        assert [text for text in self.messages if text.startswith("error: ")] == []
        assert [url for url in self.requests if not url.startswith(("file://", "data:"))] == []


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless Chromium; skip the test if none is installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no program 'chromium'; on Debian: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def visit(browser: Browser, path: Path, fragment: str = "", **window: Any) -> Visit:
    """Open a local file in a new window.

    Args:
        browser: the browser.
        path: the file.
        fragment: the part of the address after `#`.
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
    """Check a page in a wide window with light colours, and in a narrow one with dark colours.

    axe-core finds no violation, no click target is smaller than 24 pixels, the page has no errors,
    and nothing overflows the window: wider parts scroll on their own.
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
