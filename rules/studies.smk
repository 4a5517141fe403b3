# In:  the evaluated cells of Grad-ELLM at several depths, if the run has a layer study.
# Out: results/{run}/summary/layer_study.parquet;
#      results/{run}/tables/layer_study/ and figures/layer_study/.

STUDIES = [
    *study_cells("results/{run}/tables/layer_study/{protocol}/{model}.html"),
    *study_cells("results/{run}/figures/layer_study/{protocol}/{model}/{dataset}.svg"),
]


rule summarise_layer_study:
    input:
        soft=study_cells("results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet"),
        script="scripts/summarise_layer_study.py",
        code=code("curves", "analysis/layer_study", "analysis/summary", "keyed"),
    output:
        study="results/{run}/summary/layer_study.parquet",
    log:
        "results/{run}/logs/summarise_layer_study.log",
    benchmark:
        "results/{run}/benchmarks/summarise_layer_study.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        settings=settings("layer_study"),
    message:
        "Summarising the layer study of {RUN}"
    shell:
        "python {input.script} --settings {params.settings:q} --soft {input.soft:q} "
        "--output {output.study:q} > {log:q} 2>&1"


rule tabulate_layer_study:
    input:
        study=rules.summarise_layer_study.output.study,
        script="scripts/tabulate_layer_study.py",
        code=code(
            "curves",
            "analysis/layer_study",
            "analysis/layer_study_table",
            "analysis/summary",
            "analysis/table_writer",
            "analysis/metrics",
            "analysis/tables",
            "keyed",
        ),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/layer_study/{protocol}/{model}.csv",
        tex="results/{run}/tables/layer_study/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/layer_study/{protocol}/{model}.html",
            caption="captions/layer_study_table.rst",
            category="2 Tables",
            subcategory="Layers that Grad-ELLM sums",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/tabulate_layer_study/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_layer_study/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("layer_study_display"),
    message:
        "Tabulating the layer study of {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --study {input.study:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule plot_layer_study:
    input:
        study=rules.summarise_layer_study.output.study,
        script="scripts/plot_layer_study.py",
        code=code(
            "curves",
            "analysis/intervals",
            "analysis/layer_study",
            "analysis/layer_study_figure",
            "analysis/style",
            "analysis/summary",
            "keyed",
        ),
    output:
        pdf="results/{run}/figures/layer_study/{protocol}/{model}/{dataset}.pdf",
        png="results/{run}/figures/layer_study/{protocol}/{model}/{dataset}.png",
        svg=report(
            "results/{run}/figures/layer_study/{protocol}/{model}/{dataset}.svg",
            caption="captions/layer_study_figure.rst",
            category="3 Figures",
            subcategory="Layers that Grad-ELLM sums",
            labels={"model": "{model}", "dataset": "{dataset}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/plot_layer_study/{protocol}/{model}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/plot_layer_study/{protocol}/{model}/{dataset}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("layer_study_display"),
    message:
        "Plotting the layer study of {wildcards.model} on {wildcards.dataset} "
        "({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --study {input.study:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--dataset {wildcards.dataset} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"
