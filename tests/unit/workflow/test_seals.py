"""Without the internals that seals need, one line warns and Snakemake's records apply."""

from __future__ import annotations

import logging
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake.api  # before its workflow, because of a circular import
import snakemake.workflow
from snakemake.persistence.file import FilePersistence
from snakemake.settings.types import PersistenceBackend

from pisoft.workflow import seals

WORKFLOW = SimpleNamespace(
    is_main_process=False,
    workflow_settings=SimpleNamespace(persistence_backend=PersistenceBackend.FILE),
)


@pytest.fixture
def backend(monkeypatch):
    """Return Snakemake's class of records, restored after the test."""
    monkeypatch.setattr(snakemake.workflow, "FilePersistence", FilePersistence)
    monkeypatch.setattr(logging.getLogger("snakemake.logging"), "propagate", True)
    return lambda: snakemake.workflow.FilePersistence


def test_this_version_of_snakemake_supports_seals(backend, caplog):
    seals.seal_results(WORKFLOW, Path("results/r"))
    assert backend() is seals.SealedPersistence
    assert not caplog.messages


@pytest.mark.parametrize("name", seals.PRIVATE)
def test_a_missing_private_name_gives_one_line(backend, caplog, monkeypatch, name):
    names = {one: None for one in seals.PRIVATE if one != name}
    monkeypatch.setattr(seals, "FilePersistence", type("Other", (), names))
    seals.seal_results(WORKFLOW, Path("results/r"))
    assert backend() is FilePersistence
    (line,) = caplog.messages
    assert "Results are not sealed" in line


def test_a_missing_module_gives_one_line(backend, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "snakemake.persistence.file", None)
    spec = spec_from_file_location("seals_of_another_version", seals.__file__)
    other = module_from_spec(spec)
    spec.loader.exec_module(other)
    other.seal_results(WORKFLOW, Path("results/r"))
    assert backend() is FilePersistence
    (line,) = caplog.messages
    assert "Results are not sealed" in line
