# In:  results/{run}/summary/*.parquet.
# Out: results/{run}/tables/, each table as CSV, LaTeX and HTML.

TABLE_TEMPLATES = templates("parts.html", "table.html", "table.tex")
PAGE_TEMPLATES = templates("parts.html", "page.html", "page.tex", "table.tex")
TABLE_CODE = code(
    "analysis/metrics", "analysis/summary", "analysis/table_writer", "analysis/tables"
)
SOFT_TABLE_CODE = [*TABLE_CODE, *code("analysis/soft_tables", "curves")]
TABLES = [
    *cells("results/{run}/tables/pi_soft_auc/{protocol}/{model}.html"),
    *cells("results/{run}/tables/robust_statistics/{protocol}/{model}.html"),
    *cells("results/{run}/tables/original_soft/{protocol}/{model}.html"),
    *cells("results/{run}/tables/variances/{protocol}/{model}.html"),
    *ranking_cells("results/{run}/tables/insertion_deletion/{model}.html"),
    f"results/{RUN}/tables/accuracy.html",
    f"results/{RUN}/tables/timings.html",
    f"results/{RUN}/tables/cost.html",
    *cells("results/{run}/tables/method_agreement/{model}.html"),
    *cells("results/{run}/tables/metric_agreement/{model}.html"),
    *cells("results/{run}/tables/ranks/{protocol}/{model}.html"),
]


rule tabulate_pi_soft_auc:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        samples=rules.summarise.output.samples,
        curves=rules.summarise.output.curves,
        script="scripts/tabulate_soft.py",
        code=SOFT_TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/pi_soft_auc/{protocol}/{model}.csv",
        tex="results/{run}/tables/pi_soft_auc/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/pi_soft_auc/{protocol}/{model}.html",
            caption="captions/pi_soft_auc.rst",
            category="2 Tables",
            subcategory="AUC of π-Soft-NS and π-Soft-NC",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/tabulate_pi_soft_auc/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_pi_soft_auc/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("soft_display"),
    message:
        "Tabulating π-Soft AUC of {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --kind auc --settings {params.settings:q} "
        "--statistics {input.statistics:q} --samples {input.samples:q} --curves {input.curves:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_original_soft:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        samples=rules.summarise.output.samples,
        script="scripts/tabulate_soft.py",
        code=SOFT_TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/original_soft/{protocol}/{model}.csv",
        tex="results/{run}/tables/original_soft/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/original_soft/{protocol}/{model}.html",
            caption="captions/original_soft.rst",
            category="2 Tables",
            subcategory="Original Soft-NS and Soft-NC",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/tabulate_original_soft/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_original_soft/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("soft_display"),
    message:
        "Tabulating original Soft-NS/NC of {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --kind original --settings {params.settings:q} "
        "--statistics {input.statistics:q} --samples {input.samples:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_robust_statistics:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        samples=rules.summarise.output.samples,
        script="scripts/tabulate_soft.py",
        code=SOFT_TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/robust_statistics/{protocol}/{model}.csv",
        tex="results/{run}/tables/robust_statistics/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/robust_statistics/{protocol}/{model}.html",
            caption="captions/robust_statistics.rst",
            category="2 Tables",
            subcategory="AUC, other statistics",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/tabulate_robust_statistics/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_robust_statistics/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("soft_display"),
    message:
        "Tabulating robust statistics of {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --kind robust --settings {params.settings:q} "
        "--statistics {input.statistics:q} --samples {input.samples:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_variances:
    input:
        variances=rules.estimate_uncertainty.output.variances,
        script="scripts/tabulate_soft.py",
        code=SOFT_TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/variances/{protocol}/{model}.csv",
        tex="results/{run}/tables/variances/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/variances/{protocol}/{model}.html",
            caption="captions/variances.rst",
            category="2 Tables",
            subcategory="Where the variance comes from",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/tabulate_variances/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_variances/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("soft_display"),
    message:
        "Tabulating the variances of {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --kind variance --settings {params.settings:q} "
        "--variances {input.variances:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_insertion_deletion:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        samples=rules.summarise_ranking.output.samples,
        script="scripts/tabulate_insertion_deletion.py",
        code=code(
            "curves",
            "analysis/ranking_table",
            "analysis/summary",
            "analysis/table_writer",
            "analysis/metrics",
            "analysis/tables",
        ),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/insertion_deletion/{model}.csv",
        tex="results/{run}/tables/insertion_deletion/{model}.tex",
        html=report(
            "results/{run}/tables/insertion_deletion/{model}.html",
            caption="captions/insertion_deletion.rst",
            category="2 Tables",
            subcategory="Insertion and deletion",
            labels={"model": "{model}"},
        ),
    log:
        "results/{run}/logs/tabulate_insertion_deletion/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_insertion_deletion/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("display"),
    message:
        "Tabulating insertion and deletion of {wildcards.model}"
    shell:
        "python {input.script} --settings {params.settings:q} "
        "--statistics {input.statistics:q} --samples {input.samples:q} "
        "--model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_accuracy:
    input:
        accuracy=rules.summarise_accuracy.output.accuracy,
        script="scripts/tabulate_accuracy.py",
        code=[*TABLE_CODE, *code("analysis/accuracy_table", "curves")],
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/accuracy.csv",
        tex="results/{run}/tables/accuracy.tex",
        html=report(
            "results/{run}/tables/accuracy.html",
            caption="captions/accuracy.rst",
            category="2 Tables",
            subcategory="Models, time and cost",
            labels={"table": "Accuracy of the models"},
        ),
    log:
        "results/{run}/logs/tabulate_accuracy.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_accuracy.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("accuracy"),
    message:
        "Tabulating the accuracy of the models"
    shell:
        "python {input.script} --settings {params.settings:q} "
        "--accuracy {input.accuracy:q} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_timings:
    input:
        timings=rules.summarise_timings.output.timings,
        script="scripts/tabulate_timings.py",
        code=[*TABLE_CODE, *code("analysis/timings", "curves")],
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/timings.csv",
        tex="results/{run}/tables/timings.tex",
        html=report(
            "results/{run}/tables/timings.html",
            caption="captions/timings.rst",
            category="2 Tables",
            subcategory="Models, time and cost",
            labels={"table": "Time and memory of attribution"},
        ),
    log:
        "results/{run}/logs/tabulate_timings.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_timings.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("timings"),
    message:
        "Tabulating the time and memory of attribution"
    shell:
        "python {input.script} --settings {params.settings:q} "
        "--timings {input.timings:q} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_cost:
    input:
        cost=rules.summarise_cost.output.cost,
        script="scripts/tabulate_cost.py",
        code=code(
            "analysis/cost_table",
            "curves",
            "analysis/summary",
            "analysis/table_writer",
            "analysis/metrics",
            "analysis/tables",
            "units",
        ),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/cost.csv",
        tex="results/{run}/tables/cost.tex",
        html=report(
            "results/{run}/tables/cost.html",
            caption="captions/cost.rst",
            category="2 Tables",
            subcategory="Models, time and cost",
            labels={"table": "Cost, predicted and measured"},
        ),
    log:
        "results/{run}/logs/tabulate_cost.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_cost.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("cost"),
    message:
        "Tabulating the cost of {RUN}"
    shell:
        "python {input.script} --settings {params.settings:q} --cost {input.cost:q} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_method_agreement:
    input:
        agreement=expand(
            rules.compare_methods.output.agreement, dataset=CONFIG.datasets, allow_missing=True
        ),
        script="scripts/tabulate_method_agreement.py",
        code=code(
            "analysis/metrics",
            "analysis/agreement_means",
            "analysis/agreement_tables",
            "analysis/metric_agreement",
            "analysis/summary",
            "analysis/table_writer",
            "analysis/tables",
            "curves",
        ),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/method_agreement/{model}.csv",
        tex="results/{run}/tables/method_agreement/{model}.tex",
        html=report(
            "results/{run}/tables/method_agreement/{model}.html",
            caption="captions/method_agreement_table.rst",
            category="2 Tables",
            subcategory="Do methods agree on tokens?",
            labels={"model": "{model}"},
        ),
    log:
        "results/{run}/logs/tabulate_method_agreement/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_method_agreement/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("model_display"),
    message:
        "Tabulating the agreement of methods for {wildcards.model}"
    shell:
        "python {input.script} --settings {params.settings:q} --agreement {input.agreement:q} "
        "--model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_metric_agreement:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        script="scripts/tabulate_metric_agreement.py",
        code=code(
            "analysis/metrics",
            "analysis/agreement_means",
            "analysis/agreement_tables",
            "analysis/metric_agreement",
            "analysis/summary",
            "analysis/table_writer",
            "analysis/tables",
            "curves",
        ),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/metric_agreement/{model}.csv",
        tex="results/{run}/tables/metric_agreement/{model}.tex",
        html=report(
            "results/{run}/tables/metric_agreement/{model}.html",
            caption="captions/metric_agreement_table.rst",
            category="2 Tables",
            subcategory="Do metrics agree on methods?",
            labels={"model": "{model}"},
        ),
    log:
        "results/{run}/logs/tabulate_metric_agreement/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_metric_agreement/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("model_display"),
    message:
        "Tabulating the agreement of metrics for {wildcards.model}"
    shell:
        "python {input.script} --settings {params.settings:q} --statistics {input.statistics:q} "
        "--model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_ranks:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        leave_one_out=rules.estimate_uncertainty.output.leave_one_out,
        script="scripts/tabulate_ranks.py",
        code=code(
            "analysis/metrics",
            "analysis/rank_table",
            "analysis/summary",
            "analysis/table_writer",
            "analysis/tables",
            "curves",
        ),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/ranks/{protocol}/{model}.csv",
        tex="results/{run}/tables/ranks/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/ranks/{protocol}/{model}.html",
            caption="captions/ranks_table.rst",
            category="2 Tables",
            subcategory="Ranks and critical differences",
            labels={"model": "{model}", "routing": "{protocol}"},
        ),
    log:
        "results/{run}/logs/tabulate_ranks/{protocol}/{model}.log",
    benchmark:
        "results/{run}/benchmarks/tabulate_ranks/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        settings=settings("model_display"),
    message:
        "Tabulating the ranks of methods for {wildcards.model} ({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --statistics {input.statistics:q} "
        "--leave-one-out {input.leave_one_out:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"
