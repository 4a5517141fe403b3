"""SIGKILL at any moment: finished files stay, and results equal those of an undisturbed run."""

from __future__ import annotations

import os
import random
import subprocess
import time
from base64 import urlsafe_b64decode
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

KINDS = ("a job", "the driver", "the driver and its jobs")
# Kinds of computed data and summaries, except running times.
COMPARED = ("generations", "attributions", "soft", "ranking", "inputs", "summary")
TIMED = {"data/summary/timings.parquet"}
ACCURACY = "data/summary/accuracy.parquet"
OVER_THE_DEMO = "PISOFT_KILL_DEMO"


@pytest.mark.follows("let it end, or stop it with `kill …`")
def test_a_run_killed_again_and_again_ends_with_the_same_results(project, finished_once):
    """Each kind of kill may hit jobs with and without a model."""
    command = project.command("--configfile", "config/tiny.yaml", "--cores", "2")
    whole = finished_once.folder / "results/tiny"
    names = [name for name in names_of(whole) if "summary" not in name and "attention" not in name]
    check_kills(project, command, whole, [*names, ACCURACY], kills=6, most_between=1)


@pytest.mark.skipif(OVER_THE_DEMO not in os.environ, reason="`make kills` takes 7 minutes")
def test_the_demonstration_killed_again_and_again_ends_with_the_same_results(
    project, root, tmp_path
):
    """The kills are spread over all jobs, about 80."""
    whole = replace(project, folder=root)
    clone = replace(project, folder=tmp_path / "clone")
    clone.folder.mkdir()
    whole.copy_sources_to(clone.folder)
    command, whole = project.command("--cores", "2"), root / "results/demo"
    check_kills(clone, command, whole, names_of(whole), kills=25, most_between=4)


def names_of(whole: Path) -> list[str]:
    """Return the files that are bit-identical in runs with the same settings."""
    files = (file for kind in COMPARED for file in whole.glob(f"data/{kind}/**/*.parquet"))
    return sorted({str(file.relative_to(whole)) for file in files} - TIMED)


def check_kills(
    project, command: list[str], whole: Path, names: list[str], kills: int, most_between: int
) -> None:
    """Kill a run at random moments, let it finish, and compare its results with another run's.

    Args:
        project: the project to run.
        command: command line without targets.
        whole: results of an undisturbed run.
        names: result files, relative to that folder.
        kills: number of kills, of each kind in turn.
        most_between: largest number of files that are finished between two kills.
    """
    assert names, f"{whole} holds no results"
    targets = [str(Path("results", whole.name, name)) for name in names]
    line = [*command, "--retries", str(kills), *targets]
    chance = random.Random(25)
    left = list(islice(cycle(KINDS), kills))
    before: dict[str, int] = {}
    while left:
        unlock(project)
        with (project.folder / "out").open("a") as out:
            driver = psutil.Popen(
                line, cwd=project.folder, env=project.environment(), stdout=out, stderr=out
            )
        already = len(left)
        while left:
            wait_for_more(project.folder, chance.randint(0, most_between), driver)
            time.sleep(chance.uniform(0, 1))
            if not kill(left[0], driver, chance):
                assert len(left) < already, "ended before a kill"
                break
            kind = left.pop(0)
            after = finished_files(project.folder)
            assert before.items() <= after.items(), f"lost after the kill of {kind}"
            before = after
    driver.wait()

    unlock(project)
    ended = subprocess.run(
        line, cwd=project.folder, env=project.environment(), check=False, capture_output=True
    )
    assert ended.returncode == 0, ended.stdout[-3000:].decode() + ended.stderr[-3000:].decode()
    after = finished_files(project.folder)
    assert before.items() <= after.items(), "finished files were recomputed"
    for name in names:
        made = pq.read_table(project.folder / "results" / whole.name / name)
        assert made.equals(pq.read_table(whole / name)), name


def unlock(project) -> None:
    """Unlock the folder like `make unlock`, once the jobs of the killed run have ended."""
    freed = None
    while freed is None or "is a run that is working here" in freed.stdout:
        freed = project.python("scripts/unlock.py")
    assert freed.returncode == 0, freed.stdout


def wait_for_more(folder: Path, count: int, driver: psutil.Popen) -> None:
    """Wait until `count` more files are finished, or the run has ended."""
    begun = len(finished_files(folder))
    while driver.poll() is None and len(finished_files(folder)) < begun + count:
        time.sleep(0.05)


def kill(kind: str, driver: psutil.Popen, chance: random.Random) -> bool:
    """Kill a job, a run (whose jobs continue), or both; return whether the run was active."""
    while driver.poll() is None:
        jobs = jobs_of(driver)
        if jobs or kind == "the driver":
            victims = {"a job": jobs and [chance.choice(jobs)], "the driver": [driver]}
            for victim in victims.get(kind, [driver, *jobs]):
                with suppress(psutil.NoSuchProcess):  # the job has ended meanwhile
                    victim.kill()
            return True
        time.sleep(0.05)
    return False


def jobs_of(driver: psutil.Popen) -> list[psutil.Process]:
    """Return the job processes of a run."""
    with suppress(psutil.NoSuchProcess):
        return [child for child in driver.children(recursive=True) if not child.children()]
    return []


def finished_files(folder: Path) -> dict[str, int]:
    """Return the files that Snakemake recorded as finished, with the times of the records."""
    records = folder / ".snakemake/metadata"
    incomplete = {
        urlsafe_b64decode(marker.name).decode()
        for marker in (folder / ".snakemake/incomplete").glob("*")
    }
    recorded = {
        urlsafe_b64decode(record.name).decode(): record.stat().st_mtime_ns
        for record in records.glob("*")
    }
    return {
        name: when
        for name, when in recorded.items()
        if name not in incomplete and (folder / name).exists()
    }
