"""Cells are written to paths and parsed from them."""

from pathlib import Path

import pytest

from pisoft.config.cells import Cell
from pisoft.store.schemas import FILES

EVALUATED = Cell("dynamic", "mean", "llama-3.1", "", "grad_ellm", "sst2")


@pytest.mark.parametrize(
    ("kind", "cell", "path"),
    [
        ("soft", EVALUATED, "soft/dynamic@mean/llama-3.1/grad_ellm/sst2"),
        ("soft", EVALUATED._replace(operator=""), "soft/dynamic/llama-3.1/grad_ellm/sst2"),
        ("attributions", Cell("", "", "m", "reinit-4", "x", "d"), "attributions/m@reinit-4/x/d"),
        ("prompts", Cell(model="m", dataset="d"), "prompts/m/d"),
    ],
)
def test_a_cell_survives_the_round_trip_through_its_path(kind, cell, path):
    assert FILES[kind].path.format(**cell.wildcards) == path
    for file in (f"results/soft/data/{path}.parquet", f"{path}.25000-by-400"):
        assert FILES[kind].cell(Path(file)) == cell


def test_a_path_outside_the_pattern_is_refused():
    with pytest.raises(ValueError, match="is not a path soft/"):
        FILES["soft"].cell(Path("attributions/m/x/d.parquet"))
