"""Results of hand-made samples, through files as in the workflow, and views of them."""

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


def estimated(rows, kind="soft_samples", margin=None, records=()) -> SimpleNamespace:
    """Return the results of samples of a kind, a frame for each question.

    `records` are rows of `datasets` that say in which clusters the samples are.
    """
    return _estimated(json.dumps([rows, records]), kind, margin)


@functools.cache  # many tests look at the same rows
def _estimated(written: str, kind: str, margin: float | None) -> SimpleNamespace:
    rows, records = json.loads(written)
    datasets = tuple(dict.fromkeys(row["dataset"] for row in rows))
    settings = UncertaintyJob(datasets=datasets, seed=1, resamples=200, equivalence_margin=margin)
    with tempfile.TemporaryDirectory() as folder:
        samples, clusters = (Path(folder) / f"{name}.parquet" for name in (kind, "datasets"))
        write_rows(samples, kind, rows, {})
        write_rows(clusters, "datasets", records, {})
        made = summaries(Files({"samples": [samples], "clusters": [clusters]}), settings)
        return SimpleNamespace(
            **{question: summary_table(question, made[question]).to_pandas() for question in made}
        )


class Frames(Files):
    """Rows that are at hand instead of in files."""

    def __init__(self, frames):
        super().__init__({kind: [Path(f"{kind}.parquet")] for kind in frames})
        self.frames = frames

    def rows(self, kind, **selection):
        return select(self.frames[kind], **selection)

    rows_if_any = rows


def view(frames, cell, **settings) -> View:
    """Return a view of frames by kind; `settings` are those of displays."""
    models = {cell["model"]: "Llama"} if "model" in cell else {}
    return View(Frames(frames), display_settings(**{"models": models} | settings), cell)
