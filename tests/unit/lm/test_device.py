"""What is asked of a device: its memory, and that it has finished."""

from pathlib import Path

import pytest
import torch

from pisoft.lm.device import peak_memory, reset_peak_memory, synchronise


def kibibytes(file, key):
    """Return one entry of a Linux status file."""
    (line,) = [line for line in Path(file).read_text().splitlines() if line.startswith(key + ":")]
    return int(line.split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="not Linux")
def test_peak_memory_of_the_process_is_in_megabytes():
    now = kibibytes("/proc/self/status", "VmRSS") * 1024 / 1e6
    machine = kibibytes("/proc/meminfo", "MemTotal") * 1024 / 1e6
    found = peak_memory(torch.device("cpu"))
    assert now * 0.9 < found["peak_memory_mb"] < machine
    assert found["peak_device_memory_mb"] is None


def test_memory_and_work_of_a_gpu_are_asked_of_that_gpu(monkeypatch):
    asked = []
    names = ("synchronize", "reset_peak_memory_stats", "max_memory_allocated")
    for name in names:
        monkeypatch.setattr(
            torch.cuda, name, lambda chosen, name=name: asked.append((name, chosen)) or 3_000_000
        )
    gpu = torch.device("cuda", 1)
    synchronise(gpu)
    reset_peak_memory(gpu)
    assert peak_memory(gpu)["peak_device_memory_mb"] == 3
    assert asked == [(name, gpu) for name in names]
