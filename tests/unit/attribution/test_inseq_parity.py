"""Our methods against Inseq's own, through its public way from text, without our adapter.

Inseq drops every row whose token is the padding token, which is often the end of sequence that
templates contain; here it has a padding token of its own.
"""

import copy
from functools import partial

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.model import Batch, ExplainedSample, LanguageModel
from tiny_tokenizers import llama_tokenizer, mistral_tokenizer

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4  # of the largest score of a step
ARGUMENTS = {"integrated_gradients": {"n_steps": 16}}  # of Inseq; the others have none
METHODS = [
    "attention",
    "saliency",
    "input_x_gradient",
    "integrated_gradients",
    "deeplift",
    "occlusion",
]
ARCHITECTURES = {
    "llama": (LlamaConfig, LlamaForCausalLM, llama_tokenizer),
    "mistral": (MistralConfig, MistralForCausalLM, mistral_tokenizer),
}
MESSAGES = [
    {"role": "system", "content": "Respond with the single word Positive or Negative."},
    {"role": "user", "content": "Text: the film was wonderful, its ending did not hurt at all."},
]
ANSWER = " Positive example of a film"


def random_network(architecture):
    """Return a float64 model with a chat tokenizer that has a padding token of its own."""
    config_class, model_class, make_tokenizer = ARCHITECTURES[architecture]
    tokenizer = copy.deepcopy(make_tokenizer())
    tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    config = config_class(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        attn_implementation="eager",
    )
    torch.manual_seed(4)
    network = model_class(config).to(torch.float64).eval()
    for parameter in network.parameters():  # sharper than the default, so that attention varies
        parameter.data.mul_(4 if parameter.dim() > 1 else 1)
    return network, tokenizer


def real_network(folder):
    """Return a trained model, with a token that the texts do not hold as padding."""
    network = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id, "the trap that padding avoids"
    before = tokenizer(texts(tokenizer)[1])["input_ids"]
    unused = next(i for i in range(len(tokenizer) - 1, 0, -1) if i not in before)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(unused)
    assert tokenizer(texts(tokenizer)[1])["input_ids"] == before
    network.config.pad_token_id = unused
    return network, tokenizer


def texts(tokenizer):
    """Return a prompt, and the prompt with its answer."""
    prompt = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    return prompt, prompt + ANSWER


def attributed_by_inseq(network, tokenizer, name):
    """Return ids of prompt and answer, and Inseq's scores of the prompt by step."""
    import inseq

    prompt, whole = texts(tokenizer)
    model = inseq.load_model(network, name, tokenizer=copy.deepcopy(tokenizer), device="cpu")
    ids, prompt_ids = (model.encode([text]).input_ids[0].tolist() for text in (whole, prompt))
    count = len(prompt_ids)
    assert ids[:count] == prompt_ids
    assert len(ids) - count >= 4
    out = model.attribute(prompt, whole, show_progress=False, **ARGUMENTS.get(name, {}))
    (sequence,) = out.sequence_attributions
    assert [token.id for token in sequence.target] == ids
    scores = sequence.target_attributions[:count]  # (prompt, steps, ...)
    if name == "attention":  # (prompt, steps, layers, heads)
        scores = scores[:, :, -1].mean(dim=-1)
    elif scores.dim() == 3:  # (prompt, steps, channels)
        scores = scores.norm(dim=-1)
    return prompt_ids, ids[count:], scores.T.double()


def attributed_by_us(network, tokenizer, name, prompt_ids, output_ids):
    network.set_attn_implementation(ATTENTION_NAME)
    model = LanguageModel(network, "ours", partial(copy.deepcopy, tokenizer))
    steps = list(range(len(output_ids)))
    sample = ExplainedSample("sample", prompt_ids, output_ids, steps, output_ids)
    method = load_method(name)
    method = method(method.Options(), Context(seed=1))
    method.check(model)
    return method.attribute(model, Batch([sample], model.device))[0].double()


def assert_same_scores(network, tokenizer, name):
    ours = copy.deepcopy(network)
    prompt_ids, output_ids, expected = attributed_by_inseq(network, tokenizer, name)
    found = attributed_by_us(ours, tokenizer, name, prompt_ids, output_ids)
    largest = expected.amax(dim=1)
    assert (largest > 0).all()
    error = (found - expected).abs().amax(dim=1) / largest
    assert error.max() <= TOLERANCE, f"relative error by step: {error.tolist()}"


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_models_with_chat_templates(architecture, name):
    assert_same_scores(*random_network(architecture), name)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("folder", ["tiny-llama-chat", "tiny-mistral-chat"])
def test_trained_chat_models(shared, folder, name):
    assert_same_scores(*real_network(shared / "models" / folder), name)
