"""Comparability of runs: equal settings, except those that change no number.

A setting of two runs is equal, different, or stated by only one of them. As in the comparison with
the paper (:mod:`pisoft.statistics.published_settings`), it concerns some metrics and datasets, and
values that only change a number's precision count as equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from pisoft.config.jobs.pages import PublishedJob
from pisoft.config.resolved import Config
from pisoft.statistics.metrics import AVERAGE
from pisoft.statistics.published_settings import NO_NUMBER, OPEN_TEXT, SETTINGS, settings_of

Settings = Mapping[str, Any]
NOT_STATED = "not stated"
PRECISION = {"seed", "max_samples", "statistics"}  # which samples and resamples, and how many
METHOD_KEYS = {"masked_model", "layer_study"}  # with options, what only methods depend on
# Keys that determine the records, prompts and answers of a catalogue entry.
ENTRY_KEYS = {"source", "chat_template", "task", "fields", "labels", "messages"}
ENTRY_KEYS |= {"max_words", "truncate"}
ESTIMATES = {"parameters", "layers"}  # of a source, for `make plan`


def run_settings(config: Config) -> dict[str, Any]:
    """Return the settings that a run's numbers depend on, by `SECTION.KEY` or entry's `NAME.KEY`.

    Values are JSON. Only the last part of paths is kept, because folders differ between machines.
    """
    job, run_file = PublishedJob.from_config(config), config.run_file
    values = settings_of(job, job.options)
    sections: dict[str, BaseModel | None] = {
        "statistics": run_file.statistics,
        "layer_study": run_file.layer_study,
        **config.models,
        **config.datasets,
    }
    for name, section in sections.items():
        chosen = ENTRY_KEYS if name in {*config.models, *config.datasets} else None
        dumped = (
            {}
            if section is None
            else section.model_dump(mode="json", include=chosen, exclude_none=True)
        )
        values |= {f"{name}.{key}": _portable(value) for key, value in dumped.items()}
    values |= {"seed": run_file.seed, "max_samples": run_file.max_samples}
    values["datasets"] = sorted(config.datasets)
    return json.loads(json.dumps(values, sort_keys=True))


def _portable(value: Any) -> Any:
    """Return a value without estimates, with paths cut to their last part."""
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if key not in ESTIMATES}
    if "path" in kept:
        paths = [kept["path"]] if isinstance(kept["path"], str) else kept["path"]
        kept["path"] = [PurePath(path).name for path in paths]
    return kept


def deciding(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide numbers; values that only change precision are equal."""
    decide = {}
    for key, value in settings.items():
        setting = SETTINGS.get(key)
        if key in NO_NUMBER or key.split(".")[0] in PRECISION:
            continue
        if setting is None or setting.precision is not None:
            only_precision = setting is not None and value in (setting.precision or ())
            decide[key] = setting.paper if setting and only_precision else value
    return decide


def settings_hash(settings: Settings) -> str:
    """Return a hash that is equal for runs whose numbers are comparable in every cell."""
    text = json.dumps(deciding(settings), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cell_settings(
    settings: Settings, owners: Mapping[str, set[str]], **cell: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the deciding settings of a cell, and those that only single methods depend on.

    Args:
        settings: of a run.
        owners: names of its `models`, `datasets` and `methods`.
        cell: `model`, `dataset` and `metric`.
    """
    shared, method_settings = {}, {}
    dataset = cell["dataset"]
    here = {cell["model"], *(owners["datasets"] if dataset == AVERAGE else {dataset}), ""}
    is_open = settings.get(f"{dataset}.task") != "classification"
    for key, value in deciding(settings).items():
        names = (name for kind in owners.values() for name in kind if key.startswith(f"{name}."))
        owner, setting = max(names, key=len, default=""), SETTINGS.get(key)
        if owner in owners["methods"] or key.split(".")[0] in METHOD_KEYS:
            method_settings[key] = value
        elif setting is not None and (
            (setting.metrics and cell["metric"] not in setting.metrics)
            or (setting.datasets == OPEN_TEXT and not is_open)
        ):
            continue
        elif owner in here and (key != "datasets" or dataset == AVERAGE):
            shared[key] = value
    return shared, method_settings


def differences(first: Settings, second: Settings) -> dict[str, tuple[Any, Any]]:
    """Return both values of each setting in which two runs differ."""
    pairs = {
        key: (first.get(key, NOT_STATED), second.get(key, NOT_STATED))
        for key in {**first, **second}
    }
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
