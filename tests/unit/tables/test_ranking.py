"""Tables that rank methods by the soft metrics: ranks, averages, and what their notes say."""

import numpy as np
import pytest

from helpers.soft_tables import (
    MEANS,
    METHODS,
    auc_of,
    sample_rows,
    table_of,
    value_of,
)
from pisoft.formatting import NOTHING
from pisoft.tables import original_soft, variance_components


def ranks_of(table, block=0):
    """{method: rank} in the order of the rows."""
    return {row.label: row.entries[0].text for row in table.blocks[block].rows}


def texts_of(table, method, block=0):
    """Numbers of a method's row."""
    (row,) = [row for row in table.blocks[block].rows if row.label == method]
    return [entry.text for entry in row.entries[1:]]


def test_auc_table_shows_means_over_samples_and_their_mean_over_datasets():
    table = auc_of(sample_rows(MEANS))
    assert table.columns == ("Rank", "SST2", "IMDb", "Average")
    assert [block.title for block in table.blocks[:2]] == ["AUC π-Soft-NS ↑", "AUC π-Soft-NC ↑"]
    for block in (0, 1):
        assert list(ranks_of(table, block).items()) == [
            ("Mine", "1"), ("Attention", "2"), ("Random", "3")
        ]  # fmt: skip
        assert texts_of(table, "Random", block) == ["0.200", "0.300", "0.250"]
        assert texts_of(table, "Mine", block) == ["0.900", "0.100", "0.500"]
        strong = [[entry.strong for entry in row.entries[1:]] for row in table.blocks[block].rows]
        assert strong == [[True, False, True], [False, True, False], [False, False, False]]
    assert "0.05, …, 0.95 (3 values)" in table.notes[0]
    assert "has 0.9." in table.notes[0]


def test_failed_samples_are_left_out_counted_and_explained():
    failed = [
        ("mine", "imdb", 0, "nonfinite_attribution"),
        ("mine", "imdb", 2, "nonfinite_logits"),
        *((method, "sst2", 1, "degenerate_baseline") for method in METHODS),
    ]
    table = auc_of(sample_rows(MEANS, failed))
    cell = value_of(table, "auc_pi_soft_ns", "imdb", "mine")
    assert (cell["value"], cell["n"], cell["n_failed"]) == (pytest.approx(0.1), 1, 2)
    notes = " ".join(table.notes)
    assert "Samples per dataset: SST2 3, IMDb 3." in notes
    assert "SST2 (all methods): 1 degenerate_baseline" in notes
    assert "IMDb (Mine): 1 nonfinite_attribution, 1 nonfinite_logits" in notes
    assert "nonfinite_attribution: a score is not a finite number; " in notes
    assert "No sample failed." in auc_of(sample_rows(MEANS)).notes


def test_samples_of_a_dataset_are_those_of_the_method_with_most():
    rows = sample_rows({("random", "sst2"): 0.2}) + sample_rows({("mine", "sst2"): 0.9}, samples=2)
    assert "Samples per dataset: SST2 3." in auc_of(rows).notes


@pytest.mark.parametrize(
    ("clamp", "words"),
    [("draw", "for every draw"), ("mean", "after averaging"), ("none", "not clamped")],
)
def test_notes_say_whether_soft_ns_is_clamped(clamp, words):
    rows = sample_rows(MEANS)
    assert words in " ".join(auc_of(rows, clamp=clamp).notes)
    assert words in " ".join(table_of(original_soft, rows, clamp=clamp).notes)


def test_notes_give_the_noise_floor_and_its_number_type():
    rows = sample_rows(MEANS)
    for row in rows:
        if row["metric"] == "identity":
            row["value"] = 0.003 if row["sample_id"] == "s0" else 0.0
    notes = " ".join(auc_of(rows).notes)
    assert "Noise floor (bfloat16)" in notes
    assert "lies 0.001 from itself on average and 0.003 at most" in notes


def test_in_half_precision_the_noise_floor_is_how_much_float32_differs():
    noise = {
        "noise_distance": (0.002, 0.004, None),
        "noise_h0": (0.01, -0.03, None),
        "noise_auc_ns": (-0.001, 0.001, None),
        "noise_auc_nc": (0.005, 0.003, None),
    }
    rows = sample_rows(MEANS)
    rows += [
        {**rows[0], "metric": metric, "sample_id": f"s{number}", "value": value}
        for metric, values in noise.items()
        for number, value in enumerate(values)
    ]
    (note,) = [note for note in auc_of(rows).notes if note.startswith("Noise floor")]
    assert note.startswith(
        "Noise floor (bfloat16): in float32, a draw's distance differs by 0.003 on average, H₀ by "
        "0.02, at most 0.03, the AUC of one draw by 0.001 (π-Soft-NS) and 0.004 (π-Soft-NC), in 2 "
        "evaluations"
    )


def test_further_blocks_have_ratios_of_means_medians_and_the_low_part():
    rows = sample_rows(MEANS, samples=4)
    for row in rows:
        if row["metric"] == "h0":
            row["value"] = 0.1 if row["sample_id"] == "s0" else 0.8
    table = auc_of(rows)
    assert len(table.blocks) == 2 + 6
    value = value_of(table, "ratio_auc_pi_soft_nc", "sst2", "mine")["value"]
    numerators = [0.9 + (number - 1) / 100 for number in range(4)]
    assert value == pytest.approx(sum(numerators) / (0.1 + 3 * 0.8))
    value = value_of(table, "median_auc_pi_soft_ns", "sst2", "mine")["value"]
    assert value == pytest.approx(np.median(numerators))


def test_variance_table_shows_what_the_draws_and_rounding_make_of_the_variance():
    rows = sample_rows(MEANS, samples=5)
    for row in rows:
        row["value"] = {"monte_carlo_ns": 5e-5, "numerical": 1e-3}.get(row["metric"], row["value"])
    table = table_of(variance_components, rows)
    assert table.columns == ("Deviation", "Between samples", "Draws", "Rounding")
    assert [block.title for block in table.blocks[:2]] == [
        "AUC π-Soft-NS, SST2", "AUC π-Soft-NS, IMDb",
    ]  # fmt: skip
    total = np.var(np.arange(5) / 100, ddof=1)
    deviation, between, draws, rounding = (e.text for e in table.blocks[0].rows[0].entries)
    assert deviation == f"{np.sqrt(total):.3f}"
    assert draws == f"{5e-5 / total:.2f}"
    assert rounding == "<0.01"  # 0.004
    assert between == f"{1 - (5e-5 + 1e-6) / total:.2f}"
    single = table_of(variance_components, sample_rows(MEANS, samples=1)).blocks[0].rows[0]
    assert [entry.text for entry in single.entries] == [NOTHING] * 4
    constant = [{**row, "value": 0.0} for row in sample_rows(MEANS)]
    of_constant = table_of(variance_components, constant).blocks[0].rows[0]
    assert [entry.text for entry in of_constant.entries] == ["0.000", *[NOTHING] * 3]


def test_notes_say_from_which_difference_on_the_tests_find_one():
    generator = np.random.default_rng(1)
    rows = sample_rows(MEANS, samples=40)
    for row in rows:
        row["value"] = 0.5 + generator.normal(0, 0.1)
    table = auc_of(rows)
    (note,) = [note for note in table.notes if "80 % power" in note]
    found = table.values[table.values["p_adjusted"] >= 0.05]["detectable"]
    assert f"80 % power is {found.min():.2g} to {found.max():.2g}, by entry" in note
    assert 0.02 < found.min() < found.max() < 0.2
    assert not [note for note in auc_of(sample_rows(MEANS)).notes if "80 % power" in note], (
        "with 3 samples no difference can be significant"
    )


def test_a_note_counts_the_intervals_of_few_and_skewed_samples():
    generator = np.random.default_rng(2)
    rows = sample_rows(MEANS, samples=30)
    for row in rows:
        skewed = row["metric"] == "auc_pi_soft_nc" and row["dataset"] == "sst2"
        row["value"] = generator.lognormal(0, 1.5) if skewed else 1 + generator.random()
    (note,) = [note for note in auc_of(rows).notes if "few, skewed" in note]
    assert note.startswith("3 of the 36 intervals"), "of 3 methods, 2 datasets and 6 metrics"
    assert "mostly π-Soft-NC on SST2" in note
    assert not [note for note in auc_of(sample_rows(MEANS)).notes if "few, skewed" in note]
