"""The attribution explorer: one HTML page with the scores of all methods, token by token."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.config.slices import ExplorerSlice
from pisoft.contracts import NO_CONTENT_TOKENS, OK, read_table
from pisoft.pages.explorer_metrics import Measured, sample_metrics
from pisoft.relations import read_generations, read_prompts
from pisoft.statistics.scores import StepScores, read_scores

TEMPLATES = Path(__file__).parent / "templates"
ALPHA_DIGITS = 8  # significant ones; a transformed score s^α then changes by less than 1e-7
SCORE_DIGITS = 5  # of raw scores, and of logarithms of scores
LOG_OF_ZERO = -1000.0  # its exponential is 0 in any float

Cell = tuple[str, str]  # model, dataset
Alphas = Mapping[tuple[str, int], tuple[str, list[float] | None]]  # by sample and step


@dataclass(frozen=True)
class _CellFiles:
    """The files of one model and dataset, those of the methods by name, and of all cells."""

    prompts: Path
    generations: Path
    attributions: Mapping[str, Path]
    soft: Mapping[str, Path]
    soft_samples: Sequence[Path]
    evidence_samples: Sequence[Path]
    datamodel_samples: Sequence[Path]


def explorer_data(
    prompts: Iterable[Path],
    generations: Iterable[Path],
    attributions: Iterable[Path],
    soft: Iterable[Path],
    soft_samples: Sequence[Path],
    evidence_samples: Sequence[Path],
    datamodel_samples: Sequence[Path],
    settings: ExplorerSlice,
) -> dict[str, Any]:
    """Return what the page shows, ready to be written as JSON.

    Raw scores and logarithms of scores are rounded to five significant digits. The logarithm keeps
    powers right: an error of 5 parts in 10⁵ moves no s^α by more than 2e-5, however large α. Steps
    of a sample that have the same scores, as with `step_scores: aggregated`, share one entry.

    Args:
        prompts: `prompts` files `…/{model}/{dataset}.parquet`.
        generations: `generations` files, as the prompts.
        attributions: `attributions` files `…/{model}/{method}/{dataset}.parquet`.
        soft: `soft` files `…/{model}/{method}/{dataset}.parquet`, for their α, which is the same
            under every protocol.
        soft_samples: `soft_samples` files.
        evidence_samples: `evidence_samples` files; none where no dataset has evidence.
        datamodel_samples: `datamodel_samples` files; none where random scores are not evaluated.
        settings: labels in order, and how scores are made.

    Raises:
        BenchmarkError: an unreadable file, a prompt without generation, or files of different
            samples.
    """
    asked = {_cell(path): path for path in prompts}
    answered = {_cell(path): path for path in generations}
    attributed, evaluated = _by_method(attributions), _by_method(soft)
    summaries = (soft_samples, evidence_samples, datamodel_samples)
    cells = {
        cell: _CellFiles(
            path, answered[cell], attributed.get(cell, {}), evaluated.get(cell, {}), *summaries
        )
        for cell, path in asked.items()
    }
    return {
        "run": settings.run,
        "scope": settings.scope,
        "normalisation": settings.normalisation,
        "floor": settings.score_floor,
        "grid": settings.pi_grid,
        "models": [_model(name, cells, settings) for name in settings.models],
    }


def explorer_page(data: Mapping[str, Any], warning: str = "") -> str:
    """Return the page: one HTML document that needs no other file and loads nothing.

    A warning, of what the numbers do not show, stands at its head. The data lie in it compressed by
    gzip, in base64, which makes them a fraction as long; browsers know how to unpack them.

    Whatever a record holds is data to the browser, never markup: none of it stands in the document
    as text, and the page's policy lets no script run but the page's own, known by its hash.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = (TEMPLATES / "explorer.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "explorer.js").read_text(encoding="utf-8")
    return environment.get_template("explorer.html.jinja").render(
        run=data["run"],
        warning=warning,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_packed(data),
    )


def _packed(data: Mapping[str, Any]) -> str:
    """Return data as JSON compressed by gzip, in base64; equal data give equal text."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _model(model: str, cells: Mapping[Cell, _CellFiles], settings: ExplorerSlice) -> dict[str, Any]:
    """Return a model's datasets, and the methods that explain it on any of them."""
    here = {name: cells[model, name] for name in settings.datasets if (model, name) in cells}
    known = {method for files in here.values() for method in files.attributions}
    return {
        "name": model,
        "label": settings.models[model],
        "methods": [
            {"name": name, "label": label}
            for name, label in settings.methods.items()
            if name in known
        ],
        "datasets": [
            {
                "name": name,
                "label": settings.datasets[name],
                **_samples(model, name, files, settings),
            }
            for name, files in here.items()
        ],
    }


def _samples(
    model: str, dataset: str, files: _CellFiles, settings: ExplorerSlice
) -> dict[str, Any]:
    """Return the samples of one model and dataset, and how many there are of them in all."""
    prompts = read_prompts(files.prompts)
    rows = prompts[: settings.samples]
    answers = read_generations(files.generations, files.prompts, prompts)
    shown = [row["sample_id"] for row in rows]
    alphas = {method: _alphas(path, shown, settings.pi_grid) for method, path in files.soft.items()}
    summaries = (files.soft_samples, files.evidence_samples, files.datamodel_samples)
    measured = sample_metrics(model, dataset, shown, *summaries)
    found = read_scores(
        files.prompts,
        files.attributions.values(),
        settings,
        settings.samples,
    )
    steps = {
        sample_id: _steps(group, alphas)
        for sample_id, group in groupby(found, key=lambda step: step.prompt["sample_id"])
    }
    samples = [
        _sample(row, answer, steps.get(row["sample_id"], _steps([], {})), measured)
        for row, answer in zip(rows, answers, strict=False)  # as many as are shown
    ]
    return {"total": len(prompts), "samples": samples}


def _sample(
    prompt: Mapping[str, Any],
    answer: Mapping[str, Any],
    steps: Mapping[str, Any],
    measured: Measured,
) -> Any:
    """Return what the page says of one sample."""
    evidence, identifier = prompt["evidence_mask"], prompt["sample_id"]
    return {
        "id": identifier,
        "status": answer["status"],
        "truncated": prompt["truncated"],
        "tokens": prompt["token_texts"],
        "evidence": None if evidence is None else np.flatnonzero(evidence).tolist(),
        "output": answer["output_token_texts"],
        "predicted": answer["predicted_label"],
        "label": answer["label"],
        "correct": answer["correct"],
        **steps,
        "measured": {method: own for (name, method), own in measured.items() if name == identifier},
    }


def _steps(found: Iterable[StepScores], alphas: Mapping[str, Alphas]) -> dict[str, Any]:
    """Return a sample's tokens that have scores, its different scores, and which a step has."""
    perturbable: list[int] = []
    scores: list[dict[str, Any]] = []
    steps = []
    for one in found:
        perturbable = one.perturbable.tolist()  # the same of every step
        own = _step_scores(one, alphas)
        if own not in scores:
            scores.append(own)
        steps.append({"step": one.step, "scores": scores.index(own)})
    return {"perturbable": perturbable, "scores": scores, "steps": steps}


def _step_scores(found: StepScores, alphas: Mapping[str, Alphas]) -> dict[str, Any]:
    """Return every method's scores of one step."""
    key = (found.prompt["sample_id"], found.step)
    return {
        name: _scores(found, name, *alphas.get(name, {}).get(key, (None, None)))
        if status == OK and len(found.perturbable)
        else {"status": NO_CONTENT_TOKENS if status == OK else status}
        for name, status in found.status.items()
    }


def _scores(
    found: StepScores, method: str, evaluation: str | None, alpha: list[float] | None
) -> dict[str, Any]:
    """Return a method's scores of one step; without α, why it could not be calibrated."""
    with np.errstate(divide="ignore"):
        logarithms = np.maximum(np.log(found.scores(method)), LOG_OF_ZERO)
    shown: dict[str, Any] = {"raw": _numbers(found.raw[method]), "log": _numbers(logarithms)}
    return shown | ({"evaluation": evaluation} if alpha is None else {"alpha": alpha})


def _alphas(path: Path, samples: list[str], grid: Iterable[float]) -> Alphas:
    """Return status and α along the grid of every step of some samples; no α where it failed."""
    table = read_table(path, "soft").select(["sample_id", "step", "pi", "alpha", "status"])
    wanted = pc.is_in(table.column("sample_id"), value_set=pa.array(samples, pa.string()))
    rows = table.filter(wanted).to_pylist()
    by_pi = {(row["sample_id"], row["step"], row["pi"]): row["alpha"] for row in rows}
    found = {}
    for row in rows:
        key = (row["sample_id"], row["step"])
        line = [by_pi.get((*key, pi)) for pi in grid]
        solved = [float(f"{alpha:.{ALPHA_DIGITS}g}") for alpha in line if alpha is not None]
        found[key] = (row["status"], solved if len(solved) == len(line) else None)
    return found


def _numbers(values: np.ndarray) -> list[float]:
    """Return rounded numbers."""
    return [float(f"{value:.{SCORE_DIGITS}g}") for value in values]


def _hash(text: str) -> str:
    """Return an inline script's or style's hash as a content security policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _cell(path: Path) -> Cell:
    """Return model and dataset of a file `…/{model}/{dataset}.parquet`."""
    return path.parent.name, path.stem


def _by_method(paths: Iterable[Path]) -> dict[Cell, dict[str, Path]]:
    """Return files `…/{model}/{method}/{dataset}.parquet` by cell and method."""
    found: dict[Cell, dict[str, Path]] = {}
    for path in paths:
        found.setdefault((path.parts[-3], path.stem), {})[path.parts[-2]] = path
    return found
