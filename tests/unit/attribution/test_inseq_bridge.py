"""Grad-ELLM inside Inseq equals the benchmark's Grad-ELLM."""

import copy

import pytest
import torch

from helpers.quick_cases import each_value_quick
from helpers.random_models import SHAPES, model_and_network, random_model
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.errors import BenchmarkError
from pisoft.models.model import Batch, ExplainedSample

PROMPT, ANSWER = [5, 9, 30, 44, 8], [60, 17, 33, 21]


def text(ids):
    return " ".join(f"w{number}" for number in ids)


def ours(model, prompt, output, **options):
    method = load_method("grad_ellm")
    sample = ExplainedSample("sample", prompt, output, list(range(len(output))), output)
    batch = Batch([sample], model.device)
    return method(method.Options(**options), Context(seed=0)).attribute(model, batch)[0]


@pytest.fixture(scope="module")
def inseq():
    import inseq

    import pisoft.attribution.inseq_bridge  # noqa: F401 (its import is what is tested)

    return inseq


@pytest.fixture
def load(inseq):
    def load(network, **options):
        tokenizer = copy.deepcopy(random_model("llama-gqa").tokenizer)
        return inseq.load_model(network, "grad_ellm", tokenizer=tokenizer, device="cpu", **options)

    return load


def attribute(loaded, prompt, output, **options):
    made = loaded.attribute(text(prompt), text([*prompt, *output]), show_progress=False, **options)
    return made.sequence_attributions[0].target_attributions  # (prompt + output, steps)


@pytest.mark.parametrize(
    ("shape", "options"),
    each_value_quick(
        SHAPES, [{}, {"layers": 2, "token_weights": "original"}, {"heads": "per_head"}]
    ),
)
def test_scores_equal_the_benchmarks_for_every_generated_token(load, shape, options):
    model, plain = model_and_network(shape)
    expected = ours(model, PROMPT, ANSWER, **options).float()
    for scores in (
        attribute(load(plain, **options), PROMPT, ANSWER),
        attribute(load(plain), PROMPT, ANSWER, **options),  # for one call
    ):
        assert scores.shape == (9, 4)
        torch.testing.assert_close(scores[:5].T, expected, rtol=1e-6, atol=0)
        assert scores[5:].isnan().all()


def test_lists_of_texts_keep_their_prompts_and_survive_a_round_trip(load, inseq, tmp_path):
    model, plain = model_and_network("llama-gqa")
    prompts = [PROMPT, [7, 12, 40]]
    whole = [text([*prompt, *ANSWER]) for prompt in prompts]
    made = load(plain).attribute([*map(text, prompts)], whole, show_progress=False)
    made.save(tmp_path / "scores.json")
    read = inseq.FeatureAttributionOutput.load(tmp_path / "scores.json")
    for output in (made, read):
        for prompt, sequence in zip(prompts, output.sequence_attributions, strict=True):
            scores = sequence.target_attributions[: len(prompt)].T
            expected = ours(model, prompt, ANSWER).float()
            torch.testing.assert_close(scores, expected, rtol=1e-6, atol=0)
    assert "w30" in made.aggregate().show(display=False, return_html=True)
    assert plain.config._attn_implementation == "eager"
    assert all(p.requires_grad and p.grad is None for p in plain.parameters())


def test_invalid_options_are_named(load):
    plain = model_and_network("llama-gqa")[1]
    with pytest.raises(BenchmarkError, match="grad_ellm: layer: unknown key; did you mean 'layer"):
        load(plain, layer=2)
    with pytest.raises(BenchmarkError, match="option layers: 4 is more than the 3"):
        attribute(load(plain, layers=4), PROMPT, ANSWER)
    with pytest.raises(BenchmarkError, match="which prompt tokens are content is not known"):
        attribute(load(plain, normalise_over="content"), PROMPT, ANSWER)
