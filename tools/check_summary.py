"""List the defects of a run's summary, an entry of the leaderboard, one per line."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import ValidationError

from comparable_runs import settings_hash
from pisoft.config.validation import problems_of
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS, SHARES
from pisoft.statistics.published_settings import NO_NUMBER, NS, SECTIONS, SETTINGS
from pisoft.statistics.results import KEYS, select
from pisoft.store.schemas import RESULT
from pisoft.workflow.commandline import run
from summary import CELL, DIGITS, KEPT, Rows, Summary, read

NOT_NEGATIVE = {*AUC_METRICS, "soft_ns", "soft_nc", "expected_retained", *SHARES}
AT_MOST_ONE = {*NS, *SHARES}  # other metrics are ratios to a distance
TOLERANCE = 10.0 ** (1 - DIGITS)  # relative, of means of rounded numbers
ROUNDING = 1e-9  # absolute, for intervals that end at their value
COLUMNS = {column.name: column for column in RESULT}


def main(arguments: argparse.Namespace) -> None:
    """Print the defects of a file, or that it is fine."""
    lines = problems(arguments.file)
    for line in lines:
        print(line)
    if lines:
        raise BenchmarkError(f"{arguments.file}: cannot be an entry as it is; see above")
    print(f"{arguments.file}: fine")


def problems(path: Path) -> list[str]:
    """Return the defects of a summary: of its form or, if that is valid, of its numbers.

    Raises:
        BenchmarkError: the file does not exist, or is not JSON.
    """
    try:
        summary = Summary.model_validate(read(path))
    except ValidationError as error:
        return problems_of(error, str(path))
    defects = list(_tables(summary)) or [*_results(summary), *_means(summary)]
    allowed = {key for key in {*SETTINGS, *NO_NUMBER} if key.split(".")[0] in SECTIONS}
    for key in summary.settings.keys() - allowed:
        if key.split(".")[0] in SECTIONS:
            defects.append(f"settings: unknown key '{key}'{did_you_mean(key, allowed)}")
    if (expected := settings_hash(summary.settings)) != summary.settings_hash:
        defects.append(f"settings_hash: is '{summary.settings_hash}', of the settings '{expected}'")
    return [f"{path}: {line}" for line in defects]


def _tables(summary: Summary) -> Iterator[str]:
    """Yield the defects of the form of tables, their columns and rows."""
    for kind in summary.results.keys() - KEPT.keys():
        yield f"results: unknown key '{kind}'{did_you_mean(kind, KEPT)}"
    tables = {f"results.{kind}": part for kind, part in summary.results.items()}
    tables |= {"samples": summary.samples} if summary.samples else {}
    required = {"results.statistics": [*CELL, "value", "n"], "samples": [*CELL, "value"]}
    for where, names in required.items():
        if where not in tables and where != "samples":
            yield f"{where}: is required and missing"
        for name in set(names) - {*tables[where].columns} if where in tables else ():
            yield f"{where}.columns: '{name}' is required and missing"
    for where, part in tables.items():
        yield from _table(where, part, required["samples"] if where == "samples" else COLUMNS)


def _table(where: str, part: Rows, columns: Collection[str]) -> Iterator[str]:
    for name in part.columns:
        if name not in columns:
            yield f"{where}.columns: unknown name '{name}'{did_you_mean(name, columns)}"
    for number, row in enumerate(part.rows):
        if len(row) != len(part.columns):
            yield f"{where}.rows.{number}: has {len(row)} entries for {len(part.columns)} columns"
            continue
        for name, value in zip(part.columns, row, strict=True):
            if value is None or name not in columns:
                continue
            kinds = str if COLUMNS[name].kind == pa.string() else int | float
            if not isinstance(value, kinds):
                noun = "a text" if kinds is str else "a number"
                yield f"{where}.rows.{number}.{name}: must be {noun} (got {value!r})"


def _results(summary: Summary) -> Iterator[str]:
    """Yield implausible numbers, and rows with unknown names."""
    names = {
        "protocol": {*summary.protocols},
        "model": summary.models,
        "dataset": {*summary.datasets, AVERAGE},
        "metric": METRICS,
        "method": summary.methods,
        "best": summary.methods,
    }
    signed = summary.settings.get("evaluation.clamp") == "none"  # Soft-NS may be negative
    for kind, table in summary.numbers.rows.items():
        for name in names if kind == "statistics" else ("protocol", "model", "dataset", "method"):
            for value in set(table[name]) - {"", *names[name]}:
                yield f"{kind}.{name}: unknown name '{value}'{did_you_mean(value, names[name])}"
        for keys in table.loc[table.duplicated(KEYS), KEYS].to_dict("records"):
            yield f"{kind}: two numbers of {_cell(keys)}"
        for row in table.to_dict("records"):
            defects = [*_row(row), *(_range(row, signed) if kind == "statistics" else ())]
            yield from (f"{kind}, {_cell(row)}: {defect}" for defect in defects)
    ranked = summary.numbers.rows["statistics"]
    for _, rows in ranked.groupby(["protocol", "operator", "model", "dataset", "metric"]):
        yield from _ranks(rows.dropna(subset="value"))


def _cell(row: Mapping[str, Any]) -> str:
    keys = (row[key] for key in KEYS if row[key] not in ("", None) and not pd.isna(row[key]))
    return " ".join(map(str, keys))


def _row(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the defects of a number, given with all columns of results."""
    value, low, high = row["value"], row["low"], row["high"]
    if not np.isnan(value) and row["n"] < 1:
        yield f"n is {row['n']}, but there is a value; allowed from 1"
    if row["n_failed"] < 0:
        yield f"n_failed is {row['n_failed']}; allowed from 0"
    if np.isnan(low) != np.isnan(high) or low > value + ROUNDING or value > high + ROUNDING:
        yield f"low ≤ value ≤ high does not hold: {low:g}, {value:g}, {high:g}"
    for name in row:
        if name.startswith("p_") and not np.isnan(row[name]) and not 0 <= row[name] <= 1:
            yield f"{name} is {row[name]:g}; allowed from 0 to 1"
    if row["standard_error"] < 0:
        yield f"standard_error is {row['standard_error']:g}; allowed from 0"


def _range(row: Mapping[str, Any], signed: bool) -> Iterator[str]:
    """Yield a defect if a value is outside its metric's range."""
    value, metric = row["value"], row["metric"]
    if value < 0 and metric in NOT_NEGATIVE and not (signed and metric in NS):
        yield f"value is {value:g}; allowed from 0"
    if value > 1 and metric in AT_MOST_ONE:
        yield f"value is {value:g}; allowed up to 1"


def _ranks(rows: pd.DataFrame) -> Iterator[str]:
    """Yield ranks of methods that contradict the metric's values and direction.

    Methods with equal rounded values may have any order.
    """
    metric = METRICS.get(rows["metric"].iloc[0]) if len(rows) else None
    if metric is None or metric.best is None:
        return
    goodness = rows["value"] * (1 if metric.best == "highest" else -1)
    for row, good in zip(rows.to_dict("records"), goodness, strict=True):
        first, last = 1 + (goodness > good).sum(), (goodness >= good).sum()
        if not first <= row["rank"] <= last:
            allowed = f"{first}" if first == last else f"from {first} to {last}"
            yield f"statistics, {_cell(row)}: rank is {row['rank']:g}; by the values, {allowed}"
    leading = set(rows.loc[goodness == goodness.max(), "method"])
    for best in set(rows["best"]) - leading - {""}:
        keys = {**rows.iloc[0], "method": ""}
        listed = ", ".join(sorted(leading))
        yield f"statistics, {_cell(keys)}: best is '{best}'; by the values, {listed}"


def _means(summary: Summary) -> Iterator[str]:
    """Yield means that do not match the datasets' means, or the samples' values."""
    keys = ["protocol", "operator", "model", "metric", "method"]
    rows = summary.numbers.rows["statistics"]
    by_keys = rows[rows["dataset"] != AVERAGE].groupby(keys)
    means = by_keys["value"].agg(lambda values: values.mean(skipna=False)).to_frame("value")
    means["n"] = by_keys["n"].sum()
    averages = rows[rows["dataset"] == AVERAGE].set_index(keys)
    both = averages.join(means.add_suffix("_expected"))
    yield from _unequal("the datasets'", both.dropna(subset=["value", "value_expected"], how="all"))
    if summary.samples is not None:
        table = pd.DataFrame(summary.samples.rows, columns=summary.samples.columns)
        means = table.groupby(CELL)["value"].agg(value="mean", n="size")
        given = select(rows, metric=set(table["metric"]), operator="")
        given = given[given["dataset"] != AVERAGE].set_index(CELL)
        both = given.join(means.add_suffix("_expected"), how="right")
        yield from _unequal("the samples'", both)


def _unequal(whose: str, rows: pd.DataFrame) -> Iterator[str]:
    """Yield differences of `value` or `n` from the expected one."""
    for keys, row in zip(rows.index, rows.to_dict("records"), strict=True):
        for name in ("value", "n"):
            given, expected = row[name], row[f"{name}_expected"]
            if not np.isclose(given, expected, rtol=TOLERANCE, atol=ROUNDING, equal_nan=True):
                cell = " ".join(filter(None, keys))
                yield f"statistics, {cell}: {name} is {given:g}, of {whose} {expected:g}"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("file", type=Path, help="such as docs/leaderboard/my-run.json")
    return line


if __name__ == "__main__":
    run(main, parser())
