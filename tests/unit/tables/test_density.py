"""The table of densities: small and negative numbers, and the note without random scores."""

from helpers.density_results import LABELS, METHODS, correlation_rows, density_rows
from helpers.views import view_of
from pisoft.tables.density import table


def table_of(density, correlations):
    rows = {"density": density, "density_correlations": correlations}
    return table(view_of(LABELS, {"protocol": "dynamic", "model": "llama"}, **rows))


def test_a_small_p_value_and_a_negative_correlation_are_written_as_such():
    made = table_of(density_rows(), correlation_rows(p_adjusted=1e-5))
    entry = made.blocks[1].rows[0].entries[0]
    assert entry.text == "\N{MINUS SIGN}0.25"
    assert entry.interval.endswith("], p < 0.001")


def test_without_random_scores_the_table_says_so_in_one_line():
    methods = [name for name in METHODS if name != "random"]
    made = table_of(density_rows(methods), correlation_rows(["without random"]))
    assert len(made.blocks) == 3
    assert "Random scores are not among the methods." in made.notes
