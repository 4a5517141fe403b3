"""Insertion and deletion against one plain forward per perturbed prompt."""

import argparse
from fractions import Fraction

import numpy as np
import pytest
import torch

import evaluate_ranking
from helpers import explained_rows
from helpers.loaded_models import local_model
from helpers.quick_cases import each_value_quick
from helpers.random_masked_models import numbered
from helpers.random_models import SHAPES, VOCABULARY, model_and_network
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.config.evaluation import RankingSettings
from pisoft.config.jobs.cells import RankingJob
from pisoft.errors import BenchmarkError
from pisoft.faithfulness import counterfactuals, ranking
from pisoft.faithfulness.counterfactuals import drawn, proposed
from pisoft.faithfulness.perturbed_inputs import next_token_logits
from pisoft.faithfulness.ranking import RankingEvaluator, kept_tokens, token_ranks
from pisoft.models.generation import classify
from pisoft.models.masked import replacements
from pisoft.seeds import keyed_generator
from pisoft.store.parquet import read_provenance, read_rows, write_rows

LABELS = {"label_words": ["Yes", "No", "Yes"], "label_token_ids": [25, 61, 15]}
SEED = 5


def prompt_row(sample_id, ids, content):
    return explained_rows.prompt_of_ids(sample_id, ids, content, **LABELS)


def random_ids(count, seed):
    return np.random.default_rng(seed).integers(3, VOCABULARY, count).tolist()


PROMPTS = [
    prompt_row("long", [1, 7, 8, *random_ids(24, 0), 9], range(3, 27)),
    prompt_row("gaps", [1, 7, 8, *random_ids(10, 1), 9], [4, 5, 8, 9, 12]),
    prompt_row("single", [1, 7, 8, 40, 9], [3]),
    prompt_row("other prefix", [1, 30, *random_ids(6, 2)], range(2, 8)),  # ends with content
]


def attribution_row(prompt, seed=0):
    raw = np.random.default_rng(seed).normal(size=len(prompt["input_ids"])).astype(np.float32)
    keys = {"sample_id": prompt["sample_id"], "step": 0, "converged": None, "status": "ok"}
    return {**keys, "raw_scores": raw.tolist()}


def block_of(model, prompts=PROMPTS, attributions=None):
    """Prompts with the model's answers and random scores."""
    answers = {row["sample_id"]: row for row in classify(model, prompts, 1000)}
    given = attributions or [attribution_row(prompt, seed) for seed, prompt in enumerate(prompts)]
    return [
        (prompt, answers[prompt["sample_id"]], row)
        for prompt, row in zip(prompts, given, strict=True)
    ]


def with_one_step(block):
    return [(prompt, answer, [scores]) for prompt, answer, scores in block]


def evaluate(
    model, block, *, operator="remove", steps=20, scope="content", budget=100, replace=None, **more
):
    settings = RankingSettings(operator=operator, steps=steps, **more)
    evaluator = RankingEvaluator(model, settings, scope, SEED, budget, replace)
    rows = evaluator.evaluate_block(with_one_step(block))
    curves = ("deletion", "insertion", *(("counterfactual",) if replace else ()))
    assert [(row["sample_id"], row["curve"]) for row in rows] == [
        (prompt["sample_id"], curve) for prompt, _, _ in block for curve in curves
    ]
    return {(row["sample_id"], row["curve"]): row for row in rows}


# Against the definition -----------------------------------------------------------------------


def plain_answer(plain, ids, gone=(), operator="remove", flip_of="label_word"):
    """Return the preferred word, or token, without some positions; None if nothing is left."""
    inputs = plain.get_input_embeddings()(torch.tensor([ids]))
    kept = torch.tensor([position not in gone for position in range(len(ids))])
    if operator == "zero":
        inputs = inputs * kept[:, None]
    elif not kept.any():
        return None
    else:
        inputs = inputs[:, kept]
    logits = plain(inputs_embeds=inputs).logits[0, -1]
    if flip_of == "first_token":
        return int(logits.argmax())
    return "No" if logits[61] > max(logits[25], logits[15]) else "Yes"


@torch.no_grad()
@pytest.mark.parametrize(
    ("shape", "options"),
    each_value_quick(
        SHAPES,
        [
            {},
            {"operator": "zero", "steps": 7},
            {"flip_of": "first_token", "steps": 5},
            {"scope": "all", "steps": 7},
            {"scope": "all", "steps": 7, "operator": "zero"},
        ],
    ),
)
def test_curves_equal_one_plain_forward_per_perturbed_prompt(shape, options):
    model, plain = model_and_network(shape)
    block = block_of(model)
    rows = evaluate(model, block, budget=40, **options)
    asked = {name: value for name, value in options.items() if name in ("operator", "flip_of")}
    steps = options.get("steps", 20)
    for prompt, answer, attribution in block:
        ids, inside = prompt["input_ids"], np.array(prompt["content_mask"])
        scope = range(len(ids)) if "scope" in options else np.flatnonzero(inside)
        order = sorted(scope, key=lambda i: attribution["raw_scores"][i], reverse=True)
        clean = plain_answer(plain, ids, **asked)
        assert clean in (answer["predicted_label"], answer["greedy_token_id"])
        counts = [round(Fraction(step * len(order), steps)) for step in range(1, steps + 1)]
        gone = {
            "deletion": [order[:count] for count in counts],
            "insertion": [order[count:] for count in counts],
        }
        for curve, ranks in gone.items():
            flips = [plain_answer(plain, ids, one, **asked) != clean for one in ranks]
            row = rows[prompt["sample_id"], curve]
            assert (row["status"], row["flips"], row["perturbable"]) == ("ok", flips, len(order))
            assert row["auc"] == pytest.approx(sum(flips) / steps)
    assert 0 < sum(sum(row["flips"]) for row in rows.values()) < 2 * len(PROMPTS) * steps


# Ranks and steps ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 10, 19, 20, 21, 333])
@pytest.mark.parametrize("steps", [1, 4, 20])
def test_each_step_perturbs_its_rounded_share_of_the_top_tokens(count, steps):
    raw = np.random.default_rng(count).permutation(count).astype(float)
    deletion, insertion = kept_tokens(token_ranks(raw, 1, "s"), steps)
    assert (deletion == ~insertion).all(), "the curves are each other's complement"
    for step, kept in enumerate(insertion, start=1):
        taken = round(Fraction(step * count, steps))
        assert set(raw[kept]) == set(range(count - taken, count))
    assert insertion[-1].all()


def test_ties_are_broken_at_random_equally_for_every_method():
    first, second = np.zeros(40), np.full(40, 7.0)
    ranks = token_ranks(first, 3, "s")
    assert (ranks == token_ranks(second, 3, "s")).all()
    lots = keyed_generator(3, "ranking", "s", 0).random(40)
    assert (np.argsort(ranks) == np.argsort(lots)).all()
    raised = first.copy()
    raised[30] = 1
    assert token_ranks(raised, 3, "s")[30] == 0, "random order applies to ties only"


# Counterfactuals ------------------------------------------------------------------------------


def replacing(source, budget=100):
    """Return the function that gives replacements, by their source."""
    if source == "records":
        return drawn(PROMPTS, "content", SEED)
    return proposed(numbered(VOCABULARY), numbered_tokenizer(VOCABULARY), SEED, budget)


def other_token(source, prompt, position, uniform):
    """Return the replacement of one token, drawn from the records or from ten proposals."""
    token = prompt["input_ids"][position]
    if source == "records":
        texts = [zip(row["input_ids"], row["content_mask"], strict=True) for row in PROMPTS]
        candidates = sorted(
            one for text in texts for one, inside in text if inside and one != token
        )
        return candidates[int(uniform * len(candidates))]
    masked, tokenizer = numbered(VOCABULARY), numbered_tokenizer(VOCABULARY)
    best, shares = replacements(masked, tokenizer, prompt["input_ids"], 10, 1, [position])
    shares = shares[position].double()
    reached = (total > uniform * shares.sum() for total in shares.cumsum(0))
    return int(best[position][list(reached).index(True)])


@torch.no_grad()
@pytest.mark.parametrize("source", ["records", "masked_model"])
def test_a_counterfactual_equals_one_plain_forward_per_step(source):
    model, plain = model_and_network("llama-gqa")
    block = block_of(model)
    rows = evaluate(model, block, steps=8, replace=replacing(source))
    shares, flipping = [], []
    for prompt, answer, attribution in block:
        content = np.flatnonzero(prompt["content_mask"])
        uniforms = keyed_generator(SEED, "counterfactual", prompt["sample_id"]).random(len(content))
        ids, flips = list(prompt["input_ids"]), []
        order = sorted(content, key=lambda i: attribution["raw_scores"][i], reverse=True)
        counts = [round(Fraction(step * len(order), 8)) for step in range(1, 9)]
        for before, count in zip([0, *counts], counts, strict=False):
            for position in order[before:count]:
                uniform = uniforms[list(content).index(position)]
                ids[position] = other_token(source, prompt, position, uniform)
                assert ids[position] != prompt["input_ids"][position]
            flips.append(plain_answer(plain, ids) != answer["predicted_label"])
        row = rows[prompt["sample_id"], "counterfactual"]
        assert row["flips"] == flips
        first = counts[flips.index(True)] / len(order) if any(flips) else 1
        assert row["auc"] == pytest.approx(first)
        shares.append(row["auc"])
        flipping.append(any(flips))
    assert len({*shares}) > 1
    assert {*flipping} == {True, False}, "some never flip"
    alone = evaluate(model, block, steps=8)
    assert {key: row for key, row in rows.items() if key[1] != "counterfactual"} == alone


@pytest.mark.parametrize("source", ["records", "masked_model"])
def test_counterfactuals_do_not_depend_on_batches(source):
    model, _ = model_and_network("llama-gqa")
    block = block_of(model)
    together = evaluate(model, block, budget=1000, replace=replacing(source, 1000))
    apart = {}
    for triple in reversed(block):
        apart |= evaluate(model, [triple], budget=1, replace=replacing(source, 1))
    assert together == apart


def test_drawn_tokens_differ_if_possible_and_ignore_record_order():
    (prompt, *_), content = PROMPTS, np.flatnonzero(PROMPTS[0]["content_mask"])
    again = drawn(PROMPTS[::-1], "content", SEED)(prompt, content)
    np.testing.assert_array_equal(again, replacing("records")(prompt, content))
    content = np.arange(1, 41)
    alone = prompt_row("s", [1, *[5] * 40], content)
    for extra, expected in (([], {5}), ([6], {6}), ([4, 6], {4, 6})):
        records = [alone, prompt_row("t", [1, *extra], range(1, 1 + len(extra)))]
        assert {*drawn(records, "content", 1)(alone, content)} == expected


# Scopes and failures --------------------------------------------------------------------------


def test_failures_are_rows_with_a_status_and_affect_no_other_sample():
    model, _ = model_and_network("llama-gqa")
    prompts = [*PROMPTS, prompt_row("empty", [1, 2, 3], [])]
    block = block_of(model, prompts)
    block[1][2]["raw_scores"][0] = float("inf")  # outside the content, so without effect
    block[3][2]["raw_scores"][3] = float("inf")
    late = prompt_row("late", [], [])
    failed = {"raw_scores": None, "status": "prompt_too_long"}
    block.append((late, {"predicted_label": None}, attribution_row(late) | failed))
    rows = evaluate(model, block)
    expected = evaluate(model, block_of(model))
    statuses = {"other prefix": "nonfinite_attribution", "empty": "no_content_tokens"}
    statuses["late"] = "prompt_too_long"
    for (sample, curve), row in rows.items():
        if status := statuses.get(sample):
            assert (row["status"], row["flips"], row["auc"]) == (status, None, None)
        else:
            assert row == expected[sample, curve]
    assert rows["other prefix", "deletion"]["perturbable"] == 6


def test_nonfinite_logits_fail_both_curves_of_only_their_sample(monkeypatch):
    model, _ = model_and_network("llama-gqa")
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


def test_distinct_inputs_run_once_and_the_clean_prompt_never():
    model, _ = model_and_network("llama-gqa")
    evaluator = RankingEvaluator(model, RankingSettings(), "content", SEED, 50)
    evaluator.evaluate_block(with_one_step(block_of(model, PROMPTS[1:3])))
    # 5 tokens: 4 more or less of them in either curve, and none; a single one: none.
    assert evaluator.forwards == 4 + 4 + 1 + 1
    behind = 14 - 3  # the token before the first perturbable one is read again
    deletion = sum(behind - n for n in (1, 2, 3, 4, 5))
    insertion = sum(behind - 5 + n for n in (1, 2, 3, 4))
    assert evaluator.tokens == deletion + insertion + (5 - 2 - 1)


def test_an_input_too_large_is_tried_once_and_lowers_the_budget(monkeypatch, caplog):
    """For its rows, see the contract of batches."""
    model, _ = model_and_network("llama-gqa")
    refused = []

    def short_of_memory(model, inputs, prefix):
        if len(inputs) * max(len(item.token_ids) for item in inputs) > 20:
            refused.append(len(inputs))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return next_token_logits(model, inputs, prefix)

    monkeypatch.setattr(ranking, "next_token_logits", short_of_memory)
    evaluator = RankingEvaluator(model, RankingSettings(), "content", SEED, 100)
    block = with_one_step(block_of(model))
    rows = evaluator.evaluate_block(block)
    assert [row["sample_id"] for row in rows if row["status"] != "ok"] == ["long"] * 2
    assert refused.count(1) <= 2, "the sample's other inputs are skipped"
    refused.clear()
    assert evaluator.evaluate_block(block) == rows
    assert refused == [1]
    message, _ = [message for message in caplog.messages if "do not fit" in message]
    assert message.startswith("ranking, model 'llama-gqa': sample long: ")


def test_a_prefix_too_large_fails_its_samples(monkeypatch):
    model, _ = model_and_network("llama-gqa")
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
    model=local_model(), not_applicable=None, ranking=RankingSettings(), scope="content",
    seed=SEED, block_size=2, token_budget=64,
)  # fmt: skip


@pytest.fixture
def job(tmp_path):
    """Files of a job, and its command line."""
    model, plain = model_and_network("llama-gqa", torch.float32)
    plain.save_pretrained(tmp_path / "model")
    numbered_tokenizer(VOCABULARY).save_pretrained(tmp_path / "model")
    kinds = ("prompts", "generations", "attributions")
    for kind, rows in zip(kinds, zip(*block_of(model), strict=True), strict=True):
        write_rows(tmp_path / f"{kind}.parquet", kind, rows, {})
    return argparse.Namespace(
        **{kind: tmp_path / f"{kind}.parquet" for kind in kinds},
        settings=SETTINGS.to_json(),
        model=[tmp_path / "model/config.json"],
        gpus=None,
        replacements=[],
        output=tmp_path / "ranking.parquet",
    )


def test_the_file_holds_every_sample_and_its_cost(job):
    evaluate_ranking.main(job)
    rows = read_rows(job.output, "ranking")
    model, _ = model_and_network("llama-gqa", torch.float32)
    assert {(r["sample_id"], r["curve"]): r for r in rows} == evaluate(model, block_of(model))
    facts = read_provenance(job.output)
    assert facts["token_budget_used"] == 64
    assert facts["forwards"] == 39 + 9 + 1 + 11
    assert facts["tokens"] > 0
    assert facts["peak_memory_mb"] > 50
    assert facts["settings"]["ranking"] == RankingSettings().model_dump()


def test_open_generation_is_written_as_not_applicable_without_a_model(job, monkeypatch):
    settings = SETTINGS.model_copy(update={"not_applicable": "no label words"})
    monkeypatch.setattr(evaluate_ranking, "load_model", None)
    evaluate_ranking.main(argparse.Namespace(**{**vars(job), "settings": settings.to_json()}))
    rows = read_rows(job.output, "ranking")
    assert [row["sample_id"] for row in rows[::2]] == [prompt["sample_id"] for prompt in PROMPTS]
    assert {row["status"] for row in rows} == {"not_applicable"}
    assert {(row["flips"], row["auc"]) for row in rows} == {(None, None)}
    assert read_provenance(job.output)["settings"]["not_applicable"] == "no label words"


def test_counterfactuals_use_the_prompts_of_all_shards(job, tmp_path):
    paths = [tmp_path / f"sentiment/{name}.parquet" for name in ("0-2", "2-4")]
    for path, part in zip(paths, (PROMPTS[:2], PROMPTS[2:]), strict=True):
        write_rows(path, "prompts", part, {})
    job.replacements = [str(tmp_path / "sentiment.4-by-2")]
    settings = RankingSettings(counterfactuals="records")
    job.settings = SETTINGS.model_copy(update={"ranking": settings}).to_json()
    evaluate_ranking.main(job)
    model, _ = model_and_network("llama-gqa", torch.float32)
    rows = {(row["sample_id"], row["curve"]): row for row in read_rows(job.output, "ranking")}
    assert rows == evaluate(model, block_of(model), replace=replacing("records"))


def test_the_file_names_the_masked_model_of_the_replacements(job, monkeypatch):
    masked = numbered(VOCABULARY)
    job.replacements = [str(job.prompts)]
    monkeypatch.setattr(counterfactuals, "located", lambda *_: ())
    monkeypatch.setattr(counterfactuals, "load_masked_model", lambda *_: masked)
    settings = RankingSettings(counterfactuals="masked_model")
    changes = {"ranking": settings, "masked_model": local_model()}
    job.settings = SETTINGS.model_copy(update=changes).to_json()
    evaluate_ranking.main(job)
    facts = read_provenance(job.output)
    assert facts["masked_model_commit"] == masked.commit
    assert {row["curve"] for row in read_rows(job.output, "ranking")} >= {"counterfactual"}


def test_a_token_outside_the_vocabulary_is_named(job):
    rows = read_rows(job.prompts, "prompts")
    rows[1]["label_token_ids"] = [25, 5000, 15]
    write_rows(job.prompts, "prompts", rows, {})
    with pytest.raises(BenchmarkError, match=r"prompts\.parquet: sample gaps: token id 5000"):
        evaluate_ranking.main(job)
