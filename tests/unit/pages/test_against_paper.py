"""Comparison with published numbers: compared cells, excluded cells, and the page."""

import argparse
import csv
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import compare_with_paper
from helpers import goldens
from helpers.latex import needs_latex, typeset
from helpers.result_rows import study_rows
from pisoft.attribution import load_method
from pisoft.config.jobs.pages import PublishedJob
from pisoft.config.loading import load_config
from pisoft.config.run_file import RunFile
from pisoft.config.validation import read_yaml
from pisoft.pages.against_paper import against_paper_page
from pisoft.pages.page import Claim, Page, Section, write_html, write_latex
from pisoft.statistics import against_paper as outcomes
from pisoft.statistics.published import DATASETS, load_published
from pisoft.statistics.published_settings import (
    NO_NUMBER,
    SECTIONS,
    SETTINGS,
    compared_settings,
    differences,
    settings_of,
)
from pisoft.store.parquet import write_rows
from pisoft.store.schemas import RESULT, SCHEMAS

ROOT = Path(__file__).parents[3]
FILE = ROOT / "config/published.csv"
LLAMA, MISTRAL = "llama-3.1-8b-instruct", "mistral-7b-instruct-v0.3"
NS = ("dynamic", LLAMA, "auc_pi_soft_ns")
KEYS = ["protocol", "model", "metric", "dataset", "method"]


@pytest.fixture(autouse=True)
def paths_are_those_of_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def published():
    return load_published(FILE)


def statistics_rows(published, shift=0.0, half_width=0.01, models=(LLAMA,)):
    """Rows of `statistics` and `timings` of a run with the published numbers, shifted."""
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
    return [row for row in rows if not selection.items() <= row.items()]


def compared(published, statistics, timings=(), **others):
    frames = [
        pa.Table.from_pylist(list(rows), schema=SCHEMAS[kind]).to_pandas()
        for kind, rows in (("statistics", statistics), ("timings", timings))
    ]
    others = {"other_models": (), "other_datasets": ()} | others
    return outcomes.compare(published, *frames, **others)


def outcome(cells, dataset, method="deeplift", column=NS):
    (cell,) = cells[(cells[KEYS] == [*column, dataset, method]).all(axis=1)].to_dict("records")
    return cell["outcome"]


@pytest.mark.parametrize("shift", [0.0, 0.009, 0.0104, -0.0104, 0.011, -0.011])
def test_inside_equals_a_plain_loop(published, shift):
    statistics, timings = statistics_rows(published, shift)
    cells = compared(published, statistics, timings)
    ours = {tuple(row[key] for key in KEYS): row for row in statistics}
    with FILE.open(encoding="utf-8", newline="") as file:
        lines = {tuple(line[key] for key in KEYS): line["value"] for line in csv.DictReader(file)}
    seen = set()
    for cell in cells.to_dict("records"):
        key = tuple(cell[key] for key in KEYS)
        if key in ours:
            row, printed = ours[key], float(lines[key])
            half = 0.5 / 10 ** len(lines[key].partition(".")[2])
            reaches = printed + half >= row["low"] and printed - half <= row["high"]
            assert cell["outcome"] == ("inside" if reaches else "outside"), key
            assert cell["difference"] == pytest.approx(row["value"] - printed)
            for name in ("value", "low", "high", "n", "n_failed"):
                assert cell[name] == row[name]
            seen.add(cell["outcome"])
    assert seen == ({"inside"} if abs(shift) < 0.01 else {"inside", "outside"})


def test_numbers_on_other_models_or_datasets_are_not_compared(published):
    rows = statistics, _ = statistics_rows(published)
    fewer = compared(published, without(statistics, dataset="boolq_eraser"))
    assert outcome(fewer, "boolq_eraser") == "not run"
    assert outcome(fewer, "imdb") == "inside"
    assert outcome(fewer, "average") == "other average"
    averages = fewer.loc[fewer["outcome"] == "other average", ["value", "difference", "n"]]
    assert averages.isna().all(axis=None)
    more = compared(published, [*statistics, {**statistics[0], "dataset": "mine"}])
    assert outcome(more, "average") == "other average"
    assert outcome(more, "average", column=("", LLAMA, "deletion_auc")) == "inside"
    other = compared(published, *rows, other_datasets={"imdb": "records in a local file"})
    assert [outcome(other, name) for name in ("imdb", "sst2")] == ["other dataset", "inside"]
    rows = statistics_rows(published, models=(LLAMA, MISTRAL))
    other = compared(published, *rows, other_models={LLAMA: "weights in a local folder"})
    by_model = other.groupby("model")["outcome"].agg(set)
    assert by_model[LLAMA] == {"other model"}
    assert by_model[MISTRAL] == {"inside", "other machine"}


def slice_of(name, **changes):
    raw = read_yaml(ROOT / "config" / f"{name}.yaml") | changes
    config = load_config(raw, ROOT / "config/catalogue", "test", load_method)
    return PublishedJob.from_config(config)


def test_entries_match_the_paper_by_their_records_and_not_by_name(tmp_path):
    (tmp_path / "boolq").mkdir()
    (tmp_path / "boolq/test.jsonl").touch()
    datasets = ["imdb", "sst2", "sst2_glue", "boolq", "boolq_eraser", "tellmewhy"]
    job = slice_of("paper", datasets=datasets, local_root=str(tmp_path))
    assert job.other_models == {}
    assert job.other_datasets == {
        "sst2_glue": "phrases of GLUE, where the paper has sentences",
        "boolq": "the original release, where the paper has ERASER's",
    }
    assert PublishedJob.model_validate_json(job.to_json()) == job


def test_trained_local_and_run_file_entries_are_not_the_papers(tmp_path):
    demo = slice_of("config")
    assert demo.other_models["demo-llama"] == "trained by the workflow"
    assert demo.other_datasets["demo-why"] == "records made by the workflow"
    for name in ("config.json", "model.safetensors", "records.jsonl"):
        (tmp_path / name).write_text("{}")
    local = {"kind": "local", "path": str(tmp_path)}
    file = {"kind": "file", "path": str(tmp_path / "records.jsonl"), "format": "jsonl"}
    additions = {
        "models": {
            "fine-tuned": {"extends": LLAMA, "label": "Fine-tuned"},
            "mirror": {"extends": LLAMA, "label": "Mirror", "source": local},
        },
        "datasets": {"part": {"extends": "imdb", "label": "Part", "source": file}},
    }
    names = {"models": [LLAMA, *additions["models"]], "datasets": ["imdb", "part"]}
    job = slice_of("paper", catalogue=additions, layer_study=None, restrictions={}, **names)
    others = {"fine-tuned": "an entry of the run file", "mirror": "weights in a local folder"}
    assert job.other_models == others
    assert job.other_datasets == {"part": "records in a local file"}


SHOWN = {
    "paper": {"models": [LLAMA], "datasets": ["imdb", "sst2", "tellmewhy"]},
    "other_settings": {
        "models": [LLAMA, "demo-llama"],
        "datasets": ["imdb", "demo-sentiment", "demo-why"],
        "prompts": {"max_tokens": 64},
        "generation": {"max_new_tokens": 1},
        "evaluation": {
            "preset": "efficient", "pi_grid": [0.1, 0.5], "clamp": "none", "operator": "mean",
            "scope": "all", "normalisation": "rank", "score_floor": 0.1, "minimum_h0": 0.5,
        },
        "ranking": {"steps": 5, "operator": "zero"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_equals_its_golden_file(published, name):
    """A run in which DeepLIFT differs, some of Saliency failed, and ReAGent is missing."""
    methods = ("random", "deeplift", "saliency", "reagent", "grad_ellm")
    few = published[published["method"].isin(methods)]
    statistics, timings = statistics_rows(few, shift=0.002)
    statistics = without(statistics, method="reagent")
    failed = {"value": None, "low": None, "high": None, "n": 0, "n_failed": 51}
    changes = {
        ("deeplift", "imdb"): {"value": 0.9, "low": 0.8, "high": 0.95},
        ("saliency", "sst2"): failed,
        ("random", "imdb"): {"low": None, "high": None, "n": 1},
    }
    statistics = [row | changes.get((row["method"], row["dataset"]), {}) for row in statistics]
    grad_ellm_rows = [row for row in statistics if row["method"] == "grad_ellm"]
    statistics += [{**row, "method": "grad_ellm_selected"} for row in grad_ellm_rows]
    settings = slice_of("paper", layer_study=None, restrictions={}, **SHOWN[name])
    if name == "other_settings":
        settings = with_other_options(settings)
    other = {key: getattr(settings, key) for key in ("other_models", "other_datasets")}
    cells = compared(few, statistics, timings, unlike=differences(settings), **other)
    numbers = few, cells, outcomes.agreement(cells), outcomes.published_robustness(few)
    page = against_paper_page(*numbers, settings, "../explorer.html")
    if name != "paper":
        page = replace(page, sections=page.sections[:2])
    goldens.compare(goldens.page_text(page), goldens.file("published", "pages", name))


def with_other_options(settings):
    """Return settings that differ from paper.yaml in keys it does not set."""
    grad_ellm = settings.options["grad_ellm"] | {"heads": "per_head"}
    changes = {
        "options": settings.options | {"grad_ellm": grad_ellm},
        "types": settings.types | {LLAMA: "float32", "llama-3.1-70b-instruct": "bfloat16"},
        "targets": {"saliency": "generated", "mine": "generated"},
    }
    return settings.model_copy(update=changes)


def script_output(folder, published):
    """Return the files that the script writes for a run with the published numbers."""
    folder.mkdir()
    files = {kind: [folder / f"{kind}.parquet"] for kind in ("statistics", "timings")}
    for (kind, (path,)), rows in zip(files.items(), statistics_rows(published), strict=True):
        write_rows(path, kind, rows, {})
    kinds = ("cells", "agreement", "robustness", "tex", "html")
    outputs = {kind: [folder / f"page.{kind}"] for kind in kinds}
    settings = slice_of("paper").to_json()
    given = {"settings": settings, "files": files, "outputs": outputs, "links": {}, "pages": {}}
    compare_with_paper.main(argparse.Namespace(**given, warning=""))
    return {kind: path.read_text(encoding="utf-8") for kind, (path,) in outputs.items()}


def test_the_script_writes_every_cell_and_a_page_that_loads_nothing(published, tmp_path):
    files = script_output(tmp_path / "run", published)
    cells = list(csv.DictReader(files["cells"].splitlines()))
    assert len(cells) == len(published)
    assert (cells[0]["outcome"], cells[0]["n"], cells[0]["n_failed"]) == ("inside", "50", "1")
    assert not re.search(r"(src|href)=", files["html"])


@needs_latex
def test_latex_fits_two_columns_and_needs_only_booktabs(published, tmp_path):
    script_output(tmp_path / "run", published)
    typeset(tmp_path / "run/page.tex")


def test_markup_in_texts_is_escaped(tmp_path):
    hostile = "<script>alert(1)</script> & 50% \\x"
    page = Page(hostile, (Section(hostile, (hostile,), claims=(Claim(hostile),)),), hostile)
    write_html(page, tmp_path / "page.html")
    write_latex(page, tmp_path / "page.tex")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in html
    # Title and heading twice, paragraph, claim and warning.
    assert html.count("&lt;script&gt;") == 7
    tex = (tmp_path / "page.tex").read_text(encoding="utf-8")
    assert tex.count(r"\& 50\% \textbackslash{}x") == 3
    assert "& 50%" not in tex


def test_a_depth_selected_on_the_reported_samples_has_no_interval(published):
    """On every sample the deeper one is better by .1."""
    parts = (("development", range(4)), ("rest", range(4, 10)))
    values = {
        depth: {part: [0.1 * (depth > 1) + k / 100 for k in values] for part, values in parts}
        for depth in (1, 4)
    }
    datasets = ("imdb", "sst2", "boolq", "tellmewhy", "wikibio")
    rows = [
        row for name in datasets for row in study_rows(values, fixed=1, model=LLAMA, dataset=name)
    ]
    study = pa.Table.from_pylist(rows, schema=SCHEMAS["layer_study"]).to_pandas()
    leaky = outcomes.leaky_statistics(study).query("metric == @NS[2]").set_index("dataset")
    assert set(leaky["method"]) == {"grad_ellm_leaky"}
    assert leaky.loc["imdb", "value"] == pytest.approx(0.1 + 0.045)
    assert leaky.loc["average", ["value", "n"]].tolist() == pytest.approx([0.145, 50])
    cells = compared(published, outcomes.leaky_statistics(study).to_dict("records"))
    assert outcome(cells, "imdb", "grad_ellm_leaky") == "no interval"
    some = outcomes.leaky_statistics(study[study["dataset"].isin(["imdb", "sst2"])])
    assert set(some["dataset"]) == {"imdb", "sst2"}, "no average over some of the paper's datasets"


SOFT = ("auc_pi_soft_ns", "auc_pi_soft_nc", "soft_ns", "soft_nc")
OPEN_TEXT = ("tellmewhy", "wikibio", "average")
EVERY = (*DATASETS, "average")


@pytest.mark.parametrize(
    ("explained", "evaluation", "metrics", "datasets"),
    [
        (1, {}, (), ()),
        (1, {"clamp": "none"}, ("auc_pi_soft_ns", "soft_ns"), EVERY),
        (1, {"sampler": "count"}, SOFT, EVERY),  # masks with a different distribution
        (5, {}, SOFT, OPEN_TEXT),
        (1, {"step_interval": 3}, SOFT, OPEN_TEXT),
        (1, {"draws": 3, "sampler": "latin"}, (), ()),  # changes only the precision of a number
    ],
)
def test_numbers_decided_by_a_different_setting_are_not_compared(
    published, explained, evaluation, metrics, datasets
):
    evaluation = {"step_scores": "aggregated", "step_interval": 5, **evaluation}
    settings = slice_of("paper", generation={"step_interval": explained}, evaluation=evaluation)
    statistics, _ = statistics_rows(published)
    cells = compared(published, statistics, unlike=differences(settings))
    decided = cells["metric"].isin(metrics) & cells["dataset"].isin(datasets)
    assert ((cells["outcome"] == "other settings") == decided).all()


def test_every_setting_that_can_change_a_number_is_compared():
    job = slice_of("paper")
    assert settings_of(job).keys() == SETTINGS.keys() | NO_NUMBER
    for one in compared_settings(job):
        assert one.here == one.setting.paper, "of open settings, SETTINGS has paper.yaml's reading"


# Keys of a run file whose values do not decide any of the paper's numbers.
APART = {
    "run", "resources", "block_size", "local_root",  # where and how it runs
    "models", "datasets", "methods", "protocols", "restrictions", "catalogue",  # compared by name
    "seed", "max_samples", "statistics", "stop",  # which samples and resamples, and how many
    "sensitivity", "qualitative", "figures", "explorer",  # displays
    "layer_study", "metric_validation", "sanity_checks", "operators",  # with numbers of their own
}  # fmt: skip


def test_every_section_of_a_run_file_is_compared_or_listed_as_exempt():
    compared = {key.split(".")[0] for key in SETTINGS} & RunFile.model_fields.keys()
    assert {*SECTIONS} <= compared
    assert RunFile.model_fields.keys() - compared == APART


def test_the_shipped_settings_state_every_reading_of_the_paper():
    """Each key of the docs' table is set in paper.yaml or in the method's options."""
    page = (ROOT / "docs/explanation/what-the-paper-leaves-open.md").read_text("utf-8")
    keys = re.findall(r"\| `([a-z_0-9.]+)` \|$", page, re.MULTILINE)
    assert len(keys) > 15
    methods = read_yaml(ROOT / "config/catalogue/methods.yaml")
    stated = read_yaml(ROOT / "config/paper.yaml")
    for key in keys:
        section, _, name = key.partition(".")
        of = methods[section]["options"] if section in methods else stated.get(section, {})
        assert of if not name else name in of, f"{key}: not stated"
