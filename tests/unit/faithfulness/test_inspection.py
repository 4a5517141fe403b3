"""Inspection of perturbed inputs against the plain model's attention and predictions."""

import numpy as np
import pytest
import torch

from helpers.explained_rows import prompt_of_ids
from helpers.loaded_models import local_model
from helpers.quick_cases import one_quick
from helpers.random_models import SHAPES, model_and_network, random_model
from pisoft.config.jobs.cells import InspectJob
from pisoft.faithfulness.inspection import CLEAN, READ, Inspector
from pisoft.faithfulness.masks import IndependentUniforms

IDS = [1, 40, 41, 8, 9, 10, 33, 60, 12, 7]
CONTENT = np.array([3, 4, 6, 7, 8])
LABELS = [5, 6]
PROMPT = prompt_of_ids("s", IDS, CONTENT, label_token_ids=LABELS)
GENERATION = {"sample_id": "s", "output_ids": [5, 61], "steps": [0, 1], "status": "ok"}
GRID, DRAWS, SEED = (0.2, 0.7), 3, 4
MODEL = local_model(dtype="float64")


def settings(protocol="dynamic", operators=("zero", "mean", "hide"), step_interval=None):
    return InspectJob(
        model=MODEL, protocol=protocol, operators=operators, scope="content", pi_grid=GRID,
        draws=DRAWS, seed=SEED, token_budget=None, step_interval=step_interval,
    )  # fmt: skip


def inspected(model, budget=10_000, prompt=PROMPT, generation=GENERATION, **changes):
    rows = list(Inspector(model, settings(**changes), budget).rows(prompt, generation))
    return {(row["step"], row["operator"], row["pi"]): row for row in rows}


@torch.no_grad()
def plainly(plain, read, operator, mask):
    """Return the numbers of one input from the network's eager forward."""
    table = plain.get_input_embeddings().weight.detach()
    gone = CONTENT[~mask]

    def forward(operator):
        inputs = table[torch.tensor(read)].clone()
        options = {}
        if operator == "zero":
            inputs[gone] = 0
        if operator == "mean":
            inputs[gone] = table.mean(dim=0)
        if operator == "hide":
            seen = torch.ones(1, len(read), dtype=torch.long)
            seen[0, gone] = 0
            options = {
                "attention_mask": seen, "position_ids": torch.arange(len(read))[None],
            }  # fmt: skip
        norms = []
        last = plain.model.layers[-1]
        handle = last.register_forward_hook(lambda _, __, out: norms.append(out[0]))
        output = plain(inputs_embeds=inputs[None], output_attentions=True, **options)
        handle.remove()
        p = output.logits[0, -1].softmax(-1)
        looked = torch.stack(output.attentions)[:, 0, :, -1].mean(dim=(0, 1))
        return {
            "entropy": float(-(p * p.log()).sum()),
            "label_probability": float(p[LABELS].sum()),
            "attention": float(looked[gone].sum()) if len(gone) else np.nan,
            "hidden_norm": float(norms[0].reshape(-1, norms[0].shape[-1])[-1].norm()),
        }

    measured, clean = forward(operator), forward(None)
    measured["hidden_norm"] /= clean.pop("hidden_norm")
    return measured | {f"clean_{name}": value for name, value in clean.items()}


@pytest.mark.parametrize("shape", one_quick(SHAPES))
def test_numbers_are_means_over_masks_of_the_plain_models_numbers(shape):
    model, plain = model_and_network(shape)
    rows = inspected(model, 50)
    assert len(rows) == 2 * 3 * len(GRID)
    for (step, operator, pi), row in rows.items():
        assert row["status"] == "ok"
        uniforms = IndependentUniforms(SEED, "s", step, (len(CONTENT), 1))
        read = [*IDS, *GENERATION["output_ids"][:step]]
        expected = [
            plainly(plain, read, operator, uniforms.uniforms(GRID.index(pi), k)[:, 0] < pi)
            for k in range(DRAWS)
        ]
        for name in (*READ, *CLEAN):
            mean = np.nanmean([numbers[name] for numbers in expected])
            assert row[name] == pytest.approx(mean, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("budget", [1, 10_000])
def test_forwards_and_tokens_are_counted(budget):
    inspector = Inspector(random_model("llama-gqa"), settings(), budget)
    list(inspector.rows(PROMPT, GENERATION))
    inputs_per_step = 1 + 3 * len(GRID) * DRAWS  # the clean input, and each operator's
    lengths = [len(IDS) + step for step in GENERATION["steps"]]
    assert inspector.forwards == inputs_per_step * len(lengths)
    assert inspector.tokens == inputs_per_step * sum(lengths)


def test_only_evaluated_steps_are_inspected():
    first, last = GENERATION["steps"]
    rows = inspected(random_model("llama-gqa"), operators=("zero",), step_interval=last + 1)
    assert {step for step, *_ in rows} == {first} == {0}


def test_fixed_attention_is_not_reported():
    model, _ = model_and_network("llama-gqa")
    fixed = inspected(model, protocol="fixed", operators=("zero", "mean"))
    dynamic = inspected(model, operators=("zero", "mean"))
    for key, row in fixed.items():
        assert row["attention"] is None
        assert row["clean_attention"] is None
        assert row["clean_entropy"] == pytest.approx(dynamic[key]["clean_entropy"])
        assert row["entropy"] != pytest.approx(dynamic[key]["entropy"], rel=1e-6)


def test_open_text_has_no_label_words():
    model, _ = model_and_network("llama-gqa")
    for row in inspected(model, prompt={**PROMPT, "label_token_ids": []}).values():
        assert row["label_probability"] is None
        assert row["entropy"] is not None


@pytest.mark.parametrize(
    ("prompt", "generation", "status"),
    [
        (PROMPT, {**GENERATION, "status": "prompt_too_long"}, "prompt_too_long"),
        ({**PROMPT, "content_mask": [False] * 10}, GENERATION, "no_content_tokens"),
    ],
)
def test_failed_samples_have_rows_without_numbers(prompt, generation, status):
    rows = inspected(random_model("llama-gqa"), prompt=prompt, generation=generation)
    assert {row["status"] for row in rows.values()} == {status}
    assert {row[name] for row in rows.values() for name in (*READ, *CLEAN)} == {None}
    assert {operator for _, operator, _ in rows} == {"zero", "mean", "hide"}


def test_nonfinite_logits_are_reported():
    model, _ = model_and_network("llama-gqa")
    model.network.lm_head.weight.data.fill_(float("inf"))
    assert {row["status"] for row in inspected(model).values()} == {"nonfinite_logits"}
