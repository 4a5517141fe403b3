"""The model's answers: the preferred label word, or the greedy continuation.

Source: paper §Faithfulness Metrics (token-level and sequence-level faithfulness).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import LogitsProcessor

from pisoft.models.batching import fitted_batches, warn_too_long
from pisoft.models.model import LanguageModel
from pisoft.store.parquet import EMPTY_GENERATION, NONFINITE_LOGITS, OK, TOO_LONG_FOR_MEMORY

Row = dict[str, Any]
NoteBudget = Callable[[int], object]  # called with the token budget of every batch
# Ids, and the two best ids of every step with their logits.
Output = tuple[list[int], list[list[int]], list[list[float]]]


def answers_of_block(
    block: Sequence[Row], answer: Callable[[Sequence[Row]], Iterable[Row]]
) -> list[Row]:
    """Return one `generations` row per prompt, in order; failed prompts keep their status.

    Args:
        block: rows of contract `prompts`.
        answer: returns the rows of prompts that have not failed, in any order.
    """
    rows = {prompt["sample_id"]: empty_row(prompt, prompt["status"]) for prompt in block}
    usable = [prompt for prompt in block if prompt["status"] == OK]
    return [*(rows | {row["sample_id"]: row for row in answer(usable)}).values()]


def answer_counterfactuals(
    block: Sequence[Row], rows: Sequence[Row], answer: Callable[[Sequence[Row]], Iterable[Row]]
) -> None:
    """Add the preferred label words of each prompt's counterfactuals to its row.

    Args:
        block: rows of contract `prompts`.
        answer: as for :func:`answers_of_block`.
    """
    altered = {
        f"{prompt['sample_id']} {index}": {**prompt, "input_ids": counterfactual["input_ids"]}
        for prompt in block
        for index, counterfactual in enumerate(prompt["counterfactuals"] or ())
    }
    prompts = [prompt | {"sample_id": name} for name, prompt in altered.items()]
    labels = {row["sample_id"]: row["predicted_label"] for row in answers_of_block(prompts, answer)}
    for prompt, row in zip(block, rows, strict=True):
        if prompt["counterfactuals"] is not None:
            indices = range(len(prompt["counterfactuals"]))
            row["counterfactual_labels"] = [labels[f"{prompt['sample_id']} {i}"] for i in indices]


def classify(
    model: LanguageModel,
    prompts: Sequence[Row],
    token_budget: int,
    note_budget: NoteBudget = lambda budget: None,
) -> Iterator[Row]:
    """Yield one `generations` row per prompt: the preferred label word at step 0.

    The target is the argmax over the first tokens of all label words, each with one or more
    spellings; the runner-up is the argmax over the other words' tokens. The row records whether the
    unconstrained greedy token begins a label word.
    """

    def answers(batch: Sequence[Row]) -> list[Row]:
        logits = _next_token_logits(model, [prompt["input_ids"] for prompt in batch])
        return [_classified(prompt, row) for prompt, row in zip(batch, logits, strict=True)]

    yield from _in_batches(model, prompts, token_budget, answers, note_budget, model.arithmetic)


def _classified(prompt: Row, logits: torch.Tensor) -> Row:
    if not bool(logits.isfinite().all()):
        return empty_row(prompt, NONFINITE_LOGITS)
    candidates = prompt["label_token_ids"]
    choice = int(logits[candidates].argmax())
    greedy = int(logits.argmax())
    word = prompt["label_words"][choice]
    words = zip(prompt["label_words"], candidates, strict=True)
    other_words = [token for other, token in words if other != word]
    runner_up = [other_words[int(logits[other_words].argmax())]] if other_words else []
    return {
        **empty_row(prompt, OK),
        "output_ids": [candidates[choice]],
        "output_text": word,
        "steps": [0],
        "target_ids": [candidates[choice]],
        "runner_up_ids": runner_up,
        "margins": (logits[candidates[choice]] - logits[runner_up]).tolist(),
        "predicted_label": word,
        "correct": None if prompt["label"] is None else word == prompt["label"],
        "greedy_token_id": greedy,
        "greedy_is_label": greedy in candidates,
    }


def continue_greedily(
    model: LanguageModel,
    prompts: Sequence[Row],
    token_budget: int,
    max_new_tokens: int,
    step_interval: int,
    note_budget: NoteBudget = lambda budget: None,
) -> Iterator[Row]:
    """Yield one `generations` row per prompt: the greedy continuation and its explained steps.

    Steps are 0, interval, 2·interval, …; the output excludes the end-of-sequence token. The
    runner-up of a step is the second most probable token. Texts are left empty, for the tokenizer
    to fill.
    """
    stops = _stop_ids(model)

    def crosses(length: int) -> bool:
        """Return whether a prompt grows past a length from which all tokens are read again."""
        return model.arithmetic(length) != model.arithmetic(length + max_new_tokens)

    def kind(length: int) -> tuple[int, int]:
        unpadded = crosses(length) or not model.generates_padded
        return (length if unpadded else 0), model.arithmetic(length)

    def answers(batch: Sequence[Row]) -> list[Row]:
        cached = not crosses(len(batch[0]["input_ids"]))
        outputs = _generate(model, batch, stops, max_new_tokens=max_new_tokens, use_cache=cached)
        return [
            _continued(prompt, output, stops, step_interval)
            for prompt, output in zip(batch, outputs, strict=True)
        ]

    yield from _in_batches(model, prompts, token_budget, answers, note_budget, kind)


def _continued(prompt: Row, output: Output | None, stops: set[int], step_interval: int) -> Row:
    """Return the row of a prompt; output None: its logits are not finite."""
    if output is None:
        return empty_row(prompt, NONFINITE_LOGITS)
    ids, best, logits = output
    ends = [index for index, token in enumerate(ids) if token in stops]
    ids = ids[: ends[0]] if ends else ids
    steps = list(range(0, len(ids), step_interval))
    return {
        **empty_row(prompt, OK if ids else EMPTY_GENERATION),
        "output_ids": ids,
        "steps": steps,
        "target_ids": [ids[step] for step in steps],
        # With equal logits, the generated token may be the second of the two best.
        "runner_up_ids": [next(i for i in best[step] if i != ids[step]) for step in steps],
        "margins": [logits[step][0] - logits[step][1] for step in steps],
        "greedy_token_id": ids[0] if ids else None,
    }


def empty_row(prompt: Row, status: str) -> Row:
    """Return a `generations` row without output."""
    return {
        "sample_id": prompt["sample_id"],
        "output_ids": [],
        "output_text": "",
        "output_token_texts": [],
        "steps": [],
        "target_ids": [],
        "runner_up_ids": [],
        "margins": [],
        "predicted_label": None,
        "counterfactual_labels": None,
        "label": prompt["label"],
        "correct": None,
        "greedy_token_id": None,
        "greedy_token_text": None,
        "greedy_is_label": None,
        "status": status,
    }


def _in_batches(
    model: LanguageModel,
    prompts: Sequence[Row],
    token_budget: int,
    answers: Callable[[Sequence[Row]], list[Row]],
    note_budget: NoteBudget,
    kind: Callable[[int], Hashable],
) -> Iterator[Row]:
    """Yield the answers to prompts, in batches with one kind of length each.

    A prompt that does not fit into memory gives a row with that status.
    """

    def work(batch: Sequence[Row], budget: int) -> list[Row]:
        note_budget(budget)
        return answers(batch)

    def give_up(prompt: Row) -> list[Row]:
        name = f"model '{model.name}': sample {prompt['sample_id']}"
        warn_too_long(name, len(prompt["input_ids"]))
        return [empty_row(prompt, TOO_LONG_FOR_MEMORY)]

    for rows in fitted_batches(
        prompts, lambda prompt: len(prompt["input_ids"]), token_budget, work, give_up, kind
    ):
        yield from rows


@torch.inference_mode()
def _next_token_logits(model: LanguageModel, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return logits (B, V) after each row of token ids."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    last = torch.tensor([[len(row) - 1] for row in rows], device=model.device)
    return model.next_token_logits(model.embed(ids.to(model.device)), last).squeeze(1)


@torch.inference_mode()
def _generate(
    model: LanguageModel, prompts: Sequence[Row], stops: set[int], **options: Any
) -> list[Output | None]:
    """Return the generated tokens of each prompt, with stop tokens and the padding after them.

    None for prompts with a logit that is not finite.
    """
    rows = [torch.tensor(prompt["input_ids"]) for prompt in prompts]
    ids, seen = (
        pad_sequence(values, batch_first=True, padding_side="left").to(model.device)
        for values in (rows, [torch.ones_like(row) for row in rows])
    )
    watch = _Watch(len(rows), model.device)
    output = model.generate(
        ids,
        seen,
        watch,
        eos_token_id=sorted(stops) or None,
        pad_token_id=min(stops, default=0),
        **options,
    )
    logits, best = (torch.stack(steps, dim=1).tolist() for steps in zip(*watch.best, strict=True))
    generated = zip(output[:, ids.shape[1] :].tolist(), best, logits, strict=True)
    finite = watch.finite.tolist()
    return [row if is_finite else None for row, is_finite in zip(generated, finite, strict=True)]


class _Watch(LogitsProcessor):
    """Records the two best tokens of every step, and which rows had finite logits at all steps.

    Padding after the end counts.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self.finite = torch.ones(rows, dtype=torch.bool, device=device)
        self.best: list[Sequence[torch.Tensor]] = []  # logits and ids, (rows, 2)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.finite &= scores.isfinite().all(dim=-1)
        self.best.append(scores.topk(2))
        return scores


def _stop_ids(model: LanguageModel) -> set[int]:
    ids = model.network.generation_config.eos_token_id
    if ids is None:
        ids = model.network.config.get_text_config().eos_token_id
    stops = set() if ids is None else {ids} if isinstance(ids, int) else set(ids)
    return stops & {*range(model.vocabulary_size)}  # some configurations state -1 for none
