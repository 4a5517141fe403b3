"""What is said of families of models is what a run of each gives."""

import copy
import re

import pytest
import torch
import transformers

from families_run import METHODS, NO, PROMPT, PROMPTS, row_of
from families_table import BATCHING, PAGE, batching_note, page
from helpers.families import FAMILIES, network
from pisoft.attribution import load_method
from pisoft.errors import BenchmarkError
from pisoft.models import attention
from pisoft.models.attention import ATTENTION_NAME
from pisoft.models.generation import continue_greedily
from pisoft.models.model import LanguageModel
from pisoft.models.precision import close

# A cap, sinks, chosen keys, a hybrid, other layers, parallel ones, no interface, no attention.
DIFFERENT = ("Llama 2, 3", "Gemma 2", "gpt-oss", "DeepSeek V3.2", "LFM 2", "OPT", "Phi 1, 2")
DIFFERENT += ("Falcon", "Mamba")
# Parts of layers with other names, routers that report, recurrent layers.
GENERATING = ("Llama 4", "Granite 3 MoE", "Granite 4", "Mixtral", "RecurrentGemma")

# Options with a length beyond which tokens are read otherwise; LongRoPE has another one.
THRESHOLD = re.compile(r"(window|window_size|chunk_size|local_attention|index_topk|floor_scale)$")

# Classes that round what they give to their head.
ROUNDING = ("ModernBERT decoder", "Mamba", "Mamba 2")


@pytest.mark.parametrize("family", DIFFERENT)
def test_the_page_says_of_a_family_what_its_run_gives(family):
    text = PAGE.read_text(encoding="utf-8").splitlines()
    row = row_of(family)
    for line in (row.table_line(), *row.refusal_lines()):
        assert line in text, f"{PAGE}: not what a run of {family} gives; run: make families"


def thresholds(family):
    """Return the lengths at which a family's tiny model changes how it reads."""
    stem, options = FAMILIES[family]
    config = getattr(transformers, f"{stem}Config")(**copy.deepcopy(options))
    settings = config.get_text_config().to_dict()
    lengths = {length for name, length in settings.items() if length and THRESHOLD.search(name)}
    rotary = settings.get("rope_parameters") or {}
    if rotary.get("rope_type") == "longrope":
        lengths.add(rotary["original_max_position_embeddings"])
    return lengths


def test_prompts_are_on_both_sides_of_every_window_chunk_and_original_context():
    lengths = {family: thresholds(family) for family in FAMILIES}
    assert lengths["Llama 2, 3"] == set()
    assert lengths["Mistral v0.1"] == lengths["RecurrentGemma"] == {5}
    assert lengths["Llama 4"] == {4, 8}
    assert lengths["Phi 3, 4 128k"] == {16}
    shortest, longest = min(map(len, PROMPTS)), max(map(len, PROMPTS))
    outside = {
        family: length
        for family, several in lengths.items()
        for length in several
        if not shortest < length < longest
    }
    assert not outside


def test_every_refusal_is_a_reason_and_no_exception():
    assert not re.findall(r"\w+(?:Error|Exception)\b.*", PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_page_is_what_a_run_of_every_family_gives():
    rows = [row_of(family) for family in FAMILIES]
    text = PAGE.read_text(encoding="utf-8")
    (rounding,) = (line for line in text.splitlines() if line.startswith(BATCHING))
    assert text == page(rows, rounding), f"{PAGE}: run: make families"


def test_only_rounding_lets_the_size_of_a_batch_move_distances():
    rows = [row_of(family) for family in ("Llama 2, 3", "Mixtral")]
    note = batching_note(rows)
    assert note.startswith(BATCHING)
    *of_sizes, of_kernels, of_types = amounts(note)
    assert all(0 < moved < 1e-5 for moved in of_sizes), note
    assert all(1e-5 < moved < 0.1 for moved in (of_kernels, of_types)), note


@pytest.mark.slow
def test_rounding_moves_distances_as_far_as_the_page_says():
    text = PAGE.read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith(BATCHING))
    note = batching_note([row_of(family) for family in FAMILIES])
    number = re.compile(r"up to \S+( \([^)]+\))?")  # and of which family
    assert number.sub("", note) == number.sub("", line)
    for here, there in zip(amounts(note)[2:], amounts(line)[2:], strict=True):
        assert there / 5 < here < there * 5, note  # processors round differently


def amounts(note):
    """Return by how much the note says that distances move: two sizes, a kernel, a type."""
    return [float(number) for number in re.findall(r"up to ([\d.e-]+) ", note)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_family_is_loaded_or_refused_whatever_the_type_and_the_kernel(family, dtype, monkeypatch):
    """Also with the kernels that transformers chooses, and behind a prefix without a mask."""
    row = row_of(family)
    try:
        found = LanguageModel(network(family, ATTENTION_NAME, dtype, experts=None), family)
    except BenchmarkError:
        assert set(row.cells.values()) == {NO}
        return
    for who, capability in (("fixed", "fixed routing"), ("attention", "attention")):
        if row.cells[who] == NO:
            with pytest.raises(BenchmarkError):
                found.require(capability, who)
        else:
            found.require(capability, who)
    if dtype == torch.float32:
        embeddings = found.embed(torch.tensor([PROMPT]))
        count = found.shareable(5, len(PROMPT))
        whole = found.hidden_states(embeddings)
        monkeypatch.setattr(attention, "FUSED", ("cpu",))
        prefix = found.read_prefix(embeddings[:, :count])
        rest = found.hidden_states(embeddings[:, count:].repeat(2, 1, 1), prefix=prefix)
        assert close(rest, whole[:, count:].expand_as(rest), tolerance=1e-5)


@pytest.mark.parametrize(
    "family",
    [f if f in DIFFERENT else pytest.param(f, marks=pytest.mark.slow)
     for f in FAMILIES if f not in ROUNDING],
)  # fmt: skip
def test_logits_of_16_bit_weights_are_those_of_a_float64_head(family):
    """With the family's own scale and cap; wider weights give the bits that they gave before."""
    if set(row_of(family).cells.values()) == {NO}:
        pytest.skip(f"{family} is refused: docs/reference/families.md says why")
    ids = torch.tensor([PROMPT])
    model = LanguageModel(network(family, ATTENTION_NAME, torch.bfloat16), family)
    exact = LanguageModel(copy.deepcopy(model.network).double(), family)
    with torch.no_grad():
        hidden = model.hidden_states(model.embed(ids))
        found, expected = model.logits(hidden), exact.logits(hidden.double())
        torch.testing.assert_close(
            found.double(), expected.double(), rtol=0, atol=1e-6 * float(expected.abs().max())
        )
        plain = network(family, model.network.config._attn_implementation, torch.float32)
        before = plain(input_ids=ids, use_cache=False).logits
        LanguageModel(plain, family)
        assert torch.equal(plain(input_ids=ids, use_cache=False).logits, before)


@pytest.mark.parametrize("family", ["Falcon", "Mamba"])
def test_a_family_without_the_attention_interface_lacks_what_needs_a_probe_only(family):
    row = row_of(family)
    ((message, refused),) = row.refusals.items()
    assert message.endswith("attention interface of transformers, which the attention probe needs")
    assert set(refused) == {"fixed", *(n for n in METHODS if load_method(n).needs_attention)}


def hooks(network):
    """Return how many hooks all modules of a network have."""
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return sum(len(getattr(part, kind)) for part in network.modules() for kind in kinds)


@pytest.mark.parametrize(
    "family",
    [f if f in (*DIFFERENT, *GENERATING) else pytest.param(f, marks=pytest.mark.slow)
     for f in FAMILIES],
)  # fmt: skip
def test_no_hook_stays_in_a_family_and_its_answers_are_those_of_single_prompts(family):
    plain = network(family, ATTENTION_NAME, torch.float32)
    before = hooks(plain)
    try:
        model = LanguageModel(plain, family)
    except BenchmarkError:
        assert hooks(plain) == before
        return
    model.network.generation_config.eos_token_id = None
    prompts = [
        {"sample_id": str(length), "input_ids": PROMPT[:length], "label": None}
        for length in (len(PROMPT), 2, 7)
    ]
    alone = [row for prompt in prompts for row in continue_greedily(model, [prompt], 1000, 5, 2)]
    together = {row["sample_id"]: row for row in continue_greedily(model, prompts, 1000, 5, 2)}
    for row in alone:
        other = together[row["sample_id"]]
        assert other.pop("margins") == pytest.approx(row.pop("margins"), rel=1e-3, abs=1e-4)
        assert other == row
    model.next_token_logits(model.embed(torch.tensor([PROMPT])), torch.tensor([[3]]))
    assert hooks(plain) == before
    with pytest.raises(Exception, match="99"):
        model.next_token_logits(model.embed(torch.tensor([PROMPT])), torch.tensor([[99]]))
    assert hooks(plain) == before
