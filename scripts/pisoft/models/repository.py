"""Finding a model's files, and errors when they cannot be loaded."""

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

ORIGIN = "origin.json"  # record of the source in a folder of converted weights


def located(model: LoadedModel, files: Sequence[Path]) -> tuple[LoadedModel, Path | None]:
    """Return a model with its folder, or at its recorded commit with None, to load from the hub.

    `files` are the files of the folder, or only the record of the commit.
    """
    if model.repository is None or len(files) > 1:
        return model, files[0].parent
    commit = read_commit(files[0], model.repository, str(model.revision))
    return model.model_copy(update={"revision": commit}), None


def pretrained(kind: Any, model: LoadedModel, source: Path, **options: Any) -> Any:
    """Load a folder by one of the `Auto…` classes of transformers.

    Raises:
        BenchmarkError: the folder cannot be loaded.
    """
    options |= {"local_files_only": True, "trust_remote_code": False}
    with loading_from(model, source):
        return kind.from_pretrained(source, **options)


@contextmanager
def loading_from(model: LoadedModel, source: Path) -> Iterator[None]:
    """Add the names of model, folder and broken file to exceptions raised in the context.

    Raises:
        BenchmarkError: in place of the exception.
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
    """Return why a JSON or safetensors file cannot be read; empty if it can, or for other files."""
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
        unused: parts of names of further weights that the checkpoint may hold.

    Raises:
        BenchmarkError: as :func:`model_files` and :func:`check_loaded`.
    """
    from transformers import GenerationConfig
    from transformers.utils import GENERATION_CONFIG_NAME, logging

    logging.disable_progress_bar()  # it would clutter the log file
    source = model_files(model, folder, weights=True)
    decoder_layers(LocalModel(kind="local", path=str(source)))  # can it be built?
    if (source / GENERATION_CONFIG_NAME).is_file():  # loading weights ignores a broken one
        pretrained(GenerationConfig, model, source)
    stored = _stored_quantization(model, source)
    if readable := bool(stored.get("load_in_4bit")):
        options.pop("quantization_config", None)  # the stored one applies
    options |= {"dtype": model.dtype, "use_safetensors": True, "output_loading_info": True}
    # Weights with a wrong shape are refused below, by name.
    network, loaded = pretrained(kind, model, source, ignore_mismatched_sizes=True, **options)
    check_loaded(loaded, model.name, unused, None if readable else stored.get("quant_method"))
    return network, commit_of(model, source)


def _stored_quantization(model: LoadedModel, source: Path) -> Mapping[str, Any]:
    """Return the stored quantisation; raise if it is 4-bit and the model's entry says 'none'."""
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
    """Return the commit of :func:`model_files` on the hub; `sha256:…` of a GGUF file, else None.

    Raises:
        BenchmarkError: the record of converted weights has no commit.
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
    """Return a model's folder, downloaded from the hub if `folder` is None.

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
        report: loading info, as returned by `from_pretrained(…, output_loading_info=True)`.
        unused: as for :func:`pretrained_network`.
        quantization: unsupported method that the weights are marked as quantised by.

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
