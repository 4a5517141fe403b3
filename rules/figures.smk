# In:  results/{run}/summary/soft_curves.parquet.
# Out: results/{run}/figures/, each figure as PDF, SVG and PNG.

FIGURES = cells("results/{run}/figures/pi_curves/{protocol}/{model}/{dataset}.svg")


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
