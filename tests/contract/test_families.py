"""What is said of families of models is what a run of each gives."""

import pytest
import torch

from families import FAMILIES, network
from families_table import METHODS, NO, PAGE, PROTOCOLS, page, row_of
from pisoft.errors import BenchmarkError
from pisoft.lm.attention import ATTENTION_NAME
from pisoft.lm.model import LanguageModel

# A cap, sinks, a hybrid, another form of layers, no interface.
DIFFERENT = ("Llama 2, 3", "Gemma 2", "gpt-oss", "LFM 2", "OPT", "Falcon")


@pytest.mark.parametrize("family", DIFFERENT)
def test_the_page_says_of_a_family_what_its_run_gives(family):
    text = PAGE.read_text(encoding="utf-8").splitlines()
    row = row_of(family)
    for line in (row.table_line(), *row.refusal_lines()):
        assert line in text, f"{PAGE}: not what a run of {family} gives; run: make families"


@pytest.mark.slow
def test_the_page_is_what_a_run_of_every_family_gives():
    rows = [row_of(family) for family in FAMILIES]
    assert PAGE.read_text(encoding="utf-8") == page(rows), f"{PAGE}: run: make families"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_loaded_or_refused_whatever_the_type(family, dtype):
    """With the kernels that transformers chooses, too."""
    row = row_of(family)
    try:
        found = LanguageModel(network(family, ATTENTION_NAME, dtype, experts=None), family)
    except (BenchmarkError, KeyError):  # the latter becomes one line in load_model
        assert set(row.cells.values()) == {NO}
        return
    for who, capability in (("fixed", "fixed routing"), ("attention", "attention")):
        if row.cells[who] == NO:
            with pytest.raises(BenchmarkError):
                found.require(capability, who)
        else:
            found.require(capability, who)


def test_a_family_without_the_attention_interface_is_refused_in_one_line():
    row = row_of("Falcon")
    assert row.refusals == {
        "model 'Falcon': its class does not use the attention interface of transformers, which the "
        "attention probe needs": [*PROTOCOLS, *METHODS]
    }
