"""The best of random masks, against all masks that were drawn, one by one."""

import itertools

import numpy as np
import pytest

import rooms
from pisoft.contracts import read_rows
from pisoft.curves import auc
from pisoft.faithfulness.masks import calibrated_means, kept_tokens, masks_of
from pisoft.statistics.search import MASKS, best_distances
from pisoft.statistics.soft_files import Cell, Steps
from summarising import STATISTICS, soft_rows, write_soft

CELL = Cell("dynamic", "llama", "search", "sst2")


def drawn(grid, tokens, draws, seed=1):
    """A step whose distances are a table over all masks, and the masks with their distances."""
    table = np.random.default_rng(seed).random(2**tokens)

    def distance(mask):
        return table[int(mask @ 2 ** np.arange(tokens))]

    means = calibrated_means("count", np.array(grid), tokens)
    probabilities = np.repeat([[0.5], *means[:, None]], tokens, axis=1)
    masks = masks_of("count", seed, "a", 0, (tokens, 1), len(grid), draws)
    lines = [
        [kept_tokens(masks, probabilities, line, draw)[:, 0] for draw in range(draws)]
        for line in range(1 + len(grid))
    ]
    distances = {
        "ns_distances": np.array([[[distance(mask) for mask in line] for line in lines]]),
        "nc_distances": np.array([[[distance(~mask) for mask in line] for line in lines]]),
    }
    stored = [(of, distance(of)) for line in lines[1:] for mask in line for of in (mask, ~mask)]
    known = np.array([0.9])
    steps = Steps(
        sample=np.array([0]),
        draws=distances,
        perturbable=np.array([tokens]),
        achieved=probabilities[None, :, 0],
        h0=known,
        identity=known,
        h0_noise=known,
        ns_noise=known,
        nc_noise=known,
    )
    return steps, stored, distance


@pytest.mark.parametrize(
    ("grid", "tokens"),
    [
        ((0.2, 0.5, 0.8), 6),
        ((0.2, 0.5, 0.8), 5),  # an odd number has no half
        ((0.2, 0.4, 0.5), 6),  # no π has a counterpart of its own
        ((0.05, 0.1, 0.9), 4),  # several π keep one token
    ],
)
def test_the_best_is_of_all_masks_that_keep_or_remove_as_many_tokens(grid, tokens):
    steps, stored, _ = drawn(grid, tokens, draws=4)
    ns, nc, masks = best_distances(steps)
    counts = np.round(steps.achieved[0, 1:] * tokens).astype(int)
    fewest = []
    for place, count in enumerate(counts):
        keeping = [found for mask, found in stored if mask.sum() == count]
        removing = [found for mask, found in stored if tokens - mask.sum() == count]
        assert ns[0, place] == min(keeping)
        assert nc[0, place] == max(removing)
        fewest += [len(keeping), len(removing)]
    assert masks == [min(fewest)]


def test_of_many_masks_the_best_is_the_best_of_all_subsets():
    steps, _, distance = drawn((0.25, 0.5, 0.75), tokens=4, draws=200)
    ns, nc, _ = best_distances(steps)
    for place, count in enumerate((1, 2, 3)):
        subsets = itertools.combinations(range(4), count)
        kept = [np.isin(np.arange(4), subset) for subset in subsets]
        assert ns[0, place] == min(map(distance, kept))
        assert nc[0, place] == max(distance(~mask) for mask in kept)


def test_a_symmetric_grid_has_twice_as_many_masks_as_are_drawn_for_one_metric():
    for tokens, masks in ((20, 8), (5, 4)):  # half of 5 tokens is rounded, and has no counterpart
        assert best_distances(drawn((0.2, 0.5, 0.8), tokens, draws=4)[0])[2] == [masks]


def test_samples_are_means_over_steps_and_failed_ones_have_a_status(tmp_path):
    status = {("b", 0): "nonfinite_logits"}
    rows = soft_rows({"a": 2, "b": 1}, status=status)
    path = tmp_path / "soft_samples.parquet"
    soft = write_soft(tmp_path, rows, CELL)
    rooms.summarise("search", STATISTICS, {"soft": soft}, {"soft_samples": path})
    found = {(row["sample_id"], row["metric"]): row for row in read_rows(path, "soft_samples")}
    assert {sample for sample, _ in found} == {"a", "b"}
    assert found["b", "auc_pi_soft_ns"]["status"] == "nonfinite_logits"
    assert found["b", MASKS]["value"] is None
    areas = {"ns": [], "nc": []}
    for _, of_step in itertools.groupby(rows[:8], key=lambda row: row["step"]):
        lines = {row["pi"]: row for row in of_step if row["pi"]}  # 0.1 and 0.9 are counterparts
        ns, nc = ({pi: lines[pi][f"{m}_distances"] for pi in lines} for m in ("ns", "nc"))
        least = [min(ns[0.1] + nc[0.9]), min(ns[0.4]), min(ns[0.9] + nc[0.1])]
        most = [max(nc[0.1] + ns[0.9]), max(nc[0.4]), max(nc[0.9] + ns[0.1])]
        areas["ns"].append(auc(np.array(list(lines)), np.maximum(0.5 - np.array(least), 0) / 0.5))
        areas["nc"].append(auc(np.array(list(lines)), np.array(most) / 0.5))
    for metric, of_steps in areas.items():
        assert found["a", f"auc_pi_soft_{metric}"]["value"] == pytest.approx(np.mean(of_steps))
    assert found["a", MASKS]["value"] == 4, "of one metric, at π = 0.4"


def test_a_cell_that_failed_altogether_has_rows_without_values(tmp_path):
    rows = soft_rows({"a": 1}, status={("a", 0): "nonfinite_logits"})
    path = tmp_path / "soft_samples.parquet"
    soft = write_soft(tmp_path, rows, CELL)
    rooms.summarise("search", STATISTICS, {"soft": soft}, {"soft_samples": path})
    assert [row["value"] for row in read_rows(path, "soft_samples")] == [None] * 3
