"""A decoder with constructed weights, for which both metrics are known at every π.

It has one layer. A chosen token asks for evidence; its attention puts e^c times as much weight on
an evidence token as on any other, and carries over only the fraction a of evidence. The next-token
distribution is a function of a, which depends on the number of kept evidence tokens. That number is
a sum of independent bits, one per token.
"""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import softmax
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.evaluations import evaluated
from helpers.quick_cases import each_value_quick
from helpers.tiny_tokenizers import numbered_tokenizer
from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness.metrics import soft_nc, soft_ns
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import LanguageModel

WIDTH, HEAD, VOCABULARY = 8, 4, 12
TEMPLATE, FILLER, EVIDENCE, ASKING = 0, 3, 7, 10
AXES = {TEMPLATE: 0, FILLER: 3, EVIDENCE: 2, ASKING: 1}  # of their embeddings, one each
ATTENDED = 4  # axis on which attention writes the fraction of evidence
SLOW = 1  # dimension of a head that rotary embeddings do not change
C = 1.5  # log ratio of the weights of evidence and other tokens
ROOT = math.sqrt(WIDTH)  # value of a normalised embedding on its axis

IDS = [TEMPLATE, TEMPLATE, EVIDENCE, FILLER, FILLER, EVIDENCE, FILLER, EVIDENCE, FILLER, ASKING]
PERTURBABLE = np.arange(2, 9)
IS_EVIDENCE = np.array([IDS[place] == EVIDENCE for place in PERTURBABLE])
RAW = np.array([0.0, 0.0, 3.0, 1.0, 0.5, 1.2, 2.0, 0.2, 0.0, 0.0])
SCORES = (RAW[PERTURBABLE] - RAW[PERTURBABLE].min()) / np.ptp(RAW[PERTURBABLE])
GRID, DRAWS = (0.1, 0.3, 0.5, 0.7, 0.9), 400


@pytest.fixture(scope="module")
def head():
    """Return the output head (V, d), of which only two columns matter."""
    return np.random.default_rng(5).normal(size=(VOCABULARY, WIDTH))


@pytest.fixture(scope="module")
def model(head):
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=4, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, head_dim=HEAD, rms_norm_eps=1e-12,
        rope_theta=1e30, max_position_embeddings=64, pad_token_id=None,
    )  # fmt: skip
    network = LlamaForCausalLM._from_config(config, attn_implementation=ATTENTION_NAME).double()
    layer = network.model.layers[0]
    for weights in (*layer.self_attn.parameters(), *layer.mlp.parameters()):
        weights.data.zero_()
    embeddings = network.model.embed_tokens.weight.data.zero_()
    for token, axis in AXES.items():
        embeddings[token, axis] = 1
    embeddings[EVIDENCE + 1] = embeddings[EVIDENCE]  # so that the trial at loading finds two
    attention = layer.self_attn
    attention.q_proj.weight.data[SLOW, AXES[ASKING]] = math.sqrt(C * math.sqrt(HEAD)) / ROOT
    attention.k_proj.weight.data[SLOW, AXES[EVIDENCE]] = math.sqrt(C * math.sqrt(HEAD)) / ROOT
    attention.v_proj.weight.data[0, AXES[EVIDENCE]] = 1 / ROOT
    attention.o_proj.weight.data[ATTENDED, 0] = 1
    network.lm_head.weight.data = torch.from_numpy(head)
    return LanguageModel(network, "built", lambda: numbered_tokenizer(VOCABULARY))


def distances(head, protocol):
    """Return H between all and 0, 1, … kept evidence tokens, from the formulas only."""
    total = int(IS_EVIDENCE.sum())
    kept = np.arange(total + 1)
    in_view = kept if protocol == "dynamic" else total  # whose keys attention sees
    attended = kept * math.exp(C) / (in_view * math.exp(C) + len(IDS) - in_view)
    states = np.zeros((total + 1, WIDTH))
    states[:, AXES[ASKING]], states[:, ATTENDED] = 1, attended
    states *= ROOT / np.linalg.norm(states, axis=1, keepdims=True)
    roots = np.sqrt(softmax(states @ head.T, axis=1))
    return np.sqrt(((roots - roots[-1]) ** 2).sum(axis=1) / 2)


def retaining(pi):
    """Return each token's probability to be kept; None: of the original metric, not calibrated."""
    if pi is None:
        return SCORES
    clipped = np.clip(SCORES, 1e-6, 1 - 1e-6)
    return clipped ** brentq(lambda alpha: (clipped**alpha).mean() - pi, 1e-6, 1e6, xtol=1e-14)


def kept_evidence(probabilities):
    """Return the distribution of the number of kept evidence tokens."""
    chances = np.array([1.0])
    for probability in probabilities[IS_EVIDENCE]:
        chances = np.convolve(chances, [1 - probability, probability])
    return chances


@pytest.mark.parametrize(
    ("protocol", "sampler", "mask"),
    each_value_quick(["dynamic", "fixed"], ["iid", "latin"], ["token", "element"]),
)
def test_both_metrics_have_their_closed_form_at_every_pi(model, head, protocol, sampler, mask):
    settings = EvaluationSettings(pi_grid=GRID, draws=DRAWS, sampler=sampler, mask=mask)
    row = {"sample_id": "s", "step": 0, "raw_scores": RAW.tolist(), "status": "ok"}
    target = PerturbationTarget(IDS, PERTURBABLE, 5)
    (rows,) = evaluated(model, [(target, row)], settings, seed=11, protocol=protocol)
    expected_distances = distances(head, protocol)
    h0 = expected_distances[0]
    values = {"ns": np.maximum(0, 1 - expected_distances / h0), "nc": expected_distances / h0}
    measures = {
        "ns": lambda drawn: soft_ns(h0, drawn, "draw"),
        "nc": lambda drawn: soft_nc(h0, drawn),
    }
    assert [row["pi"] for row in rows] == [None, *GRID]
    for row in rows:
        assert row["h0"] == pytest.approx(h0, abs=1e-7)
        probabilities = retaining(row["pi"])
        for metric, chances in (("ns", probabilities), ("nc", 1 - probabilities)):
            drawn = np.array(row[f"{metric}_distances"])
            off = np.abs(drawn[:, None] - expected_distances).min(axis=1)
            assert off.max() < 2e-7, "an impossible number of kept evidence tokens"
            weights = kept_evidence(chances)
            expected = weights @ values[metric]
            error = math.sqrt(weights @ (values[metric] - expected) ** 2 / DRAWS)
            assert abs(float(measures[metric](drawn)) - expected) <= 3 * error, (
                row["pi"],
                metric,
            )


def test_the_protocols_differ_where_attention_does(head):
    dynamic, fixed = (distances(head, protocol) for protocol in ("dynamic", "fixed"))
    assert dynamic[0] == pytest.approx(fixed[0]), "none is left"
    assert np.abs(dynamic - fixed).max() > 0.01
