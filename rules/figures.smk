# In:  results/{run}/summary/*.parquet, and summary/agreement/.
# Out: results/{run}/figures/, each figure as PDF, SVG and PNG.

FIGURES = [
    *cells("results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.svg"),
    *cells("results/{run}/figures/method_agreement/{model}.svg"),
]
UNCERTAINTY_FIGURES = [
    *cells("results/{run}/figures/metric_agreement/{model}.svg"),
    *cells("results/{run}/figures/ranks/{protocol}/{model}.svg"),
]


rule plot_pi_curves:
    input:
        curves=rules.summarise.output.curves,
        script="scripts/plot_pi_curves.py",
        code=code("curves", "analysis/figures", "analysis/style", "analysis/summary"),
    output:
        pdf="results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.pdf",
        png="results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.png",
        svg=report(
            "results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.svg",
            caption="captions/pi_curves.rst",
            category="Figures",
            subcategory="Curves over the retaining probability",
            labels={"model": "{model}", "dataset": "{dataset}", "protocol": "{protocol}"},
        ),
    log:
        "results/{run}/logs/plot_pi_curves/{protocol}/{model}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/plot_pi_curves/{protocol}/{model}/{dataset}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("display"),
    message:
        "Plotting π-curves of {wildcards.model} on {wildcards.dataset} "
        "({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --curves {input.curves:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--dataset {wildcards.dataset} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"


rule plot_method_agreement:
    input:
        agreement=expand(
            rules.compare_methods.output.agreement, dataset=CONFIG.datasets, allow_missing=True
        ),
        script="scripts/plot_method_agreement.py",
        code=code(
            "analysis/agreement_figures",
            "analysis/agreement_means",
            "analysis/metric_agreement",
            "analysis/style",
            "analysis/summary",
            "analysis/tables",
            "curves",
        ),
    output:
        pdf="results/{run}/figures/method_agreement/{model}.pdf",
        png="results/{run}/figures/method_agreement/{model}.png",
        svg=report(
            "results/{run}/figures/method_agreement/{model}.svg",
            caption="captions/method_agreement_figure.rst",
            category="Figures",
            subcategory="Agreement of methods on tokens",
            labels={"model": "{model}", "dataset": "all", "protocol": "–"},
        ),
    log:
        "results/{run}/logs/plot_method_agreement/{model}.log",
    benchmark:
        "results/{run}/benchmarks/plot_method_agreement/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("model_display"),
    message:
        "Plotting the agreement of methods for {wildcards.model}"
    shell:
        "python {input.script} --settings {params.settings:q} --agreement {input.agreement:q} "
        "--model {wildcards.model} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"


rule plot_metric_agreement:
    input:
        statistics="results/{run}/summary/statistics.parquet",
        script="scripts/plot_metric_agreement.py",
        code=code(
            "analysis/agreement_figures",
            "analysis/agreement_means",
            "analysis/metric_agreement",
            "analysis/style",
            "analysis/summary",
            "analysis/tables",
            "curves",
        ),
    output:
        pdf="results/{run}/figures/metric_agreement/{model}.pdf",
        png="results/{run}/figures/metric_agreement/{model}.png",
        svg=report(
            "results/{run}/figures/metric_agreement/{model}.svg",
            caption="captions/metric_agreement_figure.rst",
            category="Figures",
            subcategory="Agreement of metrics on methods",
            labels={"model": "{model}", "dataset": "all", "protocol": "–"},
        ),
    log:
        "results/{run}/logs/plot_metric_agreement/{model}.log",
    benchmark:
        "results/{run}/benchmarks/plot_metric_agreement/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("model_display"),
    message:
        "Plotting the agreement of metrics for {wildcards.model}"
    shell:
        "python {input.script} --settings {params.settings:q} --statistics {input.statistics:q} "
        "--model {wildcards.model} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"


rule plot_ranks:
    input:
        statistics="results/{run}/summary/statistics.parquet",
        comparisons="results/{run}/summary/comparisons.parquet",
        script="scripts/plot_ranks.py",
        code=code(
            "analysis/rank_figure",
            "analysis/style",
            "analysis/summary",
            "analysis/tables",
            "curves",
        ),
    output:
        pdf="results/{run}/figures/ranks/{protocol}/{model}.pdf",
        png="results/{run}/figures/ranks/{protocol}/{model}.png",
        svg=report(
            "results/{run}/figures/ranks/{protocol}/{model}.svg",
            caption="captions/ranks_figure.rst",
            category="Figures",
            subcategory="Ranks and critical differences",
            labels={"model": "{model}", "dataset": "all", "protocol": "{protocol}"},
        ),
    log:
        "results/{run}/logs/plot_ranks/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/plot_ranks/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("model_display"),
    message:
        "Plotting the ranks of methods for {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --statistics {input.statistics:q} "
        "--comparisons {input.comparisons:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"
