"""Choosing the device of a job."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import resource
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import torch

from pisoft.config.models import TOKEN_BUDGETS
from pisoft.errors import BenchmarkError

logger = logging.getLogger(__name__)
JOBS_PER_GPU = "PISOFT_JOBS_PER_GPU"  # environment variable
LOCKS = Path("/tmp")  # not TMPDIR, which may be private to a job
_held: dict[str, ExitStack] = {}  # claims by name, kept until the process ends


def choose_device(setting: str, gpus: int | None = None) -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`, claiming a GPU for this process.

    Jobs on one machine may all see the same GPUs, so each waits for a free one. All models of a
    process share one GPU, which becomes torch's current device: some libraries run their kernels
    there, regardless of their tensors' device.

    Args:
        gpus: number of GPUs of the job, 0 or 1, which decides what `auto` means; None: the job
            requested none, and `auto` is a GPU if available.

    Raises:
        BenchmarkError: a GPU is requested but not available.
    """
    available = torch.cuda.is_available()
    if setting == "cuda" and not available:
        raise BenchmarkError("device: 'cuda' is asked for, but torch finds no CUDA device here")
    if setting == "auto" and gpus and not available:
        raise BenchmarkError(
            f"resources.gpu: {gpus} is asked for, but torch finds no CUDA device here; to run on "
            "the CPU, give the model `device: cpu` or `resources: {gpu: 0}`"
        )
    if setting == "cpu" or (setting == "auto" and (gpus == 0 or not available)):
        return torch.device("cpu")
    device = torch.device("cuda", _claim_gpu())
    torch.cuda.set_device(device)
    return device


def token_budget(configured: int | None, device: torch.device) -> int:
    """Return the tokens per forward batch, as configured or the device's default."""
    return configured or TOKEN_BUDGETS[device.type]


def device_name(device: torch.device) -> str:
    """Return the hardware's name, for provenance."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished its work; calls on a CPU return when finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak_memory(device: torch.device) -> None:
    """Reset the device's peak memory to the memory allocated now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> dict[str, float | None]:
    """Return the peak memory of this process in MB (10⁶ bytes), for provenance.

    * ``peak_memory_mb``: resident set, since the process started.
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


def _claim_gpu() -> int:
    """Return the index of this process's GPU, waiting for a free one if it has none yet."""
    gpus = torch.cuda.device_count()
    # Each GPU has one name per concurrent job; the first names of all GPUs come first.
    names = [
        f"pisoft-gpu-{torch.cuda.get_device_properties(index).uuid}" + f"-{job}" * (job > 0)
        for job in range(_jobs_per_gpu())
        for index in range(gpus)
    ]
    for slot, name in enumerate(names):
        if name in _held:
            return slot % gpus
    waited = False
    while True:
        for slot, name in enumerate(names):
            if _claim(name):
                return slot % gpus
        if not waited:
            logger.warning("waiting for a GPU: other processes hold all %d visible ones", gpus)
            waited = True
        time.sleep(1)


def _jobs_per_gpu() -> int:
    """Return the number of jobs that may share a GPU, 1 unless set in the environment.

    Raises:
        BenchmarkError: it is not a whole number from 1 on.
    """
    value = os.environ.get(JOBS_PER_GPU, "1")
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise BenchmarkError(f"{JOBS_PER_GPU}: must be a whole number from 1 on, got '{value}'")
    return int(value)


def _claim(name: str) -> bool:
    """Claim a machine-wide name until the process ends; return whether it was free.

    The name is claimed as an abstract socket and as a locked file. All users share both, regardless
    of TMPDIR, and the kernel releases them when the process ends, even if it is killed. Containers
    may have their own network, which hides the socket, or their own `/tmp`, which hides the file.
    """
    with ExitStack() as claims:
        address = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            address.bind(f"\0{name}")
            if (file := _opened(LOCKS / f"{name}.lock")) is not None:
                fcntl.flock(claims.enter_context(file), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EWOULDBLOCK):
                raise
            return False
        _held[name] = claims.pop_all()
    return True


def _opened(path: Path) -> IO[str] | None:
    """Open or create a file that any user may lock; None: the folder cannot be used."""
    try:
        with suppress(FileExistsError), path.open("x") as new:
            os.fchmod(new.fileno(), 0o644)
        return path.open()
    except OSError:
        return None
