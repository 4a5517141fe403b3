"""The table of the models' accuracy."""

import pandas as pd

from helpers.estimated_results import view
from pisoft.formatting import NOTHING
from pisoft.statistics.results import summary_table
from pisoft.tables.accuracy import table

MODELS, DATASETS = {"llama": "Llama", "mistral": "Mistral"}, {"sst2": "SST2", "imdb": "IMDb"}
VALUES = {
    "accuracy": 0.9375,
    "greedy_is_label": 0.5,
    "mean_margin": 1.25,
    "too_many_words": 232,
    "truncated": 1,
    "mean_prompt_tokens": 41.25,
    "mean_output_tokens": 1.0,
}


def test_shares_have_intervals_and_open_generation_has_none():
    shares = ("accuracy", "greedy_is_label")
    rows = pd.DataFrame(
        {
            "model": "llama", "dataset": dataset, "metric": metric, "n": 98, "n_failed": 2,
            "value": None if dataset == "imdb" and metric in shares else value,
            "low": 0.25 if dataset == "sst2" and metric in shares else None,
            "high": 0.75 if dataset == "sst2" and metric in shares else None,
        }
        for dataset in DATASETS
        for metric, value in VALUES.items()
    )  # fmt: skip
    frames = {"accuracy": summary_table("accuracy", [rows]).to_pandas()}
    made = table(view(frames, {}, models=MODELS, datasets=DATASETS))
    (sst2, imdb), missing = (block.rows for block in made.blocks)
    expected = ["0.94", "0.50", "1.25", "232 of 98", "1", "41.2", "1.0", "98", "2"]
    assert [entry.text for entry in sst2.entries] == expected
    assert [entry.text for entry in imdb.entries] == [NOTHING, NOTHING, *expected[2:]]
    assert [entry.interval for entry in sst2.entries[:3]] == ["[.25, .75]"] * 2 + [None]
    assert not any(entry.interval for entry in imdb.entries)
    assert missing == (), "of a model without results"
