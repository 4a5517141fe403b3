"""Notes below the tables that rank methods by the soft metrics."""

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


def test_notes_say_that_soft_ns_is_clamped_after_averaging():
    for display in (pi_soft_auc, original_soft):
        notes = table_of(display, sample_rows(MEANS), clamp="mean").notes
        assert "after averaging" in " ".join(notes)
