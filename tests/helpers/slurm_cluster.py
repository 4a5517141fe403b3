"""A one-node Slurm cluster on loopback with two fake GPUs; it writes only to its folder."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

DAEMONS = ("slurmctld", "slurmd")
CLIENTS = ("sacct", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
SYSTEM = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"  # folders of the daemons
PATIENCE = 240  # seconds; far longer than any step takes
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
MinJobAge=3000
KillWait=2
Prolog={folder}/bin/prolog
Epilog={folder}/bin/epilog
OverTimeLimit=0
ReturnToService=2
EnforcePartLimits=ALL
NodeName=n1 NodeAddr=127.0.0.1 CPUs=8 RealMemory=20000 Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
"""
# Slurm calls these on the node of a job, before and after it.
WITNESSES = {
    "prolog": 'echo "start $SLURM_JOB_ID ${SLURM_JOB_GPUS-}" >> "$(dirname "$0")/../devices"',
    "epilog": 'echo "end $SLURM_JOB_ID" >> "$(dirname "$0")/../devices"',
}
DEVICES = """\
AutoDetect=off
Name=gpu File=/dev/tty[0-1] Flags=nvidia_gpu_env
"""


def missing() -> str | None:
    """Return why no cluster can be started here, or None."""
    absent = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=SYSTEM) is None]
    if absent:
        return f"no Slurm: {', '.join(absent)} not found (apt install slurm-wlm)"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "snakemake-executor-plugin-slurm is not installed"
    if not all(Path(f"/dev/tty{number}").is_char_device() for number in range(2)):
        return "no devices /dev/tty0 and /dev/tty1 to use as fake GPUs"
    return None


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which commands reach this cluster and no other."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))}
        return {
            **kept,
            "PATH": f"{self.folder / 'bin'}:{SYSTEM}",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    def is_up(self) -> bool:
        """Return whether jobs can run."""
        asked = ["sinfo", "--noheader", "--format=%T"]
        partitions = subprocess.run(
            asked, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        return partitions.stdout.strip() == "idle"

    def call(self, *command: str) -> str:
        """Return the output of a Slurm command."""
        return subprocess.run(
            command, env=self.environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def drain(self) -> None:
        """Prevent further jobs from starting."""
        self.call("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")

    def resume(self) -> None:
        """Let jobs start again."""
        self.call("scontrol", "update", "NodeName=n1", "State=RESUME")

    @contextmanager
    def away(self) -> Iterator[None]:
        """Suspend the controller until a query of the executor has failed.

        The executor then falls back on accounting, which this cluster lacks.
        """
        controller = psutil.Process(int((self.folder / "slurmctld.pid").read_text()))
        failed = self.folder / "away"
        failed.unlink(missing_ok=True)
        controller.suspend()
        try:
            wait_for(failed.exists, "a query to fail")
            yield
        finally:
            controller.resume()

    def jobs(self, folder: Path) -> dict[str, dict[str, str]]:
        """Return Slurm's own records of all jobs submitted from a folder, by job id."""
        shown = self.call("scontrol", "show", "jobs", "--oneliner").splitlines()
        pairs = (dict(p.partition("=")[::2] for p in line.split(" ") if "=" in p) for line in shown)
        return {job["JobId"]: job for job in pairs if job.get("WorkDir") == str(folder)}


@contextmanager
def started(folder: Path) -> Iterator[Cluster]:
    """Start the daemons in a folder, and always end them afterwards."""
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    values = {
        "folder": folder,
        "host": socket.gethostname().split(".")[0],
        "user": getpass.getuser(),
        "controller": free_port(),
        "daemon": free_port(),
    }
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**values), encoding="utf-8")
    (folder / "gres.conf").write_text(DEVICES, encoding="utf-8")
    # The executor drops SLURM_CONF before it calls Slurm, because clusters have the file in /etc.
    clients = {
        name: f'SLURM_CONF={folder}/slurm.conf exec {shutil.which(name, path=SYSTEM)} "$@"'
        for name in CLIENTS
    }
    clients["sacct"] = clients["sacct"].replace("exec ", "") + f" || {{ >{folder}/away; exit 1; }}"
    for name, line in {**WITNESSES, **clients}.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    cluster = Cluster(folder)
    daemons = []
    try:
        for name, options in (("slurmctld", ["-D"]), ("slurmd", ["-D", "-N", "n1"])):
            program = str(shutil.which(name, path=SYSTEM))
            with (folder / f"{name}.out").open("w") as out:
                daemons.append(
                    subprocess.Popen(
                        [program, *options], env=cluster.environment, stdin=subprocess.DEVNULL,
                        stdout=out, stderr=out,
                    )
                )  # fmt: skip
        wait_for(cluster.is_up, "an idle node")
        yield cluster
    finally:
        for process in psutil.process_iter():  # daemons, jobs, and runs that a failed test left
            with suppress(psutil.Error):
                if process.environ().get("SLURM_CONF") == str(folder / "slurm.conf"):
                    process.kill()
        for daemon in daemons:
            daemon.wait()


def wait_for(condition: Callable[[], object], description: str, patience: float = PATIENCE) -> None:
    """Wait until a condition holds; on timeout, fail with its description."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience} s in vain for {description}")
        time.sleep(0.2)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
