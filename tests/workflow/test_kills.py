"""SIGKILL at any moment: what is finished stays, and results are those of a run let alone."""

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
# What jobs compute, and what is made of it; but for how long each job took.
COMPARED = ("generations", "attributions", "soft", "ranking", "inputs", "summary")
TIMED = {"data/summary/timings.parquet"}
ACCURACY = "data/summary/accuracy.parquet"
OVER_THE_DEMO = "PISOFT_KILL_DEMO"


@pytest.mark.follows("let it end, or stop it with `kill …`")
def test_a_run_killed_again_and_again_ends_with_the_same_results(project, finished_once):
    """Each kind of kill may meet jobs that load a model and jobs that load none."""
    command = project.command("--configfile", "config/tiny.yaml", "--cores", "2")
    whole = finished_once.folder / "results/tiny"
    names = [name for name in names_of(whole) if "summary" not in name and "attention" not in name]
    check_kills(project, command, whole, [*names, ACCURACY], kills=6, most_between=1)


@pytest.mark.skipif(OVER_THE_DEMO not in os.environ, reason="`make kills` takes 7 minutes")
def test_the_demonstration_killed_again_and_again_ends_with_the_same_results(
    project, root, tmp_path
):
    """The kills are spread over all of its jobs, about 80."""
    whole = replace(project, folder=root)
    clone = replace(project, folder=tmp_path / "clone")
    clone.folder.mkdir()
    whole.copy_sources_to(clone.folder)
    command, whole = project.command("--cores", "2"), root / "results/demo"
    check_kills(clone, command, whole, names_of(whole), kills=25, most_between=4)


def names_of(whole: Path) -> list[str]:
    """Return the files of a run that another one of the same settings has to the bit."""
    files = (file for kind in COMPARED for file in whole.glob(f"data/{kind}/**/*.parquet"))
    return sorted({str(file.relative_to(whole)) for file in files} - TIMED)


def check_kills(
    project, command: list[str], whole: Path, names: list[str], kills: int, most_between: int
) -> None:
    """Kill a run at random moments, let it end, and hold its results against another's.

    Args:
        project: where it runs.
        command: without the targets.
        whole: results of a run that nobody killed.
        names: of the results, below that folder.
        kills: how many, of each kind in turn.
        most_between: files that are finished from one kill to the next, at most.
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
                assert len(left) < already, "ended by itself"
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
    assert before.items() <= after.items(), "recomputed"
    for name in names:
        made = pq.read_table(project.folder / "results" / whole.name / name)
        assert made.equals(pq.read_table(whole / name)), name


def unlock(project) -> None:
    """Free the folder, as `make unlock` does, once the jobs that a killed run left have ended."""
    freed = None
    while freed is None or "is a run that is working here" in freed.stdout:
        freed = project.python("scripts/unlock.py")
    assert freed.returncode == 0, freed.stdout


def wait_for_more(folder: Path, count: int, driver: psutil.Popen) -> None:
    """Return once so many more files are finished, or the run has ended."""
    begun = len(finished_files(folder))
    while driver.poll() is None and len(finished_files(folder)) < begun + count:
        time.sleep(0.05)


def kill(kind: str, driver: psutil.Popen, chance: random.Random) -> bool:
    """Kill a job, a run, whose jobs then go on, or both; return whether the run was at work."""
    while driver.poll() is None:
        jobs = jobs_of(driver)
        if jobs or kind == "the driver":
            victims = {"a job": jobs and [chance.choice(jobs)], "the driver": [driver]}
            for victim in victims.get(kind, [driver, *jobs]):
                with suppress(psutil.NoSuchProcess):  # a job that has ended meanwhile
                    victim.kill()
            return True
        time.sleep(0.05)
    return False


def jobs_of(driver: psutil.Popen) -> list[psutil.Process]:
    """Return the processes of a run that do its jobs' work."""
    with suppress(psutil.NoSuchProcess):
        return [child for child in driver.children(recursive=True) if not child.children()]
    return []


def finished_files(folder: Path) -> dict[str, int]:
    """Return the files that Snakemake has recorded as finished, and when it did."""
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
