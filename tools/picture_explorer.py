"""Take a screenshot of a run's explorer for README.md: two methods on its first sample."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from helpers.browser import chromium, visit
from pisoft.errors import BenchmarkError
from pisoft.workflow.commandline import run

PICTURE = Path("docs/assets/explorer.png")
SHOWN = ("saliency", "attention")  # they disagree
WIDTH, MARGIN = 1180, 8  # pixels


def main(arguments: argparse.Namespace) -> None:
    """Open the page, keep two methods and capture them with the legend."""
    explorer = arguments.run / "explorer.html"
    if not explorer.is_file():
        raise BenchmarkError(f"{explorer}: not found; the run has to be finished")
    if shutil.which("chromium") is None:
        raise BenchmarkError("no program 'chromium'; on Debian: apt install chromium")
    with chromium() as browser:
        boxes = visit(browser, explorer).page.locator("#method-boxes input")
        names = boxes.evaluate_all("boxes => boxes.map(box => box.value)")
        hidden = ",".join(name for name in names if name not in SHOWN)
        page = visit(browser, explorer, f"hide={hidden}", width=WIDTH).page
        legend, cards = (page.locator(part).bounding_box() for part in ("#legend", "#cards"))
        assert legend is not None
        assert cards is not None
        top, bottom = legend["y"] - MARGIN, cards["y"] + cards["height"] + MARGIN
        place = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top}
        page.screenshot(path=arguments.folder / PICTURE, full_page=True, clip=place)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    parser.add_argument("--folder", type=Path, default=Path(), help="where docs/ is")
    return parser


if __name__ == "__main__":
    run(main, parser())
