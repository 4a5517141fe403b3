"""SIGKILL at any moment: what is finished stays, and results are those of a run let alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pisoft.config.shards import Shards
from pisoft.store.shards import cell_path, shards_of

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

KILLS = 25
# What jobs compute, and what is made of it; but for how long each job took.
COMPARED = ("generations", "attributions", "soft", "ranking", "inputs", "summary")
TIMED = {"data/summary/timings.parquet"}
NOTHING: Mapping[str, Shards] = {}
OVER_THE_DEMO = "PISOFT_KILL_DEMO"


def test_a_run_killed_again_and_again_ends_with_the_same_results(project, finished_once):
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().rstrip() + "\n      shard_size: 2\n")
    command = project.command("--cores", "2")
    whole = finished_once.folder / "results/tiny"
    check_kills(project, command, whole, most_between=1, cut={"toy-sentiment": Shards(3, 2)})


@pytest.mark.skipif(OVER_THE_DEMO not in os.environ, reason="`make kills` takes half an hour")
def test_the_demonstration_killed_again_and_again_ends_with_the_same_results(
    project, root, tmp_path
):
    """The kills are spread over all of its jobs, about 80."""
    snakemake, *_ = project.command()
    whole = replace(project, folder=root)
    clone = replace(project, folder=tmp_path / "clone")
    clone.folder.mkdir()
    whole.copy_sources_to(clone.folder)
    check_kills(clone, [snakemake, "--cores", "2"], root / "results/demo", most_between=4)


def check_kills(
    project, command: list[str], whole: Path, most_between: int, cut: Mapping[str, Shards] = NOTHING
) -> None:
    """Kill a run at random moments, let it end, and hold its results against another's.

    Args:
        project: where it runs.
        command: without the targets.
        whole: results of a run that nobody killed.
        most_between: files that are finished from one kill to the next, at most.
        cut: datasets that only the killed run cuts into shards.
    """
    files = (file for kind in COMPARED for file in whole.glob(f"data/{kind}/**/*.parquet"))
    names = sorted({str(file.relative_to(whole)) for file in files} - TIMED)
    assert names, f"{whole} holds no results"
    results = Path("results", whole.name)
    files_of = {name: killed_files(results / name, cut) for name in names}
    targets = [str(file) for of_name in files_of.values() for file in of_name]
    line = [*command, "--retries", str(KILLS), *targets]
    chance = random.Random(25)
    killed: list[str] = []
    before: dict[str, int] = {}
    while len(killed) < KILLS:
        unlock(project)
        with (project.folder / "out").open("a") as out:
            driver = psutil.Popen(
                line, cwd=project.folder, env=project.environment(), stdout=out, stderr=out
            )
        already = len(killed)
        while len(killed) < KILLS:
            wait_for_more(project.folder, chance.randint(0, most_between), driver)
            time.sleep(chance.uniform(0, 2))
            if driver.poll() is not None:
                assert len(killed) > already, "ended by itself"
                break
            killed.append(kill(driver, chance))
            after = finished_files(project.folder)
            assert before.items() <= after.items(), f"lost after the kill of {killed}"
            before = after
    driver.wait()
    assert set(killed) == {"a job", "the driver", "the driver and its jobs"}

    unlock(project)
    ended = subprocess.run(
        line, cwd=project.folder, env=project.environment(), check=False, capture_output=True
    )
    assert ended.returncode == 0, ended.stdout[-3000:].decode() + ended.stderr[-3000:].decode()
    after = finished_files(project.folder)
    assert before.items() <= after.items(), "recomputed"
    for name in names:
        made = pa.concat_tables(pq.read_table(project.folder / file) for file in files_of[name])
        assert made.equals(pq.read_table(whole / name)), name


def killed_files(path: Path, cut: Mapping[str, Shards]) -> list[Path]:
    """Return the files of the killed run that hold what a file of the other holds."""
    if path.stem not in cut or "summary" in path.parts:
        return [path]
    return shards_of(Path(cell_path(str(path.parent), path.stem, cut[path.stem])))


def unlock(project) -> None:
    """Free the folder, as `make unlock` does, once the jobs that a killed run left have ended."""
    command = [sys.executable, project.folder / "scripts/unlock.py"]
    freed = None
    while freed is None or "is a run at work here" in freed.stderr:
        freed = subprocess.run(
            command, cwd=project.folder, env=project.environment(), capture_output=True, text=True
        )
    assert freed.returncode == 0, freed.stderr


def wait_for_more(folder: Path, count: int, driver: psutil.Popen) -> None:
    """Return once so many more files are finished, or the run has ended."""
    begun = len(finished_files(folder))
    while driver.poll() is None and len(finished_files(folder)) < begun + count:
        time.sleep(0.05)


def kill(driver: psutil.Popen, chance: random.Random) -> str:
    """Kill a job, a run, whose jobs then go on, or both; return which."""
    jobs = jobs_of(driver)
    choices = {
        "a job": jobs and [chance.choice(jobs)],
        "the driver": [driver],
        "the driver and its jobs": jobs and [driver, *jobs],
    }
    possible = [name for name, victims in choices.items() if victims]
    chosen = chance.choice(possible)
    for victim in choices[chosen]:
        with suppress(psutil.NoSuchProcess):  # a job that has ended meanwhile
            victim.kill()
    return chosen


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
    found = {
        urlsafe_b64decode(record.name).decode(): record.stat().st_mtime_ns
        for record in records.glob("*")
    }
    return {
        name: when
        for name, when in found.items()
        if name not in incomplete and (folder / name).exists()
    }
