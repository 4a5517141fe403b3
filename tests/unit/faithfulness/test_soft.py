"""Soft metrics against a ten-line loop in float64 on the same masks, and closed forms."""

import copy

import numpy as np
import pytest
import torch

from helpers.evaluations import distances, evaluated, masks_of
from helpers.explained_rows import prompt_of_ids
from helpers.quick_cases import each_value_quick
from helpers.random_models import SHAPES, model_and_network, random_model
from pisoft.config.evaluation import EvaluationSettings
from pisoft.faithfulness import soft
from pisoft.faithfulness.calibration import clip_scores
from pisoft.faithfulness.cell import evaluations_of_sample
from pisoft.faithfulness.masks import ORIGINAL
from pisoft.faithfulness.masks import masks_of as sampled_masks
from pisoft.faithfulness.perturbation import (
    MEASURES,
    PerturbationTarget,
    Perturber,
)
from pisoft.faithfulness.repetition import is_repeated
from pisoft.faithfulness.soft import (
    METRICS,
    StepEvaluation,
    measure_draws,
    measure_in_float32,
)
from pisoft.models.model import LanguageModel

IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]
PERTURBABLE = np.array([3, 4, 6, 7, 8])
TARGET = PerturbationTarget(IDS, PERTURBABLE, 5)
SETTINGS = EvaluationSettings(pi_grid=(0.2, 0.5, 0.9), draws=4)


def attribution(raw, status="ok"):
    return {"sample_id": "s", "step": 0, "raw_scores": raw, "status": status}


def raw_scores(seed=0):
    return np.random.default_rng(seed).normal(size=len(IDS)).tolist()


def scores_of_tokens():
    """Return the normalised scores of the perturbable tokens."""
    raw = np.array(raw_scores())[PERTURBABLE]
    return (raw - raw.min()) / (raw.max() - raw.min())


@torch.no_grad()
def plain_predictions(plain, mask):
    """Return the clean and the perturbed distribution; mask (m,) by token or (m, d) by element."""
    embeddings = plain.get_input_embeddings()(torch.tensor([IDS])).clone()
    clean = plain(inputs_embeds=embeddings).logits[0, -1].softmax(-1)
    for position, kept in zip(PERTURBABLE, mask, strict=True):
        embeddings[0, position] *= torch.tensor(kept, dtype=embeddings.dtype)
    return clean, plain(inputs_embeds=embeddings).logits[0, -1].softmax(-1)


def plain_measures(plain, mask):
    """Return the distance, the total variation, and the change of the target's log-probability."""
    clean, perturbed = plain_predictions(plain, mask)
    distance = (((clean.sqrt() - perturbed.sqrt()) ** 2).sum() / 2).sqrt().item()
    change = perturbed[TARGET.target_id].log() - clean[TARGET.target_id].log()
    return distance, (clean - perturbed).abs().sum().item() / 2, change.item()


@pytest.mark.parametrize(("shape", "sampler"), each_value_quick(SHAPES, ["iid", "latin", "count"]))
def test_every_draw_equals_the_plain_loop(shape, sampler):
    """Of 5 tokens at π = 0.2, 0.5, 0.9, counted masks keep 1, 3 (2.5, rounded up) and 4 (not 5)."""
    model, plain = model_and_network(shape)
    settings = SETTINGS.model_copy(update={"sampler": sampler})
    (rows,) = evaluated(model, [(TARGET, attribution(raw_scores()))], settings, 5, 30)
    assert [row["pi"] for row in rows] == [None, 0.2, 0.5, 0.9]
    shares = [None, 0.2, 0.6, 0.8] if sampler == "count" else [row["pi"] for row in rows]
    drawn = sampled_masks(sampler, 5, "s", 0, (5, 1), 3, 4)
    for index, row, share in zip([ORIGINAL, 0, 1, 2], rows, shares, strict=True):
        s = scores_of_tokens()
        if index != ORIGINAL:
            s = clip_scores(s, SETTINGS.score_floor) ** row["alpha"]
            assert s.mean() == pytest.approx(share, abs=1e-9)
        assert row["achieved"] == pytest.approx(s.mean(), abs=1e-9)
        feasible = share is None or 0.2 < share < 0.8  # one of 5 scores is 1 and one is 0
        assert row["feasible"] == feasible
        kept = np.stack([drawn.kept(index, draw, s)[:, 0] for draw in range(4)])
        if sampler == "count" and index != ORIGINAL:
            assert (kept.mean(axis=1) == share).all()
        for name, chosen in (("ns", kept), ("nc", ~kept)):
            expected = zip(*(plain_measures(plain, mask) for mask in chosen), strict=True)
            for measure, values in zip(MEASURES, expected, strict=True):
                np.testing.assert_allclose(row[f"{name}_{measure}s"], values, atol=1e-6)
        assert row["h0"] == pytest.approx(plain_measures(plain, np.zeros(5))[0], abs=1e-7)


def with_nan(position):
    raw = raw_scores()
    raw[position] = float("nan")
    return attribution(raw)


@pytest.mark.parametrize(
    ("row", "perturbable", "head", "status"),
    [
        (with_nan(4), PERTURBABLE, None, "nonfinite_attribution"),
        (with_nan(0), PERTURBABLE, None, "ok"),
        (attribution(None, "empty_generation"), PERTURBABLE, None, "empty_generation"),
        (attribution(raw_scores()), PERTURBABLE[:0], None, "no_content_tokens"),
        (attribution(raw_scores()), PERTURBABLE, 0, "degenerate_baseline"),
        (attribution(raw_scores()), PERTURBABLE, np.nan, "nonfinite_logits"),
    ],
)
def test_failures_are_rows_with_a_status(row, perturbable, head, status):
    model, _ = model_and_network("llama-gqa")
    if head is not None:
        model.network.lm_head.weight.data.fill_(head)
    target = PerturbationTarget(IDS, perturbable, 5)
    (rows,) = evaluated(model, [(target, row)], SETTINGS)
    assert [(row["pi"], row["status"]) for row in rows] == [
        (pi, status) for pi in (None, *SETTINGS.pi_grid)
    ]
    assert {row["achieved"] is None for row in rows} == {status != "ok"}


@pytest.mark.parametrize("baseline", [0, 1])
def test_a_nonfinite_baseline_fails_the_step(baseline):
    model, _ = model_and_network("llama-gqa")
    (step,) = steps_of([(TARGET, attribution(raw_scores()))], model)
    measured = np.full((2 + 2 * 4, len(MEASURES)), 0.5, dtype=np.float32)
    measured[baseline] = np.nan
    step.record(dict.fromkeys(METRICS, range(1)), measured)
    assert {row["status"] for row in step.rows()} == {"nonfinite_logits"}


def test_only_h0_below_the_minimum_is_degenerate():
    model, _ = model_and_network("llama-gqa")
    case = (TARGET, attribution(raw_scores()))
    ((row, *_),) = evaluated(model, [case], SETTINGS)
    for least, status in ((row["h0"], "ok"), (np.nextafter(row["h0"], 1), "degenerate_baseline")):
        (rows,) = evaluated(model, [case], SETTINGS.model_copy(update={"minimum_h0": least}))
        assert {row["status"] for row in rows} == {status}


def steps_of(cases, model, settings=SETTINGS):
    return [StepEvaluation(row, target, settings, 1, model.width) for target, row in cases]


def several_cases():
    """Targets of different lengths and prefixes, among them two steps of one sample."""
    other = [1, 40, 41, 50, 51, 9, 33]
    return [
        (TARGET, attribution(raw_scores())),
        (PerturbationTarget([*IDS, 20, 21], PERTURBABLE, 6), attribution(raw_scores(1))),
        (PerturbationTarget(other, np.array([3, 5]), 7), attribution(raw_scores(2)[:7])),
        (PerturbationTarget(other, np.array([1, 2, 4]), 7), attribution(raw_scores(3)[:7])),
    ]


def test_measuring_fewer_pi_does_not_change_their_draws():
    model, _ = model_and_network("llama-gqa")
    some = SETTINGS.model_copy(update={"pi_per_step": 1})
    whole, part = (evaluated(model, several_cases(), chosen) for chosen in (SETTINGS, some))
    for all_rows, rows in zip(whole, part, strict=True):
        measured = [row["ns_distances"] is not None for row in rows]
        assert measured[0], "the original metrics are measured of every step"
        assert sum(measured[1:]) == 1
        for row, other, is_measured in zip(rows, all_rows, measured, strict=True):
            assert (row["alpha"], row["status"]) == (other["alpha"], "ok")
            if is_measured:
                assert row["nc_distances"] == pytest.approx(other["nc_distances"], abs=1e-5)
            else:
                assert row["nc_log_probability_changes"] is None


@torch.no_grad()
def released_soft_metrics(plain, s, uniform):
    """Soft-NS and Soft-NC as the code released with the original metrics computes them.

    One bit per element of the embeddings, distance Σ(√p − √q)² / √2, one draw.
    """

    def distance(mask):
        clean, perturbed = plain_predictions(plain, mask)
        return float(((perturbed.sqrt() - clean.sqrt()) ** 2 / 2**0.5).sum())

    mask = uniform < s[:, None]
    nothing = 1 - distance(np.zeros_like(mask))
    sufficiency = max(0.0, 1 - distance(mask) - nothing) / (1 - nothing)
    return sufficiency, distance(~mask) / (1 - nothing)


@pytest.mark.parametrize("shape", SHAPES)
def test_element_masks_reproduce_the_released_soft_metrics(shape):
    model, plain = model_and_network(shape)
    settings = SETTINGS.model_copy(update={"mask": "element", "draws": 3})
    (rows,) = evaluated(model, [(TARGET, attribution(raw_scores()))], settings, 5)
    squared = 2**0.5 * rows[0]["h0"] ** 2
    drawn = sampled_masks("iid", 5, "s", 0, (5, model.width), 3, 3)
    for draw in range(3):
        ns, nc = released_soft_metrics(plain, scores_of_tokens(), drawn.uniforms(ORIGINAL, draw))
        kept = 2**0.5 * rows[0]["ns_distances"][draw] ** 2
        removed = 2**0.5 * rows[0]["nc_distances"][draw] ** 2
        assert max(0.0, squared - kept) / squared == pytest.approx(ns, abs=1e-6)
        assert removed / squared == pytest.approx(nc, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_noise_floor_is_the_distance_of_the_unperturbed_input(dtype):
    model, _ = model_and_network("llama-gqa", dtype)
    rows = evaluated(model, several_cases(), SETTINGS, token_budget=41)
    floors = [row["identity"] for case_rows in rows for row in case_rows]
    assert max(floors) <= {torch.float64: 1e-12, torch.float32: 1e-3}.get(dtype, 0.02)


@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_noise_is_the_difference_from_float32(dtype, protocol):
    model, _ = model_and_network("llama-gqa", dtype)
    exact = LanguageModel(copy.deepcopy(model.network).float(), "exact")
    steps = steps_of(several_cases(), model)
    measure_draws(Perturber(model, 60, protocol), steps, dict.fromkeys(METRICS, range(4)))
    before = [step.rows() for step in steps]
    measure_in_float32(Perturber(model, 60, protocol), steps)
    repeated = [step.rows() for step in steps]
    noise = ("h0_noise", "ns_noise", "nc_noise")
    assert [{k: v for k, v in row.items() if k not in noise} for of in repeated for row in of] == [
        {k: v for k, v in row.items() if k not in noise} for of in before for row in of
    ]
    (chosen,) = [place for place, rows in enumerate(repeated) if rows[0]["h0_noise"] is not None]
    case = several_cases()[chosen]
    (expected,) = evaluated(
        exact, [case], SETTINGS.model_copy(update={"draws": 1}), 1, 60, protocol
    )
    for row, other in zip(repeated[chosen], expected, strict=True):
        assert row["h0"] - row["h0_noise"] == pytest.approx(other["h0"], abs=1e-6)
        for metric in METRICS:
            single = row[f"{metric}_distances"][0] - row[f"{metric}_noise"]
            assert single == pytest.approx(other[f"{metric}_distances"][0], abs=1e-5)
            assert row[f"{metric}_noise"] != 0, "16-bit precision changes every distance"
    assert {p.dtype for p in model.network.parameters()} == {dtype}


@pytest.mark.parametrize(
    "place", ["pisoft.models.precision.at_least_float32", "torch.nn.functional.silu"]
)
def test_running_out_of_memory_in_float32_loses_only_the_noise(place, monkeypatch, caplog):
    model, _ = model_and_network("llama-gqa", torch.bfloat16)
    steps = steps_of(several_cases(), model)
    perturber = Perturber(model, 1000)
    measure_draws(perturber, steps, dict.fromkeys(METRICS, range(1)))
    before = [step.rows() for step in steps]

    def short_of_memory(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(place, short_of_memory)
    measure_in_float32(perturber, steps)
    assert [step.rows() for step in steps] == before
    assert {p.dtype for p in model.network.parameters()} == {torch.bfloat16}
    (message,) = caplog.messages  # once, not for every mask
    assert "repeated in float32: " in message


def test_blocks_at_powers_of_two_are_repeated_in_float32():
    assert [block for block in range(125) if is_repeated(block)] == [0, 1, 2, 4, 8, 16, 32, 64]


def test_the_repeated_step_depends_only_on_its_key():
    model, _ = model_and_network("llama-gqa", torch.bfloat16)
    rows = [{**attribution(raw_scores()), "sample_id": f"s{number}"} for number in range(6)]
    rows[2]["status"] = "nonfinite_attribution"

    def chosen(order):
        steps = steps_of([(TARGET, rows[number]) for number in order], model)
        perturber = Perturber(model, 1000)
        measure_draws(perturber, steps, dict.fromkeys(METRICS, range(1)))
        measure_in_float32(perturber, steps)
        return [step.sample_id for step in steps if step.rows()[0]["h0_noise"] is not None]

    (first,) = chosen(range(6))
    assert first == "s0", "of the step that stored results name"
    assert chosen(reversed(range(6))) == [first]
    others = [number for number in range(6) if f"s{number}" != first]
    (second,) = chosen(others)
    assert second not in (first, "s2")
    assert chosen([2]) == []


def test_both_metrics_share_the_draw_of_a_mask(monkeypatch):
    model, _ = model_and_network("llama-gqa")
    drawn, kept_tokens = [], soft.kept_tokens
    monkeypatch.setattr(
        soft, "kept_tokens", lambda *given: drawn.append(given[2:]) or kept_tokens(*given)
    )
    (step,) = steps_of([(TARGET, attribution(raw_scores()))], model)
    measure_draws(Perturber(model, 1000), [step], dict.fromkeys(METRICS, range(2)))
    assert sorted(drawn) == [(row, draw) for row in range(1 + len(step.grid)) for draw in range(2)]


@pytest.mark.parametrize("gated", [False, True])
def test_fixed_routing_projects_no_queries_unless_a_gate_reads_them(gated):
    network = random_model("llama-gqa").network
    attention = network.model.layers[1].self_attn
    queries = []
    attention.q_proj.register_forward_hook(lambda _, __, output: queries.append(output))
    if gated:
        attention.o_proj.register_forward_pre_hook(
            lambda _, inputs: (inputs[0] * queries[-1].sigmoid(),)
        )
    model = LanguageModel(network, "toy")
    masks = np.random.default_rng(3).random((6, 5)) < 0.5
    queries.clear()
    measured = distances(model, TARGET, masks, protocol="fixed")
    assert any(len(batch_queries) > 1 for batch_queries in queries) == gated, "of perturbed inputs"
    model.unread = ()
    np.testing.assert_array_equal(measured, distances(model, TARGET, masks, protocol="fixed"))


@pytest.mark.parametrize("protocol", ["dynamic", "fixed"])
def test_equal_masks_of_one_target_share_one_forward(protocol):
    """Two steps have the same masks, but inputs are not shared between targets."""
    model, _ = model_and_network("llama-gqa")
    targets = [target for target, _ in several_cases()[:2]]
    masks = np.eye(5, dtype=bool)[[0, 3, 0, 1, 3, 3]]

    def measured(target, chosen):
        return Perturber(model, 1, protocol).measure([masks_of(target, chosen)])[0]

    alone = [np.concatenate([measured(t, mask[None]) for mask in masks]) for t in targets]
    perturber = Perturber(model, 1, protocol)
    together = perturber.measure([masks_of(target, masks) for target in targets])
    np.testing.assert_array_equal(together, alone)
    assert (perturber.forwards, perturber.tokens) == (2 * (1 + 3), 4 * 7 + 4 * 9), "after prefixes"


def test_the_prefix_does_not_count_towards_a_batch(monkeypatch):
    model, _ = model_and_network("llama-gqa")
    batches, predict = [], Perturber._predict

    def counted(self, inputs, *given):
        batches.append(sum(map(len, inputs)))
        return predict(self, inputs, *given)

    monkeypatch.setattr(Perturber, "_predict", counted)
    distances(model, TARGET, np.eye(5, dtype=bool), token_budget=2 * TARGET.length)
    assert batches == [1, 2, 2, 1], "the clean input, and five masks, two at once"


def test_an_input_too_large_is_tried_once_per_budget(monkeypatch, caplog):
    """Its other masks and later draws are skipped; for its rows, see the contract of batches."""
    model, _ = model_and_network("llama-gqa")
    longest = max(target.length for target, _ in several_cases())
    original, refused = type(model).next_token_logits, []

    def short_of_memory(self, embeddings, positions, **options):
        if embeddings.shape[0] * embeddings.shape[1] >= longest:
            refused.append(len(embeddings))
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, embeddings, positions, **options)

    monkeypatch.setattr(type(model), "next_token_logits", short_of_memory)
    steps, perturber = steps_of(several_cases(), model), Perturber(model, 150)
    for draws in (range(2), range(2, 4)):
        measure_draws(perturber, steps, dict.fromkeys(METRICS, draws))
    assert len(refused) == 5
    assert len([message for message in caplog.messages if "do not fit" in message]) == 1
    for step in steps:
        for row in step.rows():
            assert (row["status"] == "ok") == (row["alpha"] is not None)
            assert (row["status"] == "ok") == (len(row["ns_distances"] or ()) == 4)


def test_one_heatmap_per_sample_equals_its_mean_at_every_step():
    model, _ = model_and_network("llama-gqa")
    prompt = prompt_of_ids("s", IDS, PERTURBABLE)
    answer = {"steps": [0, 2], "target_ids": [5, 6], "output_ids": [5, 9, 6]}
    step_rows = [{**attribution(raw_scores(step)), "step": step} for step in answer["steps"]]
    mean = np.mean([row["raw_scores"] for row in step_rows], axis=0)

    def rows(given, step_scores):
        chosen = SETTINGS.model_copy(update={"step_scores": step_scores})
        steps = evaluations_of_sample(model, prompt, answer, given, chosen, 5)
        measure_draws(Perturber(model, 1000, "dynamic"), steps, dict.fromkeys(METRICS, range(4)))
        return [step.rows() for step in steps]

    given = [{**row, "raw_scores": mean} for row in step_rows]
    assert rows(step_rows, "aggregated") == rows(given, "own") != rows(step_rows, "own")
