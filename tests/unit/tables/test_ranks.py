"""The table of ranks: ranks without a dataset."""

from helpers.estimated_results import view
from helpers.ranked_results import CELL, RANKS, SETTINGS, all_rows
from helpers.result_rows import frame
from pisoft.formatting import NOTHING
from pisoft.tables import ranks


def test_of_a_single_dataset_none_is_left_out():
    rows = all_rows(left_out={"": RANKS})
    frames = {question: frame(answers) for question, answers in rows.items()}
    table = ranks.table(view(frames, CELL, **SETTINGS))
    assert {entry.text for row in table.blocks[0].rows for entry in row.entries[3:]} == {NOTHING}
