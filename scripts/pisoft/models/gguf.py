"""Models from GGUF files, dequantised by transformers."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pisoft.datasets.hub import first_line
from pisoft.errors import BenchmarkError
from pisoft.models.repository import GGUF_REPORT, check_loaded
from pisoft.models.saving import save_model


def dequantise(name: str, path: Path, dtype: str, folder: Path) -> None:
    """Write a GGUF file's weights and tokenizer as a model folder.

    Args:
        name: of the model, for messages.
        path: the file.
        dtype: type of the weights to write; a quantised number is its dequantised one, rounded.
        folder: where to.

    Raises:
        BenchmarkError: transformers cannot read the file or does not know its architecture, or it
            lacks weights.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # a log file is no place for it
    place, options = path.parent, {"gguf_file": path.name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
        network, report = AutoModelForCausalLM.from_pretrained(
            place, dtype=dtype, output_loading_info=True, **options
        )
    except Exception as error:  # dozens of classes, some undocumented
        raise BenchmarkError(f"model '{name}': {path}: {first_line(error)}") from error
    check_loaded(report, name)
    # It has been dequantised, but is said to be of a quantisation that cannot be saved.
    network.hf_quantizer = None
    del network.config.quantization_config
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    save_model(folder, network, tokenizer, {GGUF_REPORT: {"file": path.name, "sha256": sha256}})
