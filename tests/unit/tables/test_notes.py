"""Notes that depend on the results."""

from helpers.result_rows import frame, statistics_row
from pisoft.tables.notes import poor_intervals
from pisoft.views.view import Results


def test_few_skewed_clusters_make_a_poor_interval_however_many_samples_they_hold():
    def note(skewness, n_clusters):
        counts = {"n": 400, "n_clusters": n_clusters, "skewness": skewness}
        rows = frame([statistics_row("auc_pi_soft_nc", "sst2", "a", 0.5, **counts)])
        return poor_intervals(Results(rows, {"a": "A"}, {"sst2": "SST-2"}))

    assert note(0.5, 25).startswith("1 of the 1 intervals"), "skewness 2.5 of the clusters"
    assert note(0.2, 25) == "", "skewness 1 of the clusters"
    assert note(0.5, None) == ""
