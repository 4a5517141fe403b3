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
JOBS_PER_GPU = "PISOFT_JOBS_PER_GPU"  # variable of the environment
LOCKS = Path("/tmp")  # not TMPDIR, which a job may have to itself
_held: dict[str, ExitStack] = {}  # claims by name, kept until the process ends


def choose_device(setting: str, gpus: int | None = None) -> torch.device:
    """Return the device for `auto`, `cpu` or `cuda`; a GPU is one no other process has claimed.

    Jobs of one machine may all see the same GPUs, so each waits until one that it sees is free.
    All models of a process are on one GPU, which becomes torch's current one: kernels of some
    libraries run there, wherever their tensors are.

    Args:
        gpus: number of GPUs that the job was given, 0 or 1, which decides what `auto` means; None:
            the job requested none, and `auto` is a GPU if there is one.

    Raises:
        BenchmarkError: a GPU is requested and there is none.
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
    """Return the tokens per forward batch, as configured or by default for the kind of device."""
    return configured or TOKEN_BUDGETS[device.type]


def device_name(device: torch.device) -> str:
    """Return the hardware's name for provenance."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def synchronise(device: torch.device) -> None:
    """Wait until the device has done its work, which a CPU has as soon as a call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def reset_peak_memory(device: torch.device) -> None:
    """Restart the device's peak-memory count; what is allocated now counts."""
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


def _claim_gpu() -> int:
    """Return the index of the GPU of this process, waiting for one if it has none yet."""
    gpus = torch.cuda.device_count()
    # Each GPU has a name for every job that it may have at a time: the first names of all first.
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
    """Return how many jobs may be on one GPU at a time, 1 unless the environment says otherwise.

    Raises:
        BenchmarkError: it says no whole number from 1 on.
    """
    value = os.environ.get(JOBS_PER_GPU, "1")
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise BenchmarkError(f"{JOBS_PER_GPU}: must be a whole number from 1 on, got '{value}'")
    return int(value)


def _claim(name: str) -> bool:
    """Claim a name of this machine for as long as the process lives; tell whether it was free.

    It is that of a socket without a file and that of a locked file. All users share both, whatever
    folder for temporary files a job has, and the kernel frees them when a process ends, however it
    ends. Containers may have a network of their own, which hides the one, or a `/tmp` of their own,
    which hides the other.
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
    """Open a file that any user may lock, made if need be; None: the folder cannot be used."""
    try:
        with suppress(FileExistsError), path.open("x") as new:
            os.fchmod(new.fileno(), 0o644)
        return path.open()
    except OSError:
        return None
