"""Imported scores: exporting what to score, and checking files of scores.

Rows of contract `to_score` describe what a run explains, without scores. A file of scores keeps
these columns, and each is compared with the run, so that scores for another tokenisation, prompt or
answer are rejected.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pisoft.config.base import Target
from pisoft.config.methods import EXPORT
from pisoft.errors import BenchmarkError
from pisoft.store.cells import target_text
from pisoft.store.parquet import OK
from pisoft.store.schemas import SCHEMAS

Row = dict[str, Any]
EXPLAINED = ("input_ids", "output_ids", "target_id", "foil_ids")  # what the scores of a row are of
EXPLAINED_BY_STEP = ("steps", "target_ids", "foil_ids")  # of an answer; the last may be missing
IN_FULL = pa.field("scores", pa.list_(pa.float64()))  # until they are known to fit float32
LARGEST_LOSS = 1e-3  # of the range of a row's scores, by rounding to float32
NEEDED = ("model", "dataset", "sample_id", "step", *EXPLAINED, "scores")


def rows_to_score(
    model: str,
    dataset: str,
    prompts: Sequence[Row],
    generations: Sequence[Row],
    target: Target = "label",
) -> list[Row]:
    """Return rows of contract `to_score` for all samples that have not failed.

    Args:
        prompts, generations: rows of these contracts, pairwise.
        target: the kind of `target_ids`; see :func:`pisoft.store.cells.read_generations`.
    """
    return [
        {
            "model": model,
            "dataset": dataset,
            "sample_id": prompt["sample_id"],
            "step": step,
            **{name: prompt[name] for name in ("input_ids", "token_texts", "content_mask")},
            "output_ids": generation["output_ids"][:step],
            "target_id": target_id,
            "target_text": target_text(generation, step, target),
            "foil_ids": foil_ids,
            "scores": None,
        }
        for prompt, generation in zip(prompts, generations, strict=True)
        if generation["status"] == OK
        for step, target_id, *foil_ids in zip(
            *(generation[name] for name in EXPLAINED_BY_STEP if name in generation), strict=True
        )
    ]


def read_scores(path: Path, model: str, dataset: str) -> pa.Table:
    """Return the rows of one model and dataset from a file of scores.

    Columns are cast to the types of contract `to_score`, scores to float64; other columns are
    dropped.

    Raises:
        BenchmarkError: missing or unreadable file, a missing column or one of another type, or no
            row of this model and dataset.
    """
    try:
        missing = [name for name in NEEDED if name not in pq.read_schema(path).names]
        if missing:
            raise BenchmarkError(f"{path}: columns are missing: {', '.join(missing)}; {EXPORT}")
        table = pq.read_table(path, partitioning=None, columns=list(NEEDED))
    except FileNotFoundError as error:
        raise BenchmarkError(f"{path}: no such file; {EXPORT}") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise BenchmarkError(f"{path}: is not a readable Parquet file ({error})") from error
    for index, name in enumerate(NEEDED):
        field = IN_FULL if name == "scores" else SCHEMAS["to_score"].field(name)
        try:
            table = table.set_column(index, field, table.column(name).cast(field.type))
        except pa.ArrowException as error:
            raise BenchmarkError(
                f"{path}: column '{name}' is {table.schema.field(name).type}, expected "
                f"{field.type} ({error})"
            ) from error
    in_cell = pc.and_(pc.equal(table["model"], model), pc.equal(table["dataset"], dataset))
    rows = table.filter(in_cell)
    if not rows.num_rows:
        cells = zip(table["model"].to_pylist(), table["dataset"].to_pylist(), strict=True)
        available = ", ".join(f"{model} on {dataset}" for model, dataset in dict.fromkeys(cells))
        raise BenchmarkError(
            f"{path}: has no row of model '{model}' on dataset '{dataset}'; it has rows of: "
            f"{available or 'none'}"
        )
    return rows


def problems(imported: pa.Table, explained: pa.Table) -> list[str]:
    """Return the problems of scores of one model and dataset, one line per kind.

    A line has the count and the first occurrence. Valid scores have every row of `explained`
    (contract `to_score`) once, with the same tokens and one finite float32 score per token.
    """
    explained_rows = {key: row for row, key in enumerate(_keys(explained))}
    samples = dict.fromkeys(sample for sample, _ in explained_rows)
    where_by_kind: dict[str, list[str]] = defaultdict(list)
    seen = set()
    for row, key in enumerate(_keys(imported)):
        where = f"sample '{key[0]}', step {key[1]}"
        if key[0] not in samples:
            where_by_kind["unknown samples"].append(where)
        elif key not in explained_rows:
            where_by_kind["unknown steps"].append(where)
        elif key in seen:
            where_by_kind["duplicate rows"].append(where)
        else:
            seen.add(key)
            for kind, detail in _of_row(imported, row, explained, explained_rows[key]):
                where_by_kind[kind].append(f"{where}: {detail}")
    lines = _lines(where_by_kind, "rows", imported.num_rows)
    scored = {sample for sample, _ in seen}
    absent = [f"sample '{sample}'" for sample in samples if sample not in scored]
    lines += _lines({"missing samples": absent}, "samples", len(samples))
    unseen = [
        f"sample '{sample}', step {step}"
        for sample, step in explained_rows
        if sample in scored and (sample, step) not in seen
    ]
    return lines + _lines({"missing steps": unseen}, "steps", len(explained_rows))


def warnings(imported: pa.Table) -> list[str]:
    """Return warnings about scores without :func:`problems`, one line per kind."""
    rows = zip(_keys(imported), imported["scores"].to_pylist(), strict=True)
    equal = [
        f"sample '{sample}', step {step}"
        for (sample, step), scores in rows
        if len(scores) > 1 and len(set(scores)) == 1
    ]
    kind = "scores that are all equal, which order no tokens"
    return _lines({kind: equal}, "rows", imported.num_rows)


def attribution_rows(imported: pa.Table, generations: Sequence[Row]) -> list[Row]:
    """Return scores as rows of contract `attributions`, in the order of samples and steps.

    Args:
        given: scores without :func:`problems`.
        generations: rows of that contract; failed samples give a row with their status.
    """
    in_float32 = imported["scores"].cast(SCHEMAS["attributions"].field("raw_scores").type)
    scores = dict(zip(_keys(imported), in_float32.to_pylist(), strict=True))
    return [
        {
            "sample_id": row["sample_id"],
            "step": step,
            "raw_scores": scores[row["sample_id"], step] if row["status"] == OK else None,
            "converged": None,
            "status": row["status"],
        }
        for row in generations
        for step in (row["steps"] if row["status"] == OK else [0])
    ]


def scores_hash(rows: Collection[Row]) -> str:
    """Return a hash of rows of contract `attributions`, independent of the file format."""
    return hashlib.sha256(json.dumps(list(rows)).encode()).hexdigest()


def _keys(table: pa.Table) -> list[tuple[str, int]]:
    return list(zip(table["sample_id"].to_pylist(), table["step"].to_pylist(), strict=True))


def _of_row(
    imported: pa.Table, row: int, explained: pa.Table, explained_row: int
) -> list[tuple[str, str]]:
    """Return the kind and the detail of each problem of one row."""
    mistakes = []
    for name in EXPLAINED:
        value, expected = imported[name][row], explained[name][explained_row]
        if value != expected:
            texts = explained["token_texts"][explained_row].as_py() if name == "input_ids" else []
            mistakes.append((f"wrong {name}", _difference(value.as_py(), expected.as_py(), texts)))
    scores, tokens = imported["scores"][row].values, len(explained["input_ids"][explained_row])
    if scores is None:
        mistakes.append(("no scores", "the column 'scores' is null"))
    elif len(scores) != tokens:
        mistakes.append(("wrong number of scores", f"{len(scores)} for {tokens} prompt tokens"))
    else:
        values = scores.to_numpy(zero_copy_only=False)  # a null is NaN
        for index in np.flatnonzero(~np.isfinite(values))[:1]:
            where = f"{values[index]} at position {index}, counted from 0"
            mistakes.append(("scores that are not finite", where))
            return mistakes
        with np.errstate(over="ignore"):
            losses = np.abs(values.astype(np.float32) - values)
            noticeable = LARGEST_LOSS * np.ptp(values)
        if np.isinf(losses).any() or 0 < noticeable < losses.max():
            index = losses.argmax()
            detail = (
                f"{values[index]} at position {index}, counted from 0, of scores from "
                f"{values.min()} to {values.max()}; shift or scale them"
            )
            mistakes.append(("scores that float32 does not hold", detail))
    return mistakes


def _difference(value: Any, expected: Any, texts: Sequence[str]) -> str:
    """Describe the first difference between two values, or between two lists of them."""
    if not isinstance(expected, list) or value is None:
        return f"{value}, expected {expected}"
    pairs = enumerate(itertools.zip_longest(value, expected, fillvalue="nothing"))
    index, (element, required) = next((index, pair) for index, pair in pairs if pair[0] != pair[1])
    text = f" ({texts[index]!r})" if index < len(texts) else ""
    return f"position {index}, counted from 0, is {element}, expected {required}{text}"


def _lines(where_by_kind: dict[str, list[str]], unit: str, count: int) -> list[str]:
    return [
        f"{kind}: {len(locations)} of {count} {unit}, the first: {locations[0]}"
        for kind, locations in where_by_kind.items()
        if locations
    ]
