"""The table of ranks: intervals, shares, ranks without a dataset."""

import pandas as pd

from pisoft.tables.ranks import rank_table
from pisoft.units import NOTHING
from ranked import CELL, DATASETS, LEFT_OUT, METHODS, RANKS, SETTINGS, both, write_files
from rooms import tabulate
from typesetting import assert_latex_fits, needs_latex
from uncertainty import frame, left_out_rows, ranked_rows


def table_of(ranks=RANKS, left_out=LEFT_OUT):
    statistics = both(ranked_rows, ranks) + both(ranked_rows, ranks, dataset="sst2")
    return rank_table(
        frame(statistics),
        frame(both(left_out_rows, left_out)),
        where="Llama · dynamic routing",
        methods=METHODS,
        datasets=DATASETS,
    )


def test_table_shows_ranks_intervals_shares_and_ranks_without_a_dataset():
    table = table_of()
    assert table.columns == ("Rank", "95 % interval", "Best in", "Without SST2", "Without IMDb")
    assert [block.title for block in table.blocks] == ["π-Soft-NS ↑", "π-Soft-NC ↑"]
    texts = {row.label: [entry.text for entry in row.entries] for row in table.blocks[0].rows}
    assert texts == {
        "Random": ["4", "3 to 4", "0 %", "4", "1"],
        "Attention": ["2", "1 to 3", "0 %", "1.5", "2"],
        "Grad-ELLM": ["1", "1 to 2", "100 %", "1.5", "3"],
        "$ M_{": ["3", "2 to 4", "0 %", "3", NOTHING],
    }
    assert "Samples per dataset: SST2 20." in table.notes


def test_a_method_without_a_rank_is_named():
    table = table_of({**RANKS, "mine": None})
    row = table.blocks[1].rows[3]
    assert [entry.text for entry in row.entries[:3]] == [NOTHING] * 3
    note = "No rank for $ M_{ by π-Soft-NC ↑: no value for some dataset."
    assert note in table.notes
    assert "Samples per dataset: SST2 0 to 20, by method (at most 20 failed)." in table.notes


def test_a_single_dataset_leaves_nothing_when_it_is_left_out():
    table = table_of(left_out={None: RANKS})
    assert {entry.text for row in table.blocks[0].rows for entry in row.entries[3:]} == {NOTHING}


def test_the_table_script_reads_one_cell_of_the_files(tmp_path):
    files = write_files(tmp_path, "statistics", "leave_one_out")
    made = tabulate("ranks", SETTINGS, files, tmp_path, **CELL)
    found = pd.read_csv(made["csv"]).set_index(["metric", "method"])
    row = found.loc["auc_pi_soft_nc", "grad_ellm"]
    assert (row["rank"], row["rank_low"], row["rank_high"], row["mean_rank"]) == (1, 1, 2, 1.1)
    assert (row["best_share"], row["rank_without_sst2"], row["rank_without_imdb"]) == (1, 1.5, 3)


@needs_latex
def test_the_latex_table_fits_a_column_or_both(tmp_path):
    assert_latex_fits(table_of({**RANKS, "mine": None}), tmp_path)
