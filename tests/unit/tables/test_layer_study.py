"""The table of the layer study."""

import pandas as pd

from helpers.estimated_results import view
from helpers.result_rows import CELL, study_rows
from pisoft.statistics.layer_study import depth_statistics
from pisoft.statistics.results import summary_table
from pisoft.tables.layer_study import table


def test_a_mean_of_a_single_cluster_has_no_error():
    depths = {1: 0.5, 2: 0.6}
    study = study_rows(
        {d: dict.fromkeys(("development", "rest"), [v] * 3) for d, v in depths.items()}
    )
    clusters = {f"rest-{place}": "one" for place in range(3)}
    rows = summary_table("depths", [depth_statistics(pd.DataFrame(study), clusters)]).to_pandas()
    drawn = table(view({"depths": rows}, CELL, datasets={"sst2": "SST-2"}))
    selected = drawn.columns.index("Selected")
    assert {row.entries[selected].text for block in drawn.blocks for row in block.rows} == {"0.600"}
