"""The attribution explorer: one HTML page with the scores of all methods, token by token."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pisoft.config.slices.pages import ExplorerSlice
from pisoft.contracts import NO_CONTENT_TOKENS, OK, read_table
from pisoft.relations import read_generations, read_prompts
from pisoft.statistics.scores import StepScores, read_scores

TEMPLATES = Path(__file__).parent / "templates"
ALPHA_DIGITS = 8  # significant ones; a transformed score s^α then changes by less than 1e-7

Cell = tuple[str, str]  # model, dataset
Alphas = Mapping[tuple[str, int], tuple[str, list[float] | None]]  # by sample and step


@dataclass(frozen=True)
class _CellFiles:
    """The files of one model and dataset, those of the methods by name."""

    prompts: Path
    generations: Path
    attributions: Mapping[str, Path]
    soft: Mapping[str, Path]


def explorer_data(
    prompts: Iterable[Path],
    generations: Iterable[Path],
    attributions: Iterable[Path],
    soft: Iterable[Path],
    settings: ExplorerSlice,
) -> dict[str, Any]:
    """Return what the page shows, ready to be written as JSON.

    Raw scores and logarithms of scores are little-endian float32 in base64. The logarithm is what
    keeps powers exact: an error of 1 part in 10⁷ moves no s^α by more than 3e-8, however large α.

    Args:
        prompts: `prompts` files `…/{model}/{dataset}.parquet`.
        generations: `generations` files, as the prompts.
        attributions: `attributions` files `…/{model}/{method}/{dataset}.parquet`.
        soft: `soft` files `…/{model}/{method}/{dataset}.parquet`, for their α, which is the same
            under every protocol.
        settings: labels in order, and how scores are made.

    Raises:
        BenchmarkError: an unreadable file, a prompt without generation, or files of different
            samples.
    """
    asked = {_cell(path): path for path in prompts}
    answered = {_cell(path): path for path in generations}
    attributed, evaluated = _by_method(attributions), _by_method(soft)
    cells = {
        cell: _CellFiles(path, answered[cell], attributed.get(cell, {}), evaluated.get(cell, {}))
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

    A warning, of what the numbers do not show, stands at its head.

    Whatever a record holds is data to the browser, never markup: no `<` of it reaches the document,
    and the page's policy lets no script run but the page's own, known by its hash.
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
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", r"\u003c")
    return environment.get_template("explorer.html.jinja").render(
        run=data["run"],
        warning=warning,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=text,
    )


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
            {"name": name, "label": settings.datasets[name], **_samples(files, settings)}
            for name, files in here.items()
        ],
    }


def _samples(files: _CellFiles, settings: ExplorerSlice) -> dict[str, Any]:
    """Return the samples of one model and dataset, and how many there are of them in all."""
    prompts = read_prompts(files.prompts)
    rows = prompts[: settings.samples]
    answers = read_generations(files.generations, files.prompts, prompts)
    alphas = {
        method: _alphas(path, [row["sample_id"] for row in rows], settings.pi_grid)
        for method, path in files.soft.items()
    }
    found = read_scores(
        files.prompts,
        files.attributions.values(),
        settings,
        settings.samples,
    )
    steps = {
        sample_id: [_step(step, alphas) for step in group]
        for sample_id, group in groupby(found, key=lambda step: step.prompt["sample_id"])
    }
    samples = [
        _sample(row, answer, steps.get(row["sample_id"], []))
        for row, answer in zip(rows, answers, strict=False)  # as many as are shown
    ]
    return {"total": len(prompts), "samples": samples}


def _sample(prompt: Mapping[str, Any], answer: Mapping[str, Any], steps: list[Any]) -> Any:
    """Return what the page says of one sample."""
    evidence = prompt["evidence_mask"]
    return {
        "id": prompt["sample_id"],
        "status": answer["status"],
        "truncated": prompt["truncated"],
        "tokens": prompt["token_texts"],
        "evidence": None if evidence is None else np.flatnonzero(evidence).tolist(),
        "output": answer["output_token_texts"],
        "predicted": answer["predicted_label"],
        "label": answer["label"],
        "correct": answer["correct"],
        "steps": steps,
    }


def _step(found: StepScores, alphas: Mapping[str, Alphas]) -> dict[str, Any]:
    """Return what the page says of one step: tokens that have scores, and every method's."""
    key = (found.prompt["sample_id"], found.step)
    methods = {
        name: _scores(found, name, *alphas.get(name, {}).get(key, (None, None)))
        if status == OK and len(found.perturbable)
        else {"status": NO_CONTENT_TOKENS if status == OK else status}
        for name, status in found.status.items()
    }
    return {"step": found.step, "perturbable": found.perturbable.tolist(), "methods": methods}


def _scores(
    found: StepScores, method: str, evaluation: str | None, alpha: list[float] | None
) -> dict[str, Any]:
    """Return a method's scores of one step; without α, why it could not be calibrated."""
    with np.errstate(divide="ignore"):  # a score of 0 has the logarithm -inf, and comes back as 0
        logarithms = np.log(found.scores(method))
    shown: dict[str, Any] = {"raw": _floats(found.raw[method]), "log": _floats(logarithms)}
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


def _floats(values: np.ndarray) -> str:
    """Return numbers as little-endian float32 in base64."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


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
