"""Notes below the tables that rank methods by the soft metrics."""

from helpers.soft_tables import MEANS, sample_rows, table_of
from pisoft.tables import original_soft, pi_soft_auc


def test_notes_say_that_soft_ns_is_clamped_after_averaging():
    for display in (pi_soft_auc, original_soft):
        notes = table_of(display, sample_rows(MEANS), clamp="mean").notes
        assert "after averaging" in " ".join(notes)
