"""Jobs in a container, with a fake Apptainer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

TARGET = "results/tiny/data/datasets/toy-sentiment.parquet"
APPTAINER = ("--software-deployment-method", "apptainer", "--apptainer-args=--nv")
# Records its arguments, and runs the command with the `python` of the image.
STAND_IN = f"""\
#!/bin/sh
if [ "$1" = --version ]; then echo apptainer version 1.3.4; exit; fi
echo "$@" >> calls.txt
while [ "$1" != pisoft.sif ]; do shift; done
shift
PATH="{Path(sys.executable).parent}:$PATH" exec "$@"
"""


@pytest.fixture
def contained(project, tmp_path):
    """Return the project, and a function that runs Snakemake with the fake Apptainer."""
    program = tmp_path / "programs/apptainer"
    program.parent.mkdir()
    program.write_text(STAND_IN, encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}:{project.environment()['PATH']}"

    def call(*arguments):
        line = ("--cores", "1", *APPTAINER, *arguments, TARGET)
        finished = project.snakemake(*line, check=False, PATH=path)
        return finished.returncode, finished.stdout

    return project, call


def test_jobs_run_with_the_images_python_and_stay_complete(contained):
    project, call = contained
    (project.folder / "pisoft.sif").touch()
    status, output = call()
    assert status == 0, output
    (made,) = (project.folder / "calls.txt").read_text(encoding="utf-8").splitlines()
    assert made.startswith("exec --home ")
    assert " --nv " in made
    assert " pisoft.sif bash -c set -euo pipefail;" in made
    assert f"python {project.folder}/scripts/fetch_dataset.py" in made
    assert sys.executable not in made
    status, output = call("--dry-run")
    assert status == 0, output
    assert "Nothing to be done" in output
    made_by_the_image = project.snakemake("--dry-run", TARGET).stdout
    assert "Software environment definition has changed" in made_by_the_image


def test_a_missing_image_is_reported_before_any_job(contained):
    project, call = contained
    status, output = call()
    assert status == 1
    assert "pisoft.sif is missing: docs/how-to/environments.md says how it is built" in output
    assert not (project.folder / "calls.txt").exists()
