"""Tables that rank methods by the soft metrics: variances, and what their notes count."""

import numpy as np

from helpers.soft_tables import MEANS, METHODS, auc_of, sample_rows, table_of
from pisoft.tables import original_soft, pi_soft_auc


def test_failed_samples_are_counted_and_explained():
    failed = [
        ("mine", "imdb", 0, "nonfinite_attribution"),
        ("mine", "imdb", 2, "nonfinite_logits"),
        *((method, "sst2", 1, "degenerate_baseline") for method in METHODS),
    ]
    notes = " ".join(auc_of(sample_rows(MEANS, failed)).notes)
    assert "Samples per dataset: SST2 3, IMDb 3." in notes
    assert "SST2 (all methods): 1 degenerate_baseline" in notes
    assert "IMDb (Mine): 1 nonfinite_attribution, 1 nonfinite_logits" in notes
    assert "nonfinite_attribution: a score is not a finite number; " in notes


def test_samples_of_a_dataset_are_those_of_the_method_with_most():
    rows = sample_rows({("random", "sst2"): 0.2}) + sample_rows({("mine", "sst2"): 0.9}, samples=2)
    assert "Samples per dataset: SST2 3." in auc_of(rows).notes


def test_notes_say_that_soft_ns_is_clamped_after_averaging():
    for display in (pi_soft_auc, original_soft):
        notes = table_of(display, sample_rows(MEANS), clamp="mean").notes
        assert "after averaging" in " ".join(notes)


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
