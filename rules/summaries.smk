# In:  the evaluated cells; prompts and generations; attributions; benchmarks of all jobs.
# Out: <data>/summary/*.parquet, the tidy tables that every table and figure is made from;
#      <data>/summary/depth_selected/, samples of Grad-ELLM at the layer study's depths;
#      <data>/summary/agreement/{model}/{dataset}.parquet, how far methods agree;
#      <data>/summary/density/{model}.parquet, how dense scores are, and density_correlations/;
#      <data>/summary/controls/, twins/ and search/, samples of those alone, and what they tell:
#      diagnosis, oracle_scale, twins; sanity, whether scores change with model and input; and
#      language, what the model makes of perturbed inputs.
# A summary is scripts/pisoft/statistics/NAME.py; its outputs are named after their kind of rows.


rule summarise:
    input:
        soft=cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
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
        ranking=ranking_cells("<data>/ranking/{model}/{method}/{dataset}.parquet"),
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
        prompts=evidence_cells("<data>/prompts/{model}/{dataset}.parquet"),
        attributions=evidence_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
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
        soft=study_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        layer_study="<data>/summary/layer_study.parquet",
        soft_samples="<data>/summary/depth_selected/soft_samples.parquet",
    log:
        "<logs>/summarise_layer_study.log",
    benchmark:
        "<logs>/summarise_layer_study.tsv"
    params:
        **room_job("statistics/layer_study", "layer_study"),


use rule summarise as summarise_stored_draws with:
    input:
        prompts=drawn_cells("<data>/prompts/{model}/{dataset}.parquet"),
        attributions=drawn_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
        soft=drawn_cells(f"<data>/soft/{{protocol}}/{{model}}/{CONTROL}/{{dataset}}.parquet"),
    output:
        stored_samples="<data>/summary/stored_samples.parquet",
    log:
        "<logs>/summarise_stored_draws.log",
    benchmark:
        "<logs>/summarise_stored_draws.tsv"
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        **room_job("statistics/stored_draws", "stored_draws"),


SOFT_SAMPLES = [
    rules.summarise.output.soft_samples,
    *([rules.summarise_layer_study.output.soft_samples] if STUDY_CELLS else []),
]
# Most datasets have no known evidence.
EVIDENCE_SAMPLES = [*(rules.summarise_evidence.output if evidence_cells("{dataset}") else [])]
# Random scores may not be among the methods.
STORED_SAMPLES = [*(rules.summarise_stored_draws.output if drawn_cells("{dataset}") else [])]
# Insertion and deletion may be switched off, or no dataset may have label words.
SAMPLE_SUMMARIES = [
    *SOFT_SAMPLES,
    *(rules.summarise_ranking.output if ranking_cells("{dataset}") else []),
    *EVIDENCE_SAMPLES,
    *STORED_SAMPLES,
]


use rule summarise as estimate_uncertainty with:
    input:
        samples=SAMPLE_SUMMARIES,
    output:
        statistics="<data>/summary/statistics.parquet",
        comparisons="<data>/summary/comparisons.parquet",
        leave_one_out="<data>/summary/leave_one_out.parquet",
        variances="<data>/summary/variances.parquet",
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


use rule summarise as summarise_controls with:
    input:
        soft=control_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        soft_samples="<data>/summary/controls/soft_samples.parquet",
        soft_curves="<data>/summary/controls/soft_curves.parquet",
        soft_sample_curves="<data>/summary/controls/soft_sample_curves.parquet",
    log:
        "<logs>/summarise_controls.log",
    benchmark:
        "<logs>/summarise_controls.tsv"
    params:
        **room_job("statistics/soft", "summarise"),


use rule summarise_ranking as summarise_ranking_of_controls with:
    input:
        ranking=ranked_control_cells("<data>/ranking/{model}/{method}/{dataset}.parquet"),
    output:
        ranking_samples="<data>/summary/controls/ranking_samples.parquet",
    log:
        "<logs>/summarise_ranking_of_controls.log",
    benchmark:
        "<logs>/summarise_ranking_of_controls.tsv"
    params:
        **room_job("statistics/insertion_deletion", "summarise_ranking"),


use rule summarise_stored_draws as summarise_stored_draws_of_controls with:
    input:
        prompts=control_cells("<data>/prompts/{model}/{dataset}.parquet"),
        attributions=[
            *control_cells(f"<data>/attributions/{{model}}/{CONTROL}/{{dataset}}.parquet"),
            *control_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
        ],
        soft=control_cells(f"<data>/soft/{{protocol}}/{{model}}/{CONTROL}/{{dataset}}.parquet"),
    output:
        stored_samples="<data>/summary/controls/stored_samples.parquet",
    log:
        "<logs>/summarise_stored_draws_of_controls.log",
    benchmark:
        "<logs>/summarise_stored_draws_of_controls.tsv"
    params:
        **room_job("statistics/stored_draws", "stored_draws"),


use rule summarise as summarise_search with:
    input:
        soft=search_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        soft_samples="<data>/summary/search/soft_samples.parquet",
    log:
        "<logs>/summarise_search.log",
    benchmark:
        "<logs>/summarise_search.tsv"
    params:
        **room_job("statistics/search", "summarise"),


SEARCH_SAMPLES = [*(rules.summarise_search.output if search_cells("{dataset}") else [])]
# Files of a kind: of the methods, and of the controls, if there are any.
SOME_CONTROLS = bool(control_cells("{dataset}"))
OF_CONTROLS = {
    kind: [
        rules.summarise.output[kind],
        *([rules.summarise_controls.output[kind]] if SOME_CONTROLS else []),
    ]
    for kind in ("soft_samples", "soft_curves", "soft_sample_curves")
}
if ranked_control_cells("{dataset}"):
    OF_CONTROLS["ranking_samples"] = [
        *rules.summarise_ranking.output,
        *rules.summarise_ranking_of_controls.output,
    ]
if STORED_SAMPLES and SOME_CONTROLS:
    OF_CONTROLS["stored_samples"] = [
        *STORED_SAMPLES,
        *rules.summarise_stored_draws_of_controls.output,
    ]


use rule summarise as diagnose_metrics with:
    input:
        **OF_CONTROLS,
    output:
        diagnosis="<data>/summary/diagnosis.parquet",
    log:
        "<logs>/diagnose_metrics.log",
    benchmark:
        "<logs>/diagnose_metrics.tsv"
    params:
        **room_job("statistics/diagnosis", "diagnosis"),


use rule summarise as scale_by_oracle with:
    input:
        **OF_CONTROLS | {"soft_samples": [*OF_CONTROLS["soft_samples"], *SEARCH_SAMPLES]},
    output:
        oracle_scale="<data>/summary/oracle_scale.parquet",
    log:
        "<logs>/scale_by_oracle.log",
    benchmark:
        "<logs>/scale_by_oracle.tsv"
    params:
        **room_job("statistics/oracle_scale", "resampling"),


use rule summarise as summarise_twins with:
    input:
        soft=twin_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        soft_samples="<data>/summary/twins/soft_samples.parquet",
        soft_curves="<data>/summary/twins/soft_curves.parquet",
        soft_sample_curves="<data>/summary/twins/soft_sample_curves.parquet",
    log:
        "<logs>/summarise_twins.log",
    benchmark:
        "<logs>/summarise_twins.tsv"
    params:
        **room_job("statistics/soft", "summarise"),


use rule summarise as compare_with_twins with:
    input:
        soft_samples=[
            rules.summarise.output.soft_samples,
            rules.summarise_twins.output.soft_samples,
        ],
    output:
        twins="<data>/summary/twins.parquet",
    log:
        "<logs>/compare_with_twins.log",
    benchmark:
        "<logs>/compare_with_twins.tsv"
    params:
        **room_job("statistics/twins", "twins"),


use rule summarise as check_sanity with:
    input:
        prompts=checked_cells("<data>/prompts/{model}/{dataset}.parquet"),
        attributions=[
            *checked_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
            *sanity_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
        ],
    output:
        sanity="<data>/summary/sanity.parquet",
    log:
        "<logs>/check_sanity.log",
    benchmark:
        "<logs>/check_sanity.tsv"
    params:
        **room_job("statistics/sanity", "sanity"),


use rule summarise as summarise_language with:
    input:
        inputs=inspected_cells("<data>/inputs/{protocol}/{model}/{dataset}.parquet"),
    output:
        language="<data>/summary/language.parquet",
    log:
        "<logs>/summarise_language.log",
    benchmark:
        "<logs>/summarise_language.tsv"
    params:
        **room_job("statistics/language", "resampling"),


use rule summarise as summarise_sensitivity with:
    input:
        soft=cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        operators=operator_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
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
        prompts=fitting_cells("<data>/prompts/{model}/{dataset}.parquet"),
        attributions=fitting_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
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
        prompts=cells("<data>/prompts/{model}/{dataset}.parquet"),
        generations=cells("<data>/generations/{model}/{dataset}.parquet"),
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
        attribution_times=timed_cells("<data>/attribution_times/{model}/{method}/{dataset}.parquet"),
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
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        attributions=fitting_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
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
        prompts=cells("<data>/prompts/{model}/{dataset}.parquet"),
        generations=cells("<data>/generations/{model}/{dataset}.parquet"),
        soft=cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        ranking=ranking_cells("<data>/ranking/{model}/{method}/{dataset}.parquet"),
        study=study_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        controls=control_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        ranked_controls=ranked_control_cells("<data>/ranking/{model}/{method}/{dataset}.parquet"),
        search=search_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        twins=twin_cells("<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
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
