"""Mismatched files of a cell give one line that names file and sample."""

import copy

import pytest

from helpers.explained_rows import answer, attribution, prompt
from pisoft.errors import BenchmarkError
from pisoft.store.cells import read_cell, read_generations
from pisoft.store.parquet import write_rows

LABELS = {"label_words": ["Good", "Bad"], "label_token_ids": [7, 8]}
ROWS = {
    "prompts": [{**prompt("a", ["x", "y"]), **LABELS, "label": "Good"}, prompt("b", ["z"])],
    "generations": [answer("a", label="Good", predicted="Bad"), answer("b", steps=(0, 2))],
    "attributions": [attribution("a", [1, 2]), attribution("b", [3]), attribution("b", [4], 2)],
}
FIRST = {kind: rows[0]["sample_id"] for kind, rows in ROWS.items()}


def read(folder, changed=ROWS, rows=None):
    """Write the files and read them like a job for all or some of the rows."""
    paths = {kind: folder / f"{kind}.parquet" for kind in changed}
    for kind, kind_rows in changed.items():
        write_rows(paths[kind], kind, kind_rows, {})
    return read_cell(**paths, rows=rows)


SAMPLES = [
    (ROWS["prompts"][0], ROWS["generations"][0], ROWS["attributions"][:1]),
    (ROWS["prompts"][1], ROWS["generations"][1], ROWS["attributions"][1:]),
]


def test_matching_files_are_read_in_the_order_of_the_prompts(tmp_path):
    turned = {**ROWS, "generations": ROWS["generations"][::-1]}
    assert read(tmp_path, turned) == SAMPLES


def test_a_job_reads_its_rows_and_needs_only_their_scores(tmp_path):
    assert read(tmp_path, rows=(0, 1)) == SAMPLES[:1]
    second_only = {**ROWS, "attributions": ROWS["attributions"][1:]}
    assert read(tmp_path, second_only, rows=(1, 2)) == SAMPLES[1:]
    with pytest.raises(BenchmarkError, match=r"attributions\.parquet: sample 'a': has no row"):
        read(tmp_path, second_only, rows=(0, 2))


def test_the_target_may_be_the_generated_token_instead_of_a_label_word(tmp_path):
    word = ROWS["generations"][0] | {"greedy_token_id": 5}

    def targets(target, first):
        read(tmp_path, {**ROWS, "generations": [first, ROWS["generations"][1]]})
        paths = (tmp_path / "generations.parquet", tmp_path / "prompts.parquet")
        rows = read_generations(*paths, ROWS["prompts"], target)
        return [row["target_ids"] for row in rows]

    assert targets("label", word) == [[1], [1, 1]]
    assert targets("generated", word) == [[5], [1, 1]], "equal for open text"
    with pytest.raises(BenchmarkError, match="'a': has a label word, but no 'greedy_token_id'"):
        targets("generated", word | {"greedy_token_id": None})


def test_a_contrast_is_with_the_runner_up_of_every_step(tmp_path):
    rows = copy.deepcopy(ROWS)
    rows["generations"][0] |= {"runner_up_ids": [4], "margins": [0.5]}
    paths = (tmp_path / "generations.parquet", tmp_path / "prompts.parquet")

    def foils(target):
        read(tmp_path, rows)
        answers = read_generations(*paths, ROWS["prompts"], target)
        return [(row["target_ids"], row.get("foil_ids")) for row in answers]

    with pytest.raises(BenchmarkError, match="'b': has no runner-up to contrast the target with"):
        foils("contrastive")
    rows["generations"][1] |= {"runner_up_ids": [5, 6], "margins": [0.5, 2.0]}
    assert foils("contrastive") == [([1], [4]), ([1, 1], [5, 6])]
    assert foils("label") == [([1], None), ([1, 1], None)]


def test_failed_samples_match_as_well(tmp_path):
    failed = {"status": "empty_record"}
    none = {"output_ids": [], "output_token_texts": [], "steps": [], "target_ids": []}
    changed = copy.deepcopy(ROWS)
    changed["prompts"][1] |= failed
    changed["generations"][1] |= failed | none
    changed["attributions"][1:] = [attribution("b", None, status="empty_record")]
    (_, (_, _, scores)) = read(tmp_path, changed)
    assert [row["status"] for row in scores] == ["empty_record"]


def test_an_answer_to_a_prompt_that_failed_is_refused(tmp_path):
    changed = copy.deepcopy(ROWS)
    changed["prompts"][1]["status"] = "empty_record"
    with pytest.raises(BenchmarkError, match="'b': is ok, but its prompt is empty_record"):
        read(tmp_path, changed)


DAMAGES = {
    "a mask of length 1": ("prompts", 0, {"content_mask": [True]}, "'content_mask' has 1 values"),
    "a text too few": ("prompts", 0, {"token_texts": ["x"]}, "'token_texts' has 1 values, not 5"),
    "a label that no word has": ("prompts", 0, {"label": "Maybe"}, "'Maybe' is none of: Good, Bad"),
    "a word too few": ("prompts", 0, {"label_words": ["Good"]}, "1 label words, but 2 tokens"),
    "no token of the record": ("prompts", 0, {"content_mask": [False] * 5}, "no token of the rec"),
    "step 99": ("generations", 1, {"steps": [0, 99]}, r"steps \[0, 99\], but 3 generated tokens"),
    "a step below 0": ("generations", 1, {"steps": [-1, 2]}, r"steps \[-1, 2\], but 3"),
    "a step twice": ("generations", 1, {"steps": [2, 2]}, "steps must increase"),
    "target -5": ("generations", 0, {"target_ids": [-5]}, r"targets \[-5\] are not the tokens"),
    "a runner-up that is the target": (
        "generations", 0, {"runner_up_ids": [1]}, "the runner-up at step 0 is the target, token 1",
    ),
    "a margin too few": ("generations", 1, {"margins": [1.0]}, "'margins' has 1 values for 2 st"),
    "another label": ("generations", 0, {"label": "Bad"}, "label 'Bad', its prompt 'Good'"),
    "a prediction that no word has": (
        "generations", 0, {"predicted_label": "Maybe"}, "'Maybe' is none of: Good, Bad",
    ),
    "output texts": ("generations", 1, {"output_token_texts": ["x"]}, "1 texts of 3 generated"),
    "scores too few": ("attributions", 0, {"raw_scores": [1.0]}, "step 0 has 1 scores, not 5"),
    "no scores": ("attributions", 0, {"raw_scores": None}, "step 0 has no scores, not 5"),
    "a score of NaN": ("attributions", 0, {"raw_scores": [float("nan")] * 5}, "is not finite"),
    "another step": ("attributions", 2, {"step": 1}, r"steps \[0, 1\], expected \[0, 2\]"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "change", "message"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_row_is_named(tmp_path, kind, place, change, message):
    changed = copy.deepcopy(ROWS)
    changed[kind][place] |= change
    sample = changed[kind][place]["sample_id"]
    with pytest.raises(BenchmarkError, match=rf"{kind}\.parquet: sample '{sample}': .*{message}"):
        read(tmp_path, changed)


@pytest.mark.parametrize("kind", ROWS)
def test_duplicate_rows_are_refused(tmp_path, kind):
    changed = {**ROWS, kind: ROWS[kind] * 2}
    with pytest.raises(
        BenchmarkError, match=rf"{kind}\.parquet: sample 'a': .*(twice|steps \[0, 0\])"
    ):
        read(tmp_path, changed)


@pytest.mark.parametrize("kind", ["generations", "attributions"])
def test_missing_and_additional_samples_are_refused(tmp_path, kind):
    with pytest.raises(BenchmarkError, match=rf"{kind}\.parquet: sample 'a': has no row"):
        read(tmp_path, {**ROWS, kind: ROWS[kind][1:]})
    stranger = {**ROWS[kind][0], "sample_id": "c"}
    with pytest.raises(BenchmarkError, match=rf"{kind}\.parquet: sample 'c': is not in .*prompts"):
        read(tmp_path, {**ROWS, kind: [*ROWS[kind], stranger]})
