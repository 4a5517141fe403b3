"""ReAGent against a plain loop, and when its stopping rule is never met."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logit, softmax

from helpers.attributions import attribute, build, random_masked_model
from helpers.explained_rows import explained_samples
from helpers.quick_cases import one_quick
from helpers.random_models import SHAPES, model_and_network, random_model, samples
from pisoft.attribution.base import Context
from pisoft.attribution.engine import attribute_block
from pisoft.errors import BenchmarkError
from pisoft.models.masked import replacements
from pisoft.models.model import ExplainedSample
from pisoft.seeds import keyed_generator

KEEP, TOP_K, RATIO, LIMIT = 3, 3, 0.25, 8


def one_forward(plain, ids, target, foil=None):
    """Return the target's probability, absolute or relative to a foil, and its rank."""
    with torch.no_grad():
        row = plain(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
    share = row[target] / (1 if foil is None else row[target] + row[foil])
    return float(share), int((row > row[target]).sum())


def plain_probe(plain, ids, output, targets, candidates, probabilities, generator, scope):
    """Follow one probe of the published algorithm, one forward at a time."""
    count = len(ids)
    replaceable = np.array([i in scope and (candidates[i] != ids[i]).all() for i in range(count)])
    importance = generator.random(count)
    clean, _ = one_forward(plain, [*ids, *output], *targets)

    def replaced(mask):
        draws = generator.random(count)
        changed = list(ids)
        for i in np.flatnonzero(mask):
            edges = np.cumsum(probabilities[i])
            changed[i] = int(candidates[i][np.searchsorted(edges / edges[-1], draws[i])])
        return [*changed, *output]

    for _ in range(LIMIT):
        mask = (generator.random(count) < RATIO) & replaceable
        value, _ = one_forward(plain, replaced(mask), *targets)
        change = logit((clean - value + 1) / 2)
        importance = importance + np.where(mask, change, -change)
        shares = np.zeros(count)
        shares[replaceable] = softmax(importance[replaceable])
        kept = np.argsort(-shares, kind="stable")[:KEEP]
        mask = replaceable & ~np.isin(np.arange(count), kept)
        if one_forward(plain, replaced(mask), *targets)[1] < TOP_K:
            return shares, True
    return shares, False


@pytest.mark.parametrize("scope", [None, [5, 6, 7]])
@pytest.mark.parametrize("shape", one_quick(SHAPES))
def test_batched_probes_equal_a_plain_loop(shape, scope):
    """With a scope as well, and with or without shared prefixes."""
    model, plain = model_and_network(shape)
    masked = random_masked_model()
    chosen = samples()
    if scope is not None:
        chosen = [replace(one, scope=scope) for one in chosen if len(one.prompt_ids) > scope[-1]]
        alike = [*chosen[0].prompt_ids[:5], 31, 17, 50, 8]
        chosen.append(ExplainedSample("alike", alike, [11], [0], [11], scope=scope))
    contrast = replace(chosen[0], foil_ids=[33, 34][: len(chosen[0].steps)])
    made = [
        scores
        for given in (chosen, [contrast])
        for scores in attribute("reagent", model, given, max_probe_steps=LIMIT)
    ]
    for sample, scores in zip([*chosen, contrast], made, strict=True):
        candidates, probabilities = (
            tensor.double().numpy()
            for tensor in replacements(masked, model.tokenizer, sample.prompt_ids, 10, 64)
        )
        for row, (step, target) in enumerate(zip(sample.steps, sample.target_ids, strict=True)):
            probes = [
                plain_probe(
                    plain,
                    list(sample.prompt_ids),
                    list(sample.output_ids[:step]),
                    (target, *sample.foil_ids[row : row + 1]),
                    candidates,
                    probabilities,
                    keyed_generator(1, "reagent", sample.sample_id, step, number),
                    sample.in_scope,
                )
                for number in range(2)
            ]
            met = [shares for shares, converged in probes if converged]
            expected = np.mean(met or [shares for shares, _ in probes], axis=0)
            torch.testing.assert_close(
                scores[row], torch.from_numpy(expected), rtol=1e-3, atol=1e-5
            )


def test_an_unmet_stopping_rule_gives_the_plain_mean_and_is_reported():
    model, plain = model_and_network("llama-gqa")
    ids = samples()[0].prompt_ids
    worst = int(plain(torch.tensor([ids])).logits[0, -1].argmin())
    block = explained_samples([ExplainedSample("s", ids, [worst], [0], [worst])])
    for top_k, converged in ((1, False), (10**6, True)):
        method = build("reagent", stopping_condition_top_k=top_k, max_probe_steps=2)
        (row,) = attribute_block(method, model, block)
        assert (row["converged"], row["status"]) == (converged, "ok")
        assert np.isfinite(row["raw_scores"]).all()
        assert sum(row["raw_scores"]) == pytest.approx(1)


def test_tokens_without_text_are_never_replaced():
    model = random_model("llama-gqa")
    for ids in ([1, 5, 6, 2, 7, 2], [1, 2]):
        (scores,) = attribute("reagent", model, [ExplainedSample("s", ids, [9], [0], [9])])
        assert (scores[0] > 0).tolist() == [token > 2 for token in ids]


def test_a_missing_masked_model_is_named():
    method = type(build("reagent"))
    with pytest.raises(BenchmarkError, match=r"'reagent': .*masked_model"):
        method(method.Options(), Context(1)).check(random_model("llama-gqa"))
