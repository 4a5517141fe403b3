"""Devices: choice, exclusive claims, peak memory and synchronisation."""

import os
import pwd
import signal
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pisoft.errors import BenchmarkError
from pisoft.models import device
from pisoft.models.device import choose_device, peak_memory, reset_peak_memory, synchronise


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """Simulate two GPUs that no other process uses."""
    names = [str(uuid.uuid4()) for _ in range(2)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=names[index])
    )
    monkeypatch.setattr(torch.cuda, "set_device", lambda chosen: None)
    monkeypatch.setattr(device, "_held", {})
    monkeypatch.setattr(device, "LOCKS", tmp_path)
    yield names
    for claim in device._held.values():
        claim.close()


class Claims:
    """Processes that each claim a name and hold it; leftovers are killed after the test."""

    def __init__(self):
        self.children = {}

    def claim(self, name):
        """Start a process that claims a name; return whether the name was free."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, b"free" if device._claim(name) else b"held")
            signal.pause()
        self.children[name] = child
        free = os.read(read, 4) == b"free"
        os.close(read)
        os.close(write)
        return free

    def end(self, name):
        child = self.children.pop(name)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture
def others():
    claims = Claims()
    yield claims
    for name in [*claims.children]:
        claims.end(name)


@pytest.mark.parametrize(
    ("requested", "given", "expected"),
    [
        ("auto", 0, "cpu"),
        ("cpu", 1, "cpu"),
        ("cpu", None, "cpu"),
        ("auto", 1, "cuda:0"),
        ("auto", None, "cuda:0"),
        ("cuda", 1, "cuda:0"),
    ],
)
def test_a_job_gets_the_device_in_its_resources(requested, given, expected, gpus):
    assert str(choose_device(requested, given)) == expected


def test_a_second_model_uses_the_gpu_of_the_first(gpus, others, monkeypatch):
    """Claims use the uuid: under CUDA_VISIBLE_DEVICES=2,3 the first GPU is a different one."""
    current = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    others.claim(f"pisoft-gpu-{gpus[0]}")
    first = choose_device("auto", 1)
    others.end(f"pisoft-gpu-{gpus[0]}")  # frees a GPU with a lower index
    assert [first, choose_device("cuda"), *set(current)] == [torch.device("cuda", 1)] * 3


def test_each_job_has_an_exclusive_gpu_and_logs_its_wait(gpus, others, monkeypatch, caplog):
    assert [others.claim(f"pisoft-gpu-{name}") for name in gpus] == [True, True]
    waits = []

    def free_the_second(seconds):
        waits.append(seconds)
        assert len(waits) <= 3, "the second is free"
        if len(waits) == 3:
            others.end(f"pisoft-gpu-{gpus[1]}")

    monkeypatch.setattr(device.time, "sleep", free_the_second)
    assert choose_device("auto", 1).index == 1
    assert len(waits) == 3
    assert [record.message for record in caplog.records] == [
        "waiting for a GPU: other processes hold all 2 visible ones"
    ]


def test_the_environment_lets_jobs_share_gpus(gpus, others, monkeypatch):
    monkeypatch.setenv("PISOFT_JOBS_PER_GPU", "2")
    for name in (*gpus, f"{gpus[0]}-1"):
        others.claim(f"pisoft-gpu-{name}")
    assert choose_device("auto", 1).index == 1
    assert [*device._held] == [f"pisoft-gpu-{gpus[1]}-1"]


@pytest.mark.parametrize("given", ["0", "-1", "two", "", "²"])
def test_an_invalid_number_of_jobs_per_gpu_gives_one_line(gpus, monkeypatch, given):
    monkeypatch.setenv("PISOFT_JOBS_PER_GPU", given)
    with pytest.raises(
        BenchmarkError, match=f"PER_GPU: must be a whole number from 1 on, got '{given}'"
    ):
        choose_device("auto", 1)


def free_for_another_user(name, hidden=None):
    """Return whether a name is free for another user's process, if this one may start it.

    A container may hide the names of sockets (`network`), or the files in `/tmp` (`files`).
    """
    child = os.fork()
    if child == 0:
        if hidden == "network":
            device.socket.socket.bind = lambda *_: None
        elif hidden == "files":
            device.LOCKS = Path("/nowhere")
        os.umask(0o077)
        if os.geteuid() == 0:
            os.setuid(pwd.getpwnam("nobody").pw_uid)
        os._exit(0 if device._claim(name) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_claim_holds_for_other_users_and_containers_and_ends_with_its_process(others):
    name = f"pisoft-test-{uuid.uuid4()}"
    assert free_for_another_user(name)
    assert others.claim(name), "the previous process has ended"
    for hidden in (None, "network", "files"):
        assert not free_for_another_user(name, hidden), hidden
    others.end(name)
    assert free_for_another_user(name), "a killed process has no claim"
    (device.LOCKS / f"{name}.lock").unlink()


def kibibytes(file, key):
    """Return one entry of a Linux status file."""
    (line,) = [line for line in Path(file).read_text().splitlines() if line.startswith(key + ":")]
    return int(line.split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="not Linux")
def test_peak_memory_of_the_process_is_in_megabytes():
    now = kibibytes("/proc/self/status", "VmRSS") * 1024 / 1e6
    machine = kibibytes("/proc/meminfo", "MemTotal") * 1024 / 1e6
    peaks = peak_memory(torch.device("cpu"))
    assert now * 0.9 < peaks["peak_memory_mb"] < machine
    assert peaks["peak_device_memory_mb"] is None


def test_memory_and_synchronisation_concern_the_given_gpu(monkeypatch):
    calls = []
    names = ("synchronize", "reset_peak_memory_stats", "max_memory_allocated")
    for name in names:
        monkeypatch.setattr(
            torch.cuda, name, lambda chosen, name=name: calls.append((name, chosen)) or 3_000_000
        )
    gpu = torch.device("cuda", 1)
    synchronise(gpu)
    reset_peak_memory(gpu)
    assert peak_memory(gpu)["peak_device_memory_mb"] == 3
    assert calls == [(name, gpu) for name in names]
