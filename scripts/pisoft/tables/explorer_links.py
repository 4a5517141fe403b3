"""Links from tables to the page that shows the scores behind their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode


def explorer_links(explorer: str, model: str, datasets: Mapping[str, str]) -> dict[str, str]:
    """Return where the explorer shows a model's samples, by the label of their dataset.

    Args:
        explorer: address of the explorer, relative to the page with the table.
        model: its name.
        datasets: label of each dataset.
    """
    return {
        label: f"{explorer}#{urlencode({'model': model, 'dataset': name})}"
        for name, label in datasets.items()
    }
