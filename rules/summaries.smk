# In:  the evaluated cells; prompts and generations; attributions; benchmarks of all jobs.
# Out: results/{run}/summary/*.parquet, the tidy tables that every table and figure is made from;
#      results/{run}/summary/agreement/{model}/{dataset}.parquet, how far methods agree.
# A summary is scripts/pisoft/statistics/NAME.py; its outputs are named after their kind of rows.


rule summarise:
    input:
        soft=cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        soft_samples="results/{run}/summary/soft_samples.parquet",
        soft_curves="results/{run}/summary/soft_curves.parquet",
    log:
        "results/{run}/logs/summarise.log",
    benchmark:
        "results/{run}/benchmarks/summarise.tsv"
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
        "Summarising {params.name} of {RUN} {params.cell}"
    shell:
        "{params.command} {params.name} --settings {params.settings:q} --files {params.files:q} "
        "--outputs {params.outputs:q} > {log:q} 2>&1"


use rule summarise as summarise_ranking with:
    input:
        ranking=ranking_cells("results/{run}/ranking/{model}/{method}/{dataset}.parquet"),
    output:
        ranking_samples="results/{run}/summary/ranking_samples.parquet",
    log:
        "results/{run}/logs/summarise_ranking.log",
    benchmark:
        "results/{run}/benchmarks/summarise_ranking.tsv"
    params:
        **room_job("statistics/insertion_deletion", "summarise_ranking"),


# Insertion and deletion may be switched off, or no dataset may have label words.
SAMPLE_SUMMARIES = [
    rules.summarise.output.soft_samples,
    *(rules.summarise_ranking.output if ranking_cells("{dataset}") else []),
]


use rule summarise as estimate_uncertainty with:
    input:
        samples=SAMPLE_SUMMARIES,
    output:
        statistics="results/{run}/summary/statistics.parquet",
        comparisons="results/{run}/summary/comparisons.parquet",
        leave_one_out="results/{run}/summary/leave_one_out.parquet",
        variances="results/{run}/summary/variances.parquet",
    log:
        "results/{run}/logs/estimate_uncertainty.log",
    benchmark:
        "results/{run}/benchmarks/estimate_uncertainty.tsv"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **room_job("statistics/uncertainty", "uncertainty"),


use rule summarise as summarise_accuracy with:
    input:
        prompts=cells("results/{run}/prompts/{model}/{dataset}.parquet"),
        generations=cells("results/{run}/generations/{model}/{dataset}.parquet"),
    output:
        accuracy="results/{run}/summary/accuracy.parquet",
    log:
        "results/{run}/logs/summarise_accuracy.log",
    benchmark:
        "results/{run}/benchmarks/summarise_accuracy.tsv"
    params:
        **room_job("statistics/accuracy", "run"),


use rule summarise as summarise_timings with:
    input:
        attributions=cells("results/{run}/attributions/{model}/{method}/{dataset}.parquet"),
    output:
        timings="results/{run}/summary/timings.parquet",
    log:
        "results/{run}/logs/summarise_timings.log",
    benchmark:
        "results/{run}/benchmarks/summarise_timings.tsv"
    params:
        **room_job("statistics/timings", "run"),


use rule summarise as summarise_layer_study with:
    input:
        soft=study_cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        layer_study="results/{run}/summary/layer_study.parquet",
    log:
        "results/{run}/logs/summarise_layer_study.log",
    benchmark:
        "results/{run}/benchmarks/summarise_layer_study.tsv"
    params:
        **room_job("statistics/layer_study", "layer_study"),


use rule summarise as compare_methods with:
    input:
        prompts=rules.build_prompts.output.prompts,
        attributions=fitting_cells("results/{run}/attributions/{model}/{method}/{dataset}.parquet"),
    output:
        agreement="results/{run}/summary/agreement/{model}/{dataset}.parquet",
    log:
        "results/{run}/logs/compare_methods/{model}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/compare_methods/{model}/{dataset}.tsv"
    params:
        **room_job("statistics/method_agreement", "compare"),


# Benchmark files are no inputs: results that were copied without them are not computed again.
rule summarise_cost:
    input:
        prompts=cells("results/{run}/prompts/{model}/{dataset}.parquet"),
        generations=cells("results/{run}/generations/{model}/{dataset}.parquet"),
        soft=cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        ranking=ranking_cells("results/{run}/ranking/{model}/{method}/{dataset}.parquet"),
        study=study_cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
    output:
        cost="results/{run}/summary/cost.parquet",
    log:
        "results/{run}/logs/summarise_cost.log",
    benchmark:
        "results/{run}/benchmarks/summarise_cost.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        **job("summarise_cost", "plan"),
        results=lambda wildcards: f"results/{wildcards.run}",
    message:
        "Summarising the cost of {RUN}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--results {params.results:q} "
        "--output {output.cost:q} > {log:q} 2>&1"
