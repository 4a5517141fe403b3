"""Results of hand-made samples, computed through files like in the workflow, and views of them."""

import functools
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

from helpers.script_runs import display_settings
from pisoft.config.jobs.summaries import UncertaintyJob
from pisoft.statistics.reading import Files
from pisoft.statistics.results import select, summary_table
from pisoft.statistics.uncertainty import summaries
from pisoft.store.parquet import write_rows
from pisoft.views.view import View


def estimated(rows, kind="soft_samples", records=(), **settings) -> SimpleNamespace:
    """Return the results of samples of one kind, or of several (a dict), one frame per question.

    `records` are rows of `datasets` that assign the samples to clusters.
    """
    by_kind = rows if isinstance(rows, dict) else {kind: rows}
    return _estimated(json.dumps([by_kind, records, settings]))


@functools.cache  # many tests use the same rows
def _estimated(written: str) -> SimpleNamespace:
    by_kind, records, given = json.loads(written)
    datasets = tuple(dict.fromkeys(row["dataset"] for rows in by_kind.values() for row in rows))
    plain = {"datasets": datasets, "seed": 1, "resamples": 200, "equivalence_margin": None}
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f"{kind}.parquet" for kind in (*by_kind, "datasets")}
        for kind, rows in {**by_kind, "datasets": records}.items():
            write_rows(files[kind], kind, rows, {})
        clusters = [files.pop("datasets")]
        read = Files({"samples": [*files.values()], "clusters": clusters})
        made = summaries(read, UncertaintyJob(**plain | given))
        return SimpleNamespace(
            **{question: summary_table(question, made[question]).to_pandas() for question in made}
        )


class Frames(Files):
    """Rows in memory instead of files."""

    def __init__(self, frames):
        super().__init__({kind: [Path(f"{kind}.parquet")] for kind in frames})
        self.frames = frames

    def rows(self, kind, **selection):
        return select(self.frames[kind], **selection)

    rows_if_any = rows


def view(frames, cell, **settings) -> View:
    """Return a view of frames by kind; `settings` are display settings."""
    models = {cell["model"]: "Llama"} if "model" in cell else {}
    return View(Frames(frames), display_settings(**{"models": models} | settings), cell)
