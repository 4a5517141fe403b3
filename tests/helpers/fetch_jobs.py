"""Settings of jobs that fetch dataset records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pisoft.config.datasets import FileDataset, TextField
from pisoft.config.jobs.records import FetchJob


def fetch_job(source: Any, **changes: Any) -> FetchJob:
    """Return settings for unlabelled texts in the column `text`, with overrides."""
    values = {
        "dataset": "d", "task": "generation", "source": source, "labels": None,
        "fields": {"text": TextField(column="text")}, "id_column": None, "answer_column": None,
    }  # fmt: skip
    return FetchJob(**values | changes)


def file_source(path: Path, content: bytes | str, form: str, **more: Any) -> FileDataset:
    """Write a file and return it as a source of records."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return FileDataset(kind="file", path=str(path), format=form, **more)


def json_lines(path: Path, records: Iterable[Any], **more: Any) -> FileDataset:
    """Write records as JSON lines, and return the file as a source."""
    return file_source(path, "".join(json.dumps(one) + "\n" for one in records), "jsonl", **more)
