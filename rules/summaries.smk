# In:  the evaluated cells; prompts and generations; attributions; benchmarks of all jobs.
# Out: <data>/summary/*.parquet, the tidy tables that every table and figure is made from;
#      <data>/summary/depth_selected/, samples of Grad-ELLM at the layer study's depths;
#      <data>/summary/agreement/{model}/{dataset}.parquet, how far methods agree;
#      <data>/summary/density/{model}.parquet, how dense scores are, and density_correlations/.
# A summary is scripts/pisoft/statistics/NAME.py; its outputs are named after their kind of rows.


rule summarise:
    input:
        soft=cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        soft_samples="<data>/summary/soft_samples.parquet",
        soft_curves="<data>/summary/soft_curves.parquet",
        soft_sample_curves="<data>/summary/soft_sample_curves.parquet",
    log:
        "<logs>/summarise.log",
    benchmark:
        "<logs>/summarise.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **room_job("statistics/soft", "summarise"),
        outputs=named_outputs,
    message:
        "Summarising {params.name} {params.cell}"
    shell:
        "{params.command} {params.name} --settings {params.settings:q} --files {params.files:q} "
        "--outputs {params.outputs:q} > {log:q} 2>&1"


use rule summarise as summarise_ranking with:
    input:
        ranking=ranking_cells("<data>/ranking/{model}/{method}/{part}.parquet"),
    output:
        ranking_samples="<data>/summary/ranking_samples.parquet",
    log:
        "<logs>/summarise_ranking.log",
    benchmark:
        "<logs>/summarise_ranking.tsv"
    params:
        **room_job("statistics/insertion_deletion", "summarise_ranking"),


use rule summarise as summarise_evidence with:
    input:
        prompts=evidence_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=evidence_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
    output:
        evidence_samples="<data>/summary/evidence_samples.parquet",
    log:
        "<logs>/summarise_evidence.log",
    benchmark:
        "<logs>/summarise_evidence.tsv"
    params:
        **room_job("statistics/evidence", "evidence"),


use rule summarise as summarise_layer_study with:
    input:
        soft=study_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        layer_study="<data>/summary/layer_study.parquet",
        depths="<data>/summary/depths.parquet",
        soft_samples="<data>/summary/depth_selected/soft_samples.parquet",
    log:
        "<logs>/summarise_layer_study.log",
    benchmark:
        "<logs>/summarise_layer_study.tsv"
    params:
        **room_job("statistics/layer_study", "layer_study"),


use rule summarise as summarise_datamodel_scores with:
    input:
        prompts=drawn_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=drawn_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
        soft=drawn_cells(f"<data>/soft/{{protocol}}/{{model}}/{CONTROL}/{{part}}.parquet"),
    output:
        datamodel_samples="<data>/summary/datamodel_samples.parquet",
    log:
        "<logs>/summarise_datamodel_scores.log",
    benchmark:
        "<logs>/summarise_datamodel_scores.tsv"
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        **room_job("statistics/datamodel_scores", "datamodel"),


SOFT_SAMPLES = [
    rules.summarise.output.soft_samples,
    *([rules.summarise_layer_study.output.soft_samples] if STUDY_CELLS else []),
]
# Most datasets have no known evidence.
EVIDENCE_SAMPLES = [*(rules.summarise_evidence.output if evidence_cells("{dataset}") else [])]
# Random scores may not be among the methods.
DATAMODEL_SAMPLES = [*(rules.summarise_datamodel_scores.output if drawn_cells("{dataset}") else [])]
# Insertion and deletion may be switched off, or no dataset may have label words.
SAMPLE_SUMMARIES = [
    *SOFT_SAMPLES,
    *(rules.summarise_ranking.output if ranking_cells("{dataset}") else []),
    *EVIDENCE_SAMPLES,
    *DATAMODEL_SAMPLES,
]


use rule summarise as estimate_uncertainty with:
    input:
        samples=SAMPLE_SUMMARIES,
    output:
        statistics="<data>/summary/statistics.parquet",
        comparisons="<data>/summary/comparisons.parquet",
        ranks="<data>/summary/ranks.parquet",
        variance_components="<data>/summary/variance_components.parquet",
        coverage="<data>/summary/coverage.parquet",
        noise="<data>/summary/noise.parquet",
    log:
        "<logs>/estimate_uncertainty.log",
    benchmark:
        "<logs>/estimate_uncertainty.tsv"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **room_job("statistics/uncertainty", "uncertainty"),


use rule summarise as summarise_advantage with:
    input:
        soft_curves=rules.summarise.output.soft_curves,
        soft_sample_curves=rules.summarise.output.soft_sample_curves,
    output:
        advantage="<data>/summary/advantage.parquet",
    log:
        "<logs>/summarise_advantage.log",
    benchmark:
        "<logs>/summarise_advantage.tsv"
    params:
        **room_job("statistics/advantage", "resampling"),


use rule summarise as summarise_sensitivity with:
    input:
        soft=cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        operators=operator_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        sensitivity="<data>/summary/sensitivity.parquet",
    log:
        "<logs>/summarise_sensitivity.log",
    benchmark:
        "<logs>/summarise_sensitivity.tsv"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **room_job("statistics/sensitivity", "sensitivity"),


use rule summarise as summarise_density with:
    input:
        prompts=fitting_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=fitting_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
        soft_samples=rules.summarise.output.soft_samples,
    output:
        density="<data>/summary/density/{model}.parquet",
        density_correlations="<data>/summary/density_correlations/{model}.parquet",
    log:
        "<logs>/summarise_density/{model}.log",
    benchmark:
        "<logs>/summarise_density/{model}.tsv"
    params:
        **room_job("statistics/density", "density"),


use rule summarise as summarise_accuracy with:
    input:
        prompts=cells("<data>/prompts/{model}/{part}.parquet"),
        generations=cells("<data>/generations/{model}/{part}.parquet"),
    output:
        accuracy="<data>/summary/accuracy.parquet",
    log:
        "<logs>/summarise_accuracy.log",
    benchmark:
        "<logs>/summarise_accuracy.tsv"
    params:
        **room_job("statistics/accuracy", "run"),


use rule summarise as summarise_timings with:
    input:
        attribution_times=timed_cells("<data>/attribution_times/{model}/{method}/{part}.parquet"),
    output:
        timings="<data>/summary/timings.parquet",
    log:
        "<logs>/summarise_timings.log",
    benchmark:
        "<logs>/summarise_timings.tsv"
    params:
        **room_job("statistics/timings", "run"),


use rule summarise as compare_methods with:
    input:
        prompts=all_parts("<data>/prompts/{model}/{part}.parquet"),
        attributions=fitting_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
    output:
        agreement="<data>/summary/agreement/{model}/{dataset}.parquet",
    log:
        "<logs>/compare_methods/{model}/{dataset}.log",
    benchmark:
        "<logs>/compare_methods/{model}/{dataset}.tsv"
    params:
        **room_job("statistics/method_agreement", "compare"),


# Benchmark files are no inputs: results that were copied without them are not computed again.
rule summarise_cost:
    input:
        prompts=cells("<data>/prompts/{model}/{part}.parquet"),
        generations=cells("<data>/generations/{model}/{part}.parquet"),
        soft=cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        ranking=ranking_cells("<data>/ranking/{model}/{method}/{part}.parquet"),
        study=study_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        controls=control_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        ranked_controls=ranked_control_cells("<data>/ranking/{model}/{method}/{part}.parquet"),
        search=search_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        twins=twin_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        inspected=inspected_cells("<data>/inputs/{protocol}/{model}/{part}.parquet"),
    output:
        cost="<data>/summary/cost.parquet",
    log:
        "<logs>/summarise_cost.log",
    benchmark:
        "<logs>/summarise_cost.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        **job("summarise_cost", "plan"),
        results=lambda wildcards, output: Path(output.cost).parents[2],
    message:
        "Summarising the cost"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--results {params.results:q} "
        "--output {output.cost:q} > {log:q} 2>&1"
