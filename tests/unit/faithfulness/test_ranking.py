"""Insertion and deletion against one plain forward per shortened prompt, and known answers."""

import argparse
from fractions import Fraction

import numpy as np
import pytest
import torch

import evaluate_ranking
from helpers import explained_rows
from helpers.loaded_models import local_model
from helpers.planted_model import PLANTED, planted_model, planted_samples
from helpers.quick_cases import one_quick
from helpers.random_models import EAGER, SHAPES, VOCABULARY, twins
from pisoft.config.evaluation import RankingSettings
from pisoft.config.jobs.cells import RankingJob
from pisoft.errors import BenchmarkError
from pisoft.faithfulness import ranking
from pisoft.faithfulness.ranking import (
    RankedSample,
    RankingEvaluator,
    kept_tokens,
    next_token_logits,
    perturbed_input,
    token_places,
)
from pisoft.models.generation import classify
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import read_provenance, read_rows, write_rows

LABELS = {"label_words": ["Yes", "No", "Yes"], "label_token_ids": [25, 61, 15]}
SEED = 5


def prompt_row(sample_id, ids, content, status="ok"):
    """A row of `prompts` whose content is at the given positions."""
    inside = [position in content for position in range(len(ids))]
    given = {"input_ids": list(ids), "token_texts": ["x"] * len(ids)}
    masks = {"content_mask": inside, "user_mask": inside, "bos_mask": [False] * len(ids)}
    return explained_rows.prompt(sample_id, [], status=status) | given | masks | LABELS


def random_ids(count, seed):
    return np.random.default_rng(seed).integers(3, VOCABULARY, count).tolist()


PROMPTS = [
    prompt_row("long", [1, 7, 8, *random_ids(24, 0), 9], range(3, 27)),
    prompt_row("gaps", [1, 7, 8, *random_ids(10, 1), 9], [4, 5, 8, 9, 12]),
    prompt_row("single", [1, 7, 8, 40, 9], [3]),
    prompt_row("other prefix", [1, 30, *random_ids(6, 2)], range(2, 8)),  # ends with content
]


def attribution_row(prompt, seed=0, status="ok"):
    raw = np.random.default_rng(seed).normal(size=len(prompt["input_ids"]))
    return {
        "sample_id": prompt["sample_id"],
        "step": 0,
        "raw_scores": raw.astype(np.float32).tolist() if status == "ok" else None,
        "converged": None,
        "status": status,
    }


def block_of(model, prompts=PROMPTS, attributions=None):
    """Prompts with the model's answers and random scores."""
    answers = {row["sample_id"]: row for row in classify(model, prompts, 1000)}
    given = attributions or [attribution_row(prompt, seed) for seed, prompt in enumerate(prompts)]
    return [
        (prompt, answers[prompt["sample_id"]], row)
        for prompt, row in zip(prompts, given, strict=True)
    ]


def evaluate(model, block, *, operator="remove", steps=20, scope="content", budget=100, **more):
    settings = RankingSettings(operator=operator, steps=steps, **more)
    evaluator = RankingEvaluator(model, settings, scope, SEED, budget)
    rows = evaluator.evaluate_block(block)
    assert [(row["sample_id"], row["curve"]) for row in rows] == [
        (prompt["sample_id"], curve)
        for prompt, _, _ in block
        for curve in ("deletion", "insertion")
    ]
    return {(row["sample_id"], row["curve"]): row for row in rows}


def removed_at(curve, order, step, steps):
    """Positions that are not read, from positions in descending order of score."""
    count = round(Fraction(step * len(order), steps))
    return set(order[:count]) if curve == "deletion" else set(order[count:])


def plain_word(plain, ids, factors=None):
    embeddings = plain.get_input_embeddings()(torch.tensor([ids]))
    if factors is not None:
        embeddings = embeddings * torch.tensor(factors, dtype=embeddings.dtype)[None, :, None]
    logits = plain(inputs_embeds=embeddings).logits[0, -1]
    return "No" if logits[61] > max(logits[25], logits[15]) else "Yes"


def descending(prompt, attribution, positions):
    return sorted(positions, key=lambda i: attribution["raw_scores"][i], reverse=True)


# Against the definition -----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("shape", one_quick(SHAPES))
def test_removing_equals_one_plain_forward_per_shortened_prompt(shape):
    model, plain = twins(shape)
    block = block_of(model)
    rows = evaluate(model, block, budget=40)
    for prompt, answer, attribution in block:
        ids, content = prompt["input_ids"], np.flatnonzero(prompt["content_mask"])
        order = descending(prompt, attribution, content)
        clean = plain_word(plain, ids)
        assert clean == answer["predicted_label"]
        for curve in ("deletion", "insertion"):
            flips = [
                plain_word(plain, [token for i, token in enumerate(ids) if i not in gone]) != clean
                for gone in (removed_at(curve, order, step, 20) for step in range(1, 21))
            ]
            row = rows[prompt["sample_id"], curve]
            assert row["flips"] == flips
            assert row["auc"] == pytest.approx(sum(flips) / 20)
            assert row["perturbable"] == len(content)
            assert row["status"] == "ok"
    assert 0 < sum(sum(row["flips"]) for row in rows.values()) < 160, "both answers occur"


@torch.no_grad()
@pytest.mark.parametrize("shape", one_quick(SHAPES))
def test_the_answer_that_flips_may_be_the_first_token_of_all_the_vocabulary(shape):
    model, plain = twins(shape)
    block = block_of(model)
    rows = evaluate(model, block, steps=5, flip_of="first_token")
    for prompt, _, attribution in block:
        ids, content = prompt["input_ids"], np.flatnonzero(prompt["content_mask"])
        order = descending(prompt, attribution, content)
        clean = plain(torch.tensor([ids])).logits[0, -1].argmax()
        for curve in ("deletion", "insertion"):
            gone = [removed_at(curve, order, step, 5) for step in range(1, 6)]
            kept = [[token for i, token in enumerate(ids) if i not in out] for out in gone]
            found = [plain(torch.tensor([left])).logits[0, -1].argmax() for left in kept]
            assert rows[prompt["sample_id"], curve]["flips"] == [token != clean for token in found]


@torch.no_grad()
@pytest.mark.parametrize("shape", one_quick(SHAPES))
def test_zeroing_equals_one_plain_forward_per_zeroed_prompt(shape):
    model, plain = twins(shape)
    block = block_of(model)
    rows = evaluate(model, block, operator="zero", steps=7, budget=40)
    for prompt, _, attribution in block:
        ids = prompt["input_ids"]
        order = descending(prompt, attribution, np.flatnonzero(prompt["content_mask"]))
        clean = plain_word(plain, ids)
        for curve in ("deletion", "insertion"):
            flips = []
            for step in range(1, 8):
                gone = removed_at(curve, order, step, 7)
                factors = [float(i not in gone) for i in range(len(ids))]
                flips.append(plain_word(plain, ids, factors) != clean)
            assert rows[prompt["sample_id"], curve]["flips"] == flips
    assert 0 < sum(sum(row["flips"]) for row in rows.values()) < 56, "both answers occur"


def perturbed(model, prompt, operator):
    """Inputs of one prompt that keep less and less of it."""
    positions = np.flatnonzero(prompt["content_mask"])
    places = np.random.default_rng(3).permutation(len(positions))
    kept = kept_tokens(places, 6)
    sample = RankedSample(prompt, "Yes", positions, kept)
    return [
        perturbed_input(model, sample, one, operator) for one in kept.reshape(-1, len(positions))
    ]


def logits_of(model, inputs):
    prefix = ranking._read_prefix(model, inputs[0].prefix)
    return next_token_logits(model, inputs, prefix)


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_without_tokens_are_those_of_the_shortened_prompt(shape):
    model, plain = twins(shape)
    for prompt in PROMPTS[:2]:
        inputs = perturbed(model, prompt, "remove")
        for found, item in zip(logits_of(model, inputs), inputs, strict=True):
            present = np.ones(len(prompt["input_ids"]), dtype=bool)
            present[item.sample.perturbable] = item.kept
            ids = torch.tensor([prompt["input_ids"]])[:, present]
            torch.testing.assert_close(found, plain(ids).logits[0, -1], **EAGER)


# Ranks and steps ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 10, 19, 20, 21, 333])
@pytest.mark.parametrize("steps", [1, 4, 20])
def test_each_step_takes_its_rounded_share_of_the_highest_tokens(count, steps):
    raw = np.random.default_rng(count).permutation(count).astype(float)
    deletion, insertion = kept_tokens(token_places(raw, 1, "s"), steps)
    assert (deletion == ~insertion).all(), "the curves are each other's complement"
    for step, kept in enumerate(insertion, start=1):
        taken = round(Fraction(step * count, steps))
        assert set(raw[kept]) == set(range(count - taken, count))
    assert insertion[-1].all()


def test_equal_scores_are_ordered_by_lot_the_same_for_every_method():
    first, second = np.zeros(40), np.full(40, 7.0)
    places = token_places(first, 3, "s")
    assert sorted(places) == list(range(40))
    assert places.tolist() != sorted(places)
    assert (places == token_places(second, 3, "s")).all()
    lots = keyed_generator(3, "ranking", "s", 0).random(40)
    assert (np.argsort(places) == np.argsort(lots)).all()
    assert (places != token_places(first, 4, "s")).any(), "another seed"
    assert (places != token_places(first, 3, "t")).any(), "another sample"
    raised = first.copy()
    raised[30] = 1
    assert token_places(raised, 3, "s")[30] == 0, "lots decide between equals only"


def test_raw_scores_outside_the_content_do_not_matter():
    model, _ = twins("llama-gqa")
    block = block_of(model)
    changed = []
    for prompt, answer, attribution in block:
        raw = np.array(attribution["raw_scores"])
        raw[~np.array(prompt["content_mask"])] = np.nan
        changed.append((prompt, answer, {**attribution, "raw_scores": raw.tolist()}))
    assert evaluate(model, changed) == evaluate(model, block)


def test_a_prompt_of_one_perturbable_token_flips_all_at_once():
    model, _ = twins("llama-gqa")
    (block,) = block_of(model, PROMPTS[2:3])
    rows = evaluate(model, [block])
    deletion, insertion = rows["single", "deletion"], rows["single", "insertion"]
    changed = deletion["flips"][-1]
    assert deletion["flips"] == [False] * 10 + [changed] * 10  # round(½) = 0
    assert insertion["flips"] == [changed] * 10 + [False] * 10


# Known answers --------------------------------------------------------------------------------


def planted_block(score):
    """Prompts of 14 perturbable tokens, one of which decides; its score is given.

    Any answer but the right one is a spelling of the word "Wrong".
    """
    block = []
    for sample, position in planted_samples(24):
        (target,) = sample.target_ids
        others = [token for token in PLANTED if token != target]
        prompt = prompt_row(sample.sample_id, sample.prompt_ids, range(1, 15))
        prompt |= {"label_words": ["Right"] + ["Wrong"] * len(others)}
        prompt |= {"label_token_ids": [target, *others]}
        raw = [0.01 * place for place in range(16)]
        raw[position] = score
        answer = {"predicted_label": "Right"}
        block.append((prompt, answer, {**attribution_row(prompt), "raw_scores": raw}))
    return block


@pytest.mark.slow
def test_curves_flip_where_the_deciding_word_leaves_or_enters():
    """One token in each of 14 steps; a model that lacks the word may still guess its answer."""
    model = planted_model()
    first = evaluate(model, planted_block(1.0), steps=14)
    last = evaluate(model, planted_block(-1.0), steps=14)

    def flips(rows, curve):
        return np.array([row["flips"] for (_, kind), row in rows.items() if kind == curve])

    assert flips(first, "deletion").mean() > 0.9, "from the first step on"
    assert flips(first, "insertion").mean() < 0.05
    assert flips(last, "deletion")[:, :-1].mean() < 0.05
    assert flips(last, "deletion")[:, -1].mean() > 0.9
    assert flips(last, "insertion")[:, :-1].mean() > 0.9


class AnswersByPresence:
    """Prefers "No" if and only if a token is missing, whatever else is there."""

    def __init__(self, model, token):
        self.model, self.token = model, token

    def __call__(self, model, inputs, prefix):
        logits = torch.zeros(len(inputs), VOCABULARY)
        for row, item in zip(logits, inputs, strict=True):
            row[25 if self.token in item.token_ids.tolist() else 61] = 1
        return logits


def test_auc_is_the_share_of_steps_at_which_the_deciding_word_is_missing(monkeypatch):
    """The word has place 3 of 20, so deletion lacks it from step 4 on, insertion until step 3."""
    model, _ = twins("llama-gqa", torch.float32)
    prompt = prompt_row("s", [1, *range(3, 23)], range(1, 21))
    attribution = attribution_row(prompt)
    attribution["raw_scores"] = [float(-i) for i in range(21)]
    word = prompt["input_ids"][4]
    monkeypatch.setattr(ranking, "next_token_logits", AnswersByPresence(model, word))
    rows = evaluate(model, [(prompt, {"predicted_label": "Yes"}, attribution)])
    assert rows["s", "deletion"]["flips"] == [False] * 3 + [True] * 17
    assert rows["s", "deletion"]["auc"] == pytest.approx(17 / 20)
    assert rows["s", "insertion"]["flips"] == [True] * 3 + [False] * 17
    assert rows["s", "insertion"]["auc"] == pytest.approx(3 / 20)


# Scopes and failures --------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("operator", ["remove", "zero"])
def test_a_prompt_of_which_nothing_is_left_counts_as_flipped(operator):
    model, plain = twins("llama-gqa")
    block = block_of(model)
    rows = evaluate(model, block, operator=operator, scope="all", steps=7)
    for prompt, answer, attribution in block:
        ids = prompt["input_ids"]
        order = descending(prompt, attribution, range(len(ids)))
        for curve in ("deletion", "insertion"):
            flips = []
            for step in range(1, 8):
                gone = removed_at(curve, order, step, 7)
                left = [token for i, token in enumerate(ids) if i not in gone]
                factors = [float(i not in gone) for i in range(len(ids))]
                if operator == "zero":
                    flips.append(plain_word(plain, ids, factors) != answer["predicted_label"])
                else:
                    flips.append(not left or plain_word(plain, left) != answer["predicted_label"])
            row = rows[prompt["sample_id"], curve]
            assert row["flips"] == flips
            assert row["perturbable"] == len(ids)
    if operator == "remove":
        assert all(rows[prompt["sample_id"], "deletion"]["flips"][-1] for prompt in PROMPTS)


def test_failures_are_rows_with_a_status_and_leave_the_others_alone():
    model, _ = twins("llama-gqa")
    prompts = [*PROMPTS, prompt_row("empty", [1, 2, 3], []), prompt_row("late", [], [], "ok")]
    block = block_of(model, prompts[:-1])
    broken = {**block[1][2], "raw_scores": [float("inf")] * 14}
    block[1] = (*block[1][:2], broken)
    failed = attribution_row(prompts[-1], status="prompt_too_long")
    block.append((prompts[-1], {"predicted_label": None}, failed))
    rows = evaluate(model, block)
    statuses = {sample: row["status"] for (sample, _), row in rows.items()}
    assert statuses == {
        "long": "ok",
        "gaps": "nonfinite_attribution",
        "single": "ok",
        "other prefix": "ok",
        "empty": "no_content_tokens",
        "late": "prompt_too_long",
    }
    for sample in ("gaps", "empty", "late"):
        for curve in ("deletion", "insertion"):
            row = rows[sample, curve]
            assert row["flips"] is None
            assert row["auc"] is None
    assert rows["gaps", "deletion"]["perturbable"] == 5
    expected = evaluate(model, block_of(model))
    assert all(rows[key] == expected[key] for key in rows if rows[key]["status"] == "ok")


def test_logits_that_are_not_finite_fail_both_curves_of_their_sample_alone(monkeypatch):
    model, _ = twins("llama-gqa")
    block = block_of(model)
    expected = evaluate(model, block)

    def broken(model, inputs, prefix):
        logits = next_token_logits(model, inputs, prefix).clone()
        for row, item in zip(logits, inputs, strict=True):
            if item.sample.prompt["sample_id"] == "gaps" and item.kept.sum() == 4:
                row.fill_(float("nan"))
        return logits

    monkeypatch.setattr(ranking, "next_token_logits", broken)
    rows = evaluate(model, block)
    for (sample, curve), row in rows.items():
        if sample == "gaps":
            assert (row["status"], row["flips"], row["auc"]) == ("nonfinite_logits", None, None)
        else:
            assert row == expected[sample, curve]


# Cost -----------------------------------------------------------------------------------------


def test_every_distinct_input_is_run_once_and_the_clean_prompt_not_at_all():
    model, _ = twins("llama-gqa")
    evaluator = RankingEvaluator(model, RankingSettings(), "content", SEED, 50)
    evaluator.evaluate_block(block_of(model, PROMPTS[1:3]))
    # 5 tokens: 4 more or less of them in either curve, and none; a single one: none.
    assert evaluator.forwards == 4 + 4 + 1 + 1
    behind = 14 - 3  # the token before the first perturbable one is read again
    deletion = sum(behind - n for n in (1, 2, 3, 4, 5))
    insertion = sum(behind - 5 + n for n in (1, 2, 3, 4))
    assert evaluator.tokens == deletion + insertion + (5 - 2 - 1)


@pytest.mark.parametrize("operator", ["remove", "zero"])
def test_a_sample_that_does_not_fit_alone_is_a_row_and_the_others_go_on(
    monkeypatch, caplog, operator
):
    model, _ = twins("llama-gqa")
    block = block_of(model)
    expected = evaluate(model, block, operator=operator)
    refused = []

    def short_of_memory(model, inputs, prefix):
        if len(inputs) * max(len(item.token_ids) for item in inputs) > 20:
            refused.append(len(inputs))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return next_token_logits(model, inputs, prefix)

    monkeypatch.setattr(ranking, "next_token_logits", short_of_memory)
    evaluator = RankingEvaluator(model, RankingSettings(operator=operator), "content", SEED, 100)
    found = evaluator.evaluate_block(block)
    assert refused.count(1) <= 2, "its other inputs are not tried"
    refused.clear()
    assert evaluator.evaluate_block(block) == found
    assert refused == [1], "the lowered budget stays"
    for row in found:
        sample_id, curve = row["sample_id"], row["curve"]
        if sample_id == "long":
            assert (row["status"], row["flips"], row["auc"]) == ("too_long_for_memory", None, None)
            assert row["perturbable"] == 24
        else:
            assert row == expected[sample_id, curve]
    said, _ = [message for message in caplog.messages if "do not fit" in message]
    assert said.startswith("ranking, model 'llama-gqa': sample long: ")


def test_a_prefix_that_does_not_fit_fails_the_samples_behind_it(monkeypatch):
    model, _ = twins("llama-gqa")
    read = ranking._read_prefix

    def short_of_memory(model, token_ids):
        if list(token_ids) == [1, 7]:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return read(model, token_ids)

    monkeypatch.setattr(ranking, "_read_prefix", short_of_memory)
    statuses = {key[0]: row["status"] for key, row in evaluate(model, block_of(model)).items()}
    assert statuses == {
        **dict.fromkeys(("long", "single"), "too_long_for_memory"),
        **dict.fromkeys(("gaps", "other prefix"), "ok"),
    }


# Script ---------------------------------------------------------------------------------------

SETTINGS = RankingJob(
    model=local_model(),
    not_applicable=None, ranking=RankingSettings(), scope="content", seed=SEED, block_size=2,
    token_budget=64,
)  # fmt: skip


@pytest.fixture
def job(tmp_path):
    """Files of a job, and its command line."""
    model, plain = twins("llama-gqa", torch.float32)
    plain.save_pretrained(tmp_path / "model")
    kinds = ("prompts", "generations", "attributions")
    for kind, rows in zip(kinds, zip(*block_of(model), strict=True), strict=True):
        write_rows(tmp_path / f"{kind}.parquet", kind, rows, {})
    return argparse.Namespace(
        **{kind: tmp_path / f"{kind}.parquet" for kind in kinds},
        settings=SETTINGS.to_json(),
        model=[tmp_path / "model/config.json"],
        gpus=None,
        output=tmp_path / "ranking.parquet",
    )


def test_the_file_holds_every_sample_and_says_what_it_cost(job):
    evaluate_ranking.main(job)
    rows = read_rows(job.output, "ranking")
    model, _ = twins("llama-gqa", torch.float32)
    assert {(r["sample_id"], r["curve"]): r for r in rows} == evaluate(model, block_of(model))
    facts = read_provenance(job.output)
    assert facts["token_budget_used"] == 64
    assert facts["forwards"] == 39 + 9 + 1 + 11
    assert facts["tokens"] > 0
    assert facts["peak_memory_mb"] > 50
    assert facts["settings"]["ranking"] == {
        "operator": "remove",
        "steps": 20,
        "flip_of": "label_word",
    }


def test_open_generation_is_written_as_not_applicable_without_a_model(job, monkeypatch):
    settings = SETTINGS.model_copy(update={"not_applicable": "no label words"})
    monkeypatch.setattr(evaluate_ranking, "load_model", None)
    evaluate_ranking.main(argparse.Namespace(**{**vars(job), "settings": settings.to_json()}))
    rows = read_rows(job.output, "ranking")
    assert [row["sample_id"] for row in rows[::2]] == [prompt["sample_id"] for prompt in PROMPTS]
    assert {row["status"] for row in rows} == {"not_applicable"}
    assert {(row["flips"], row["auc"]) for row in rows} == {(None, None)}
    assert read_provenance(job.output)["settings"]["not_applicable"] == "no label words"


def test_a_sample_without_scores_is_named(job):
    rows = read_rows(job.attributions, "attributions")
    write_rows(job.attributions, "attributions", rows[:2], {})
    with pytest.raises(BenchmarkError, match=r"attributions\.parquet: sample 'single': has no row"):
        evaluate_ranking.main(job)


def test_a_token_outside_the_vocabulary_is_named(job):
    rows = read_rows(job.prompts, "prompts")
    rows[1]["label_token_ids"] = [25, 5000, 15]
    write_rows(job.prompts, "prompts", rows, {})
    with pytest.raises(BenchmarkError, match=r"prompts\.parquet: sample gaps: token id 5000"):
        evaluate_ranking.main(job)
