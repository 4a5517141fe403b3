"""Unlocking a folder after a killed run."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import unlock
from pisoft.errors import BenchmarkError

# The folder `jobs` simulates the queue: one file per job, with its working folder.
SQUEUE = """\
#!/bin/sh
cd {jobs} && for job in *; do [ -e "$job" ] && echo "$job $(cat "$job")"; done
[ {status} = 0 ] || {{ echo "no controller" >&2; exit 1; }}
"""
SCANCEL = "#!/bin/sh\ncd {jobs} && rm -- $@\n"
WORKFLOW = "rule all:\n    output: 'made'\n    shell: 'sleep {seconds} && touch {{output}}'\n"
ROOT = Path(__file__).parents[3]
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-incomplete"]


def run(folder, **options):
    return subprocess.Popen(SNAKEMAKE, cwd=folder, stderr=subprocess.PIPE, text=True, **options)


def unlocked(folder, *options):
    unlock.main(unlock.parser().parse_args(["--directory", str(folder), *options]))


@pytest.mark.slow
def test_only_locks_of_killed_runs_are_removed(tmp_path, monkeypatch):
    """After SIGKILL a plain call fails with LockException."""
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(seconds=60))
    killed = run(tmp_path, start_new_session=True)
    locks = tmp_path / ".snakemake/locks"
    while killed.poll() is None and not (locks.is_dir() and list(locks.iterdir())):
        pass
    with pytest.raises(BenchmarkError, match=f"process {killed.pid} is a run that is working here"):
        unlocked(tmp_path)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(seconds=0))
    assert "Lock" in run(tmp_path).communicate()[1]
    monkeypatch.chdir(tmp_path)
    unlocked(tmp_path)
    again = run(tmp_path)
    again.communicate()
    assert again.returncode == 0
    assert (tmp_path / "made").exists()


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BenchmarkError, match=f"^--directory: no such folder: {tmp_path}/results$"):
        unlocked(tmp_path / "results")


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """Return a function that adds jobs to the queue of a simulated Slurm."""
    jobs, programs = tmp_path / "jobs", tmp_path / "bin"
    jobs.mkdir()
    programs.mkdir()
    (tmp_path / ".snakemake/slurm_logs").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def put(status=0, **folders):
        for job, folder in folders.items():
            (jobs / job.removeprefix("job")).write_text(str(folder))
        for name, text in (("squeue", SQUEUE), ("scancel", SCANCEL)):
            (programs / name).write_text(text.format(jobs=jobs, status=status))
            (programs / name).chmod(0o755)
        return jobs

    return put


def test_slurm_jobs_are_named_and_not_cancelled(tmp_path, queue):
    queue(job12=tmp_path, job9=tmp_path, job3=tmp_path / "other")
    with pytest.raises(BenchmarkError, match="Slurm has jobs of an earlier run here: 9 12; wait"):
        unlocked(tmp_path)


@pytest.mark.parametrize(
    "option", [["-d", "{}"], ["--directory", "{}"], ["--directory={}"], ["-d{}"]]
)
def test_the_cluster_command_uses_the_folder_of_the_run(tmp_path, queue, option):
    queue(job12=tmp_path)
    done = subprocess.run(
        [ROOT / "profiles/slurm/run", *(part.format(tmp_path) for part in option)],
        env={**os.environ, "PATH": f"{os.environ['PATH']}:{Path(sys.executable).parent}"},
        cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"error: {tmp_path}: Slurm has jobs of an earlier run here: 12;" in done.stderr


def test_the_job_around_a_run_does_not_count_as_an_earlier_one(tmp_path, queue, monkeypatch):
    queue(job12=tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    unlocked(tmp_path)


def test_only_jobs_of_this_folder_are_cancelled(tmp_path, queue):
    jobs = queue(job12=tmp_path, job3=tmp_path / "other")
    unlocked(tmp_path, "--jobs", "cancel", "--poll", "0")
    assert [job.name for job in jobs.iterdir()] == ["3"]


def test_earlier_jobs_are_waited_for(tmp_path, queue, monkeypatch):
    jobs = queue(job12=tmp_path)
    waits = []

    def later(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            (jobs / "12").unlink()

    monkeypatch.setattr(unlock, "time", SimpleNamespace(sleep=later))
    unlocked(tmp_path, "--jobs", "wait", "--poll", "7")
    assert waits == [7, 7, 7]


def test_an_unresponsive_slurm_is_not_mistaken_for_an_empty_queue(tmp_path, queue):
    queue(status=1)
    with pytest.raises(BenchmarkError, match="squeue: Slurm refuses: no controller"):
        unlocked(tmp_path)


def test_slurm_without_a_cluster_does_not_block_local_runs(tmp_path, queue):
    queue(status=1)
    (tmp_path / ".snakemake/slurm_logs").rmdir()
    unlocked(tmp_path)


@pytest.fixture
def run_of_job_12(tmp_path, queue):
    """Return a Snakemake process in the folder, inside a Slurm job."""
    script = tmp_path / "snakemake"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    with subprocess.Popen(
        [script], cwd=tmp_path, env={**os.environ, "SLURM_JOB_ID": "12"}, start_new_session=True
    ) as process:
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_processes_of_an_ended_job_are_waited_for(
    tmp_path, queue, run_of_job_12, monkeypatch, capsys
):
    """Regression: a new run was refused while they were ending."""
    queue()
    waits = []

    def later(seconds):
        waits.append(seconds)
        os.killpg(run_of_job_12.pid, signal.SIGKILL)
        run_of_job_12.wait()

    monkeypatch.setattr(unlock, "time", SimpleNamespace(sleep=later))
    unlocked(tmp_path, "--jobs", "refuse")
    assert waits == [5]
    notice = f"waiting for process {run_of_job_12.pid} of job 12 to end"
    assert notice in capsys.readouterr().out


def test_a_run_inside_a_job_of_another_folder_is_not_affected(tmp_path, queue, run_of_job_12):
    queue(job12=tmp_path / "other")
    working = f"process {run_of_job_12.pid} is a run that is working here"
    with pytest.raises(BenchmarkError, match=working):
        unlocked(tmp_path, "--jobs", "cancel")
