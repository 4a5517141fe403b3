"""The editor schemas and the configuration reference match the models."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from configuration_schemas import catalogue_schema, run_schema
from make_schema import generated
from pisoft.config.loading import ENTRIES
from pisoft.config.validation import read_yaml

FIX = "run `make schema` and commit config/schema/ and docs/reference/"


@pytest.mark.parametrize("name", sorted(generated()))
def test_generated_file_is_current(name: str, root: Path) -> None:
    path = root / name
    assert path.is_file(), f"{name} is missing: {FIX}"
    assert path.read_text(encoding="utf-8") == generated()[name], (
        f"{name} no longer matches the configuration models, a method's options or the columns of "
        f"a Parquet file: {FIX}"
    )


def test_schema_folder_holds_no_other_file(root: Path) -> None:
    files = {f"config/schema/{path.name}" for path in (root / "config" / "schema").iterdir()}
    assert files == {name for name in generated() if name.startswith("config/")}, FIX


@pytest.mark.parametrize("kind", ENTRIES)
def test_catalogue_satisfies_its_schema(kind: str, root: Path) -> None:
    content = read_yaml(root / "config" / "catalogue" / f"{kind}.yaml")
    # JSON knows text keys only, and so do editors: `0: negative` reads "0".
    jsonschema.validate(_text_keys(content), catalogue_schema(kind))


def test_run_files_satisfy_the_schema(root: Path) -> None:
    files = sorted((root / "config").glob("*.yaml"))
    assert files
    for path in files:
        jsonschema.validate(_text_keys(read_yaml(path)), run_schema())


def _text_keys(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _text_keys(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_text_keys(inner) for inner in value]
    return value
