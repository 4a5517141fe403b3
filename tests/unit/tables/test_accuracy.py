"""The table of the models' accuracy."""

import numpy as np
import pandas as pd

from pisoft.contracts import write_rows
from pisoft.tables.accuracy import accuracy_table
from pisoft.units import NOTHING
from rooms import tabulate
from soft_tables import DATASETS

ACCURACY = [
    {
        "model": "llama",
        "dataset": dataset,
        "n": 98,
        "n_failed": 2,
        "truncated": 1,
        "accuracy": accuracy,
        "greedy_is_label": accuracy,
        "mean_prompt_tokens": 41.25,
        "mean_output_tokens": 1.0,
    }
    for dataset, accuracy in (("sst2", 0.9375), ("imdb", None))
]


def test_accuracy_table_leaves_open_generation_empty():
    table = accuracy_table(
        pd.DataFrame(ACCURACY), models={"llama": "Llama", "gone": "Gone"}, datasets=DATASETS
    )
    (sst2, imdb), (gone, _) = (block.rows for block in table.blocks)
    expected = ["0.938", "0.938", "1", "41.2", "1.0", "98", "2"]
    assert [entry.text for entry in sst2.entries] == expected
    assert [entry.text for entry in imdb.entries] == [NOTHING, NOTHING, *expected[2:]]
    assert sst2.entries[0].interval == wilson_text(0.9375, 98)
    assert not any(entry.interval for entry in (*imdb.entries, *sst2.entries[2:]))
    assert {entry.text for entry in gone.entries} == {NOTHING}
    assert table.values.columns.tolist() == [
        "metric",
        "model",
        "dataset",
        "value",
        "low",
        "high",
        "n",
        "n_failed",
    ]


def wilson_text(share, n, z=1.959963984540054):
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return f"[{centre - half:.3f}, {centre + half:.3f}]".replace("0.", ".")


def test_the_script_writes_the_accuracy_of_a_run(tmp_path):
    write_rows(tmp_path / "accuracy.parquet", "accuracy", ACCURACY, {})
    settings = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": {}}
    made = tabulate("accuracy", settings, {"accuracy": tmp_path / "accuracy.parquet"}, tmp_path)
    assert all(path.stat().st_size for path in made.values())
