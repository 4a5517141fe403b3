"""The table of predicted and measured costs."""

import pandas as pd
import pytest

from pisoft.contracts import write_rows
from pisoft.statistics.reading import Files
from pisoft.tables.cost import WITHOUT_MODEL, table, with_ratios
from pisoft.units import NOTHING
from pisoft.views import View
from rooms import display_settings


def row(rule, model, **changes):
    return {
        "rule": rule, "model": model, "jobs": 2,
        "forwards_low": 500.0, "forwards_high": 500.0, "tokens_low": 4000.0,
        "tokens_high": 4000.0, "flops_low": 6e12, "flops_high": 6e12,
        "timed_jobs": 2, "seconds": 30.0,
        "counted_jobs": 2, "counted_forwards": 505.0, "counted_tokens": 4200.0,
    } | changes  # fmt: skip


ROWS = [
    row("fetch_dataset", None, forwards_low=0.0, forwards_high=0.0, tokens_low=0.0,
        tokens_high=0.0, flops_low=0.0, flops_high=0.0, counted_jobs=0, counted_forwards=None,
        counted_tokens=None, seconds=1.5),
    row("attribute", "llama", timed_jobs=1, counted_jobs=0, counted_forwards=None,
        counted_tokens=None),
    row("evaluate_soft", "llama"),
    row("evaluate_soft", "mistral", forwards_low=100.0, tokens_low=800.0, flops_low=1e12,
        counted_tokens=2000.0),
    row("evaluate_ranking", "mistral", counted_jobs=1),
]  # fmt: skip
MODELS = {"mistral": "Mistral", "llama": "Llama"}


def table_of(folder, rows=ROWS):
    path = folder / "cost.parquet"
    write_rows(path, "cost", rows, {})
    return table(View(Files({"cost": [path]}), display_settings(models=MODELS), {}))


def texts(block):
    return {line.label: [entry.text for entry in line.entries] for line in block.rows}


def test_ratios_and_speeds_are_those_of_the_numbers():
    found = with_ratios(pd.DataFrame(ROWS)).set_index(["model", "rule"])
    exact = found.loc["llama", "evaluate_soft"]
    assert exact["forwards_ratio"] == pytest.approx(505 / 500)
    assert exact["tokens_ratio"] == pytest.approx(4200 / 4000)
    assert exact["flops_per_second"] == pytest.approx(6e12 / 30)
    budgeted = found.loc["mistral", "evaluate_soft"]
    assert budgeted["flops_per_second"] == pytest.approx(6e12 * 2000 / 4000 / 30)
    assert found["flops_per_second"].isna().tolist() == [True, True, False, False, False]
    assert found["forwards_ratio"].isna().tolist() == [True, True, False, False, True]


def test_models_are_blocks_in_their_order_and_gaps_are_dashes(tmp_path):
    made = table_of(tmp_path)
    assert [block.title for block in made.blocks] == ["Mistral", "Llama", WITHOUT_MODEL]
    mistral, llama, all_models = map(texts, made.blocks)
    assert llama["evaluate_soft"] == [
        "2", "500", "505", "1.010", "4.00 k", "4.20 k", "1.050", "6.00 T", "30.0", "200 G",
    ]  # fmt: skip
    assert llama["attribute"][1:4] == ["500", NOTHING, NOTHING]
    assert llama["attribute"][-2:] == [NOTHING, NOTHING], "a part of the times is no time"
    assert mistral["evaluate_soft"][1] == "100 to 500"
    assert mistral["evaluate_ranking"][2:4] == [NOTHING, NOTHING]
    assert all_models["fetch_dataset"] == ["2", *[NOTHING] * 7, "1.5", NOTHING]
    notes = " ".join(made.notes)
    assert "no time is given: attribute (Llama): 1 of 2." in notes
    assert "no count is given: evaluate_ranking (Mistral): 1 of 2." in notes
    assert "draw budget" in notes
    assert "draw budget" not in " ".join(table_of(tmp_path, ROWS[:3]).notes)
