"""Links from tables to the page that shows the scores behind their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode


def explorer_links(
    explorer: str, models: Mapping[str, str], datasets: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return where the explorer shows samples, by the labels of their model and dataset.

    Args:
        explorer: address of the explorer, relative to the page with the table; empty: none.
        models: label of each model.
        datasets: label of each dataset.
    """
    return {
        of_model: {
            of_dataset: f"{explorer}#{urlencode({'model': model, 'dataset': dataset})}"
            for dataset, of_dataset in datasets.items()
        }
        for model, of_model in models.items()
        if explorer
    }
