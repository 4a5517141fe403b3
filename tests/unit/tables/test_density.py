"""The table of densities: numbers, correlations, and what it says without random scores."""

import pandas as pd

from dense import DATASETS, METHODS, correlation_rows, density_rows
from pisoft.contracts import write_rows
from pisoft.tables.density import density_table
from pisoft.units import NOTHING
from rooms import tabulate
from typesetting import assert_latex_fits, needs_latex


def table_of(density, correlations, methods=METHODS):
    frames = (pd.DataFrame(rows) for rows in (density, correlations))
    density, correlations = (f.astype({"value": float, "low": float}) for f in frames)
    return density_table(
        density, correlations, where="Llama", methods=methods, datasets=DATASETS
    )  # fmt: skip


def test_densities_of_methods_and_correlations_of_datasets():
    table = table_of(density_rows(), correlation_rows())
    assert [block.title for block in table.blocks] == [
        "Density, mean over datasets",
        "Spearman's ρ with AUC π-Soft-NS ↑, all methods",
        "Spearman's ρ with AUC π-Soft-NS ↑, without random scores",
        "Spearman's ρ with AUC π-Soft-NC ↑, all methods",
        "Spearman's ρ with AUC π-Soft-NC ↑, without random scores",
    ]
    texts = [[(r.label, *(e.text for e in r.entries)) for r in b.rows] for b in table.blocks]
    assert texts[0] == [
        ("Random", "0.500", "0.500"),
        ("Saliency", "0.125", "0.125"),
        ("$ M_{", NOTHING, NOTHING),
    ]
    assert texts[2] == [(label, "0.750", "0.750") for label in ("SST2", "IMDb", "Avg")]
    below = table.blocks[2].rows[0].entries[0].interval
    assert below in ("[.687, .812], p = 0.040", "[.688, .812], p = 0.040")
    assert "p =" not in table.blocks[0].rows[0].entries[0].interval, "a density is not tested"
    assert not any("not among" in note for note in table.notes)
    assert "at most 20 failed" in table.notes[-1]


def test_a_small_p_value_and_a_negative_correlation_are_written_as_such():
    rows = [{**row, "p_adjusted": 1e-5} for row in correlation_rows()]
    entry = table_of(density_rows(), rows).blocks[1].rows[0].entries[0]
    assert entry.text == "\N{MINUS SIGN}0.250"
    assert entry.interval.endswith("], p < 0.001")


def test_without_random_scores_the_table_says_so_in_one_line():
    methods = {name: label for name, label in METHODS.items() if name != "random"}
    table = table_of(density_rows(tuple(methods)), correlation_rows([False]), methods)
    assert len(table.blocks) == 3
    assert "Random scores are not among the methods." in table.notes


def test_the_table_script_reads_one_cell_of_the_files(tmp_path):
    files = {kind: tmp_path / f"{kind}.parquet" for kind in ("density", "density_correlations")}
    write_rows(files["density"], "density", density_rows(), {})
    fixed = [{**row, "protocol": "fixed"} for row in correlation_rows()]
    write_rows(files["density_correlations"], "density_correlations",
               fixed + correlation_rows(), {})  # fmt: skip
    settings = {"models": {"llama": "Llama"}, "datasets": DATASETS, "methods": METHODS}
    made = tabulate("density", settings, files, tmp_path, protocol="dynamic", model="llama")
    found = pd.read_csv(made["csv"])
    assert found["number"].value_counts().to_dict() == {
        "density": len(density_rows()),
        "correlation": len(correlation_rows()),
    }
    assert {"value", "low", "high", "n", "n_failed", "p_adjusted"} <= set(found.columns)


@needs_latex
def test_the_latex_table_fits_a_column_or_both(tmp_path):
    assert_latex_fits(table_of(density_rows(), correlation_rows()), tmp_path)
