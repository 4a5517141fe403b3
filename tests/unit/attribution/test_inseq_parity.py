"""Our methods against Inseq's own, through its public way from text, without our adapter.

Inseq drops every row whose token is the padding token, which is often the end of sequence that
templates contain; here it has a padding token of its own. Its value zeroing, which crashes with
transformers 5, is fixed, and takes cosines in float64: 1 − cos in float32 is off by 1e-7, and a
distance of 1e-5, its threshold, is no rarity.
"""

import copy
from functools import partial

import pytest
import torch
from torch.nn.functional import cosine_similarity
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from helpers.fixed_inseq import tensor_states_hook
from helpers.random_models import SMALL
from helpers.tiny_tokenizers import llama_tokenizer, mistral_tokenizer
from pisoft.attribution import load_method
from pisoft.attribution.base import Context
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.model import Batch, ExplainedSample, LanguageModel

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4  # of the largest score of a step
ARGUMENTS = {"integrated_gradients": {"n_steps": 16}}  # of Inseq; the others have none
METHODS = (
    *("attention", "saliency", "input_x_gradient", "integrated_gradients", "deeplift"),
    *("occlusion", "value_zeroing"),
)
AS_AGGREGATED = [("attention", {"layers": None}), ("value_zeroing", {})]  # our options
ARCHITECTURES = {
    "llama": (LlamaConfig, LlamaForCausalLM, llama_tokenizer),
    "mistral": (MistralConfig, MistralForCausalLM, mistral_tokenizer),
}
CHAT_FOLDERS = ["tiny-llama-chat", "tiny-mistral-chat"]
MESSAGES = [
    {"role": "system", "content": "Respond with the single word Positive or Negative."},
    {"role": "user", "content": "Text: the film was wonderful, its ending did not hurt at all."},
]
ANSWER = " Positive example of a film"


@pytest.fixture(autouse=True)
def _fixed(monkeypatch):
    from inseq.attr.feat.ops import ValueZeroing

    def cosine(clean, corrupted):
        return cosine_similarity(clean.double(), corrupted.double(), dim=-1)

    monkeypatch.setattr(ValueZeroing, "get_states_extract_and_patch_hook", tensor_states_hook)
    monkeypatch.setitem(ValueZeroing.SIMILARITY_METRICS, "cosine", cosine)


def random_network(architecture):
    """Return a float64 model with a chat tokenizer that has a padding token of its own."""
    config_class, model_class, make_tokenizer = ARCHITECTURES[architecture]
    tokenizer = copy.deepcopy(make_tokenizer())
    tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    special = {
        f"{kind}_token_id": getattr(tokenizer, f"{kind}_token_id") for kind in ("pad", "bos", "eos")
    }
    size = {"vocab_size": len(tokenizer), "num_hidden_layers": 3, "max_position_embeddings": 256}
    config = config_class(**SMALL | size | special, attn_implementation="eager")
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
    """Return ids of prompt and answer, and Inseq's output for the answer."""
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
    return prompt_ids, ids[count:], sequence


def prompt_scores(name, sequence, count):
    """Return Inseq's scores of the prompt's tokens, (steps, prompt)."""
    scores = sequence.target_attributions[:count]  # (prompt, steps, ...)
    if name == "attention":  # (prompt, steps, layers, heads)
        scores = scores[:, :, -1].mean(dim=-1)
    elif name == "value_zeroing":  # (prompt, steps, layers)
        scores = scores.mean(dim=-1)
    elif scores.dim() == 3:  # (prompt, steps, channels)
        scores = scores.norm(dim=-1)
    return scores.T.double()


def attributed_by_us(network, tokenizer, name, prompt_ids, output_ids, **options):
    network.set_attn_implementation(ATTENTION_NAME)
    model = LanguageModel(network, "ours", partial(copy.deepcopy, tokenizer))
    steps = list(range(len(output_ids)))
    sample = ExplainedSample("sample", prompt_ids, output_ids, steps, output_ids)
    method = load_method(name)
    method = method(method.Options(**options), Context(seed=1))
    method.check(model)
    return method.attribute(model, Batch([sample], model.device))[0].double()


def assert_close(scores, expected):
    """Compare scores (steps, prompt)."""
    largest = expected.amax(dim=1)
    assert (largest > 0).all()
    error = (scores - expected).abs().amax(dim=1) / largest
    assert error.max() <= TOLERANCE, f"relative error by step: {error.tolist()}"


@pytest.fixture(params=[*ARCHITECTURES, *CHAT_FOLDERS])
def networks(request):
    """Return a network with a chat template twice, and its tokenizer."""
    if request.param in ARCHITECTURES:
        network, tokenizer = random_network(request.param)
    else:
        folder = request.getfixturevalue("shared") / "models" / request.param
        network, tokenizer = real_network(folder)
    return network, copy.deepcopy(network), tokenizer


@pytest.mark.parametrize("name", METHODS)
def test_scores_are_those_of_inseq(networks, name):
    theirs, ours, tokenizer = networks
    prompt_ids, output_ids, sequence = attributed_by_inseq(theirs, tokenizer, name)
    expected = prompt_scores(name, sequence, len(prompt_ids))
    assert_close(attributed_by_us(ours, tokenizer, name, prompt_ids, output_ids), expected)


@pytest.mark.parametrize(("name", "options"), AS_AGGREGATED)
def test_shares_of_all_layers_are_what_inseq_shows_by_default(networks, name, options):
    """There they are divided by their norm."""
    theirs, ours, tokenizer = networks
    prompt_ids, output_ids, sequence = attributed_by_inseq(theirs, tokenizer, name)
    expected = sequence.aggregate().target_attributions[: len(prompt_ids)].T.double()
    made = attributed_by_us(ours, tokenizer, name, prompt_ids, output_ids, **options)
    assert_close(*(scores / scores.sum(dim=1, keepdim=True) for scores in (made, expected)))
