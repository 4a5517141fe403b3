"""The attribution explorer: one HTML page with the scores of all methods, token by token."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from pisoft.config.base import Target
from pisoft.config.jobs.pages import ExplorerJob
from pisoft.formatting import NOTHING
from pisoft.statistics.metrics import (
    AUC_METRICS,
    CURVE_METRICS,
    DATAMODEL_METRICS,
    EVIDENCE_METRICS,
)
from pisoft.statistics.scores import StepScores, read_scores, steps_by_sample
from pisoft.store.cells import read_generations, read_prompts, target_text
from pisoft.store.parquet import NO_CONTENT_TOKENS, OK, read_table
from pisoft.tables.writer import render_html

TEMPLATES = Path(__file__).parent / "templates"
STYLES = (TEMPLATES.parents[1] / "tables/templates/common.css", TEMPLATES / "explorer.css")
ALPHA_DIGITS = 8  # significant ones; a transformed score s^α then changes by less than 1e-7
SCORE_DIGITS = 5  # of raw scores, and of logarithms of scores
LOG_OF_ZERO = -1000.0  # its exponential is 0 in any float

MEASURED = {  # kind of each, and metrics
    "areas": ("soft_samples", AUC_METRICS),
    "curves": ("soft_sample_curves", tuple(CURVE_METRICS)),
    "lds": ("datamodel_samples", DATAMODEL_METRICS[:1]),
    "evidence": ("evidence_samples", EVIDENCE_METRICS),
}
MEASURED_DIGITS = 4  # significant ones

KINDS = ("prompts", "generations")
PathsByKind = Mapping[str, Sequence[Path]]
Alphas = Mapping[tuple[str, int], tuple[str, list[float] | None]]  # by sample and step


def explorer_data(files: PathsByKind, settings: ExplorerJob) -> dict[str, Any]:
    """Return the data of the page, serialisable as JSON.

    Raw scores and logarithms of scores are rounded to five significant digits. Logarithms keep
    powers
    accurate: a relative error of 5e-5 moves no s^α by more than 2e-5, whatever the α. Steps of a
    sample with the same scores, as with `step_scores: aggregated`, share one entry.

    Args:
        files: by kind: `prompts` and `generations` `…/{model}/{dataset}.parquet`; `attributions`
            and, for α, `soft` of any protocol `…/{model}/{method}/{dataset}.parquet`; optionally
            those of :data:`MEASURED`.
        settings: ordered labels, and the settings of scores.

    Raises:
        BenchmarkError: an unreadable file, a prompt without generation, or files with different
            samples.
    """
    return {
        "run": settings.run,
        "scope": settings.scope,
        "normalisation": settings.normalisation,
        "floor": settings.score_floor,
        "grid": settings.pi_grid,
        "pi_per_step": settings.pi_per_step,
        "models": [_model(name, files, settings) for name in settings.models],
    }


def explorer_page(
    data: Mapping[str, Any], warning: str = "", pages: Mapping[str, str] | None = None
) -> str:
    """Return the page: one self-contained HTML document.

    A warning about the limits of the numbers follows the links to other pages. Data are embedded as
    gzip in base64, which browsers unpack.

    To the browser, records are data and never markup: none is text of the document, and the page's
    policy only runs its own script, identified by hash.
    """
    style = "".join(file.read_text(encoding="utf-8") for file in STYLES)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    script = (TEMPLATES / "explorer.js").read_text(encoding="utf-8")
    return render_html(
        "explorer.html.jinja",
        run=data["run"],
        warning=warning,
        pages=pages or {},
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        pi_per_step=data["pi_per_step"],
        pi_count=len(data["grid"]),
        data=base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii"),
    )


def _model(model: str, files: PathsByKind, settings: ExplorerJob) -> dict[str, Any]:
    """Return the datasets of a model, and all methods that explain it."""
    prompts = _by_folder(files["prompts"], model)
    present = {path.parts[-2] for path in files["attributions"] if path.parts[-3] == model}
    methods = {name: label for name, label in settings.methods.items() if name in present}
    return {
        "name": model,
        "label": settings.models[model],
        "methods": [{"name": name, "label": label} for name, label in methods.items()],
        "datasets": [
            {"name": name, "label": label, **_samples(model, name, files, settings)}
            for name, label in settings.datasets.items()
            if name in prompts
        ],
    }


def _by_folder(paths: Iterable[Path], model: str) -> dict[str, Path]:
    """Return files `…/{model}/{dataset}.parquet` of a model by dataset."""
    return {path.stem: path for path in paths if path.parts[-2] == model}


def _samples(model: str, dataset: str, files: PathsByKind, settings: ExplorerJob) -> dict[str, Any]:
    """Return the shown samples of one model and dataset, and the total number."""
    prompts_file, answers_file = (_by_folder(files[kind], model)[dataset] for kind in KINDS)
    attributions, soft = (
        {p.parts[-2]: p for p in files[kind] if (p.parts[-3], p.stem) == (model, dataset)}
        for kind in ("attributions", "soft")
    )
    prompts = read_prompts(prompts_file)
    answers = read_generations(answers_file, prompts_file, prompts)
    sample_ids = [row["sample_id"] for row in prompts[: settings.samples]]
    alphas = {method: _alphas(path, sample_ids, settings.pi_grid) for method, path in soft.items()}
    scores = read_scores(prompts_file, attributions.values(), settings, settings.samples)
    steps = {sample_id: _steps(group, alphas) for sample_id, group in steps_by_sample(scores)}
    # Measured at only some π, the soft metrics of a single sample say little.
    left_out = ("soft_samples", "soft_sample_curves") if settings.pi_per_step else ()
    kept = {kind: paths for kind, paths in files.items() if kind not in left_out}
    measured = _measured(kept, model, dataset, sample_ids)
    samples = [
        {
            "id": name,
            "status": answer["status"],
            "truncated": prompt["truncated"],
            "tokens": prompt["token_texts"],
            "evidence": mask if mask is None else np.flatnonzero(mask).tolist(),
            "output": answer["output_token_texts"],
            "predicted": answer["predicted_label"],
            "explained": _explained(answer, settings.targets[dataset]),
            "label": answer["label"],
            "correct": answer["correct"],
            **steps.get(name, _steps([], {})),
            "measured": measured.get(name, {}),
        }
        for name, prompt, answer in zip(sample_ids, prompts, answers, strict=False)
        for mask in [prompt["evidence_mask"]]
    ]
    return {"total": len(prompts), "samples": samples}


def _explained(answer: Mapping[str, Any], targets: Iterable[Target]) -> list[str] | None:
    """Return the explained tokens of a label word; None: the whole answer."""
    if answer["predicted_label"] is None:
        return None
    return [target_text(answer, 0, target) or NOTHING for target in targets]


def _measured(
    files: PathsByKind, model: str, dataset: str, samples: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the measured numbers of samples, by sample and method.

    For each of :data:`MEASURED`, by protocol if it has one, they are numbers (of `curves`, along
    the grid of π), or the status of a failed sample.
    """
    cell = (pc.field("model") == model) & (pc.field("dataset") == dataset)
    cell &= pc.field("sample_id").isin(list(samples))
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for name, (kind, metrics) in MEASURED.items():
        where = cell & pc.field("metric").isin(list(metrics))
        rows = [
            row for p in files.get(kind, ()) for row in read_table(p, kind, where=where).to_pylist()
        ]
        for row in sorted(rows, key=lambda row: metrics.index(row["metric"])):
            sample_numbers = measured.setdefault(row["sample_id"], {})
            numbers, key = sample_numbers.setdefault(row["method"], {}), name
            if "protocol" in row:
                numbers, key = numbers.setdefault(name, {}), row["protocol"]
            if row.get("status", OK) == OK:
                values = row["values"] or [] if "values" in row else [row["value"]]
                numbers.setdefault(key, []).extend(_rounded(values, MEASURED_DIGITS))
            else:
                numbers[key] = row["status"]
    return measured


def _steps(sample_steps: Iterable[StepScores], alphas: Mapping[str, Alphas]) -> dict[str, Any]:
    """Return the scored tokens of a sample, its distinct scores, and the scores of each step."""
    perturbable: list[int] = []
    scores: list[dict[str, Any]] = []
    steps = []
    for one in sample_steps:
        perturbable = one.perturbable.tolist()  # the same of every step
        step_scores = _step_scores(one, alphas)
        if step_scores not in scores:
            scores.append(step_scores)
        steps.append({"step": one.step, "scores": scores.index(step_scores)})
    return {"perturbable": perturbable, "scores": scores, "steps": steps}


def _step_scores(step: StepScores, alphas: Mapping[str, Alphas]) -> dict[str, Any]:
    """Return every method's scores at one step, with α or the reason why there is none."""
    key = (step.prompt["sample_id"], step.step)
    method_scores: dict[str, dict[str, Any]] = {}
    for name, status in step.status.items():
        if status != OK or not len(step.perturbable):
            method_scores[name] = {"status": NO_CONTENT_TOKENS if status == OK else status}
            continue
        with np.errstate(divide="ignore"):
            logarithms = np.maximum(np.log(step.scores(name)), LOG_OF_ZERO)
        evaluation, alpha = alphas.get(name, {}).get(key, (None, None))
        calibrated = {"evaluation": evaluation} if alpha is None else {"alpha": alpha}
        scores = {"raw": _rounded(step.raw[name]), "log": _rounded(logarithms)}
        method_scores[name] = scores | calibrated
    return method_scores


def _alphas(path: Path, samples: list[str], grid: Iterable[float]) -> Alphas:
    """Return status and α along the grid for every step of some samples; no α if it failed."""
    columns = ["sample_id", "step", "pi", "alpha", "status"]
    where = pc.field("sample_id").isin(samples)
    rows = read_table(path, "soft", columns, where).to_pylist()
    by_pi = {(row["sample_id"], row["step"], row["pi"]): row["alpha"] for row in rows}
    solved = {}
    for row in rows:
        key = (row["sample_id"], row["step"])
        line: list[Any] = [by_pi.get((*key, pi)) for pi in grid]
        alpha = None if None in line else _rounded(line, ALPHA_DIGITS)
        solved[key] = (row["status"], alpha)
    return solved


def _rounded(values: Iterable[float], digits: int = SCORE_DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for a content security policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
