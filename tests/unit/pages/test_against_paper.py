"""Published numbers beside a run's: what is compared, what is not, and what the page says."""

import argparse
import csv
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import compare_with_paper
from helpers import goldens
from helpers.latex import needs_latex, typeset
from pisoft.attribution import load_method
from pisoft.config.jobs.pages import PublishedJob
from pisoft.config.loading import load_config
from pisoft.config.run_file import RunFile
from pisoft.config.validation import read_yaml
from pisoft.pages.against_paper import _settings, against_paper_page
from pisoft.pages.page import Page, Section, write_html, write_latex
from pisoft.statistics.against_paper import (
    agreement,
    compare,
    leaky_statistics,
    published_robustness,
)
from pisoft.statistics.published import load_published
from pisoft.statistics.published_settings import (
    NO_NUMBER,
    SECTIONS,
    SETTINGS,
    as_text,
    compared_settings,
    differences,
    settings_of,
)
from pisoft.store.parquet import write_rows
from pisoft.store.schemas import RESULT, SCHEMAS
from pisoft.tables.layout import Block, Entry, Row, Table

ROOT = Path(__file__).parents[3]
FILE = ROOT / "config/published.csv"
LLAMA, MISTRAL = "llama-3.1-8b-instruct", "mistral-7b-instruct-v0.3"
NS = ("dynamic", LLAMA, "auc_pi_soft_ns")


@pytest.fixture(autouse=True)
def paths_are_those_of_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def published():
    return load_published(FILE)


def statistics_rows(published, shift=0.0, half_width=0.01, models=(LLAMA,)):
    """Rows of `statistics` and `timings` of a run that measured the published numbers, shifted."""
    statistics, timings = [], []
    for cell in published[published["model"].isin(models)].itertuples():
        value, facts = cell.value + shift, cell._asdict()
        row = {c.name: None if c.nullable else facts.get(c.name, "") for c in RESULT}
        row |= {"value": value, "n": 50, "n_failed": 1}
        if cell.metric == "seconds_per_sample":
            timings.append(row)
        else:
            statistics.append(row | {"low": value - half_width, "high": value + half_width})
    return statistics, timings


def without(rows, **selection):
    """Rows but those whose columns equal all of the given values."""
    return [r for r in rows if any(r[name] != value for name, value in selection.items())]


def changed(rows, selection, **changes):
    """Rows, changed where columns equal all of the given values."""
    return [
        r | changes if all(r[name] == value for name, value in selection.items()) else r
        for r in rows
    ]


def compared(published, statistics, timings=(), **others):
    frames = [
        pa.Table.from_pylist(list(rows), schema=SCHEMAS[kind]).to_pandas()
        for kind, rows in (("statistics", statistics), ("timings", timings))
    ]
    return compare(published, *frames, **{"other_models": (), "other_datasets": ()} | others)


def cell_of(cells, protocol, model, metric, dataset, method):
    names = ["protocol", "model", "metric", "dataset", "method"]
    is_cell = (cells[names] == [protocol, model, metric, dataset, method]).all(axis=1)
    (cell,) = cells[is_cell].to_dict("records")
    return cell


# Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 0.009, 0.0104, -0.0104, 0.011, -0.011])
def test_inside_is_what_a_plain_loop_says(published, shift):
    statistics, timings = statistics_rows(published, shift)
    cells = compared(published, statistics, timings)
    ours = {(r["protocol"], r["metric"], r["dataset"], r["method"]): r for r in statistics}
    with FILE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    seen = set()
    for line, cell in zip(lines, cells.to_dict("records"), strict=True):
        key = line["protocol"], line["metric"], line["dataset"], line["method"]
        if line["model"] != LLAMA or key not in ours:
            continue
        row = ours[key]
        half = 0.5 / 10 ** len(line["value"].partition(".")[2])
        printed = float(line["value"])
        reaches = printed + half >= row["low"] and printed - half <= row["high"]
        assert cell["outcome"] == ("inside" if reaches else "outside"), line
        assert cell["difference"] == pytest.approx(row["value"] - printed)
        assert (cell["value"], cell["low"], cell["high"]) == (row["value"], row["low"], row["high"])
        assert (cell["n"], cell["n_failed"]) == (50, 1)
        seen.add(cell["outcome"])
    assert seen == ({"inside"} if abs(shift) < 0.01 else {"inside", "outside"})


def test_an_average_over_other_datasets_is_another_number(published):
    statistics, _ = statistics_rows(published)
    fewer = compared(published, without(statistics, dataset="boolq_eraser"))
    assert cell_of(fewer, *NS, "boolq_eraser", "deeplift")["outcome"] == "not run"
    assert cell_of(fewer, *NS, "imdb", "deeplift")["outcome"] == "inside"
    average = cell_of(fewer, *NS, "average", "deeplift")
    assert average["outcome"] == "other average"
    assert np.isnan([average["value"], average["difference"], average["n"]]).all()
    extra = {**statistics[0], "dataset": "mine"}
    more = compared(published, [*statistics, extra])
    assert cell_of(more, *NS, "average", "deeplift")["outcome"] == "other average"
    other_metric = cell_of(more, "", LLAMA, "deletion_auc", "average", "deeplift")
    assert other_metric["outcome"] == "inside"


def test_another_model_or_dataset_of_the_same_name_is_not_compared(published):
    rows = statistics_rows(published, models=(LLAMA, MISTRAL))
    cells = compared(published, *rows, other_models={LLAMA: "weights in a local folder"})
    by_model = cells.groupby("model")["outcome"].agg(set)
    assert by_model[LLAMA] == {"other model"}
    assert by_model[MISTRAL] == {"inside", "other machine"}
    assert cells.loc[cells["model"] == LLAMA, ["value", "n", "difference"]].isna().all(axis=None)
    cells = compared(published, *rows, other_datasets={"imdb": "records in a local file"})
    assert cell_of(cells, *NS, "imdb", "random")["outcome"] == "other dataset"
    assert cell_of(cells, *NS, "sst2", "random")["outcome"] == "inside"


def test_agreement_counts_outcomes_and_compares_orders(published):
    statistics, timings = statistics_rows(published)
    statistics = changed(statistics, {"method": "random", "dataset": "imdb"}, low=None, high=None)
    statistics = changed(
        statistics, {"method": "attention", "dataset": "imdb"}, value=0.0, low=-0.1, high=0.1
    )
    statistics = without(statistics, method="reagent")
    keys = ["protocol", "model", "metric", "dataset"]
    agreements = agreement(compared(published, statistics, timings))
    is_imdb = (agreements[keys] == [*NS, "imdb"]).all(axis=1)
    (imdb,) = agreements[is_imdb].to_dict("records")
    assert [imdb[n] for n in ("compared", "inside", "outside", "no_interval")] == [8, 6, 1, 1]
    printed = published[(published[keys] == [*NS, "imdb"]).all(axis=1)]
    printed = printed.set_index("method")["value"].drop("reagent")
    ours = printed.copy()
    ours["attention"] = 0.0
    pairs = [
        np.sign((printed[a] - printed[b]) * (ours[a] - ours[b]))
        for a, b in itertools.combinations(printed.index, 2)
    ]
    assert all(pairs)
    assert imdb["kendall_tau"] == pytest.approx(np.mean(pairs))
    of_mistral = agreements[agreements["model"] == MISTRAL]
    assert (of_mistral["compared"] == 0).all()
    assert of_mistral["kendall_tau"].isna().all()


# What is the published model ------------------------------------------------------------------


def slice_of(name, **changes):
    raw = read_yaml(ROOT / "config" / f"{name}.yaml") | changes
    return PublishedJob.of(load_config(raw, ROOT / "config/catalogue", "test", load_method))


def test_hub_entries_of_the_catalogue_are_the_published_ones():
    made = slice_of("paper", datasets=["imdb", "sst2", "tellmewhy"])
    assert (made.other_models, made.other_datasets) == ({}, {})
    assert PublishedJob.model_validate_json(made.to_json()) == made


def test_a_dataset_is_the_paper_s_by_its_records_and_not_by_its_name(tmp_path):
    (tmp_path / "boolq").mkdir()
    (tmp_path / "boolq/test.jsonl").touch()
    datasets = ["sst2", "sst2_glue", "boolq", "boolq_eraser"]
    made = slice_of("paper", datasets=datasets, local_root=str(tmp_path))
    assert made.other_datasets == {
        "sst2_glue": "phrases of GLUE, where the paper has sentences",
        "boolq": "the original release, where the paper has ERASER's",
    }


def test_trained_local_and_own_entries_are_others(tmp_path):
    demo = slice_of("config")
    assert demo.other_models["demo-llama"] == "trained by the workflow"
    assert demo.other_datasets["demo-why"] == "records made by the workflow"
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    records = tmp_path / "records.jsonl"
    records.touch()
    local = {"kind": "local", "path": str(tmp_path)}
    file = {"kind": "file", "path": str(records), "format": "jsonl"}
    additions = {
        "models": {
            "fine-tuned": {"extends": LLAMA, "label": "Fine-tuned"},
            "mirror": {"extends": LLAMA, "label": "Mirror", "source": local},
        },
        "datasets": {"part": {"extends": "imdb", "label": "Part", "source": file}},
    }
    made = slice_of("paper", catalogue=additions, layer_study=None, restrictions={},
        models=[LLAMA, "fine-tuned", "mirror"], datasets=["imdb", "part"],
    )  # fmt: skip
    assert made.other_models == {
        "fine-tuned": "an entry of the run file", "mirror": "weights in a local folder",
    }  # fmt: skip
    assert made.other_datasets == {"part": "records in a local file"}


# The page -------------------------------------------------------------------------------------


def page_of(published, cells, settings, explorer=""):
    return against_paper_page(
        published, cells, agreement(cells), published_robustness(published), settings, explorer
    )


FEW = ("random", "deeplift", "saliency", "reagent", "grad_ellm")
SHOWN = {
    "paper": {"models": [LLAMA], "datasets": ["imdb", "sst2", "tellmewhy"]},
    "other_settings": {
        "models": [LLAMA, "demo-llama"],
        "datasets": ["imdb", "demo-sentiment", "demo-why"],
        "evaluation": {
            "preset": "efficient", "pi_grid": [0.1, 0.5], "clamp": "none", "operator": "mean",
        },
        "ranking": {"steps": 5},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_it_shows_what_the_golden_says(published, name):
    """Of a run in which DeepLIFT differs, some of Saliency failed, and ReAGent is missing."""
    few = published[published["method"].isin(FEW)]
    statistics, timings = statistics_rows(few, shift=0.002)
    statistics = without(statistics, method="reagent")
    for selection, values in (
        ({"method": "deeplift", "dataset": "imdb"}, {"value": 0.9, "low": 0.8, "high": 0.95}),
        (
            {"method": "saliency", "dataset": "sst2"},
            {"value": None, "low": None, "high": None, "n": 0, "n_failed": 51},
        ),
        ({"method": "random", "dataset": "imdb"}, {"low": None, "high": None, "n": 1}),
    ):
        statistics = changed(statistics, selection, **values)
    of_grad_ellm = [row for row in statistics if row["method"] == "grad_ellm"]
    statistics += [{**row, "method": "grad_ellm_selected"} for row in of_grad_ellm]
    settings = slice_of("paper", layer_study=None, restrictions={}, **SHOWN[name])
    other = {key: getattr(settings, key) for key in ("other_models", "other_datasets")}
    cells = compared(few, statistics, timings, unlike=differences(settings), **other)
    page = page_of(few, cells, settings, "../explorer.html")
    if name != "paper":
        page = replace(page, sections=page.sections[:2])
    goldens.compare(goldens.page_text(page), goldens.file("published", "pages", name))


# Files ----------------------------------------------------------------------------------------


def run_script(folder, statistics, timings, settings):
    folder.mkdir(exist_ok=True)
    write_rows(folder / "statistics.parquet", "statistics", statistics, {})
    write_rows(folder / "timings.parquet", "timings", timings, {})
    names = ("cells.csv", "agreement.csv", "robustness.csv", "page.tex", "page.html")
    arguments = {
        "settings": settings.to_json(),
        "files": {kind: [folder / f"{kind}.parquet"] for kind in ("statistics", "timings")},
        "outputs": {
            kind: [folder / name]
            for kind, name in zip(
                ("cells", "agreement", "robustness", "tex", "html"), names, strict=True
            )
        },
        "links": {},
        "pages": {},
        "warning": "",
    }
    compare_with_paper.main(argparse.Namespace(**arguments))
    return {name: (folder / name).read_bytes() for name in names}


def test_the_script_writes_the_same_bytes_every_time(published, tmp_path):
    rows, settings = statistics_rows(published), slice_of("paper")
    first = run_script(tmp_path / "first", *rows, settings)
    assert first == run_script(tmp_path / "second", *rows, settings)
    cells = list(csv.DictReader(first["cells.csv"].decode().splitlines()))
    assert len(cells) == len(published)
    assert (cells[0]["outcome"], cells[0]["n"], cells[0]["n_failed"]) == ("inside", "50", "1")
    robustness = list(csv.DictReader(first["robustness.csv"].decode().splitlines()))
    assert {"grad_ellm", "input_x_gradient"} <= {row["best"] for row in robustness}
    page = first["page.html"].decode()
    assert not re.search(r"(src|href)=", page)
    for number in re.findall(r"(?m)^.*,(\d[\d.]*)$", FILE.read_text())[:54]:
        assert f"<td>{number}</td>" in page


@needs_latex
def test_latex_fits_two_columns_with_booktabs_alone(published, tmp_path):
    settings = slice_of("paper")
    run_script(tmp_path, *statistics_rows(published), settings)
    typeset(tmp_path / "page.tex")


def test_markup_in_a_label_stays_text(tmp_path):
    hostile = "<script>alert(1)</script> & 50% \\x"
    table = Table(
        title=f"{hostile}, too",
        corner=hostile,
        columns=(hostile,),
        blocks=(Block(hostile, (Row(hostile, (Entry(hostile, strong=True),)),)),),
        notes=(hostile,),
        values=pd.DataFrame(),
        spanners=((hostile, 1),),
    )
    page = Page(hostile, (Section(hostile, (hostile,), (table,)),))
    write_html(page, tmp_path / "page.html")
    write_latex(page, tmp_path / "page.tex")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 14  # everything that a page can show
    tex = (tmp_path / "page.tex").read_text(encoding="utf-8")
    assert r"\& 50\% \textbackslash{}x" in tex
    assert "& 50%" not in tex


# Grad-ELLM's variants -------------------------------------------------------------------------


def study_rows(depths=(1, 4)):
    """Rows of `layer_study`: on every sample the deeper one is better by .1, and on one by more."""
    return [
        {
            "protocol": "dynamic", "model": LLAMA, "method": f"grad_ellm-loosened-{depth:02d}",
            "dataset": dataset, "sample_id": f"s{k}", "part": "development" if k < 4 else "rest",
            "token_weights": "loosened", "depth": depth, "candidate": True, "fixed": depth == 1,
            "metric": "auc_pi_soft_ns", "value": 0.1 * (depth > 1) + k / 100, "status": "ok",
        }
        for dataset in ("imdb", "sst2", "boolq", "tellmewhy", "wikibio")
        for depth in depths
        for k in range(10)
    ]  # fmt: skip


def test_the_depth_selected_on_what_is_reported_has_no_interval(published):
    study = pa.Table.from_pylist(study_rows(), schema=SCHEMAS["layer_study"]).to_pandas()
    leaky = leaky_statistics(study).set_index("dataset")
    assert set(leaky["method"]) == {"grad_ellm_leaky"}
    assert leaky.loc["imdb", "value"] == pytest.approx(0.1 + 0.045)
    assert leaky.loc["average", ["value", "n"]].tolist() == pytest.approx([0.145, 50])
    cells = compared(published, leaky_statistics(study).to_dict("records"))
    cell = cell_of(cells, *NS, "imdb", "grad_ellm_leaky")
    assert (cell["outcome"], cell["value"]) == ("no interval", pytest.approx(0.145))


def test_an_average_over_some_of_the_papers_datasets_is_none(published):
    study = pa.Table.from_pylist(study_rows()[:40], schema=SCHEMAS["layer_study"]).to_pandas()
    assert set(leaky_statistics(study)["dataset"]) == {"imdb", "sst2"}


# Settings that decide a number ----------------------------------------------------------------


def outcomes_with(published, **changes):
    """Outcomes by metric, dataset and method of a run of such settings that has every number."""
    statistics, _ = statistics_rows(published)
    cells = compared(published, statistics, unlike=differences(slice_of("paper", **changes)))
    of_llama = cells[(cells["model"] == LLAMA) & (cells["protocol"] != "fixed")]
    return of_llama.set_index(["metric", "dataset", "method"])["outcome"]


def test_numbers_that_an_unlike_setting_decides_are_not_compared(published):
    same = outcomes_with(published)
    assert "other settings" not in set(same)
    given = {"step_scores": "aggregated", "step_interval": 5}
    free = {"evaluation": {**given, "clamp": "none"}}
    clamp = outcomes_with(published, **free)
    assert (clamp["auc_pi_soft_ns"] == "other settings").all()
    assert (clamp["auc_pi_soft_nc"] == "inside").all()
    every = {"generation": {"step_interval": 1}}
    for unlike in (
        {"generation": {"step_interval": 5}, "evaluation": {**given, "step_interval": 5}},
        {**every, "evaluation": {**given, "step_interval": 3}},
    ):
        areas = outcomes_with(published, **unlike)["auc_pi_soft_nc"]
        assert set(areas[["tellmewhy", "wikibio", "average"]]) == {"other settings"}
        assert set(areas[["imdb", "sst2"]]) == {"inside"}
    few = {"evaluation": {**given, "draws": 3}}
    fewer = outcomes_with(published, **few)
    assert set(fewer["auc_pi_soft_ns"]) == {"inside"}, "draws say how precisely it is known"
    spread = {"evaluation": {**given, "sampler": "latin"}}
    latin = outcomes_with(published, **spread)
    assert set(latin["auc_pi_soft_nc"]) == {"inside"}, "so does how they are spread"
    counted = {"evaluation": {**given, "sampler": "count"}}
    count = outcomes_with(published, **counted)
    assert (count["auc_pi_soft_nc"] == "other settings").all(), "of masks with another law"
    assert "other settings" not in set(count["deletion_auc"])


def test_options_unlike_the_papers_decide_their_methods_numbers(published):
    made = slice_of("paper")
    assert differences(made) == []
    changed = {**made.options, "attention": {**made.options["attention"], "layers": None}}
    (layers,) = differences(made.model_copy(update={"options": changed}))
    assert (layers.key, layers.here, layers.setting.paper) == ("attention.layers", None, 1)
    rows = published[layers.concerns(published)]
    assert set(rows["method"]) == {"attention"}


def test_every_setting_that_can_change_a_number_is_beside_the_paper():
    made = slice_of("paper")
    assert settings_of(made).keys() == SETTINGS.keys() | NO_NUMBER
    for one in compared_settings(made):
        assert one.here == one.setting.paper, "of open settings, SETTINGS has paper.yaml's reading"


# Keys of a run file that decide none of the paper's numbers, or not by their value.
APART = {
    "run", "resources", "block_size", "local_root",  # where and how it runs
    "models", "datasets", "methods", "protocols", "restrictions", "catalogue",  # compared by name
    "seed", "max_samples", "statistics",  # which samples and resamples, and how many
    "sensitivity", "qualitative", "explorer",  # what is shown
    "layer_study", "metric_validation", "sanity_checks", "operators",  # with numbers of their own
}  # fmt: skip


def test_every_section_of_a_run_file_is_compared_or_stands_apart():
    compared = {key.split(".")[0] for key in SETTINGS} & RunFile.model_fields.keys()
    assert {*SECTIONS} <= compared
    assert RunFile.model_fields.keys() - compared == APART


UNLIKE = {
    "prompts": {"max_tokens": 64},
    "generation": {"max_new_tokens": 1},
    "evaluation": {"scope": "all", "normalisation": "rank", "score_floor": 0.1, "minimum_h0": 0.5},
    "ranking": {"operator": "zero"},
}


def test_readings_unlike_those_of_paper_yaml_are_named_and_compared():
    raw = read_yaml(ROOT / "config/paper.yaml")
    changes = {name: {**raw.get(name, {}), **given} for name, given in UNLIKE.items()}
    made = slice_of("paper", **changes)
    options = {**made.options["grad_ellm"], "heads": "per_head"}
    targets = {"saliency": "generated", "mine": "generated"}
    types = {**made.types, LLAMA: "float32", "llama-3.1-70b-instruct": "bfloat16"}
    made = made.model_copy(
        update={
            "options": made.options | {"grad_ellm": options},
            "types": types,
            "targets": targets,
        }
    )
    (decided,) = differences(made)
    assert decided.key == "llama-3.1-70b-instruct.dtype", "the paper's is of 4 bit"
    text = " ".join(_settings(made))
    for section, given in UNLIKE.items():
        for key, value in given.items():
            assert f"{section}.{key}: {as_text(value)} (not " in text
    assert "grad_ellm.heads: per_head (not merged)" in text
    assert "saliency.target: generated (not label)" in text
    assert "mine.target" not in text
    assert f"{LLAMA}.dtype: float32 (not bfloat16)" in text


def test_readings_of_the_paper_are_stated_where_a_reader_looks():
    """Each key of the docs' table stands in paper.yaml, or with the method's options."""
    page = (ROOT / "docs/explanation/what-the-paper-leaves-open.md").read_text("utf-8")
    keys = re.findall(r"\| `([a-z_0-9.]+)` \|$", page, re.MULTILINE)
    assert len(keys) > 15
    methods = read_yaml(ROOT / "config/catalogue/methods.yaml")
    stated = read_yaml(ROOT / "config/paper.yaml")
    for key in keys:
        section, _, name = key.partition(".")
        of = methods[section]["options"] if section in methods else stated.get(section, {})
        assert of if not name else name in of, f"{key}: not stated"
