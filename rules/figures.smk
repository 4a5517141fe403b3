# In:  results/{run}/summary/*.parquet and summary/agreement/; prompts, generations, attributions,
#      evaluated cells.
# Out: results/{run}/figures/, each figure as PDF, SVG and PNG.

FIGURES = [
    *cells("results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.svg"),
    *cells("results/{run}/figures/protocol/{protocol}/{model}.svg"),
    *cells("results/{run}/figures/scores/{model}.svg"),
    *qualitative_cells("results/{run}/figures/tokens/{model}/{dataset}/text.svg"),
    *cells("results/{run}/figures/method_agreement/{model}.svg"),
    *cells("results/{run}/figures/metric_agreement/{model}.svg"),
    *cells("results/{run}/figures/ranks/{protocol}/{model}.svg"),
]
FIRST_DATASET = next(iter(CONFIG.datasets))
SCORES_CODE = code("analysis/scores", "analysis/style", "faithfulness/scope", "faithfulness/scores")


rule plot_pi_curves:
    input:
        curves=rules.summarise.output.curves,
        script="scripts/plot_pi_curves.py",
        code=code(
            "curves",
            "analysis/figures",
            "analysis/intervals",
            "analysis/style",
            "analysis/summary",
        ),
    output:
        pdf="results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.pdf",
        png="results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.png",
        svg=report(
            "results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.svg",
            caption="captions/pi_curves.rst",
            category="3 Figures",
            subcategory="Curves over the retaining probability",
            labels={"model": "{model}", "dataset": "{dataset}", "routing": "{protocol}"},
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


rule plot_protocol:
    input:
        samples=rules.summarise.output.samples,
        curves=rules.summarise.output.curves,
        prompts=fitting_cells(
            "results/{run}/prompts/{model}/{dataset}.parquet",
            dataset=FIRST_DATASET,
        ),
        attributions=fitting_cells(
            "results/{run}/attributions/{model}/{method}/{dataset}.parquet",
            dataset=FIRST_DATASET,
        ),
        soft=fitting_cells(
            "results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet",
            dataset=FIRST_DATASET,
        ),
        script="scripts/plot_protocol.py",
        code=[
            *SCORES_CODE,
            *code(
                "curves",
                "analysis/figures",
                "analysis/intervals",
                "analysis/protocol_figure",
                "analysis/summary",
                "faithfulness/calibration",
            ),
        ],
    output:
        pdf="results/{run}/figures/protocol/{protocol}/{model}.pdf",
        png="results/{run}/figures/protocol/{protocol}/{model}.png",
        svg=report(
            "results/{run}/figures/protocol/{protocol}/{model}.svg",
            caption="captions/protocol_figure.rst",
            category="3 Figures",
            subcategory="Why scores are calibrated",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/plot_protocol/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/plot_protocol/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        settings=settings("protocol_figure"),
    message:
        "Plotting what calibration does for {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --samples {input.samples:q} "
        "--curves {input.curves:q} --prompts {input.prompts:q} "
        "--attributions {input.attributions:q} --soft {input.soft:q} "
        "--protocol {wildcards.protocol} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"


rule plot_tokens:
    input:
        prompts=rules.build_prompts.output.prompts,
        generations=rules.generate.output.generations,
        attributions=fitting_cells("results/{run}/attributions/{model}/{method}/{dataset}.parquet"),
        script="scripts/plot_tokens.py",
        code=[
            *SCORES_CODE,
            *code(
                "analysis/examples",
                "analysis/figures",
                "analysis/intervals",
                "analysis/token_figure",
            ),
        ],
    output:
        sentence_pdf="results/{run}/figures/tokens/{model}/{dataset}/sentence.pdf",
        sentence_png="results/{run}/figures/tokens/{model}/{dataset}/sentence.png",
        sentence_svg=report(
            "results/{run}/figures/tokens/{model}/{dataset}/sentence.svg",
            caption="captions/token_sentence.rst",
            category="3 Figures",
            subcategory="Most important tokens of single texts",
            labels={"model": "{model}", "dataset": "{dataset}", "shown": "key sentence"},
        ),
        text_pdf="results/{run}/figures/tokens/{model}/{dataset}/text.pdf",
        text_png="results/{run}/figures/tokens/{model}/{dataset}/text.png",
        text_svg=report(
            "results/{run}/figures/tokens/{model}/{dataset}/text.svg",
            caption="captions/token_text.rst",
            category="3 Figures",
            subcategory="Most important tokens of single texts",
            labels={"model": "{model}", "dataset": "{dataset}", "shown": "whole text"},
        ),
    log:
        "results/{run}/logs/plot_tokens/{model}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/plot_tokens/{model}/{dataset}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        settings=settings("tokens"),
    message:
        "Plotting the most important tokens of {wildcards.model} on {wildcards.dataset}"
    shell:
        "python {input.script} --settings {params.settings:q} --prompts {input.prompts:q} "
        "--generations {input.generations:q} --attributions {input.attributions:q} "
        "--pdf {output.sentence_pdf:q} {output.text_pdf:q} "
        "--svg {output.sentence_svg:q} {output.text_svg:q} "
        "--png {output.sentence_png:q} {output.text_png:q} > {log:q} 2>&1"


rule plot_scores:
    input:
        prompts=fitting_cells("results/{run}/prompts/{model}/{dataset}.parquet"),
        attributions=fitting_cells("results/{run}/attributions/{model}/{method}/{dataset}.parquet"),
        script="scripts/plot_scores.py",
        code=[*SCORES_CODE, *code("analysis/score_figure")],
    output:
        pdf="results/{run}/figures/scores/{model}.pdf",
        png="results/{run}/figures/scores/{model}.png",
        svg=report(
            "results/{run}/figures/scores/{model}.svg",
            caption="captions/score_figure.rst",
            category="3 Figures",
            subcategory="Distribution of the scores",
            labels={"model": "{model}"},
        ),
    log:
        "results/{run}/logs/plot_scores/{model}.log",
    benchmark:
        "results/{run}/benchmarks/plot_scores/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        settings=settings("scores"),
    message:
        "Plotting the distribution of scores for {wildcards.model}"
    shell:
        "python {input.script} --settings {params.settings:q} --prompts {input.prompts:q} "
        "--attributions {input.attributions:q} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"


rule plot_method_agreement:
    input:
        agreement=expand(
            rules.compare_methods.output.agreement, dataset=CONFIG.datasets, allow_missing=True
        ),
        script="scripts/plot_method_agreement.py",
        code=code(
            "analysis/metrics",
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
            category="3 Figures",
            subcategory="Do methods agree on tokens?",
            labels={"model": "{model}"},
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
        statistics=rules.estimate_uncertainty.output.statistics,
        script="scripts/plot_metric_agreement.py",
        code=code(
            "analysis/metrics",
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
            category="3 Figures",
            subcategory="Do metrics agree on methods?",
            labels={"model": "{model}"},
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
        statistics=rules.estimate_uncertainty.output.statistics,
        comparisons=rules.estimate_uncertainty.output.comparisons,
        script="scripts/plot_ranks.py",
        code=code(
            "analysis/metrics",
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
            category="3 Figures",
            subcategory="Ranks and critical differences",
            labels={"model": "{model}", "routing": "{protocol}"},
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
