"""Warnings on a configuration before any job."""

import pytest

from helpers.small_configuration import CATALOGUE, RUN, load_tree
from pisoft.workflow import checks


@pytest.mark.parametrize(
    ("entry", "program", "warned"),
    [
        ({}, "/usr/bin/nvidia-smi", True),
        ({}, None, False),
        ({"device": "cpu"}, "/usr/bin/nvidia-smi", False),
        ({"resources": {"gpu": 1}}, "/usr/bin/nvidia-smi", False),
    ],
    ids=["idle", "no GPU", "on purpose", "in use"],
)
def test_idle_gpus_are_reported(entry, program, warned, tmp_path, monkeypatch):
    models = {**CATALOGUE["models"], "small": {**CATALOGUE["models"]["small"], **entry}}
    config = load_tree({**CATALOGUE, "models": models, "run": RUN}, tmp_path)
    messages = []
    monkeypatch.setattr(checks.shutil, "which", {"nvidia-smi": program}.get)
    monkeypatch.setattr(checks.logger, "warning", messages.append)
    checks.warn_of_idle_gpu(config)
    assert len(messages) == warned
    assert all(" for small: computing on the CPU." in message for message in messages)
