"""The table of densities: numbers, correlations, and the note without random scores."""

import pytest

from helpers.density_results import DATASETS, LABELS, METHODS, correlation_rows, density_rows
from helpers.views import view_of
from pisoft.formatting import NOTHING
from pisoft.tables.density import table

CELL = {"protocol": "dynamic", "model": "llama"}


@pytest.fixture
def table_of(tmp_path):
    def draw(density=None, correlations=None):
        correlations = correlations or correlation_rows()
        fixed = [{**row, "protocol": "fixed", "value": 0.0} for row in correlations]
        rows = {"density": density or density_rows(), "density_correlations": fixed + correlations}
        return table(view_of(LABELS, CELL, **rows))

    return draw


def test_densities_of_methods_and_correlations_of_datasets(table_of):
    made = table_of()
    assert [block.title for block in made.blocks] == [
        "Density, mean over datasets",
        "Spearman's ρ with AUC π-Soft-NS ↑, all methods",
        "Spearman's ρ with AUC π-Soft-NS ↑, without random scores",
        "Spearman's ρ with AUC π-Soft-NC ↑, all methods",
        "Spearman's ρ with AUC π-Soft-NC ↑, without random scores",
        "Spearman's ρ with Soft-NS ↑, all methods",
        "Spearman's ρ with Soft-NS ↑, without random scores",
        "Spearman's ρ with Soft-NC ↑, all methods",
        "Spearman's ρ with Soft-NC ↑, without random scores",
    ]
    texts = [[(r.label, *(e.text for e in r.entries)) for r in b.rows] for b in made.blocks]
    assert texts[0] == [
        ("Random", "0.500", "0.500"),
        ("Saliency", "0.125", "0.125"),
        ("$ M_{", NOTHING, NOTHING),
    ]
    assert texts[2] == [(label, "0.750", "0.750") for label in (*DATASETS.values(), "Avg")]
    below = made.blocks[2].rows[0].entries[0].interval
    assert below in ("[.687, .812], p = 0.040", "[.688, .812], p = 0.040")
    assert "p =" not in made.blocks[0].rows[0].entries[0].interval, "a density is not tested"
    assert not any("not among" in note for note in made.notes)
    assert "at most 20 failed" in made.notes[-1]
    assert len(made.values) == len(density_rows()) + len(correlation_rows())


def test_a_small_p_value_and_a_negative_correlation_are_written_as_such(table_of):
    entry = table_of(None, correlation_rows(p_adjusted=1e-5)).blocks[1].rows[0].entries[0]
    assert entry.text == "\N{MINUS SIGN}0.250"
    assert entry.interval.endswith("], p < 0.001")


def test_without_random_scores_the_table_says_so_in_one_line(table_of):
    methods = [name for name in METHODS if name != "random"]
    made = table_of(density_rows(methods), correlation_rows(["without random"]))
    assert len(made.blocks) == 5
    assert "Random scores are not among the methods." in made.notes
