"""The published numbers: completeness, names, validation and rounded averages."""

import csv
from pathlib import Path

import pytest

from pisoft.attribution import load_method
from pisoft.config.jobs.pages import PUBLISHED_FILES
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError
from pisoft.statistics.against_paper import SECONDS
from pisoft.statistics.published import (
    COLUMN,
    DATASETS,
    HEADER,
    METHODS,
    METRICS,
    MODELS,
    average_deviations,
    load_published,
)
from pisoft.statistics.soft import SAMPLE_METRICS

ROOT = Path(__file__).parents[3]
FILE = ROOT / "config/published.csv"
LINE = "tab:llama-soft,dynamic,llama-3.1-8b-instruct,auc_pi_soft_ns,imdb,attention,0.603"
TIME = "computational_complexity,,llama-3.1-8b-instruct,seconds_per_sample,imdb,attention,0.31"


def printed_cells():
    """The file's cells by protocol, model, metric, dataset and method, as text."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return {tuple(line[1:-1]): line[-1] for line in list(csv.reader(file))[1:]}


def test_every_number_of_every_table_is_present():
    sizes = load_published(FILE).groupby(["table", "protocol"], sort=False).size().to_dict()
    soft = 2 * 6 * 9  # two metrics, five datasets and their average, nine methods
    assert sizes == {
        ("tab:llama-soft", "dynamic"): soft,
        ("tab:mistral-soft", "dynamic"): soft,
        ("tab:llama-fixed-routing", "fixed"): soft,
        ("tab:mistral-fixed-routing", "fixed"): soft,
        ("llama-deletion-insertion", ""): 2 * 4 * 10,  # Grad-ELLM in two variants
        ("mistral-deletion-insertion", ""): 2 * 4 * 10,
        ("llama70b-deletion/insertion", "dynamic"): 2 * 6 * 8,
        ("llama verify", "dynamic"): 3 * 8,
        ("computational_complexity", ""): 2 * 8,
    }


def test_names_match_the_catalogues_and_summary_files():
    for kind, names in (("models", MODELS), ("datasets", DATASETS)):
        catalogue = read_yaml(ROOT / "config/catalogue" / f"{kind}.yaml")
        assert {name: catalogue[name]["label"] for name in names} == names
        elsewhere = {name for name in names if catalogue[name]["source"]["kind"] != "hub"}
        assert elsewhere == ({*PUBLISHED_FILES} if kind == "datasets" else set())
    methods = read_yaml(ROOT / "config/catalogue/methods.yaml")
    labels = {
        name: methods[name].get("label", load_method(methods[name].get("method", name)).label)
        for name in METHODS
    }
    assert labels == METHODS
    summarised = {*SAMPLE_METRICS, "deletion_auc", "insertion_auc", SECONDS}
    assert set(METRICS) <= summarised


FIRST = ",".join(HEADER)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([""], "line 1: the header must be table,protocol,"),
        (["table,value"], "line 1: the header must be table,protocol,"),
        ([FIRST, "\udcff"], "cannot be read"),
        (None, "cannot be read"),
        ([FIRST], "holds no number"),
        ([FIRST, LINE.removesuffix(",0.603")], "line 2: 6 values, but 7 columns"),
        ([FIRST, LINE, LINE.replace("llama-3.1-8b", "llama-3-8b")], "line 3: model: unknown"),
        ([FIRST, LINE.replace("imdb", "imbd")], "line 2: dataset: unknown 'imbd'; did you mean"),
        ([FIRST, LINE.replace("attention", "attentions")], "line 2: method: unknown"),
        ([FIRST, LINE.replace("auc_", "")], "unknown 'pi_soft_ns'; did you mean 'auc_pi_soft_ns'?"),
        ([FIRST, LINE.replace("dynamic", "dynamics")], "line 2: protocol: unknown 'dynamics'"),
        ([FIRST, LINE.replace("dynamic", "")], "line 2: protocol: unknown ''"),
        ([FIRST, TIME.replace(",,", ",dynamic,")], "line 2: protocol: 'dynamic' is not allowed"),
        ([FIRST, LINE.replace("0.603", "")], "line 2: value: '' is not a number as printed"),
        ([FIRST, LINE.replace("0.603", "nan")], "line 2: value: 'nan' is not"),
        ([FIRST, LINE.replace("0.603", "6e-1")], "line 2: value: '6e-1' is not"),
        ([FIRST, LINE, TIME, LINE.replace("0.603", "0.6")], "line 4: the same cell as in line 2"),
    ],
)
def test_invalid_files_and_lines_are_named_with_the_allowed_values(tmp_path, lines, problem):
    path = tmp_path / "published.csv"
    if lines is not None:
        path.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(BenchmarkError) as error:
        load_published(path)
    assert str(error.value).startswith(f"{path}: ")
    assert problem in str(error.value)


def test_averages_that_are_not_the_rounded_mean_of_their_cells_are_listed():
    cells, expected = printed_cells(), {}
    for key, printed in cells.items():
        if key[3] != "average":
            continue
        above = [cells.get((*key[:3], name, key[4])) for name in DATASETS]
        scale = 10 ** len(printed.partition(".")[2])
        units = [round(float(text) * scale) for text in above if text is not None]
        off = round(float(printed) * scale) - sum(units) / len(units)  # in units of the last digit
        if abs(off) > 0.5:
            expected[*key[:3], key[4]] = abs(off) <= 1
    deviations = average_deviations(load_published(FILE)).set_index([*COLUMN, "method"])
    assert deviations["explained"].to_dict() == expected
    assert len(expected) == 16
    assert [key for key, explained in expected.items() if not explained] == [
        ("fixed", "llama-3.1-8b-instruct", "auc_pi_soft_ns", "grad_ellm")
    ]
