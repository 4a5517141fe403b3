"""Jobs that a change of the run file or the code adds, drops or re-runs."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from snakemake.exceptions import WorkflowError

from helpers.planned_jobs import ROOT, outdated, outputs, planned, take_for_done
from helpers.quick_cases import one_quick
from pisoft.workflow import code_hash

RUN = {
    "run": "small", "models": ["demo-llama"], "datasets": ["demo-sentiment", "demo-why"],
    "methods": ["random", "attention", "saliency"], "max_samples": 3, "evaluation": {"draws": 2},
}  # fmt: skip
NAMES = ("demo-sentiment", "demo-why")
CONTROLS = ("oracle", "oracle-noise-1", "anti-oracle", "position", "uniform", "first-token")


def cells(*patterns):
    """Return the files of both datasets' cells; a pattern has `{}` for the dataset."""
    return {f"data/{pattern.format(name)}.parquet" for pattern in patterns for name in NAMES}


def figures(*names):
    return {f"figures/{name}.svg" for name in names}


def summaries(*names):
    return {f"data/summary/{name}.parquet" for name in names}


def method_files(name):
    """Return the outputs of the jobs of one method."""
    soft = cells(f"attributions/demo-llama/{name}/{{}}", f"soft/dynamic/demo-llama/{name}/{{}}")
    return soft | {f"data/ranking/demo-llama/{name}/demo-sentiment.parquet"}


def tables(*names):
    return {f"tables/{name}/demo-llama.html" for name in names}


SENSITIVITY = (
    summaries("sensitivity")
    | tables("sensitivity/dynamic")
    | figures("sensitivity/dynamic/demo-llama")
)
DATAMODEL = summaries("datamodel_samples") | tables("datamodel_scores/dynamic")
RANKING = (
    {f"data/ranking/demo-llama/{name}/demo-sentiment.parquet" for name in RUN["methods"]}
    | summaries("ranking_samples")
    | tables("insertion_deletion")
)
DEPTHS = {  # 8 and 16 both mean all 4 layers
    file for depth in ("01", "04") for file in cells(
        f"attributions/demo-llama/grad_ellm-loosened-{depth}/{{}}",
        f"soft/dynamic/demo-llama/grad_ellm-loosened-{depth}/{{}}",
    )
}  # fmt: skip
LAYER_STUDY = (
    DEPTHS
    | summaries("layer_study", "depths", "depth_selected/soft_samples")
    | tables("layer_study/dynamic")
    | figures(*(f"layer_study/dynamic/demo-llama/{name}" for name in NAMES))
)
VALIDATION = (
    {file for name in (*CONTROLS, "saliency-permuted-1") for file in method_files(name)}
    - {"data/ranking/demo-llama/saliency-permuted-1/demo-sentiment.parquet"}
    | summaries(*(
        f"{name}/{kind}"
        for name in ("controls", "permutation_baseline")
        for kind in ("soft_samples", "curves", "soft_sample_curves")
    ))
    | summaries("controls/ranking_samples", "controls/datamodel_samples")
    | summaries("metric_validation", "normalised_scores", "permutation_baseline")
    | tables("metric_validation", "normalised_scores", "permutation_baseline/dynamic")
    | figures("permutation_baseline/dynamic/demo-llama")
    | figures(*(f"metric_validation/dynamic/demo-llama/{name}" for name in NAMES))
)  # fmt: skip


def checked(*variants):
    """Return the files that sanity checks add."""
    scores = cells(*(f"attributions/demo-llama@{name}/saliency/{{}}" for name in variants))
    shown = tables("sanity_checks") | figures("sanity_checks/demo-llama")
    return scores | summaries("sanity_checks") | shown


OPERATORS = (
    cells(*(f"soft/dynamic@{of}/demo-llama/saliency/{{}}" for of in ("mean", "unknown", "hide")))
    | cells("inputs/dynamic/demo-llama/{}")
    | summaries("off_distribution")
    | tables("off_distribution/dynamic")
    | figures("off_distribution/dynamic/demo-llama")
)  # fmt: skip
TOKENS = figures(*(f"tokens/demo-llama/{n}/{part}" for n in NAMES for part in ("sentence", "text")))
EVIDENCE = summaries("evidence_samples") | tables("evidence_recovery")

DECISIONS = summaries("decisions") | tables("decisions/dynamic")

ADDED = {  # by section of the run file
    "stop": ({"against": "leader"}, DECISIONS),
    "layer_study": ({"depths": [1, 8, 16], "token_weights": ["loosened"]}, LAYER_STUDY),
    "metric_validation": ({"noise": [1], "permuted_methods": ["saliency"]}, VALIDATION),
    "sanity_checks": (
        {"layers": [1, 2], "methods": ["saliency"], "labels": True},
        checked("reinit-1", "reinit-2", "shuffled-labels"),
    ),
    "operators": ({"methods": ["saliency"]}, OPERATORS),
}
LEFT_OUT = {
    "qualitative": (None, TOKENS),
    "sensitivity": (False, SENSITIVITY),
    "ranking": (None, RANKING),
    "explorer": (None, {"explorer.html"}),
    "evaluation": ({"draws": 2, "mask": "element"}, DATAMODEL),
}


def files(rules):
    """Return the outputs that represent their jobs, with their rules."""
    return {
        name: rule
        for name, rule in rules.items()
        if name.endswith((".parquet", ".html", ".svg"))
        and "attribution_times" not in name
        and rule not in ("build_figure_pages", "note_report")
    }


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a folder in which every job of the run counts as done."""
    folder = tmp_path_factory.mktemp("done")
    take_for_done(folder, RUN)
    return folder


@pytest.fixture(scope="module")
def run_files(done):
    """Return the files of the run, with their rules."""
    return files(outputs(done, RUN))


def test_changed_resources_re_run_no_job(done):
    assert outdated(done, RUN) == {}
    assert outdated(done, RUN | {"resources": {"demo-llama": {"gpu": 1, "runtime": 9}}}) == {}


@pytest.mark.parametrize("key", one_quick(ADDED))
def test_a_study_adds_exactly_its_files(done, run_files, key):
    section, added = ADDED[key]
    assert files(outputs(done, RUN | {key: section})).keys() == run_files.keys() | added


def test_variants_are_attributed_with_their_own_weights(done):
    """Shuffled labels need another training; re-initialised models load the original weights."""
    checks = {"layers": [1], "methods": ["saliency"], "labels": True}
    with planned(done, RUN | {"sanity_checks": checks}) as dag:
        explained = {
            Path(job.output[0]).parts[4]: Path(job.input.model[0]).parent.name
            for job in dag.jobs
            if job.rule.name == "attribute"
        }
    shuffled = "demo-llama@shuffled-labels"
    unshuffled = dict.fromkeys(("demo-llama", "demo-llama@reinit-1"), "demo-llama")
    assert explained == unshuffled | {shuffled: shuffled}


@pytest.mark.parametrize("explorer", [{}, {"explorer": None}], ids=["explorer", "none"])
def test_pages_link_to_the_explorer_only_if_it_exists(done, explorer):
    with planned(done, RUN | explorer) as dag:
        commands = [job.shellcmd for job in dag.jobs if job.rule.name == "tabulate"]
    assert commands
    for command in commands:
        assert ("Explorer=results/small/explorer.html" in command) == (not explorer)


@pytest.mark.parametrize("key", one_quick(LEFT_OUT))
def test_switching_a_section_off_drops_only_its_files(done, run_files, key):
    section, gone = LEFT_OUT[key]
    assert files(outputs(done, RUN | {key: section})).keys() == run_files.keys() - gone


def test_a_single_method_drops_comparisons_and_baselines(done, run_files):
    methods = {file for name in ("random", "saliency") for file in method_files(name)}
    agreement = {"figures/method_agreement/demo-llama.svg"}
    agreement |= cells("summary/method_agreement/demo-llama/{}")
    single = outputs(done, RUN | {"methods": ["attention"]})
    assert files(single).keys() == run_files.keys() - methods - agreement - DATAMODEL


def test_only_methods_that_need_the_masked_model_read_it(done):
    run = RUN | {"masked_model": "demo-masked"}
    assert "make_masked_model" not in outputs(done, run).values()
    with planned(done, run | {"methods": ["random", "reagent"]}) as dag:
        rules = [job.rule.name for job in dag.jobs]
        scores = [job for job in dag.jobs if job.rule.name == "attribute"]
        readers = {Path(job.output[0]).parts[-2] for job in scores if job.input.masked_model}
    assert rules.count("make_masked_model") == 1
    assert readers == {"reagent"}


def test_records_without_evidence_have_no_evidence_files(done, run_files):
    (done / "records.csv").write_text("text,label\nA fine film.,positive\nA dull one.,negative\n")
    source = {"kind": "file", "path": "records.csv", "format": "csv"}
    mine = {"extends": "demo-sentiment", "label": "Mine", "source": source}
    run = RUN | {"catalogue": {"datasets": {"mine": mine}}, "datasets": ["mine"]}
    assert run_files.keys() >= EVIDENCE
    without = files(outputs(done, run | {"models": ["llama-3.1-8b-instruct"]}))
    assert not {name for name in without if "evidence" in name}


# Re-runs --------------------------------------------------------------------------------------

AFTER_RANKING = (
    "summarise_ranking", "estimate_uncertainty", "compare_with_paper", "plot_metric_agreement",
    "plot_pi_curves", "plot_ranks", "plot_density", "tabulate", "build_index",
)  # fmt: skip
AFTER_SOFT = (
    "summarise", "summarise_advantage", "summarise_sensitivity", "summarise_density",
    "summarise_datamodel_scores", "plot_pi_curves_all", "plot_protocol", "plot_advantage",
    "plot_sensitivity", "build_explorer", *AFTER_RANKING[1:],
)  # fmt: skip
AFTER_SCORES = (
    "summarise_evidence", "compare_methods", "plot_method_agreement", "plot_scores", "plot_tokens",
    "summarise_ranking", *AFTER_SOFT,
)  # fmt: skip


@pytest.fixture
def edit(monkeypatch):
    """Return a function that makes a module look edited to the code hash."""
    hash_of = code_hash._file_hash

    def edit_module(name):
        changed = code_hash.PACKAGE / f"{name}.py"
        monkeypatch.setattr(
            code_hash, "_file_hash", lambda file: b"edited" if file == changed else hash_of(file)
        )
        code_hash.code_hash.cache_clear()

    yield edit_module
    code_hash.code_hash.cache_clear()


def made_by(run_files, *rules):
    return {name for name, rule in run_files.items() if rule in rules}


EDITED = {  # by module: cells of one method, and rules whose jobs all re-run
    "attribution/saliency": (method_files("saliency"), ("summarise_timings", *AFTER_SCORES)),
    "faithfulness/masks": (set(), ("evaluate_soft", *AFTER_SOFT)),
    "faithfulness/ranking": (set(), ("evaluate_ranking", *AFTER_RANKING)),
}


def test_adding_decisions_recomputes_no_other_number(done):
    stale = outdated(done, RUN | {"stop": {"against": "all_pairs", "margin": 0.02}})
    assert {*stale.values()} <= {"decide", "tabulate", "build_index", "note_report"}


@pytest.mark.parametrize("source", one_quick([None, "records", "masked_model"]))
def test_counterfactuals_re_run_insertion_and_deletion(done, run_files, source):
    """Without them, nothing re-runs."""
    run = RUN | {"masked_model": "demo-masked", "ranking": {"counterfactuals": source}}
    stale = outdated(done, run)
    made = made_by(run_files, "evaluate_ranking", *AFTER_RANKING) | tables("counterfactuals")
    assert files(stale).keys() == (made if source else set())
    assert ("make_masked_model" in stale.values()) == (source == "masked_model")


def test_answer_deletion_re_runs_insertion_and_deletion(done, run_files):
    """Insertion and deletion re-run, now also for generated answers."""
    stale = outdated(done, RUN | {"ranking": {"answer_deletion": True}})
    made = made_by(run_files, "evaluate_ranking", *AFTER_RANKING) | tables("answer_deletion")
    cells = {name for name, rule in stale.items() if rule == "evaluate_ranking"}
    assert {name for name in cells if "demo-why" in name} == {
        name.replace("demo-sentiment", "demo-why") for name in cells if "demo-sentiment" in name
    }
    assert files(stale).keys() >= made


@pytest.mark.parametrize("module", one_quick(EDITED))
def test_edited_code_re_runs_only_its_dependents(done, run_files, edit, module):
    edit(module)
    cells_of_method, rules = EDITED[module]
    assert files(outdated(done, RUN)).keys() == cells_of_method | made_by(run_files, *rules)


def test_editing_the_record_reader_re_runs_its_jobs(done, edit):
    edit("records")
    assert set(outdated(done, RUN).values()) >= {"fetch_dataset", "build_prompts"}


def test_imported_scores_add_their_cells_but_no_timings(done, run_files):
    (done / "mine.parquet").write_text("read when it is imported")
    mine = {"source": {"kind": "scores", "path": "mine.parquet"}}
    run = RUN | {"methods": [*RUN["methods"], "mine"], "catalogue": {"methods": {"mine": mine}}}
    stale = outdated(done, run)
    assert files(stale).keys() == method_files("mine") | made_by(run_files, *AFTER_SCORES)
    assert "summarise_timings" not in stale.values()
    single = outputs(done, run | {"methods": ["mine"]})
    assert "import_scores" in single.values()
    assert not {"attribute", "summarise_timings"} & {*single.values()}
    assert "tables/timings.html" not in single


def test_the_cluster_command_submits_every_job_with_a_model(tmp_path):
    page = (ROOT / "docs/how-to/run-on-a-cluster.md").read_text(encoding="utf-8")
    (rules,) = re.findall(r"^profiles/slurm/run .* --until (.*)$", page, flags=re.M)
    run = RUN | {key: section for key, (section, _) in ADDED.items()}
    jobs = []
    for until in ((), rules.split()):
        with planned(tmp_path, run, until) as dag:
            needed = dag.needrun_jobs(exclude_finished=False)
            jobs.append({job.output[0] for job in needed if "--gpus" in (job.rule.shellcmd or "")})
    assert jobs[0] == jobs[1]


def test_records_may_move_but_not_be_reordered(tmp_path):
    """Files of the same name in two folders are read in the order of the run file."""
    halves = [tmp_path / "records" / half / "part.csv" for half in ("first", "second")]
    for half in halves:
        half.parent.mkdir(parents=True)
        half.write_text(f"text,label\n{half.parent.name},positive\n")
        os.utime(half, (0, 0))  # older than the results

    def run(folder, *names):
        source = {
            "kind": "file",
            "path": [f"{folder}/{n}/part.csv" for n in names],
            "format": "csv",
        }
        reviews = {"reviews": {"extends": "demo-sentiment", "label": "Reviews", "source": source}}
        catalogue = {"datasets": reviews}
        return RUN | {"datasets": [*NAMES, "reviews"], "catalogue": catalogue}

    take_for_done(tmp_path, run("records", "first", "second"))
    (tmp_path / "records").rename(tmp_path / "moved")
    assert outdated(tmp_path, run("moved", "first", "second")) == {}
    assert outdated(tmp_path, run("moved", "second", "first")).get("data/datasets/reviews.parquet")


def test_a_changed_record_re_runs_only_its_shard(tmp_path):
    labels = ("positive", "negative")
    lines = [f"{n},Film {n}.,{labels[n % 2]}" for n in range(8)]

    def write(*changed):
        records = tmp_path / "records.csv"
        records.write_text("\n".join(["name,text,label", *changed]) + "\n")

    source = {"kind": "file", "path": "records.csv", "format": "csv"}
    mine = {"extends": "demo-sentiment", "label": "Mine", "source": source, "id_column": "name"}
    catalogue = {"datasets": {"mine": mine | {"shard_size": 2}}}
    run = RUN | {
        "datasets": [*NAMES, "mine"], "catalogue": catalogue, "max_samples": 8, "block_size": 2
    }  # fmt: skip
    write(*lines)
    take_for_done(tmp_path, run)

    def outdated_shards():
        """Return stage and shard of outdated files; summaries, tables and figures have no shard."""
        paths = [Path(name) for name in outdated(tmp_path, run) if "/mine/" in name]
        return {(path.parts[1], path.stem) for path in paths if path.stem[0].isdigit()}

    stages = {"samples", "prompts", "generations", "attributions", "attribution_times"}
    stages |= {"soft", "ranking"}
    write(*(line.replace("Film 3", "Play 3") for line in lines))
    ((_, shard), *_) = shards = outdated_shards()
    assert shards == {(stage, shard) for stage in stages}
    write(*lines, "8,Film 8.,other")
    assert not outdated_shards(), "a record without a label word is not sampled"
    write(*lines[:-1], lines[-1] + ",too many")
    assert {stage for stage, _ in outdated_shards()} == stages, "jobs report unreadable records"


# Broken results -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "broken link"])
@pytest.mark.follows("but the workflow writes a file there; remove it")
def test_a_folder_or_broken_link_in_place_of_a_result_is_named(done, tmp_path, kind):
    folder = shutil.copytree(done, tmp_path / "copy")
    page = folder / "results/small/index.html"
    page.unlink()
    if kind == "folder":
        page.mkdir()
    else:
        page.symlink_to("nowhere")
    with pytest.raises(WorkflowError, match=f"^results/small/index.html: is a {kind}, .*remove it"):
        outdated(folder, RUN)
    page.rmdir() if kind == "folder" else page.unlink()
    assert "index.html" in outdated(folder, RUN)


@pytest.mark.parametrize("content", [b"\xff", b"[1]"])
def test_unreadable_snakemake_records_are_ignored(done, tmp_path, content):
    folder = shutil.copytree(done, tmp_path / "copy")
    records = [path for path in (folder / ".snakemake/metadata").rglob("*") if path.is_file()]
    for record in records:
        record.write_bytes(content)
    assert records
    assert outdated(folder, RUN) == {}
