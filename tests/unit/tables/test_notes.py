"""Notes and entries of tables that depend on the results."""

import pandas as pd

from helpers.estimated_results import view
from helpers.result_rows import CELL, frame, results, statistics_row, study_rows
from helpers.soft_tables import MEANS, sample_rows, table_of
from pisoft.statistics.layer_study import depth_statistics
from pisoft.statistics.results import summary_table
from pisoft.tables import advantage, layer_study, original_soft, pi_soft_auc
from pisoft.tables.notes import poor_intervals
from pisoft.views.view import Results


def test_few_skewed_clusters_give_a_poor_interval_at_any_sample_size():
    def note(skewness, n_clusters):
        counts = {"n": 400, "n_clusters": n_clusters, "skewness": skewness}
        rows = frame([statistics_row("auc_pi_soft_nc", "sst2", "a", 0.5, **counts)])
        return poor_intervals(Results(rows, {"a": "A"}, {"sst2": "SST-2"}))

    assert note(0.5, 25).startswith("1 of the 1 intervals"), "cluster skewness 2.5"
    assert note(0.2, 25) == "", "cluster skewness 1"
    assert note(0.5, None) == ""


def test_notes_state_that_soft_ns_is_clamped_after_averaging():
    for display in (pi_soft_auc, original_soft):
        notes = table_of(display, sample_rows(MEANS), clamp="mean").notes
        assert "after averaging" in " ".join(notes)


def test_without_half_curves_no_method_is_reported_as_equal():
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
    labels = {"methods": {"a": "A"}, "datasets": {"sst2": "SST-2"}}
    drawn = advantage.table(view({"advantage": rows}, CELL, **labels))
    assert drawn.notes[0] == "π-Soft-NS ↑: no method has a value for both halves."


def test_a_mean_of_a_single_cluster_has_no_standard_error():
    depths = {1: 0.5, 2: 0.6}
    study = study_rows(
        {d: dict.fromkeys(("development", "rest"), [v] * 3) for d, v in depths.items()}
    )
    clusters = {f"rest-{place}": "one" for place in range(3)}
    rows = summary_table("depths", [depth_statistics(pd.DataFrame(study), clusters)]).to_pandas()
    drawn = layer_study.table(view({"depths": rows}, CELL, datasets={"sst2": "SST-2"}))
    selected = drawn.columns.index("Selected")
    assert {row.entries[selected].text for block in drawn.blocks for row in block.rows} == {"0.600"}
