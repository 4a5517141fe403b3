"""What stands below the table of how metrics rank the controls."""

from helpers.estimated_results import view
from helpers.result_rows import CELL, frame, result_row
from pisoft.tables.metric_validation import ORDER, table
from pisoft.tables.notes import clusters, samples
from pisoft.views.view import Results


def rows(metric, shares, needed):
    """Rows of one metric: shares of samples that have neighbours of the order right."""
    keys = {"metric": metric, "dataset": "sst2"}
    of_pairs = [
        result_row("metric_validation", share, part=part, low=share - 0.2, high=share + 0.2, **keys)
        for part, share in zip(ORDER, shares, strict=True)
    ]
    row = result_row("metric_validation", needed, part="samples_needed", n=20, n_failed=0, **keys)
    return [*of_pairs, {**row, "n": 20, "n_failed": 0}]


def test_a_metric_that_fails_is_named_with_the_pair_it_confuses_most_and_its_interval():
    given = rows("auc_pi_soft_ns", (0.9, 0.8, 0.7), 5) + rows("soft_ns", (0.6, 0.3, 0.9), None)
    of_model = {"model": CELL["model"]}
    shown = table(view({"metric_validation": frame(given)}, of_model, datasets={"sst2": "SST-2"}))
    assert (
        "SST-2: the order of the means is recovered by: AUC π-Soft-NS ↑ · dynamic; not recovered "
        "with these samples by: Soft-NS ↑ · dynamic (Noisy > random in 0.30 [.10, .50] of the "
        "samples)."
    ) in shown.notes


def test_clusters_stand_beside_the_samples_where_there_are_fewer():
    counted = [
        result_row("advantage", 0.1, dataset=name, n=20, n_clusters=clusters)
        for name, clusters in (("tellmewhy", 9), ("sst2", None))
    ]
    labels = {"sst2": "SST-2", "tellmewhy": "TellMeWhy"}
    assert samples(Results(frame(counted), {}, labels)) == (
        "Samples per dataset: SST-2 20; TellMeWhy 20. Clusters of samples, which intervals and "
        "tests take for independent: TellMeWhy 9."
    )
    assert clusters(Results(frame(counted[1:]), {}, labels)) == ""
