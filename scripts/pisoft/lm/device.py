"""Choosing the device of a job."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from pisoft.config.models import TOKEN_BUDGETS
from pisoft.errors import BenchmarkError

_held: list[FileLock] = []  # kept until the process ends


def choose_device(wanted: str) -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`.

    Local Snakemake jobs all see every GPU. If no scheduler has set CUDA_VISIBLE_DEVICES, each
    process takes a lock on one device and waits until one is free, so that parallel jobs spread.

    Raises:
        BenchmarkError: `cuda` is asked for and there is none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise BenchmarkError("device: 'cuda' is asked for, but torch finds no CUDA device here")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return torch.device("cuda", 0)
    return torch.device("cuda", _claim_gpu(torch.cuda.device_count()))


def token_budget(wanted: int | None, device: torch.device) -> int:
    """Return the tokens per forward batch: those wanted, or what suits the kind of device."""
    return wanted or TOKEN_BUDGETS[device.type]


def device_name(device: torch.device) -> str:
    """Return the hardware's name for provenance."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def synchronise(device: torch.device) -> None:
    """Wait until the device has done its work, which a CPU has as soon as a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak_memory(device: torch.device) -> None:
    """Begin to measure the device's peak memory anew; what is allocated now counts."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> dict[str, float | None]:
    """Return the memory that this process has needed, MB (10⁶ bytes), for provenance.

    * ``peak_memory_mb``: resident set, since the process began.
    * ``peak_device_memory_mb``: allocated by torch on the device since
      :func:`reset_peak_memory`; None for a CPU.
    """
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    cuda = device.type == "cuda"
    return {
        "peak_memory_mb": resident / 1e6,
        "peak_device_memory_mb": torch.cuda.max_memory_allocated(device) / 1e6 if cuda else None,
    }


def _claim_gpu(count: int) -> int:
    folder = Path(tempfile.gettempdir()) / "pisoft-gpu-locks"
    folder.mkdir(exist_ok=True)
    while True:
        for index in range(count):
            lock = FileLock(folder / f"gpu{index}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            _held.append(lock)
            return index
        time.sleep(1)
