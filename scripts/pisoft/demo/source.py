"""Synthetic records as a source of data, like a file or a repository of the hub."""

from __future__ import annotations

from pisoft.config.datasets import EmbeddedDataset
from pisoft.datasets.sources import Source
from pisoft.demo.records import make_records

COLUMNS = ("record_id", "label", "answer")  # besides the text fields


def made_source(dataset: EmbeddedDataset, count: int) -> Source:
    """Make the first `count` records of an embedded dataset, with their evidence."""
    made = make_records(dataset.task, count, dataset.seed)
    records = [{**record["fields"], **{name: record[name] for name in COLUMNS}} for record in made]
    evidence = [record["evidence"] for record in made]
    return Source(f"embedded task '{dataset.task}'", tuple(records[0]), records, evidence)
