"""The table of ranks: intervals, shares, ranks without a dataset."""

from helpers.estimated_results import view
from helpers.ranked_results import CELL, LEFT_OUT, RANKS, SETTINGS, all_rows
from helpers.result_rows import frame
from pisoft.formatting import NOTHING
from pisoft.tables import ranks


def table_of(given=RANKS, left_out=LEFT_OUT):
    frames = {question: frame(rows) for question, rows in all_rows(given, left_out).items()}
    return ranks.table(view(frames, CELL, **SETTINGS))


def test_table_shows_ranks_intervals_shares_and_ranks_without_a_dataset():
    left_out = {name: LEFT_OUT[name] for name in ("", "sst2")}
    table = table_of(left_out=left_out)
    assert table.columns == ("Rank", "95 % interval", "Best in", "Without SST2")
    assert [block.title for block in table.blocks] == ["π-Soft-NS ↑", "π-Soft-NC ↑"]
    texts = {row.label: [entry.text for entry in row.entries] for row in table.blocks[0].rows}
    assert texts == {
        "Random": ["4", "3 to 4", "0 %", "4"],
        "Attention": ["2", "1 to 3", "0 %", "1.5"],
        "Grad-ELLM": ["1", "1 to 2", "100 %", "1.5"],
        "$ M_{": ["3", "2 to 4", "0 %", "3"],
    }
    assert "Samples per dataset: SST2 20." in table.notes


def test_a_method_without_a_rank_is_named():
    table = table_of({**RANKS, "mine": None})
    assert [entry.text for entry in table.blocks[1].rows[3].entries[:3]] == [NOTHING] * 3
    assert "No rank for $ M_{ by π-Soft-NC ↑: no value for some dataset." in table.notes
    assert "Samples per dataset: SST2 0 to 20, by method (at most 20 failed)." in table.notes


def test_of_a_single_dataset_none_is_left_out():
    table = table_of(left_out={"": RANKS})
    assert {entry.text for row in table.blocks[0].rows for entry in row.entries[3:]} == {NOTHING}
