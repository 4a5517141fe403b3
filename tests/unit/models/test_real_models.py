"""Small real models on real records, where they lie beside the repository."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from helpers.quick_cases import one_quick
from pisoft.attribution import available_methods, load_method
from pisoft.attribution.base import Context
from pisoft.config.datasets import FileDataset
from pisoft.config.jobs.fields import loaded_model
from pisoft.config.jobs.records import FetchJob, PromptJob
from pisoft.config.loading import load_config
from pisoft.config.validation import read_yaml
from pisoft.datasets.sampling import sample
from pisoft.datasets.sources import fetch
from pisoft.models.generation import classify
from pisoft.models.loading import load_model
from pisoft.models.masked import load_masked_model
from pisoft.models.model import Batch, ExplainedSample
from pisoft.models.tokenizer import load_tokenizer, model_context
from pisoft.prompts.build import build_prompts

RECORDS = 60


@pytest.fixture(scope="module")
def config(shared, root):
    raw = read_yaml(root / "config/local.yaml") | {"local_root": str(shared)}
    return load_config(raw, root / "config/catalogue", "config/local.yaml", load_method)


@pytest.fixture(scope="module", params=one_quick(["tiny-llama-chat", "tiny-mistral-chat"]))
def answered(request, config, shared):
    """Return a model, its folder, its SST-2 prompts and its answers to them."""
    folder = shared / "models" / request.param
    records = sample(fetch(FetchJob.of(config, dataset="sst2-local")), RECORDS, seed=1)
    settings = PromptJob.of(config, model=request.param, dataset="sst2-local")
    tokenizer = load_tokenizer(settings.model, folder)
    context = model_context(settings.model, folder)
    prompts = build_prompts(records, settings, tokenizer, context)
    model = load_model(settings.model, folder)
    rows = {row["sample_id"]: row for row in classify(model, prompts, 4096)}
    return model, folder, prompts, [rows[prompt["sample_id"]] for prompt in prompts]


@pytest.fixture(scope="module")
def masked(config, shared):
    entry = config.masked_models["tiny-roberta-mlm"]
    settings = loaded_model("tiny-roberta-mlm", entry)
    return load_masked_model(settings, shared / "models/tiny-roberta-mlm", torch.device("cpu"))


def test_the_models_answer_with_label_words_and_better_than_chance(answered):
    """A prompt, mask or label token that is off would show here first."""
    _, _, _, rows = answered
    assert sum(row["greedy_is_label"] for row in rows) >= 0.95 * RECORDS
    assert sum(row["correct"] for row in rows) >= 0.62 * RECORDS


def test_logits_equal_the_unpatched_eager_model(answered):
    model, folder, prompts, _ = answered
    plain = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    for prompt in prompts[:5]:
        ids = torch.tensor([prompt["input_ids"]])
        with torch.no_grad():
            found = model.logits(model.hidden_states(model.embed(ids)))
            torch.testing.assert_close(found, plain(ids).logits, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", available_methods())
@pytest.mark.slow
def test_every_method_scores_real_prompts_alone_as_in_a_batch(answered, masked, name):
    model, _, prompts, rows = answered
    chosen = [
        ExplainedSample(
            prompt["sample_id"], prompt["input_ids"], row["output_ids"], [0], row["target_ids"]
        )
        for prompt, row in zip(prompts[:4], rows, strict=False)
    ]
    method = load_method(name)
    method = method(method.Options(), Context(seed=1, masked=masked))
    method.check(model)
    together = method.attribute(model, Batch(chosen, model.device))
    for sample_, scores in zip(chosen, together, strict=True):
        (alone,) = method.attribute(model, Batch([sample_], model.device))
        assert scores.isfinite().all()
        torch.testing.assert_close(scores, alone, rtol=1e-3, atol=1e-4 * alone.max().item())


def test_local_records_are_read_from_the_given_root(config, shared):
    source = config.datasets["sst2-local"].source
    assert isinstance(source, FileDataset)
    assert source.path.startswith(str(shared))
