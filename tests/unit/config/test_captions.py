"""Captions list every setting that could change their numbers."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from pisoft.attribution import load_method
from pisoft.config.captions import demonstration_warning, settings_as_yaml
from pisoft.config.loading import load_config
from pisoft.config.resolved import Config
from pisoft.config.validation import read_yaml

RUN = {"run": "r", "models": ["demo-llama"], "datasets": ["demo-sentiment", "demo-why"]}


def load(root: Path, **changes: object) -> Config:
    run = {**RUN, "methods": ["random"], **changes}
    return load_config(run, root / "config/catalogue", "run.yaml", load_method)


def test_captions_show_resolved_settings_and_disabled_sections(root: Path) -> None:
    config = load(root, seed=5, ranking=None, evaluation={"clamp": "none"})
    sections = settings_as_yaml(config)
    assert sections["seed"] == "  seed: 5\n"
    assert sections["ranking"] == "  ranking: null\n"
    evaluation = yaml.safe_load(dedent(sections["evaluation"]))["evaluation"]
    assert evaluation == config.run_file.evaluation.model_dump(mode="json")
    assert evaluation["clamp"] == "none"


def test_captions_name_generated_models_and_records(root: Path) -> None:
    real = {"models": ["llama-3.1-8b-instruct"]}
    for changes, text in (
        ({}, "with models (demo-llama) and records (demo-sentiment, demo-why)"),
        (real, "with records (demo-sentiment, "),
    ):
        assert text in demonstration_warning(load(root, **changes))
    assert demonstration_warning(load(root, **real, datasets=["sst2"])) == ""


@pytest.mark.parametrize("file", ["config.yaml", "paper.yaml"])
def test_captions_name_existing_sections(file: str, root: Path) -> None:
    sections = set(settings_as_yaml(load(root, **read_yaml(root / "config" / file))))
    for caption in (root / "rules/captions").rglob("*.rst"):
        asked = caption.read_text(encoding="utf-8").split("snakemake.config.settings.")[1:]
        assert {part.split(" ")[0] for part in asked} <= sections, caption.name
