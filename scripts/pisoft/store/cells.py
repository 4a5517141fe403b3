"""Consistent reading of prompts, answers and scores.

:mod:`pisoft.store.parquet` checks each file on its own. Here, files are checked against each other:
equal samples, masks and scores of the prompts' lengths, and the answers' steps and targets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pisoft.config.base import Target
from pisoft.errors import BenchmarkError
from pisoft.store.parquet import OK, read_rows

Row = dict[str, Any]
_PER_TOKEN = ("token_texts", "content_mask", "user_mask", "bos_mask", "evidence_mask")


def read_pairs(
    prompts: Path,
    generations: Path,
    target: Target = "label",
    rows: tuple[int, int] | None = None,
) -> list[tuple[Row, Row]]:
    """Read prompts and their answers, of the range `rows` only if given.

    Raises:
        BenchmarkError: see :func:`read_prompts` and :func:`read_generations`.
    """
    prompt_rows = read_prompts(prompts)
    answers = read_generations(generations, prompts, prompt_rows, target)
    return list(zip(prompt_rows, answers, strict=True))[slice(*(rows or (None,)))]


def read_cell(
    prompts: Path,
    generations: Path,
    attributions: Path,
    target: Target = "label",
    rows: tuple[int, int] | None = None,
) -> list[tuple[Row, Row, list[Row]]]:
    """Read prompts, their answers and scores; see :func:`read_pairs`.

    Raises:
        BenchmarkError: see :func:`read_pairs` and :func:`read_attributions`.
    """
    all_pairs = read_pairs(prompts, generations, target)
    pairs = all_pairs[slice(*(rows or (None,)))]
    scores = read_attributions(attributions, prompts, [prompt for prompt, _ in all_pairs], pairs)
    return [(*pair, pair_scores) for pair, pair_scores in zip(pairs, scores, strict=True)]


def read_prompts(path: Path) -> list[Row]:
    """Read `prompts` rows.

    Raises:
        BenchmarkError: an unreadable file, a duplicate sample, a mask whose length differs from
            the prompt's, or a label that is not a label word.
    """
    rows = read_rows(path, "prompts")
    seen: set[str] = set()
    for row in rows:
        if row["sample_id"] in seen:
            _refuse(path, row["sample_id"], "occurs twice")
        seen.add(row["sample_id"])
        _check_prompt(path, row)
    return rows


def read_generations(
    path: Path, prompts_path: Path, prompts: Sequence[Row], target: Target = "label"
) -> list[Row]:
    """Read the `generations` rows of prompts, in their order.

    If the answer is a label word and the target is `generated`, `target_ids` holds the token that
    the model would generate instead. Target `contrastive` adds `foil_ids`, the runner-up of each
    step; target `span` adds `spanned`.

    Raises:
        BenchmarkError: an unreadable file, a missing or additional sample, or a step, target,
            runner-up or label that is missing or inconsistent.
    """
    by_sample = _rows_by_sample(path, "generations", prompts_path, prompts)
    for prompt in prompts:
        answer, *repeats = _rows_of(path, by_sample, prompt)
        if repeats:
            _refuse(path, prompt["sample_id"], "occurs twice")
        _check_generation(path, answer, prompt)
        if target == "generated" and answer["predicted_label"] is not None:
            if answer["greedy_token_id"] is None:
                _refuse(path, prompt["sample_id"], "has a label word, but no 'greedy_token_id'")
            answer["target_ids"] = [answer["greedy_token_id"]]
        if target == "span":
            answer["spanned"] = True
        if target == "contrastive":
            answer["foil_ids"] = answer["runner_up_ids"]
            if len(answer["foil_ids"]) != len(answer["steps"]):
                _refuse(path, prompt["sample_id"], "has no runner-up to contrast the target with")
    return [rows[0] for rows in by_sample.values()]


def target_text(answer: Mapping[str, Any], step: int, target: Target) -> str | None:
    """Return the text of the token that the scores of a step explain; None if unknown."""
    if target == "generated" and answer["predicted_label"] is not None:
        return answer["greedy_token_text"]
    return dict(enumerate(answer["output_token_texts"])).get(step)


def read_attributions(
    path: Path, prompts_path: Path, prompts: Sequence[Row], pairs: Sequence[tuple[Row, Row]]
) -> list[list[Row]]:
    """Read the `attributions` rows of `pairs`: some of the prompts, with their answers.

    Raises:
        BenchmarkError: the file is unreadable, lacks a sample or has one without a prompt, its
            steps differ from the answers' steps, or its scores do not fit.
    """
    by_sample = _rows_by_sample(path, "attributions", prompts_path, prompts)
    for prompt, generation in pairs:
        rows = _rows_of(path, by_sample, prompt)
        steps = generation["steps"] if generation["status"] == OK else [0]
        if [row["step"] for row in rows] != steps:
            scored = [row["step"] for row in rows]
            _refuse(path, prompt["sample_id"], f"has scores of steps {scored}, expected {steps}")
        for row in rows:
            check_scores(path, row, prompt)
    return [by_sample[prompt["sample_id"]] for prompt, _ in pairs]


def _rows_by_sample(
    path: Path, kind: str, prompts_path: Path, prompts: Sequence[Row]
) -> dict[str, list[Row]]:
    """Read rows, grouped by sample in the order of the prompts."""
    by_sample: dict[str, list[Row]] = {prompt["sample_id"]: [] for prompt in prompts}
    for row in read_rows(path, kind):
        if row["sample_id"] not in by_sample:
            _refuse(path, row["sample_id"], f"is not in {prompts_path}")
        by_sample[row["sample_id"]].append(row)
    return by_sample


def _rows_of(path: Path, by_sample: Mapping[str, list[Row]], prompt: Row) -> list[Row]:
    if not (rows := by_sample[prompt["sample_id"]]):
        _refuse(path, prompt["sample_id"], "has no row")
    return rows


def check_scores(path: Path, row: Mapping[str, Any], prompt: Row) -> None:
    """Check that an `attributions` row has a finite score for each token of its prompt.

    Raises:
        BenchmarkError: the row's status is ok, but a score is missing or not finite.
    """
    if row["status"] != OK:
        return
    scores, tokens = row["raw_scores"], len(prompt["input_ids"])
    if scores is None or len(scores) != tokens:
        count = "no" if scores is None else len(scores)
        _refuse(path, row["sample_id"], f"step {row['step']} has {count} scores, not {tokens}")
    if not all(map(math.isfinite, scores)):
        _refuse(
            path, row["sample_id"], f"step {row['step']} is ok, but has a score that is not finite"
        )


def _check_prompt(path: Path, row: Row) -> None:
    tokens = len(row["input_ids"])
    for name in _PER_TOKEN:
        if row[name] is not None and len(row[name]) != tokens:
            _refuse(path, row["sample_id"], f"'{name}' has {len(row[name])} values, not {tokens}")
    for counterfactual in row["counterfactuals"] or ():
        if (count := len(counterfactual["evidence_mask"])) != tokens:
            mask = f"the 'evidence_mask' of answer '{counterfactual['answer']}'"
            _refuse(path, row["sample_id"], f"{mask} has {count} values, not {tokens}")
    words, ids = row["label_words"], row["label_token_ids"]
    if len(words) != len(ids):
        _refuse(path, row["sample_id"], f"has {len(words)} label words, but {len(ids)} tokens")
    if row["status"] != OK:
        return
    if words and row["label"] is not None and row["label"] not in words:
        allowed = ", ".join(dict.fromkeys(words))
        _refuse(path, row["sample_id"], f"label '{row['label']}' is none of: {allowed}")
    if not any(row["content_mask"]):
        _refuse(path, row["sample_id"], "is ok, but has no token of the record")


def _check_generation(path: Path, row: Row, prompt: Row) -> None:
    sample, output, steps = row["sample_id"], row["output_ids"], row["steps"]
    if row["label"] != prompt["label"]:
        _refuse(path, sample, f"has the label '{row['label']}', its prompt '{prompt['label']}'")
    if prompt["status"] != OK and row["status"] != prompt["status"]:
        _refuse(path, sample, f"is {row['status']}, but its prompt is {prompt['status']}")
    if len(row["output_token_texts"]) not in (0, len(output)):
        texts = len(row["output_token_texts"])
        _refuse(path, sample, f"has {texts} texts of {len(output)} generated tokens")
    if row["status"] != OK:
        return
    if not steps or any(b <= a for a, b in itertools.pairwise(steps)):
        _refuse(path, sample, f"steps must increase, and be there; found {steps}")
    if steps[0] < 0 or steps[-1] >= len(output):
        _refuse(path, sample, f"has steps {steps}, but {len(output)} generated tokens")
    if row["target_ids"] != [output[step] for step in steps]:
        _refuse(path, sample, f"targets {row['target_ids']} are not the tokens at steps {steps}")
    for name in ("runner_up_ids", "margins"):
        if len(row[name]) not in (0, len(steps)):
            _refuse(path, sample, f"'{name}' has {len(row[name])} values for {len(steps)} steps")
    for step, *pair in zip(steps, row["target_ids"], row["runner_up_ids"], strict=False):
        if len(set(pair)) == 1:
            _refuse(path, sample, f"the runner-up at step {step} is the target, token {pair[0]}")
    count, answered = (
        len(values or ()) for values in (prompt["counterfactuals"], row["counterfactual_labels"])
    )
    if count != answered:
        _refuse(path, sample, f"has {answered} answers to {count} counterfactuals")
    predicted = row["predicted_label"]
    if predicted is not None and predicted not in prompt["label_words"]:
        allowed = ", ".join(dict.fromkeys(prompt["label_words"])) or "none"
        _refuse(path, sample, f"predicted label '{predicted}' is none of: {allowed}")


def _refuse(path: Path, sample: str, problem: str) -> NoReturn:
    raise BenchmarkError(
        f"{path}: sample '{sample}': {problem}; delete the file and run the workflow again"
    )
