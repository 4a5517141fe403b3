"""A finished run with many hard-to-display cases, for tests of the attribution explorer."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers import explained_rows
from pisoft.config.jobs.pages import ExplorerJob
from pisoft.faithfulness.calibration import calibrate
from pisoft.faithfulness.scores import normalise
from pisoft.statistics.metrics import AUC_METRICS, DATAMODEL_METRICS, EVIDENCE_METRICS
from pisoft.store.parquet import (
    DEGENERATE_BASELINE,
    NO_EVIDENCE,
    NONFINITE_ATTRIBUTION,
    OK,
    write_rows,
)
from pisoft.store.schemas import SCHEMAS

FLOOR = 1e-6
GRID = (0.05, 0.3, 0.5, 0.95)
MODELS = {"llama": "Llama", "mistral": "Mistral & <i>co</i>"}
METHODS = {"random": "Random", "2": "Two", "mine": "<b>Mine</b> </script>"}
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<!--",
    "\"'`${window.hacked=1}",
    "&lt;b&gt;",
    "\u2028\u0000\u202e\\u003c",
    "https://example.com/a.png",
)
HEBREW = ("שלום", " עולם", " טוב")
LONG = tuple(f" word{number}" for number in range(3000))


@dataclass(frozen=True)
class Record:
    """A sample between a beginning-of-sequence token and the template's last tokens."""

    name: str
    content: Sequence[str]
    evidence: Sequence[int] | None = None  # positions in the content
    status: str = OK
    output: Sequence[str] = ("Positive",)
    predicted: str | None = "Positive"
    label: str | None = "Negative"

    @property
    def tokens(self) -> list[str]:
        """The prompt's token texts; empty if the sample failed."""
        return ["<s>", *self.content, "[/INST]", "\n\n"] if self.status == OK else []


DATASETS = {
    "words": (
        Record("plain", ["The", " film", " was", " good", "."], evidence=[3], label="Positive"),
        Record("hostile </script><b>", HOSTILE, output=["<b>", "</script>"], predicted="<i>x</i>"),
        Record("hebrew", ["Text:", "\n", *HEBREW, "\n", " עם", " Latin"]),
        Record("bytes", ["🙂", "<0xF0>", r"\xf0\x9f", "", " ", "a\nb\n", "\t", "e\u0301"]),
        Record("failed", [], status="prompt_too_long", output=[], predicted=None),
        Record("degenerate", ["a", " b", " c"]),
        Record("long", LONG),
        Record("equal", ["same", " same"]),
    ),
    "open": (
        Record(
            "two steps",
            ["Why", " so", "?"],
            output=["Be", "cause", "\n", " of", " it", "."],
            predicted=None,
            label=None,
        ),
    ),
}
STEPS = range(0, 50, 5)
PROTOCOLS = ("dynamic", "fixed")


@dataclass
class Run:
    """The files of the run by kind, and the numbers in them.

    Attributes:
        raw: raw scores by model, method, dataset, sample and step; float32.
        measured: rows of `soft_samples`, `evidence_samples` and so on, by kind.
    """

    files: dict[str, list[Path]]
    raw: dict[tuple[str, str, str, str, int], np.ndarray] = field(default_factory=dict)
    measured: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {
            "soft_samples": [],
            "evidence_samples": [],
            "datamodel_samples": [],
            "soft_sample_curves": [],
        }
    )


def settings(**changes: Any) -> ExplorerJob:
    """Return the run's settings."""
    given = {
        "models": MODELS,
        "datasets": {"words": "Label words", "open": "Open"},
        "methods": METHODS,
        "scope": "content",
        "normalisation": "minmax",
        "run": "tést",
        "samples": 20,
        "targets": {"words": ["label", "generated"], "open": ["generated"]},
        "score_floor": FLOOR,
        "pi_grid": GRID,
    }
    return ExplorerJob.model_validate(given | changes)


def write_run(
    folder: Path,
    normalisation: Any = "minmax",
    datasets: Mapping[str, Sequence[Record]] = DATASETS,
    aggregated: bool = False,
) -> Run:
    """Write the run; method `mine` has no file for dataset `open` and fails on sample `bytes`.

    Args:
        folder: output folder.
        normalisation: normalisation of raw scores.
        datasets: samples by dataset.
        aggregated: whether each step is evaluated with its sample's mean scores.
    """
    run = Run({kind: [] for kind in ("prompts", "generations", "attributions", "soft")})
    for model in MODELS:
        for dataset, records in datasets.items():
            place = f"{model}/{dataset}.parquet"
            _write(run, folder, "prompts", place, map(_prompt, records))
            _write(run, folder, "generations", place, map(_generation, records))
            for method in METHODS:
                if (method, dataset) == ("mine", "open"):
                    continue
                place = f"{model}/{method}/{dataset}.parquet"
                scored = [
                    (record, step, _raw(model, method, record, step))
                    for record in records
                    for step in steps_of(record)
                ]
                for record, step, raw in scored:
                    if raw is not None:
                        run.raw[model, method, dataset, record.name, step] = raw
                rows = [_attribution(*line) for line in scored]
                _write(run, folder, "attributions", place, rows)
                lines = _evaluations(scored, normalisation, aggregated)
                _write(run, folder, "soft", place, lines)
                _measure(run, model, method, dataset, records)
    for kind in run.measured:
        path = folder / f"{kind}.parquet"
        write_rows(path, kind, run.measured[kind], {})
        run.files[kind] = [path]
    return run


def packed_data(page: str) -> str:
    """Return the packed data of a page, unchanged."""
    (text,) = re.findall(r'<script type="application/gzip" id="data">(.*?)</script>', page, re.S)
    return text


def unpacked(text: str) -> Any:
    """Decode packed data."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def _measure(run: Run, model: str, method: str, dataset: str, records: Sequence[Record]) -> None:
    """Add a cell's sample metrics; a dataset has evidence if any of its records does."""
    generator = np.random.default_rng([ord(letter) for letter in model + method + dataset])
    cell = {"model": model, "method": method, "dataset": dataset}
    evidence = {"": EVIDENCE_METRICS} if any(record.evidence for record in records) else {}
    for record in records:
        for protocol, metrics in (dict.fromkeys(PROTOCOLS, AUC_METRICS) | evidence).items():
            status = _status(record, _raw(model, method, record, 0))
            status = (
                NO_EVIDENCE if (status, protocol, record.evidence) == (OK, "", None) else status
            )
            kind = "soft_samples" if protocol else "evidence_samples"
            for metric in metrics:
                value = float(generator.integers(0, 5)) / 4 if status == OK else None
                row = {"sample_id": record.name, "metric": metric, "value": value}
                row |= {**cell, "status": status, **({"protocol": protocol} if protocol else {})}
                run.measured[kind].append(row)
                if protocol:
                    curve = {key: row[key] for key in (*cell, "sample_id", "protocol")}
                    curve["metric"] = metric.removeprefix("auc_")
                    curve["values"] = None if value is None else [value * pi for pi in GRID]
                    run.measured["soft_sample_curves"].append(curve)
                if metric == AUC_METRICS[0]:
                    lds = None if value is None else value / 8
                    run.measured["datamodel_samples"].append(
                        {**row, "metric": DATAMODEL_METRICS[0], "value": lds}
                    )


def _write(run: Run, folder: Path, kind: str, place: str, rows: Any) -> None:
    path = folder / kind / place
    write_rows(path, kind, rows, {})
    run.files[kind].append(path)


def steps_of(record: Record) -> list[int]:
    """Return the explained steps of a sample."""
    steps = [step for step in STEPS if step < len(record.output)]
    return steps or [0]  # a failed sample also has one row


def _raw(model: str, method: str, record: Record, step: int) -> np.ndarray | None:
    """Return raw scores, (prompt tokens,): ordinary, extreme, or all equal; None on failure."""
    if record.status != OK or (method, record.name) == ("mine", "bytes"):
        return None
    seed = [step, *(ord(letter) for letter in model + method + record.name)]
    raw = np.random.default_rng(seed).normal(size=len(record.tokens)).astype(np.float32)
    if record.name == "equal":
        raw[:] = 3.25
    if (method, record.name) == ("2", "plain"):  # one outlier, so that α is large
        raw[1:6] = np.float32([-1e30, 1e30, 9.9e29, 9.99e29, 9.999e29])
    if (method, record.name) == ("2", "hebrew"):
        raw *= np.float32(1e-40)  # below the smallest normal float
    return raw


def _prompt(record: Record) -> dict[str, Any]:
    size, inside = len(record.tokens), range(1, 1 + len(record.content))
    content = [position in inside for position in range(size)]
    marked = None if record.evidence is None else {1 + place for place in record.evidence}
    return explained_rows.prompt(record.name, [], status=record.status) | {
        "input_ids": list(range(size)),
        "token_texts": record.tokens,
        "content_mask": content,
        "user_mask": content,
        "bos_mask": [position == 0 for position in range(size)],
        "evidence_mask": None if marked is None else [place in marked for place in range(size)],
        "prompt_text": "".join(record.tokens),
        "label": record.label,
        "label_token_ids": list(range(len(_words(record)))),
        "label_words": _words(record),
        "truncated": record.name == "long",
    }


def _words(record: Record) -> list[str]:
    return [] if record.label is None else ["Positive", "Negative", "<i>x</i>"]


def _generation(record: Record) -> dict[str, Any]:
    steps = steps_of(record) if record.output else []
    answer = explained_rows.answer(
        record.name, record.label, record.predicted, steps, record.status
    )
    answered = record.predicted is not None and record.label is not None
    return answer | {
        "output_ids": list(range(len(record.output))),
        "output_text": "".join(record.output),
        "output_token_texts": list(record.output),
        "target_ids": steps,
        "correct": answer["correct"] if answered else None,
        "greedy_token_id": None,
        "greedy_token_text": " Sure",
    }


def _status(record: Record, raw: np.ndarray | None) -> str:
    return NONFINITE_ATTRIBUTION if record.status == OK and raw is None else record.status


def _attribution(record: Record, step: int, raw: np.ndarray | None) -> dict[str, Any]:
    return {
        "sample_id": record.name,
        "step": step,
        "raw_scores": None if raw is None else raw.tolist(),
        "converged": None,
        "status": _status(record, raw),
    }


def _evaluations(
    scored: Sequence[tuple[Record, int, np.ndarray | None]], normalisation: Any, aggregated: bool
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `soft` for all steps, from their own or their sample's mean scores."""
    for record, record_lines in itertools.groupby(scored, key=lambda line: line[0]):
        steps, raw = zip(*((step, scores) for _, step, scores in record_lines), strict=True)
        if aggregated and raw[0] is not None:
            together = list(_soft(record, 0, np.mean(raw, axis=0), normalisation))
            yield from ({**row, "step": step} for step in steps for row in together)
        else:
            for step, scores in zip(steps, raw, strict=True):
                yield from _soft(record, step, scores, normalisation)


def _soft(
    record: Record, step: int, raw: np.ndarray | None, normalisation: Any
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one step, the original metrics first; distances are left empty."""
    status = _status(record, raw)
    if status == OK and record.name == "degenerate":
        status = DEGENERATE_BASELINE
    alphas: list[float | None] = [None] * (1 + len(GRID))
    if status == OK:
        assert raw is not None
        scores = normalise(raw[1 : 1 + len(record.content)], normalisation)
        solved = calibrate(scores, np.array(GRID), FLOOR)
        alphas = [1.0, *solved.alpha]
    unread = dict.fromkeys(SCHEMAS["soft"].names)
    for pi, alpha in zip((None, *GRID), alphas, strict=True):
        keys = {"sample_id": record.name, "step": step, "pi": pi, "status": status}
        yield unread | keys | {"perturbable": len(record.content), "alpha": alpha}
