"""Converting weights once for all jobs: from GGUF files, or to 4 bits."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pisoft.config.jobs.fields import LoadedModel
from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError
from pisoft.models.loading import load_model
from pisoft.models.repository import ORIGIN, check_loaded
from pisoft.models.saving import save_model
from pisoft.models.tokenizer import load_tokenizer


def dequantise(model: LoadedModel, path: Path, folder: Path) -> None:
    """Write a GGUF file's weights and tokenizer as a model folder.

    Weights are dequantised and rounded to the model's dtype.

    Raises:
        BenchmarkError: transformers cannot read the file or does not know its architecture, or it
            lacks weights.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would clutter the log file
    parent, options = path.parent, {"gguf_file": path.name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(parent, **options)
        network, report = AutoModelForCausalLM.from_pretrained(
            parent, dtype=model.dtype, output_loading_info=True, **options
        )
    except Exception as error:  # dozens of classes, some undocumented
        raise BenchmarkError(f"model '{model.name}': {path}: {first_line(error)}") from error
    check_loaded(report, model.name)
    # Already dequantised, but still marked as a quantisation that cannot be saved.
    network.hf_quantizer = None
    del network.config.quantization_config
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    save_model(folder, network, tokenizer, {ORIGIN: {"commit": f"sha256:{sha256}"}})


def quantise(model: LoadedModel, folder: Path, gpus: int | None = None) -> None:
    """Write the 4-bit weights of a model on the hub, and its tokenizer, as a model folder.

    Loading them gives the same numbers as quantising again.

    Args:
        model: the model and its commit.
        gpus: number of GPUs of the job.

    Raises:
        BenchmarkError: as :func:`pisoft.models.loading.load_model`.
    """
    network = load_model(model, None, gpus).network
    save_model(folder, network, load_tokenizer(model, None), {ORIGIN: {"commit": model.revision}})
