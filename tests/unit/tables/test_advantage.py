"""The table of advantages over random scores: what its first notes say."""

from helpers.estimated_results import view
from helpers.result_rows import CELL, results
from pisoft.tables.advantage import table


def test_on_a_grid_without_halves_no_method_is_said_to_have_equal_ones():
    rows = results(
        "advantage",
        [
            {**CELL, "metric": metric, "dataset": dataset, "method": "a", "part": "at"}
            | {"position": pi, "value": 0.1, "low": 0.05, "high": 0.15, "n": 9}
            for metric in ("pi_soft_ns", "pi_soft_nc")
            for dataset in ("sst2", "average")
            for pi in (0.6, 0.9)
        ],
    )
    drawn = table(view({"advantage": rows}, CELL, methods={"a": "A"}, datasets={"sst2": "SST-2"}))
    assert drawn.notes[0] == "π-Soft-NS ↑: no method has a value for both halves."
