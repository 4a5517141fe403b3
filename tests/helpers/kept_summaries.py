"""Leaderboard entries of runs in a copy of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import keep_summary


def keep_summary_of(project: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep a finished run's summary with sample values, and return the leaderboard entry's file."""
    monkeypatch.chdir(project.folder)
    _, load_method = keep_summary.CATALOGUE
    monkeypatch.setattr(keep_summary, "CATALOGUE", (project.folder / "config", load_method))
    line = ["--configfile", "config/tiny.yaml", "--folder", str(folder), "--samples"]
    keep_summary.main(keep_summary.parser().parse_args(line))
    return folder / keep_summary.BOARD / "tiny.json"
