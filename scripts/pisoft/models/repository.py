"""Where a model lies, and what to say if it cannot be loaded from there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pisoft.config.jobs.fields import LoadedModel
from pisoft.config.layer_study import decoder_layers
from pisoft.config.models import LocalModel
from pisoft.datasets.hub import (
    check_weights,
    download,
    files_of_model,
    first_line,
    hub_advice,
    read_commit,
)
from pisoft.errors import BenchmarkError, nearest_path

ORIGIN = "origin.json"  # in a folder of converted weights: from what


def located(model: LoadedModel, files: Sequence[Path]) -> tuple[LoadedModel, Path | None]:
    """Return a model with its folder, or without one but at the commit that is to be downloaded.

    Its files are those of its folder; to load it from the hub, the record of its commit alone.
    """
    if model.repository is None or len(files) > 1:
        return model, files[0].parent
    commit = read_commit(files[0], model.repository, str(model.revision))
    return model.model_copy(update={"revision": commit}), None


def pretrained(kind: Any, model: LoadedModel, source: Path, **options: Any) -> Any:
    """Return what one of the `Auto…` classes of transformers loads from a folder.

    Raises:
        BenchmarkError: it refuses the folder.
    """
    options |= {"local_files_only": True, "trust_remote_code": False}
    with loading_from(model, source):
        return kind.from_pretrained(source, **options)


@contextmanager
def loading_from(model: LoadedModel, source: Path) -> Iterator[None]:
    """Name model and folder, and a broken file in it, in what the libraries raise in the context.

    Raises:
        BenchmarkError: in place of what they raise.
    """
    try:
        yield
    except Exception as error:  # the libraries below raise dozens of classes, some undocumented
        origin, reason = _origin(model, source), first_line(error)
        broken = (f"{path.name}: " for path in sorted(source.iterdir()) if _refusal(path) == reason)
        problem = f"cannot be loaded from {origin}: {next(broken, '')}{reason}"
        if "trust_remote_code" in str(error):
            problem = (
                f"{origin} asks for code of its own to be run (`auto_map`), which is never done: "
                "choose a model whose class is part of transformers"
            )
        raise BenchmarkError(f"model '{model.name}': {problem}") from error


def _refusal(path: Path) -> str:
    """Return why a file of JSON or weights cannot be read; nothing if it can, or is another."""
    from safetensors import safe_open

    try:
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".safetensors":
            with safe_open(path, "pt"):
                pass
    except Exception as error:  # as above
        return first_line(error)
    return ""


def pretrained_network(
    kind: Any, model: LoadedModel, folder: Path | None, *unused: str, **options: Any
) -> tuple[Any, str | None]:
    """Return a network, and its commit on the hub; `sha256:…` of a GGUF file, else None.

    Args:
        kind: one of the `Auto…` classes of transformers.
        model, folder: as for :func:`model_files`.
        unused: parts of names of weights that the checkpoint may hold besides.

    Raises:
        BenchmarkError: as :func:`model_files` and :func:`check_loaded`.
    """
    from transformers import GenerationConfig
    from transformers.utils import GENERATION_CONFIG_NAME, logging

    logging.disable_progress_bar()  # a log file is no place for it
    source = model_files(model, folder, weights=True)
    decoder_layers(LocalModel(kind="local", path=str(source)))  # can it be made at all?
    if (source / GENERATION_CONFIG_NAME).is_file():  # loading weights would pass over a broken one
        pretrained(GenerationConfig, model, source)
    stored = _stored_quantization(model, source)
    if readable := bool(stored.get("load_in_4bit")):
        options.pop("quantization_config", None)  # the stored one holds
    options |= {"dtype": model.dtype, "use_safetensors": True, "output_loading_info": True}
    # Weights of another shape are refused below, by name.
    network, loaded = pretrained(kind, model, source, ignore_mismatched_sizes=True, **options)
    check_loaded(loaded, model.name, unused, None if readable else stored.get("quant_method"))
    return network, commit_of(model, source)


def _stored_quantization(model: LoadedModel, source: Path) -> Mapping[str, Any]:
    """Return what a folder says of its weights' quantisation; if of 4 bits, as its entry has to."""
    from transformers import AutoConfig

    config = pretrained(AutoConfig, model, source)
    stored = getattr(config, "quantization_config", None) or {}
    if model.quantization == "none" and stored.get("load_in_4bit"):
        raise BenchmarkError(
            f"model '{model.name}': quantization: is 'none', but the weights in "
            f"{_origin(model, source)} are 4-bit ones of bitsandbytes; set quantization: nf4"
        )
    return stored


def commit_of(model: LoadedModel, source: Path) -> str | None:
    """Return a model's commit by its :func:`model_files`; `sha256:…` of a GGUF file, else None.

    Raises:
        BenchmarkError: the record of what converted weights are from states none.
    """
    if (origin := source / ORIGIN).is_file():
        try:
            return str(json.loads(origin.read_bytes())["commit"])
        except (ValueError, LookupError, TypeError) as error:
            raise BenchmarkError(
                f"model '{model.name}': {origin}: states no commit: {first_line(error)}"
            ) from error
    return None if model.repository is None else source.name


def model_files(model: LoadedModel, folder: Path | None, weights: bool = False) -> Path:
    """Return the folder that a model is loaded from; without one, it is downloaded from the hub.

    Raises:
        BenchmarkError: the folder does not exist, the download fails, or there are no weights as
            safetensors.
    """
    if folder is None:
        repository, revision = str(model.repository), str(model.revision)
        try:
            location = download(repository, revision, weights)
        except Exception as error:  # the libraries below raise dozens of classes
            advice = hub_advice(error, repository, revision, "models")
            raise BenchmarkError(f"model '{model.name}': {advice}") from error
        names = files_of_model(repository, location)
    elif folder.is_dir():
        location, names = folder, [path.name for path in folder.iterdir()]
    else:
        raise BenchmarkError(
            f"model '{model.name}': no such folder: {folder}{nearest_path(folder)}"
        )
    if weights:
        check_weights(names, f"model '{model.name}': {_origin(model, location)}")
    return location


def _origin(model: LoadedModel, folder: Path) -> str:
    return str(folder) if model.repository is None else f"'{model.repository}'"


def check_loaded(
    report: Mapping[str, Any],
    name: str,
    unused: Sequence[str] = (),
    quantization: str | None = None,
) -> None:
    """Check that a checkpoint held exactly the weights of its model.

    transformers initialises missing and mismatched weights at random, and ignores unexpected ones.

    Args:
        report: what `from_pretrained(…, output_loading_info=True)` returns beside the model.
        unused: as for :func:`pretrained_network`.
        quantization: method, not read here, by which the weights are said to be quantised.

    Raises:
        BenchmarkError: weights are missing, mismatched or unexpected; the first ones are named.
    """
    mismatched = [
        f"{key} {tuple(stored)} for {tuple(expected)}"
        for key, stored, expected in report["mismatched_keys"]
    ]
    unexpected = [
        key for key in report["unexpected_keys"] if not any(part in key for part in unused)
    ]
    for keys, problem in (
        (report["missing_keys"], "lack"),
        (mismatched, "have the wrong shape:"),
        (unexpected, "hold what its architecture has no place for:"),
    ):
        if keys:
            first = ", ".join(sorted(keys)[:3])
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            why = f"; they are quantised by {quantization}, not by nf4" if quantization else ""
            raise BenchmarkError(f"model '{name}': its weights {problem} {first}{more}{why}")
