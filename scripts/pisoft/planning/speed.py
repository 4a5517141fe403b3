"""How fast a device runs forwards: given, or measured by matrix products for about a second."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from pisoft.config.models import ModelEntry
from pisoft.errors import BenchmarkError

MEASURING_SECONDS = 1.0
WIDTH = {"cpu": 1024, "cuda": 8192}  # of the multiplied matrices: large for the device
# What the evaluator reaches of that in batches of the token budget; `make bench` measures it.
SHARE = 0.5


@dataclass(frozen=True)
class Speed:
    """FLOP/s of each model's forwards, by name, and how they are known."""

    rates: Mapping[str, float]
    explanations: tuple[str, ...]


def flops_per_second(text: str) -> float:
    """Read a number of TFLOP/s.

    Raises:
        BenchmarkError: it is no number greater than 0.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise BenchmarkError(f"throughput: '{text}' is not a number of TFLOP/s greater than 0")
    return number * 1e12


def given_speed(rate: float, models: Mapping[str, ModelEntry]) -> Speed:
    """Return the same FLOP/s for all models."""
    return Speed(
        dict.fromkeys(models, rate), (f"Speed: {rate / 1e12:g} TFLOP/s in forwards, as given.",)
    )


def measured_speed(models: Mapping[str, ModelEntry]) -> Speed:
    """Return a share of what this machine's matrix products reach, as each model's jobs run them:
    in its type, on its device, and on as many CPU threads as a job has."""
    rates: dict[str, float] = {}
    explanations: dict[str, None] = {}
    measured: dict[tuple[str, str, int], float] = {}
    for name, model in models.items():
        kind = model.dtype, _device_type(model.device), model.resources.threads
        if kind not in measured:
            measured[kind] = matrix_product_rate(*kind)
        rates[name] = SHARE * measured[kind]
        explanations[
            f"Speed: {SHARE:.0%} of the {measured[kind] / 1e12:.3g} TFLOP/s that this machine "
            f"reaches in matrix products ({kind[0]}, {kind[1]}, CPU threads: {kind[2]}), measured "
            "just now."
        ] = None
    return Speed(rates, tuple(explanations))


def matrix_product_rate(dtype: str, device: str, threads: int) -> float:
    """Return the FLOP/s of square matrix products.

    Args:
        dtype: name of torch's type.
        device: `cpu` or `cuda`.
        threads: of the CPU; the process keeps to them from then on.
    """
    import torch

    from pisoft.lm.device import synchronise

    torch.set_num_threads(threads)
    where = torch.device(device)
    width = WIDTH[device]
    factors = torch.ones(width, width, dtype=getattr(torch, dtype), device=where)
    factors @ factors  # the first product sets things up
    synchronise(where)
    begin, products, elapsed = perf_counter(), 0, 0.0
    while elapsed < MEASURING_SECONDS:
        factors @ factors
        synchronise(where)
        products, elapsed = products + 1, perf_counter() - begin
    return products * 2 * width**3 / elapsed


def _device_type(wanted: str) -> str:
    import torch

    return "cpu" if wanted == "cpu" or not torch.cuda.is_available() else "cuda"
