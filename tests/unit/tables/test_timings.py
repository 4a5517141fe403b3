"""The table of times and memory of attribution."""

import pandas as pd

from helpers.estimated_results import view
from pisoft.statistics.results import summary_table
from pisoft.tables.timings import table

METHODS = {"random": "Random", "attention": "Attention", "mine": "Mine"}
DATASETS = {"sst2": "SST2", "imdb": "IMDb"}
MODELS = {"llama": "Llama", "mistral": "Mistral"}
SECONDS = {
    ("llama", "random", "sst2"): 0.0000213,
    ("llama", "attention", "sst2"): 0.3104,
    ("llama", "mine", "sst2"): 45.2,
    ("mistral", "random", "sst2"): 0.0000213,
    ("mistral", "attention", "sst2"): 1234.5,
    ("mistral", "mine", "sst2"): 9.996,
    ("llama", "random", "imdb"): 0.00003,
    ("llama", "attention", "imdb"): 0.50001,
    ("llama", "mine", "imdb"): 0.5,
    ("mistral", "random", "imdb"): None,
    ("mistral", "attention", "imdb"): 0.25,
    ("mistral", "mine", "imdb"): 0.25,
}


def timings(seconds=SECONDS, on_device=None, device="cpu"):
    return pd.DataFrame(
        {
            "model": model,
            "method": method,
            "dataset": dataset,
            "metric": metric,
            "value": value,
            "n": 0 if mean is None else 24,
            "n_failed": 24 if mean is None else 0,
            "text": device,
        }
        for (model, method, dataset), mean in seconds.items()
        for metric, value in (
            ("seconds_per_sample", mean),
            ("peak_memory_mb", 812.4 if model == "llama" else 16_000.0),
            ("peak_device_memory_mb", on_device),
        )
    )


def table_of(rows, baselines=("random",), methods=METHODS, imported=()):
    frames = {"timings": summary_table("timings", [rows]).to_pandas()}
    settings = {"models": MODELS, "methods": methods, "datasets": DATASETS}
    return table(view(frames, {}, **settings, baselines=baselines, imported=imported))


def texts(made, block):
    return [[entry.text for entry in row.entries] for row in made.blocks[block].rows]


def strong(made, block):
    return [[entry.strong for entry in row.entries[::2]] for row in made.blocks[block].rows]


def test_the_fastest_method_of_a_column_is_bold_before_rounding_and_ties_share_it():
    made = table_of(timings())
    assert strong(made, 0) == [[False, False], [True, False], [False, True]]
    assert strong(made, 1) == [[False, False], [True, True], [False, True]]
    assert "Random excepted" in made.notes[0]


def test_times_have_two_significant_digits_and_no_spread():
    seconds = dict.fromkeys(SECONDS, 0.0) | {
        ("llama", "mine", "sst2"): 0.00996,
        ("mistral", "mine", "sst2"): 0.0996,
    }
    rows = table_of(timings(seconds)).blocks[0].rows
    assert [entry.text for entry in rows[2].entries[::2]] == ["10", "100"]
    assert rows[0].entries[0].text == "0.0"
    assert {entry.interval for row in rows for entry in row.entries} == {None}


def test_memory_is_the_devices_where_there_is_one():
    made = table_of(timings(on_device=77.7, device="NVIDIA X"))
    assert texts(made, 0)[0][1::2] == ["78", "78"]
    assert "on the device" in made.notes[1]
    assert "resident" not in made.notes[1]
    assert "Measured on: NVIDIA X." in made.notes[2]
    assert "resident" in table_of(timings()).notes[1]


def test_agreement_with_float32_is_a_mean_over_all_steps_of_a_method():
    cells = {("llama", "mine", "sst2"): (0.9, 3), ("mistral", "mine", "imdb"): (0.5, 1)}
    repeated = pd.concat(
        timings({cell: value}).assign(metric="float32_agreement", n=n).iloc[:1]
        for cell, (value, n) in cells.items()
    )
    notes = table_of(pd.concat([timings(), repeated])).notes
    assert any("those in float32: Mine 0.800 (n = 4)." in note for note in notes)
    assert not any("float32" in note for note in table_of(timings()).notes)


def test_a_model_without_times_has_no_column():
    rows = timings({cell: s for cell, s in SECONDS.items() if cell[0] == "mistral"})
    made = table_of(rows)
    assert made.spanners == (("Mistral", 2),)
    assert texts(made, 0)[1] == ["10000", "16000"]


def test_methods_without_times_have_no_row_and_a_note_says_why():
    """Also if they bear the label of a method that has one, and are the only baseline."""
    methods = {**METHODS, "given": "Mine", "grad_ellm_selected": "Grad-ELLM (depth selected)"}
    made = table_of(timings(), methods=methods, imported=("given",), baselines=("given",))
    assert [row.label for row in made.blocks[0].rows] == list(METHODS.values())
    assert made.notes[-3:-1] == (
        "Without a row, as a selection has no time of its own: Grad-ELLM (depth selected).",
        "Without a row, as these scores were made elsewhere: Mine.",
    )
    assert "excepted" not in made.notes[0]
    assert strong(made, 0)[0] == [True, True], "without a baseline every method can be the fastest"
    assert not any("Without a row" in note for note in table_of(timings()).notes)
