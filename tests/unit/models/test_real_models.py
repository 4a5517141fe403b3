"""Small real models on real records, if present beside the repository."""

import pytest

from helpers.quick_cases import one_quick
from pisoft.attribution import load_method
from pisoft.config.datasets import FileDataset
from pisoft.config.jobs.records import FetchJob, PromptJob
from pisoft.config.loading import load_config
from pisoft.config.validation import read_yaml
from pisoft.datasets.sampling import sample
from pisoft.datasets.sources import fetch
from pisoft.models.generation import classify
from pisoft.models.loading import load_model
from pisoft.models.tokenizer import load_tokenizer, model_context
from pisoft.prompts.build import build_prompts

RECORDS = 60


@pytest.fixture(scope="module")
def config(shared, root):
    raw = read_yaml(root / "config/local.yaml") | {"local_root": str(shared)}
    return load_config(raw, root / "config/catalogue", "config/local.yaml", load_method)


@pytest.fixture(scope="module", params=one_quick(["tiny-llama-chat", "tiny-mistral-chat"]))
def answered(request, config, shared):
    """Return a model's answers to its SST-2 prompts."""
    folder = shared / "models" / request.param
    records = sample(fetch(FetchJob.from_config(config, dataset="sst2-local")), RECORDS, seed=1)
    settings = PromptJob.from_config(config, model=request.param, dataset="sst2-local")
    tokenizer = load_tokenizer(settings.model, folder)
    context = model_context(settings.model, folder)
    prompts = build_prompts(records, settings, tokenizer, context)
    return list(classify(load_model(settings.model, folder), prompts, 4096))


def test_real_models_answer_with_label_words_and_beat_chance(answered):
    """Wrong prompts, masks or label tokens would show here first."""
    assert sum(row["greedy_is_label"] for row in answered) >= 0.95 * RECORDS
    assert sum(row["correct"] for row in answered) >= 0.62 * RECORDS


def test_local_records_are_read_from_the_given_root(config, shared):
    source = config.datasets["sst2-local"].source
    assert isinstance(source, FileDataset)
    assert source.path.startswith(str(shared))
