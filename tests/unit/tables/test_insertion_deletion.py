"""The table of insertion and deletion: directions, what is left out, failures."""

from helpers.soft_tables import DATASETS, METHODS, table_of
from pisoft.statistics.metrics import RANKING_METRICS
from pisoft.tables import insertion_deletion

RANKING = {
    ("random", "sst2"): (0.2, 0.3),
    ("attention", "sst2"): (0.4, 0.1),
    ("mine", "sst2"): (0.6, 0.2),
    ("random", "imdb"): (0.1, 0.4),
    ("attention", "imdb"): (0.4, 0.3),
    ("mine", "imdb"): (0.5, 0.1),
}


def ranking_of(means=RANKING, failed=()):
    """The table of `means` = {(method, dataset): (deletion, insertion)}, and a dataset without."""
    rows = [
        {
            "model": "llama", "method": method, "dataset": dataset, "sample_id": f"s{number}",
            "metric": metric, "reason": None,
            "value": None if (method, dataset, number) in failed else mean + (number - 1) / 100,
            "status": "nonfinite_logits" if (method, dataset, number) in failed else "ok",
        }
        for (method, dataset), pair in means.items()
        for number in range(3)
        for metric, mean in zip(RANKING_METRICS, pair, strict=True)
    ]  # fmt: skip
    rows += [
        {
            "model": "llama", "dataset": "wikibio", "sample_id": None, "value": None,
            "method": method, "metric": metric, "status": "not_applicable", "reason": "none",
        }
        for method in METHODS
        for metric in RANKING_METRICS
    ]  # fmt: skip
    datasets = {"wikibio": "WikiBio", **DATASETS}
    cell = {"model": "llama"}
    return table_of(insertion_deletion, rows, "ranking_samples", cell, datasets=datasets)


def averages_of(block):
    """Methods, best first, with their averages."""
    return [(row.label, row.entries[-1].text) for row in block.rows]


def test_deletion_is_best_where_highest_and_insertion_where_lowest():
    table = ranking_of()
    assert [block.title for block in table.blocks] == ["Deletion ↑", "Insertion ↓"]
    deletion, insertion = (averages_of(block) for block in table.blocks)
    assert deletion == [("Mine", "0.550"), ("Attention", "0.400"), ("Random", "0.150")]
    assert insertion == [("Mine", "0.150"), ("Attention", "0.200"), ("Random", "0.350")]
    table = ranking_of({**RANKING, ("mine", "imdb"): (0.5, 0.9)})
    assert [name for name, _ in averages_of(table.blocks[1])] == ["Attention", "Random", "Mine"]


def test_a_dataset_that_cannot_be_ranked_is_named_and_in_no_mean():
    table = ranking_of()
    assert table.columns == ("Rank", "SST2", "IMDb", "Average")
    assert set(table.values["dataset"]) == {"sst2", "imdb", "average"}
    for note in (
        "Left out: WikiBio, because none.",
        "No sample failed.",
        "Samples per dataset: SST2 3, IMDb 3.",
    ):
        assert note in table.notes
