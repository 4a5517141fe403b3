# In:  the evaluated cells; prompts and generations; attributions; benchmarks of all jobs.
# Out: results/{run}/summary/*.parquet, the tidy tables that every table and figure is made from;
#      results/{run}/summary/agreement/{model}/{dataset}.parquet, how far methods agree.


rule summarise:
    input:
        soft=cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        script="scripts/summarise.py",
        code=code("curves", "analysis/summary"),
    output:
        samples="results/{run}/summary/soft_samples.parquet",
        curves="results/{run}/summary/soft_curves.parquet",
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
        settings=settings("summarise"),
    message:
        "Summarising {RUN}"
    shell:
        "python {input.script} --settings {params.settings:q} --soft {input.soft:q} "
        "--samples-output {output.samples:q} --curves-output {output.curves:q} > {log:q} 2>&1"


rule summarise_ranking:
    input:
        ranking=ranking_cells("results/{run}/ranking/{model}/{method}/{dataset}.parquet"),
        script="scripts/summarise_ranking.py",
        code=code("analysis/ranking"),
    output:
        samples="results/{run}/summary/ranking_samples.parquet",
    log:
        "results/{run}/logs/summarise_ranking.log",
    benchmark:
        "results/{run}/benchmarks/summarise_ranking.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("summarise_ranking"),
    message:
        "Summarising insertion and deletion of {RUN}"
    shell:
        "python {input.script} --settings {params.settings:q} --ranking {input.ranking:q} "
        "--output {output.samples:q} > {log:q} 2>&1"


# Insertion and deletion may be switched off, or no dataset may have label words.
SAMPLE_SUMMARIES = [
    rules.summarise.output.samples,
    *(rules.summarise_ranking.output if ranking_cells("{dataset}") else []),
]


rule estimate_uncertainty:
    input:
        samples=SAMPLE_SUMMARIES,
        script="scripts/estimate_uncertainty.py",
        code=code(
            "analysis/bootstrap",
            "analysis/comparisons",
            "analysis/metrics",
            "analysis/robustness",
            "analysis/uncertainty",
            "analysis/values",
            "keyed",
        ),
    output:
        statistics="results/{run}/summary/statistics.parquet",
        comparisons="results/{run}/summary/comparisons.parquet",
        leave_one_out="results/{run}/summary/leave_one_out.parquet",
        variances="results/{run}/summary/variances.parquet",
    log:
        "results/{run}/logs/estimate_uncertainty.log",
    benchmark:
        "results/{run}/benchmarks/estimate_uncertainty.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=settings("uncertainty"),
    message:
        "Estimating the uncertainty of {RUN}"
    shell:
        "python {input.script} --settings {params.settings:q} --samples {input.samples:q} "
        "--statistics-output {output.statistics:q} --comparisons-output {output.comparisons:q} "
        "--leave-one-out-output {output.leave_one_out:q} "
        "--variances-output {output.variances:q} > {log:q} 2>&1"


rule summarise_accuracy:
    input:
        prompts=cells("results/{run}/prompts/{model}/{dataset}.parquet"),
        generations=cells("results/{run}/generations/{model}/{dataset}.parquet"),
        script="scripts/summarise_accuracy.py",
        code=code("curves", "analysis/summary"),
    output:
        accuracy="results/{run}/summary/accuracy.parquet",
    log:
        "results/{run}/logs/summarise_accuracy.log",
    benchmark:
        "results/{run}/benchmarks/summarise_accuracy.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        run=RUN,
    message:
        "Summarising the accuracy of {RUN}"
    shell:
        "python {input.script} --run {params.run:q} --prompts {input.prompts:q} "
        "--generations {input.generations:q} --output {output.accuracy:q} > {log:q} 2>&1"


rule summarise_timings:
    input:
        attributions=cells("results/{run}/attributions/{model}/{method}/{dataset}.parquet"),
        script="scripts/summarise_timings.py",
        code=code(
            "curves", "analysis/summary", "analysis/metrics", "analysis/tables", "analysis/timings"
        ),
    output:
        timings="results/{run}/summary/timings.parquet",
    log:
        "results/{run}/logs/summarise_timings.log",
    benchmark:
        "results/{run}/benchmarks/summarise_timings.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        run=RUN,
    message:
        "Summarising the timings of {RUN}"
    shell:
        "python {input.script} --run {params.run:q} --attributions {input.attributions:q} "
        "--output {output.timings:q} > {log:q} 2>&1"


# Benchmark files are no inputs: results that were copied without them are not computed again.
rule summarise_cost:
    input:
        prompts=cells("results/{run}/prompts/{model}/{dataset}.parquet"),
        generations=cells("results/{run}/generations/{model}/{dataset}.parquet"),
        soft=cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        ranking=ranking_cells("results/{run}/ranking/{model}/{method}/{dataset}.parquet"),
        study=study_cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        script="scripts/summarise_cost.py",
        code=code(
            "attribution/base",
            "faithfulness/scope",
            "planning/costs",
            "planning/flops",
            "planning/lengths",
            "planning/plan",
            "planning/shapes",
            "planning/sizes",
            "planning/work",
        ),
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
        settings=settings("plan"),
        results=lambda wildcards: f"results/{wildcards.run}",
    message:
        "Summarising the cost of {RUN}"
    shell:
        "python {input.script} --settings {params.settings:q} --results {params.results:q} "
        "--output {output.cost:q} > {log:q} 2>&1"


rule compare_methods:
    input:
        prompts=rules.build_prompts.output.prompts,
        attributions=fitting_cells("results/{run}/attributions/{model}/{method}/{dataset}.parquet"),
        script="scripts/compare_methods.py",
        code=code(
            "analysis/agreement",
            "analysis/scores",
            "faithfulness/scope",
            "faithfulness/scores",
        ),
    output:
        agreement="results/{run}/summary/agreement/{model}/{dataset}.parquet",
    log:
        "results/{run}/logs/compare_methods/{model}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/compare_methods/{model}/{dataset}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        settings=settings("compare"),
    message:
        "Comparing the methods' scores of {wildcards.model} on {wildcards.dataset}"
    shell:
        "python {input.script} --settings {params.settings:q} --prompts {input.prompts:q} "
        "--attributions {input.attributions:q} --output {output.agreement:q} > {log:q} 2>&1"
