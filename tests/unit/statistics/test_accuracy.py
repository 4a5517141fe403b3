"""What the models answered, recomputed in plain Python from the written rows."""

import pytest

from pisoft.contracts import read_rows, write_rows
from pisoft.errors import BenchmarkError
from pisoft.statistics.accuracy import accuracy_rows
from rooms import summarise


def write_answers(folder, rows, dataset="sst2"):
    """Write both files for rows of (id, status, tokens, truncated, correct, greedy)."""
    kinds = ("prompts", "generations")
    prompts, generations = (folder / kind / "llama" / f"{dataset}.parquet" for kind in kinds)
    asked = {"evidence_mask": None, "prompt_text": "", "label": None}
    asked |= {"label_words": [], "label_token_ids": []}
    answered = {
        "output_text": "",
        "output_token_texts": [],
        "steps": [0],
        "target_ids": [1],
        "predicted_label": None,
    }
    answered |= {"label": None, "greedy_token_id": None}
    write_rows(
        prompts,
        "prompts",
        [
            asked
            | {"sample_id": name, "input_ids": [1] * n, "truncated": cut, "status": status}
            | dict.fromkeys(("content_mask", "user_mask", "bos_mask"), [True] * n)
            | {"token_texts": ["x"] * n}
            for name, status, n, cut, _, _ in rows
        ],
        {},
    )
    write_rows(
        generations,
        "generations",
        [
            answered
            | {"sample_id": name, "output_ids": [1, 2], "correct": correct}
            | {"greedy_is_label": greedy, "status": status}
            for name, status, _, _, correct, greedy in rows
        ],
        {},
    )
    return prompts, generations


def test_accuracy_is_over_ok_samples(tmp_path):
    files = write_answers(
        tmp_path,
        [
            ("a", "ok", 10, False, True, True),
            ("b", "ok", 20, True, False, True),
            ("c", "ok", 60, True, True, False),
            ("d", "prompt_too_long", 999, True, None, None),
        ],
    )
    assert accuracy_rows([files]) == [
        {
            "model": "llama",
            "dataset": "sst2",
            "n": 3,
            "n_failed": 1,
            "truncated": 2,
            "accuracy": pytest.approx(2 / 3),
            "greedy_is_label": pytest.approx(2 / 3),
            "mean_prompt_tokens": 30.0,
            "mean_output_tokens": 2.0,
        }
    ]


def test_open_generation_has_no_accuracy(tmp_path):
    files = write_answers(tmp_path, [("a", "ok", 10, False, None, None)])
    (row,) = accuracy_rows([files])
    assert row["accuracy"] is None
    assert row["greedy_is_label"] is None
    assert row["n"] == 1
    write_rows(tmp_path / "accuracy.parquet", "accuracy", [row], {})


def test_accuracy_of_a_dataset_whose_samples_all_failed_is_null(tmp_path):
    files = write_answers(tmp_path, [("a", "empty_record", 0, False, None, None)])
    (row,) = accuracy_rows([files])
    assert (row["n"], row["n_failed"], row["truncated"]) == (0, 1, 0)
    assert row["accuracy"] is None
    assert row["mean_prompt_tokens"] is None
    write_rows(tmp_path / "accuracy.parquet", "accuracy", [row], {})


def test_prompts_and_generations_of_different_samples_are_an_error(tmp_path):
    prompts, _ = write_answers(tmp_path / "one", [("a", "ok", 1, False, None, None)])
    _, generations = write_answers(tmp_path / "two", [("b", "ok", 1, False, None, None)])
    with pytest.raises(BenchmarkError, match=r"sst2\.parquet: sample 'b': is not in .*prompts"):
        accuracy_rows([(prompts, generations)])
    _, other = write_answers(tmp_path / "one", [("a", "ok", 1, False, None, None)], "imdb")
    with pytest.raises(BenchmarkError, match=r"imdb\.parquet: is of another cell than .*sst2"):
        accuracy_rows([(prompts, other)])


def test_the_script_summarises_accuracy_and_refuses_files_that_do_not_match(tmp_path):
    names = ("sst2", "imdb")
    answers = [("a", "ok", 3, False, True, True)]
    prompts, generations = zip(
        *(write_answers(tmp_path, answers, name) for name in names), strict=True
    )
    output = tmp_path / "accuracy.parquet"

    def summarise_accuracy(given):
        files = {"prompts": prompts, "generations": given}
        summarise("accuracy", {"run": "demo"}, files, {"accuracy": output})

    summarise_accuracy(generations)
    assert [row["dataset"] for row in read_rows(output, "accuracy")] == list(names)
    for wrong, message in (
        (generations[::-1], "is of another cell than"),
        (generations[1:], r"^--files: 1 of kind 'generations' for 2 of 'prompts'"),
    ):
        with pytest.raises(BenchmarkError, match=message):
            summarise_accuracy(wrong)
