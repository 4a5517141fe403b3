"""List the differences between two finished runs: Parquet, CSV, LaTeX, HTML text and figures.

Compares the files of both runs, lists files that only one run has, and prints per file the largest
numerical difference and the number of differing cells, words or pixels.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

NUMBER = re.compile(r"(?<![\w#.])[-−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w#])")


@dataclass(frozen=True)
class Difference:
    """Difference of two files; `count` and `largest` are 0 for equal files.

    Attributes:
        count: differing cells, words or pixels, or missing rows.
        largest: largest difference of two numbers; NaN if anything else differs.
        example: one of the differences.
    """

    count: int
    largest: float
    example: str


EQUAL = Difference(0, 0.0, "")


def compare_cells(left: pd.DataFrame, right: pd.DataFrame, tolerance: float) -> Difference:
    """Compare two tables column by column and row by row."""
    if list(left.columns) != list(right.columns):
        only = sorted(set(left.columns) ^ set(right.columns))
        return Difference(len(only), np.nan, f"columns of one only: {', '.join(only)}")
    if len(left) != len(right):
        return Difference(abs(len(left) - len(right)), np.nan, f"{len(left)} and {len(right)} rows")
    count, largest, example = 0, 0.0, ""
    for column in left.columns:
        for row, (first, second) in enumerate(zip(left[column], right[column], strict=True)):
            size = distance(first, second)
            if not size <= tolerance:
                count += 1
                if not example or size > largest:
                    example = f"{column}, row {row}: {first} and {second}"
                largest = float(np.fmax(largest, size)) if not np.isnan(size) else largest
    return Difference(count, largest, example)


def distance(first: Any, second: Any) -> float:
    """Return the distance of two values: 0 if equal, NaN if different and not both numbers."""
    if isinstance(first, (list, tuple, np.ndarray, dict)):
        pairs = list(zip_longest(flat(first), flat(second)))
        sizes = [distance(*pair) for pair in pairs]
        return float(np.nan if np.isnan(sizes).any() else max(sizes, default=0.0))
    if pd.isna(first) and pd.isna(second):
        return 0.0
    if isinstance(first, (float, int, np.number)) and isinstance(second, (float, int, np.number)):
        return 0.0 if first == second else abs(float(first) - float(second))
    return 0.0 if first == second else np.nan


def flat(value: Any) -> Iterator[Any]:
    """Yield the scalars of nested lists and mappings."""
    if isinstance(value, dict):
        value = [part for item in sorted(value.items()) for part in item]
    if isinstance(value, (list, tuple, np.ndarray)):
        for part in value:
            yield from flat(part)
    else:
        yield value


def compare_texts(left: str, right: str, tolerance: float) -> Difference:
    """Compare two texts word by word; numbers within the tolerance are equal."""
    count, largest, example = 0, 0.0, ""
    for first, second in zip_longest(left.split(), right.split(), fillvalue=""):
        if first == second:
            continue
        numbers = NUMBER.findall(first), NUMBER.findall(second)
        same_words = NUMBER.sub("", first) == NUMBER.sub("", second)
        sizes = [abs(number(a) - number(b)) for a, b in zip(*numbers, strict=False)]
        if same_words and len(numbers[0]) == len(numbers[1]) and max(sizes) <= tolerance:
            continue
        count += 1
        largest = max([largest, *sizes]) if same_words else largest
        example = example or f"'{first}' and '{second}'"
    return Difference(count, largest, example)


def number(text: str) -> float:
    """Return the value of a number in the notation of pages."""
    return float(text.replace("−", "-"))


class _Text(HTMLParser):
    """The text of a page, without its styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.hidden += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def html_text(path: Path) -> str:
    """Return the visible text of a page."""
    page = _Text()
    page.feed(path.read_text(encoding="utf-8"))
    return " ".join(page.parts)


def compare_pixels(left: Path, right: Path) -> Difference:
    """Compare two images pixel by pixel."""
    first, second = matplotlib.image.imread(left), matplotlib.image.imread(right)
    if first.shape != second.shape:
        return Difference(first.size, np.nan, f"sizes {first.shape[:2]} and {second.shape[:2]}")
    differing = (first != second).any(axis=-1)
    share = f"{100 * differing.mean():.2g} % of pixels" if differing.any() else ""
    return Difference(int(differing.sum()), float(np.abs(first - second).max()), share)


def read_parquet(path: Path) -> pd.DataFrame:
    """Return the rows of a Parquet file."""
    return pq.read_table(path).to_pandas()


def compare_files(left: Path, right: Path, tolerance: float) -> Difference:
    """Compare two files of the same kind."""
    compare: dict[str, Callable[[], Difference]] = {
        ".parquet": lambda: compare_cells(read_parquet(left), read_parquet(right), tolerance),
        ".csv": lambda: compare_cells(pd.read_csv(left), pd.read_csv(right), tolerance),
        ".tex": lambda: compare_texts(left.read_text(), right.read_text(), tolerance),
        ".html": lambda: compare_texts(html_text(left), html_text(right), tolerance),
        ".png": lambda: compare_pixels(left, right),
    }
    return compare[left.suffix]()


def run_files(folder: Path, parts: list[str]) -> dict[str, Path]:
    """Return the comparable files of a run by their path below it."""
    kinds = {".parquet", ".csv", ".tex", ".html", ".png"}
    files = [path for part in parts for path in sorted((folder / part).rglob("*"))]
    return {str(path.relative_to(folder)): path for path in files if path.suffix in kinds}


def main(arguments: argparse.Namespace) -> int:
    """Print the differences; return 1 if there are any."""
    for folder in (arguments.left, arguments.right):
        if not folder.is_dir():
            print(f"error: {folder}: is no folder of a run", file=sys.stderr)
            return 2
    left, right = (run_files(run, arguments.parts) for run in (arguments.left, arguments.right))
    for files, others, run in ((left, right, arguments.left), (right, left, arguments.right)):
        for name in sorted(set(files) - set(others)):
            print(f"only in {run}: {name}")
    both, differing = sorted(set(left) & set(right)), 0
    for name in both:
        difference = compare_files(left[name], right[name], arguments.tolerance)
        if difference != EQUAL and difference.count:
            differing += 1
            print(
                f"{name}: {difference.count} differ, at most by {difference.largest:.2g}; "
                f"{difference.example}"
            )
    print(f"{len(both)} files compared, {differing} differ; {len(set(left) ^ set(right))} unpaired")
    return int(differing > 0 or set(left) != set(right))


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("left", type=Path, help="folder of a run, such as results/demo")
    line.add_argument("right", type=Path, help="folder of another run")
    line.add_argument("--tolerance", type=float, default=1e-12, help="of numbers (default: 1e-12)")
    line.add_argument(
        "--parts",
        nargs="+",
        default=["data/summary", "tables", "figures"],
        help="folders of a run to compare",
    )
    return line


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
