# In:  evaluated cells, prompts, generations, attributions and inspected inputs.
# Out: <data>/summary/: samples of metrics and, from them, the results that all displays show;
#      depth_selected/, controls/ and permutation_baseline/ hold the samples of these studies.
# A summary is scripts/pisoft/statistics/MODULE.py; its files are named after the kind of their rows.
PROMPTS, GENERATIONS, ATTRIBUTIONS, TIMES, SOFT, RANKING, INPUTS = (
    f"<data>/{FILES[kind].pattern}.parquet"
    for kind in "prompts generations attributions attribution_times soft ranking inputs".split()
)
RANDOM_ATTRIBUTIONS = ATTRIBUTIONS.replace("{method}", CONTROL)
RANDOM_SOFT = SOFT.replace("{method}", CONTROL)
SOFT_KINDS = ("soft_samples", "curves", "soft_sample_curves")


def summary_files(*kinds, below="", cell=()):
    """Return the files of a summary, by the kind of their rows; `cell` has its wildcards."""
    paths = {kind: "/".join((kind, *cell)) for kind in kinds}
    return {kind: f"<data>/summary/{below}{path}.parquet" for kind, path in paths.items()}


def if_any(of, *files):
    """Return files, or none if the run has no such cells."""
    return [*files] if cells_of(of) else []


SAMPLES = summary_files(*SOFT_KINDS, "ranking_samples", "evidence_samples", "datamodel_samples")
CONTROL_SAMPLES = summary_files(
    *SOFT_KINDS, "ranking_samples", "datamodel_samples", below="controls/"
)
SELECTED_SAMPLES = summary_files("soft_samples", below="depth_selected/")
PERMUTED_SAMPLES = summary_files(*SOFT_KINDS, below="permutation_baseline/")
# Datasets with dependent records: intervals and tests resample their clusters.
CLUSTERS = [
    f"<data>/datasets/{name}.parquet"
    for name, entry in CONFIG.datasets.items()
    if entry.cluster_column
]
# Optional parts of a run: random scores, datasets with evidence or label words.
EVIDENCE_SAMPLES = if_any("evidence", SAMPLES["evidence_samples"])
DATAMODEL_SAMPLES = if_any("drawn", SAMPLES["datamodel_samples"])
CONTROL_KINDS = (
    *SOFT_KINDS,
    *if_any("ranked_controls", "ranking_samples"),
    *(if_any("controls", "datamodel_samples") if DATAMODEL_SAMPLES else ()),
)
WITH_CONTROLS = {kind: [SAMPLES[kind], CONTROL_SAMPLES[kind]] for kind in CONTROL_KINDS}


def summary(identity, outputs=None, cell=(), requested=(1, 4000, 30), **inputs):
    """Define the rule of a summary.

    Args:
        identity: name of the rule, module, and settings.
        outputs: files by the kind of their rows; by default, one file named after the module.
        cell: wildcards of the outputs.
        requested: threads, MB of main memory, minutes.
        inputs: files by the kind of their rows.
    """
    rule_name, module, settings_name = identity
    log_name = "/".join((rule_name, *cell))

    rule:
        name:
            rule_name
        input:
            **inputs,
            clusters=CLUSTERS,
        output:
            **(outputs or summary_files(module, cell=cell)),
        log:
            f"<logs>/{log_name}.log",
        benchmark:
            f"<logs>/{log_name}.tsv"
        conda:
            "../envs/analysis.yaml"
        threads: requested[0]
        resources:
            mem_mb=requested[1],
            runtime=requested[2],
        params:
            **job("summarise_results", settings_name, f"pisoft.statistics.{module}"),
            name=module,
            cell=lambda wildcards: [f"{key}={name}" for key, name in wildcards.items()],
            files=named_files,
            outputs=named_outputs,
        message:
            "Summarising {params.name} {params.cell}"
        shell:
            "{params.command} {params.name} --settings {params.settings:q} "
            "--files {params.files:q} --outputs {params.outputs:q} > {log:q} 2>&1"


summary(("summarise", "soft", "summarise"), summary_files(*SOFT_KINDS), soft=cells(SOFT))
summary(
    ("summarise_ranking", "insertion_deletion", "summarise_ranking"),
    summary_files("ranking_samples"),
    ranking=cells(RANKING, "ranking"),
)
summary(
    ("summarise_evidence", "evidence", "evidence"),
    summary_files("evidence_samples"),
    prompts=cells(PROMPTS, "evidence"),
    generations=cells(GENERATIONS, "evidence"),
    attributions=cells(ATTRIBUTIONS, "evidence"),
)
summary(
    ("summarise_context_use", "context_use", "context_use"),
    evidence_samples=SAMPLES["evidence_samples"],
)
summary(
    ("summarise_layer_study", "layer_study", "layer_study"),
    summary_files("layer_study", "depths") | SELECTED_SAMPLES,
    soft=cells(SOFT, "layer_study"),
)
summary(
    ("summarise_datamodel_scores", "datamodel_scores", "datamodel"),
    summary_files("datamodel_samples"),
    requested=(1, 8000, 240),
    prompts=cells(PROMPTS, "drawn"),
    attributions=cells(ATTRIBUTIONS, "drawn"),
    soft=cells(RANDOM_SOFT, "drawn"),
)
summary(
    ("estimate_uncertainty", "uncertainty", "uncertainty"),
    summary_files("statistics", "comparisons", "ranks", "variance_components", "coverage", "noise"),
    requested=(2, 4000, 60),
    samples=[
        SAMPLES["soft_samples"],
        *if_any("layer_study", *SELECTED_SAMPLES.values()),
        *if_any("ranking", SAMPLES["ranking_samples"]),
        *EVIDENCE_SAMPLES,
        *DATAMODEL_SAMPLES,
    ],
)
summary(("decide", "decisions", "decisions"), **summary_files("soft_samples", "comparisons"))
summary(
    ("summarise_advantage", "advantage", "resampling"),
    **summary_files("curves", "soft_sample_curves"),
)
summary(
    ("summarise_sensitivity", "sensitivity", "sensitivity"),
    requested=(2, 4000, 60),
    soft=cells(SOFT),
    operators=cells(SOFT, "operators"),
)
summary(
    ("summarise_density", "density", "density"),
    summary_files("density", "density_correlations", cell=["{model}"]),
    cell=["{model}"],
    prompts=fitting_cells(PROMPTS),
    attributions=fitting_cells(ATTRIBUTIONS),
    soft_samples=SAMPLES["soft_samples"],
)
summary(
    ("summarise_accuracy", "accuracy", "run"),
    datasets=cells(rules.fetch_dataset.output.records),
    prompts=cells(PROMPTS),
    generations=cells(GENERATIONS),
)
summary(("summarise_timings", "timings", "run"), attribution_times=cells(TIMES, "timed"))
summary(
    ("compare_methods", "method_agreement", "compare"),
    cell=["{model}", "{dataset}"],
    prompts=SOURCES.all_parts(PROMPTS),
    attributions=fitting_cells(ATTRIBUTIONS),
)

# Metric validation. The rules from here on change no number of the methods themselves.
summary(
    ("summarise_controls", "soft", "summarise"),
    summary_files(*SOFT_KINDS, below="controls/"),
    soft=cells(SOFT, "controls"),
)
summary(
    ("summarise_ranking_of_controls", "insertion_deletion", "summarise_ranking"),
    summary_files("ranking_samples", below="controls/"),
    ranking=cells(RANKING, "ranked_controls"),
)
summary(
    ("summarise_datamodel_scores_of_controls", "datamodel_scores", "datamodel"),
    summary_files("datamodel_samples", below="controls/"),
    requested=(1, 8000, 240),
    prompts=cells(PROMPTS, "controls"),
    attributions=cells(RANDOM_ATTRIBUTIONS, "controls") + cells(ATTRIBUTIONS, "controls"),
    soft=cells(RANDOM_SOFT, "controls"),
)
summary(("validate_metrics", "metric_validation", "metric_validation"), **WITH_CONTROLS)
summary(("normalise_scores", "normalised_scores", "resampling"), **WITH_CONTROLS)
summary(
    ("summarise_permuted_scores", "soft", "summarise"),
    PERMUTED_SAMPLES,
    soft=cells(SOFT, "permuted"),
)
summary(
    ("estimate_permutation_baseline", "permutation_baseline", "permuted"),
    soft_samples=[SAMPLES["soft_samples"], PERMUTED_SAMPLES["soft_samples"]],
)
summary(
    ("check_sanity", "sanity_checks", "sanity_checks"),
    prompts=cells(PROMPTS, "checked"),
    attributions=cells(ATTRIBUTIONS, "checked") + cells(ATTRIBUTIONS, "sanity_checks"),
)
summary(
    ("summarise_off_distribution", "off_distribution", "resampling"),
    inputs=cells(INPUTS, "inputs"),
)
