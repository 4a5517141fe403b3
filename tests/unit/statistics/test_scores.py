"""Scores of all methods side by side: order, limits, failures and mismatched files."""

import numpy as np
import pytest

from helpers.finished_run import DATASETS, METHODS, write_run
from pisoft.config.evaluation import ScoreSettings
from pisoft.errors import BenchmarkError
from pisoft.statistics.scores import read_scores
from pisoft.store.parquet import read_rows, write_rows


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path)


def files(run, model, dataset):
    """Return the prompts file and the attributions files of one cell."""
    folder = run.files["prompts"][0].parents[2]
    attributions = sorted((folder / "attributions" / model).glob(f"*/{dataset}.parquet"))
    return folder / "prompts" / model / f"{dataset}.parquet", attributions


def read(run, dataset="words", scope="content", **changes):
    return list(read_scores(*files(run, "llama", dataset), ScoreSettings(scope=scope), **changes))


def test_steps_follow_the_order_of_the_prompts(run):
    before, names = read(run), [record.name for record in DATASETS["words"]]
    assert [step.prompt["sample_id"] for step in before] == names
    assert [step.prompt["sample_id"] for step in read(run, samples=3)] == names[:3]
    assert len(read(run, samples=10**6)) == len(names)
    open_steps = [(step.prompt["sample_id"], step.step) for step in read(run, "open")]
    assert open_steps == [("two steps", 0), ("two steps", 5)]
    prompts, attributions = files(run, "llama", "words")
    for path in attributions:
        write_rows(path, "attributions", read_rows(path, "attributions")[::-1], {})
    raw, again = (
        [step.raw["random"].tolist() for step in steps if "random" in step.raw]
        for steps in (before, read(run))
    )
    assert raw == again
    write_rows(prompts, "prompts", read_rows(prompts, "prompts")[2:4], {})
    assert [step.prompt["sample_id"] for step in read(run)] == names[2:4], "no others"


def test_raw_scores_are_stored_and_scores_cover_perturbable_tokens(run):
    for step in read(run):
        name = step.prompt["sample_id"]
        for method, raw in step.raw.items():
            stored = run.raw["llama", method, "words", name, step.step]
            assert raw.astype(np.float32).tobytes() == stored.tobytes()
            inside = stored[1 : 1 + (len(stored) - 3)].astype(np.float64)
            low, high = inside.min(), inside.max()
            expected = (inside - low) / (high - low) if high > low else np.full(len(inside), 0.5)
            np.testing.assert_allclose(step.scores(method), expected, rtol=0, atol=1e-12)


def test_the_scope_determines_which_tokens_have_scores(run):
    for scope, first in (("content", 1), ("all_but_bos", 1), ("all", 0)):
        step = read(run, scope=scope)[0]
        size = len(step.prompt["input_ids"])
        last = size - 2 if scope == "content" else size
        assert step.perturbable.tolist() == list(range(first, last))
        assert len(step.scores("random")) == len(step.perturbable)


def test_failed_steps_have_a_status_and_no_scores(run):
    by_name = {step.prompt["sample_id"]: step for step in read(run)}
    broken = by_name["bytes"]
    assert broken.status == {"random": "ok", "2": "ok", "mine": "nonfinite_attribution"}
    assert set(broken.raw) == {"random", "2"}
    assert by_name["failed"].status == dict.fromkeys(METHODS, "prompt_too_long")
    assert by_name["failed"].raw == {}
    with pytest.raises(KeyError):
        by_name["failed"].scores("random")
    assert all(set(step.status) == {"random", "2"} for step in read(run, "open")), "no third file"


def test_missing_and_duplicate_samples_are_errors(run):
    path = files(run, "llama", "words")[1][0]
    rows = read_rows(path, "attributions")
    name = rf"{path.parent.name}/words\.parquet: "
    write_rows(path, "attributions", [r for r in rows if r["sample_id"] != "hebrew"], {})
    with pytest.raises(BenchmarkError, match=rf"{name}lacks sample 'hebrew' of .*delete the file"):
        read(run)
    assert len(read(run, samples=2)) == 2  # it is not among the first two
    write_rows(path, "attributions", [rows[0], *rows], {})
    with pytest.raises(BenchmarkError, match=rf"{name}sample '.*': step 0 occurs twice; delete"):
        read(run)


def test_one_heatmap_per_sample_is_the_same_at_every_step(run):
    path = files(run, "llama", "open")
    first, second = read_scores(*path, ScoreSettings(step_scores="aggregated"))
    for method in first.raw:
        stored = [run.raw["llama", method, "open", "two steps", step] for step in (0, 5)]
        mean = np.mean(stored, axis=0, dtype=np.float64)
        np.testing.assert_array_equal(first.raw[method], mean)
        np.testing.assert_array_equal(second.raw[method], mean)
    for how, expected in (("own", stored[0]), ("aggregated", mean)):
        (only,) = read_scores(*path, ScoreSettings(step_scores=how, step_interval=10))
        assert only.step == 0
        np.testing.assert_array_equal(only.raw[method], expected)
