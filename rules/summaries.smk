# In:  evaluated cells, prompts, generations, attributions and inspected inputs.
# Out: <data>/summary/: samples of metrics and, from them, the results that all displays show;
#      depth_selected/, controls/ and permutation_baseline/ hold samples of those alone.
# A summary is scripts/pisoft/statistics/MODULE.py; its files are named after the kind of their rows.
PROMPTS, GENERATIONS, ATTRIBUTIONS, TIMES, SOFT, RANKING, INPUTS = (
    f"<data>/{FILES[kind].pattern}.parquet"
    for kind in (
        *("prompts", "generations", "attributions", "attribution_times"),
        *("soft", "ranking", "inputs"),
    )
)
RANDOM_ATTRIBUTIONS = ATTRIBUTIONS.replace("{method}", CONTROL)
RANDOM_SOFT = SOFT.replace("{method}", CONTROL)
# Wildcards of the summaries that are not of the whole run.
CELL = {"summarise_density": ("{model}",), "compare_methods": ("{model}", "{dataset}")}
SOFT_KINDS = ("soft_samples", "curves", "soft_sample_curves")


def of_kinds(*kinds, below="", cell=()):
    """Return the files of a summary, by the kind of their rows; `cell` has its wildcards."""
    paths = {kind: "/".join((kind, *cell)) for kind in kinds}
    return {kind: f"<data>/summary/{below}{path}.parquet" for kind, path in paths.items()}


def if_any(of, *files):
    """Return files, or none if there is no such cell."""
    return [*files] if cells_of(of) else []


SAMPLES = of_kinds(
    "soft_samples", "ranking_samples", "evidence_samples", "datamodel_samples", "layer_study"
)
SELECTED_SAMPLES = of_kinds("soft_samples", below="depth_selected/")
CONTROL_SAMPLES = of_kinds(*SOFT_KINDS, "ranking_samples", "datamodel_samples", below="controls/")
PERMUTED_SAMPLES = of_kinds(*SOFT_KINDS, below="permutation_baseline/")
# What a run may have none of: random scores, datasets with evidence or label words.
EVIDENCE_SAMPLES = if_any("evidence", SAMPLES["evidence_samples"])
DATAMODEL_SAMPLES = if_any("drawn", SAMPLES["datamodel_samples"])
SAMPLE_SUMMARIES = [
    SAMPLES["soft_samples"],
    *if_any("layer_study", *SELECTED_SAMPLES.values()),
    *if_any("ranking", SAMPLES["ranking_samples"]),
    *EVIDENCE_SAMPLES,
    *DATAMODEL_SAMPLES,
]
# Of the methods and of the controls.
OF_CONTROLS = {
    kind: [of_kinds(kind)[kind], *if_any("controls", CONTROL_SAMPLES[kind])] for kind in SOFT_KINDS
}
if cells_of("ranked_controls"):
    OF_CONTROLS["ranking_samples"] = [
        SAMPLES["ranking_samples"],
        CONTROL_SAMPLES["ranking_samples"],
    ]
if DATAMODEL_SAMPLES and cells_of("controls"):
    OF_CONTROLS["datamodel_samples"] = [*DATAMODEL_SAMPLES, CONTROL_SAMPLES["datamodel_samples"]]


def only(files, *kinds):
    """Return the files of some kinds."""
    return {kind: files[kind] for kind in kinds}


# Of each rule: its module, its slice of settings, what it reads and what it writes.
SUMMARIES = {
    "summarise": ("soft", "summarise", {"soft": cells(SOFT)}, of_kinds(*SOFT_KINDS)),
    "summarise_ranking": (
        "insertion_deletion",
        "summarise_ranking",
        {"ranking": cells(RANKING, "ranking")},
        only(SAMPLES, "ranking_samples"),
    ),
    "summarise_evidence": (
        "evidence",
        "evidence",
        {"prompts": cells(PROMPTS, "evidence"), "attributions": cells(ATTRIBUTIONS, "evidence")},
        only(SAMPLES, "evidence_samples"),
    ),
    "summarise_layer_study": (
        "layer_study",
        "layer_study",
        {"soft": cells(SOFT, "layer_study")},
        only(SAMPLES, "layer_study") | of_kinds("depths") | SELECTED_SAMPLES,
    ),
    "summarise_datamodel_scores": (
        "datamodel_scores",
        "datamodel",
        {
            "prompts": cells(PROMPTS, "drawn"),
            "attributions": cells(ATTRIBUTIONS, "drawn"),
            "soft": cells(RANDOM_SOFT, "drawn"),
        },
        only(SAMPLES, "datamodel_samples"),
    ),
    "estimate_uncertainty": (
        "uncertainty",
        "uncertainty",
        {"samples": SAMPLE_SUMMARIES},
        of_kinds(
            *("statistics", "comparisons", "ranks", "variance_components", "coverage", "noise")
        ),
    ),
    "summarise_advantage": (
        "advantage",
        "resampling",
        of_kinds("curves", "soft_sample_curves"),
        of_kinds("advantage"),
    ),
    "summarise_sensitivity": (
        "sensitivity",
        "sensitivity",
        {"soft": cells(SOFT), "operators": cells(SOFT, "operators")},
        of_kinds("sensitivity"),
    ),
    "summarise_density": (
        "density",
        "density",
        {
            "prompts": fitting_cells(PROMPTS),
            "attributions": fitting_cells(ATTRIBUTIONS),
            **only(SAMPLES, "soft_samples"),
        },
        of_kinds("density", "density_correlations", cell=CELL["summarise_density"]),
    ),
    "summarise_accuracy": (
        "accuracy",
        "run",
        {"prompts": cells(PROMPTS), "generations": cells(GENERATIONS)},
        of_kinds("accuracy"),
    ),
    "summarise_timings": (
        "timings",
        "run",
        {"attribution_times": cells(TIMES, "timed")},
        of_kinds("timings"),
    ),
    "compare_methods": (
        "method_agreement",
        "compare",
        {"prompts": all_parts(PROMPTS), "attributions": fitting_cells(ATTRIBUTIONS)},
        of_kinds("method_agreement", cell=CELL["compare_methods"]),
    ),
    # Can the metrics be trusted? Nothing from here on changes a number of the methods themselves.
    "summarise_controls": (
        "soft",
        "summarise",
        {"soft": cells(SOFT, "controls")},
        only(CONTROL_SAMPLES, *SOFT_KINDS),
    ),
    "summarise_ranking_of_controls": (
        "insertion_deletion",
        "summarise_ranking",
        {"ranking": cells(RANKING, "ranked_controls")},
        only(CONTROL_SAMPLES, "ranking_samples"),
    ),
    "summarise_datamodel_scores_of_controls": (
        "datamodel_scores",
        "datamodel",
        {
            "prompts": cells(PROMPTS, "controls"),
            "attributions": [
                *cells(RANDOM_ATTRIBUTIONS, "controls"),
                *cells(ATTRIBUTIONS, "controls"),
            ],
            "soft": cells(RANDOM_SOFT, "controls"),
        },
        only(CONTROL_SAMPLES, "datamodel_samples"),
    ),
    "validate_metrics": (
        "metric_validation",
        "metric_validation",
        OF_CONTROLS,
        of_kinds("metric_validation"),
    ),
    "normalise_scores": (
        "normalised_scores",
        "resampling",
        OF_CONTROLS,
        of_kinds("normalised_scores"),
    ),
    "summarise_permuted_scores": (
        "soft",
        "summarise",
        {"soft": cells(SOFT, "permuted")},
        PERMUTED_SAMPLES,
    ),
    "estimate_permutation_baseline": (
        "permutation_baseline",
        "permuted",
        {"soft_samples": [SAMPLES["soft_samples"], PERMUTED_SAMPLES["soft_samples"]]},
        of_kinds("permutation_baseline"),
    ),
    "check_sanity": (
        "sanity_checks",
        "sanity_checks",
        {
            "prompts": cells(PROMPTS, "checked"),
            "attributions": [
                *cells(ATTRIBUTIONS, "checked"),
                *cells(ATTRIBUTIONS, "sanity_checks"),
            ],
        },
        of_kinds("sanity_checks"),
    ),
    "summarise_off_distribution": (
        "off_distribution",
        "resampling",
        {"inputs": cells(INPUTS, "inputs")},
        of_kinds("off_distribution"),
    ),
}
# Threads, main memory (MB) and minutes, where they are not 1, 4000 and 30.
LARGER = {
    "summarise_datamodel_scores": (1, 8000, 240),
    "summarise_datamodel_scores_of_controls": (1, 8000, 240),
    "estimate_uncertainty": (2, 4000, 60),
    "summarise_sensitivity": (2, 4000, 60),
}

for summary, (module, settings_slice, read, written) in SUMMARIES.items():
    log_name = "/".join((summary, *CELL.get(summary, ())))
    n_threads, memory, minutes = LARGER.get(summary, (1, 4000, 30))

    rule:
        name:
            summary
        input:
            **read,
        output:
            **written,
        log:
            f"<logs>/{log_name}.log",
        benchmark:
            f"<logs>/{log_name}.tsv"
        conda:
            "../envs/analysis.yaml"
        threads: n_threads
        resources:
            mem_mb=memory,
            runtime=minutes,
        params:
            **room_job(f"statistics/{module}", settings_slice),
            outputs=named_outputs,
        message:
            "Summarising {params.name} {params.cell}"
        shell:
            "{params.command} {params.name} --settings {params.settings:q} "
            "--files {params.files:q} --outputs {params.outputs:q} > {log:q} 2>&1"
