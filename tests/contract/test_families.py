"""The documented support of model families matches a run of each family."""

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

# Caps, sinks, selected keys, hybrids, unusual layers, parallel layers, no interface, no attention.
DIFFERENT = ("Llama 2, 3", "Gemma 2", "gpt-oss", "DeepSeek V3.2", "LFM 2", "OPT", "Phi 1, 2")
DIFFERENT += ("Falcon", "Mamba")
# Other names of layer parts, routers that return logits, recurrent layers.
GENERATING = ("Llama 4", "Granite 3 MoE", "Granite 4", "Mixtral", "RecurrentGemma")

# Options that set a threshold of length; LongRoPE's is separate.
THRESHOLD = re.compile(r"(window|window_size|chunk_size|local_attention|index_topk|floor_scale)$")

# Classes that round the input of their head.
ROUNDING = ("ModernBERT decoder", "Mamba", "Mamba 2")


@pytest.mark.parametrize("family", DIFFERENT)
def test_the_page_matches_a_run_of_the_family(family):
    text = PAGE.read_text(encoding="utf-8").splitlines()
    row = row_of(family)
    for line in (row.table_line(), *row.refusal_lines()):
        assert line in text, f"{PAGE}: differs from a run of {family}; run: make families"


def thresholds(family):
    """Return the lengths at which a family's tiny model changes its attention or positions."""
    stem, options = FAMILIES[family]
    config = getattr(transformers, f"{stem}Config")(**copy.deepcopy(options))
    settings = config.get_text_config().to_dict()
    lengths = {length for name, length in settings.items() if length and THRESHOLD.search(name)}
    rotary = settings.get("rope_parameters") or {}
    if rotary.get("rope_type") == "longrope":
        lengths.add(rotary["original_max_position_embeddings"])
    return lengths


def test_prompt_lengths_lie_on_both_sides_of_every_threshold():
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


def test_refusals_are_reasons_not_exceptions():
    assert not re.findall(r"\w+(?:Error|Exception)\b.*", PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_page_matches_a_run_of_all_families():
    rows = [row_of(family) for family in FAMILIES]
    text = PAGE.read_text(encoding="utf-8")
    (rounding,) = (line for line in text.splitlines() if line.startswith(BATCHING))
    assert text == page(rows, rounding), f"{PAGE}: run: make families"


def test_batch_size_moves_distances_only_by_rounding():
    rows = [row_of(family) for family in ("Llama 2, 3", "Mixtral")]
    note = batching_note(rows)
    assert note.startswith(BATCHING)
    *by_size, by_kernel, by_type = amounts(note)
    assert all(0 < moved < 1e-5 for moved in by_size), note
    assert all(1e-5 < moved < 0.1 for moved in (by_kernel, by_type)), note


@pytest.mark.slow
def test_the_page_states_how_far_rounding_moves_distances():
    text = PAGE.read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith(BATCHING))
    note = batching_note([row_of(family) for family in FAMILIES])
    number = re.compile(r"up to \S+( \([^)]+\))?")  # the amount and its family
    assert number.sub("", note) == number.sub("", line)
    for measured, stated in zip(amounts(note)[2:], amounts(line)[2:], strict=True):
        assert stated / 5 < measured < stated * 5, note  # processors round differently


def amounts(note):
    """Return the note's largest changes of distances: by two batch sizes, a kernel, a type."""
    return [float(number) for number in re.findall(r"up to ([\d.e-]+) ", note)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_loading_does_not_depend_on_dtype_or_kernel(family, dtype, monkeypatch):
    """Includes the default kernels of transformers, and a shared prefix without a mask."""
    row = row_of(family)
    try:
        model = LanguageModel(network(family, ATTENTION_NAME, dtype, experts=None), family)
    except BenchmarkError:
        assert set(row.cells.values()) == {NO}
        return
    for consumer, capability in (("fixed", "fixed routing"), ("attention", "attention")):
        if row.cells[consumer] == NO:
            with pytest.raises(BenchmarkError):
                model.require(capability, consumer)
        else:
            model.require(capability, consumer)
    if dtype == torch.float32:
        embeddings = model.embed(torch.tensor([PROMPT]))
        count = model.shareable(5, len(PROMPT))
        whole = model.hidden_states(embeddings)
        monkeypatch.setattr(attention, "FUSED", ("cpu",))
        prefix = model.read_prefix(embeddings[:, :count])
        rest = model.hidden_states(embeddings[:, count:].repeat(2, 1, 1), prefix=prefix)
        assert close(rest, whole[:, count:].expand_as(rest), tolerance=1e-5)


@pytest.mark.parametrize(
    "family",
    [f if f in DIFFERENT else pytest.param(f, marks=pytest.mark.slow)
     for f in FAMILIES if f not in ROUNDING],
)  # fmt: skip
def test_logits_of_16_bit_weights_match_a_float64_head(family):
    """Includes the family's logit scale and cap; float32 logits stay bit-identical."""
    if set(row_of(family).cells.values()) == {NO}:
        pytest.skip(f"{family} is refused: docs/reference/families.md says why")
    ids = torch.tensor([PROMPT])
    model = LanguageModel(network(family, ATTENTION_NAME, torch.bfloat16), family)
    exact = LanguageModel(copy.deepcopy(model.network).double(), family)
    with torch.no_grad():
        hidden = model.hidden_states(model.embed(ids))
        computed, expected = model.logits(hidden), exact.logits(hidden.double())
        torch.testing.assert_close(
            computed.double(), expected.double(), rtol=0, atol=1e-6 * float(expected.abs().max())
        )
        plain = network(family, model.network.config._attn_implementation, torch.float32)
        before = plain(input_ids=ids, use_cache=False).logits
        LanguageModel(plain, family)
        assert torch.equal(plain(input_ids=ids, use_cache=False).logits, before)


@pytest.mark.parametrize("family", ["Falcon", "Mamba"])
def test_a_missing_attention_interface_disables_only_probe_users(family):
    row = row_of(family)
    ((message, refused),) = row.refusals.items()
    assert message.endswith("attention interface of transformers, which the attention probe needs")
    assert set(refused) == {"fixed", *(n for n in METHODS if load_method(n).needs_attention)}


def hooks(network):
    """Return the number of hooks on all modules of a network."""
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return sum(len(getattr(part, kind)) for part in network.modules() for kind in kinds)


@pytest.mark.parametrize(
    "family",
    [f if f in (*DIFFERENT, *GENERATING) else pytest.param(f, marks=pytest.mark.slow)
     for f in FAMILIES],
)  # fmt: skip
def test_hooks_are_removed_and_batched_answers_equal_single_ones(family):
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
    single = [row for prompt in prompts for row in continue_greedily(model, [prompt], 1000, 5, 2)]
    batched = {row["sample_id"]: row for row in continue_greedily(model, prompts, 1000, 5, 2)}
    for row in single:
        other = batched[row["sample_id"]]
        assert other.pop("margins") == pytest.approx(row.pop("margins"), rel=1e-3, abs=1e-4)
        assert other == row
    model.next_token_logits(model.embed(torch.tensor([PROMPT])), torch.tensor([[3]]))
    assert hooks(plain) == before
    with pytest.raises(Exception, match="99"):
        model.next_token_logits(model.embed(torch.tensor([PROMPT])), torch.tensor([[99]]))
    assert hooks(plain) == before
