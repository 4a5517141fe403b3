"""The cluster profile on a real one-node Slurm with two fake GPUs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from helpers import slurm_cluster
from helpers.shared_runs import SAMPLES
from helpers.slurm_cluster import Cluster, wait_for
from pisoft.store.parquet import read_rows

pytestmark = [
    pytest.mark.workflow,
    pytest.mark.slow,
    pytest.mark.skipif(slurm_cluster.missing() is not None, reason=str(slurm_cluster.missing())),
]

ROOT = Path(__file__).parents[2]
# The executor polls Slurm ever more rarely, as it should, but tests would wait too long.
IMPATIENT = f"""\
#!{sys.executable}
import asyncio

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

RemoteExecutor.sleep = lambda executor: asyncio.sleep(1)
main()
"""
MODEL = "resources: {mem_mb: 1000, runtime: 5}"
GPU_MODEL = "resources: {mem_mb: 1500, runtime: 5, gpu: 1}"  # torch does not see this GPU
GPU_JOBS = [
    *(f"data/soft/dynamic/toy/{name}/toy-sentiment.parquet" for name in ("random", "saliency")),
    "data/ranking/toy/random/toy-sentiment.parquet",
]
CPU_JOB = "data/summary/accuracy.parquet"
# Faults of fetching a dataset, by the dataset's name; some occur only in the first attempt.
FAULTS = """\
import sys, time
from pathlib import Path

output = Path(sys.argv[sys.argv.index("--output") + 1])
tried = Path(output.stem)
again = tried.exists()
tried.touch()
output.parent.mkdir(parents=True, exist_ok=True)
output.write_text("partial")
if output.stem == "fails":
    sys.exit("no luck")
if output.stem == "greedy" and not again:
    memory = b"x" * 1_500_000_000
if output.stem == "cancelled" or output.stem in ("late", "greedy") and not again:
    time.sleep(900)
while output.stem == "slow" and not Path("go").exists():
    time.sleep(0.1)

if __name__ == "__main__":"""


@dataclass(frozen=True)
class Site:
    """A copy of the project whose jobs go to a cluster."""

    folder: Path
    cluster: Cluster

    @property
    def out(self) -> Path:
        """The file with the output of all its runs."""
        return self.folder / "out"

    def run(self, *targets: str, launcher: str = "", config: str = "seed=1") -> Run:
        """Start the launcher of the profile, in the background."""
        command = ["bash", "profiles/slurm/run", *launcher.split()]
        files = [f"results/tiny/{target}" for target in targets]
        environment = self.cluster.environment
        path = f"{self.cluster.folder / 'bin'}:{Path(sys.executable).parent}:{environment['PATH']}"
        out = self.out.open("a")
        process = subprocess.Popen(
            [*command, "--slurm-init-seconds-before-status-checks", "1", "--max-jobs-per-timespan",
             "100/1s", "--configfile", "config/tiny.yaml", "--config", config,
             "--set-resources", "fetch_dataset:mem_mb=1000", "--", *files],
            cwd=self.folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            env={**environment, "PATH": path},
        )  # fmt: skip
        return Run(process, self.out)

    @property
    def jobs(self) -> dict[str, dict[str, str]]:
        """Slurm's records of this folder's jobs, in order of submission."""
        return self.cluster.jobs(self.folder)

    def job_of(self, name: str, state: str, after: str = "0") -> str:
        """Wait for a dataset's job in a state, submitted after another one, and return its id."""
        comment = f"rule_fetch_dataset_wildcards_{name}"

        def matching_jobs() -> list[str]:
            jobs = ((k, v) for k, v in self.jobs.items() if int(k) > int(after))
            return [k for k, v in jobs if (v["Comment"], v["JobState"]) == (comment, state)]

        try:
            wait_for(matching_jobs, f"a job of {name} that is {state}")
        except AssertionError as error:
            error.add_note(f"{self.cluster.call('sinfo')}{self.jobs}\n{self.out.read_text()}")
            raise
        return matching_jobs()[-1]


@dataclass(frozen=True)
class Run:
    """A run in the background."""

    process: subprocess.Popen[bytes]
    out: Path

    def ended(self) -> int:
        """Wait for the run to end, and return its exit status."""
        return self.process.wait(slurm_cluster.PATIENCE)

    def says(self, text: str) -> bool:
        """Return whether the run has printed a text."""
        return text in self.out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    """Return a cluster that tests share, each with its own folder."""
    with slurm_cluster.started(tmp_path_factory.mktemp("slurm")) as running:
        shim = running.folder / "bin/snakemake"
        shim.write_text(IMPATIENT)
        shim.chmod(0o755)
        yield running


@pytest.fixture(scope="module")
def faulty(module_project, cluster, tmp_path_factory):
    """Return a function that creates a site, with :data:`FAULTS` by the names of its datasets."""

    def make(*datasets: str) -> Site:
        folder = tmp_path_factory.mktemp("faulty") / "project"
        module_project.copied_to(folder)
        script = folder / "scripts/fetch_dataset.py"
        script.write_text(script.read_text().replace('if __name__ == "__main__":', FAULTS))
        run_file = folder / "config/tiny.yaml"
        entries = "".join(
            f"    {name}: {{extends: demo-sentiment, label: {name}}}\n" for name in datasets
        )
        selected = run_file.read_text().replace("[toy-sentiment]", f"[{', '.join(datasets)}]")
        run_file.write_text(selected + entries)
        return Site(folder, cluster)

    return make


@pytest.fixture(scope="module", autouse=True)
def unlucky(faulty, cluster) -> tuple[Site, Run, Site, Run]:
    """Start two runs while the node is drained; time limits expire while other tests run."""
    names = ("fails", "cancelled", "late", "greedy")
    faults, edited = faulty(*names), faulty("edited")
    cluster.drain()
    runs = (
        faults.run(*(f"data/datasets/{name}.parquet" for name in names)),
        edited.run("data/datasets/edited.parquet"),
    )
    waits = [faults.job_of(name, "PENDING") for name in names]
    edited.job_of("edited", "PENDING")
    assert len(faults.jobs) == len(waits), "a drained node starts nothing"
    cluster.call("scontrol", "update", f"JobId={waits[names.index('late')]}", "TimeLimit=1")
    run_file = edited.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace(f"max_samples: {SAMPLES}", "max_samples: 2"))
    cluster.resume()
    return faults, runs[0], edited, runs[1]


@pytest.mark.follows(
    "wait for them by `profiles/slurm/run --wait`, or end them by `profiles/slurm/run --cancel`"
)
def test_a_killed_run_never_leaves_two_writers(faulty):
    """Regression: after --unlock, a second job wrote to the first one's file, and deleted it."""
    site = faulty("slow")
    file = "data/datasets/slow.parquet"

    killed = site.run(file)
    first = site.job_of("slow", "RUNNING")
    wait_for((site.folder / "slow").exists, "the job to write")
    for process in (*psutil.Process(killed.process.pid).children(), killed.process):
        process.kill()
    refused = site.run(file)
    assert refused.ended() == 1
    assert refused.says(f"error: .: Slurm has jobs of an earlier run here: {first}; wait for them")

    ended = site.run(file, launcher="--cancel")
    second = site.job_of("slow", "RUNNING", after=first)
    assert site.jobs[first]["JobState"] == "CANCELLED"
    ended.process.terminate()
    assert ended.ended() != 0
    assert site.jobs[second]["JobState"] == "CANCELLED", "TERM must cancel the jobs"
    assert not list(site.folder.glob(".snakemake/locks/*")), "TERM must leave no lock"

    killed = site.run(file)
    third = site.job_of("slow", "RUNNING", after=second)
    for process in (*psutil.Process(killed.process.pid).children(), killed.process):
        process.kill()
    last = site.run(file, launcher="--wait")
    wait_for(lambda: last.says(f"jobs of Slurm to end here: {third}"), "the launcher to wait")
    assert list(site.jobs) == [first, second, third]
    (site.folder / "go").touch()
    assert last.ended() == 0
    assert read_rows(site.folder / "results/tiny" / file, "datasets")
    jobs = list(site.jobs.values())
    for before, after in pairwise(jobs):
        assert before["EndTime"] <= after["StartTime"], "two jobs wrote at once"


def test_a_controller_that_is_away_for_a_while_costs_no_job(faulty):
    """Regression: the executor forgot jobs after a failed query, and waited for ever."""
    site = faulty("slow")
    run = site.run("data/datasets/slow.parquet")
    site.job_of("slow", "RUNNING")
    with site.cluster.away():
        (site.folder / "go").touch()
    assert run.ended() == 0
    assert len(site.jobs) == 1


def test_results_are_those_of_a_local_run_and_gpus_are_asked_for_where_needed(
    finished_once, cluster, tmp_path
):
    finished = finished_once.copied_to(tmp_path / "project")
    results = finished.folder / "results/tiny"
    for name in (*GPU_JOBS, CPU_JOB):
        (results / name).unlink()
    run_file = finished.folder / "config/tiny.yaml"
    text = run_file.read_text()
    run_file.write_text(text.replace(MODEL, GPU_MODEL))
    assert run_file.read_text() != text
    site = Site(finished.folder, cluster)
    # A shell would execute this; the job's configuration would then differ from the run's, which
    # is refused.
    run = site.run(*GPU_JOBS, CPU_JOB, config="local_root=$(touch injected)`touch injected`")
    assert run.ended() == 0, run.out.read_text()
    assert not (finished.folder / "injected").exists()

    for name in (*GPU_JOBS, CPU_JOB):
        local = finished_once.folder / "results/tiny" / name
        assert pq.read_table(results / name).equals(pq.read_table(local)), name
    asked = [(job["Comment"], job.get("TresPerJob")) for job in site.jobs.values()]
    assert sorted(asked) == [
        ("rule_evaluate_ranking_wildcards_toy_random_toy-sentiment", "gres:gpu:1"),
        ("rule_evaluate_soft_wildcards_dynamic__toy_random_toy-sentiment", "gres:gpu:1"),
        ("rule_evaluate_soft_wildcards_dynamic__toy_saliency_toy-sentiment", "gres:gpu:1"),
        ("rule_summarise_accuracy", None),
    ]
    held: dict[str, str] = {}
    had = {}
    for line in (cluster.folder / "devices").read_text().splitlines():
        event, job, *devices = line.split()
        if event == "end":
            held = {device: holder for device, holder in held.items() if holder != job}
            continue
        had[job] = devices
        for device in devices:
            assert device not in held, f"jobs {held.get(device)} and {job} shared GPU {device}"
            held[device] = job
    for job, record in site.jobs.items():
        assert len(had[job]) == (1 if "TresPerJob" in record else 0), record["Comment"]


def test_a_job_refuses_a_run_file_that_was_edited_while_it_waited(unlucky):
    """Regression: it wrote a file with seed 2, which Snakemake recorded as seed 1."""
    *_, site, run = unlucky
    assert run.ended() == 1
    logs = site.folder.glob(".snakemake/slurm_logs/**/*.log")
    counts = [log.read_text().count("a catalogue has changed since this job's run") for log in logs]
    assert counts == [1, 1], "both attempts report it"
    assert not (site.folder / "results/tiny/data/datasets/edited.parquet").exists()


def test_faults_are_reported_and_tried_again_and_leave_nothing_partial(unlucky):
    site, run, *_ = unlucky
    first = site.job_of("cancelled", "RUNNING")
    site.cluster.call("scancel", first)
    site.cluster.call("scancel", site.job_of("cancelled", "RUNNING", after=first))
    assert run.ended() == 1
    states: dict[str, list[str]] = {}
    for job in site.jobs.values():
        states.setdefault(job["Comment"].rpartition("_")[2], []).append(job["JobState"])
    assert states == {
        "fails": ["FAILED", "FAILED"],
        "cancelled": ["CANCELLED", "CANCELLED"],
        "late": ["TIMEOUT", "COMPLETED"],
        "greedy": ["FAILED", "COMPLETED"],
    }
    assert run.says("no luck"), "the job's own log is shown"
    for reason in ("status is: 'CANCELLED'", "status is: 'TIMEOUT'", "exceeded memory limit"):
        assert run.says(reason)
    files = sorted((site.folder / "results/tiny/data/datasets").glob("[!.]*"))
    assert [file.stem for file in files] == ["greedy", "late"]
    assert all(read_rows(file, "datasets") for file in files)
