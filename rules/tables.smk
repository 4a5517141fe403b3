# In:  results/{run}/summary/*.parquet, and summary/agreement/.
# Out: results/{run}/tables/, each table as CSV, LaTeX and HTML.

TABLE_TEMPLATES = sorted(str(path) for path in Path("scripts/pisoft/analysis/templates").iterdir())
TABLE_CODE = code(
    "curves",
    "analysis/summary",
    "analysis/table_writer",
    "analysis/tables",
    "analysis/timings",
)
TABLES = [
    *cells("results/{run}/tables/pi_soft_auc/{protocol}/{model}.html"),
    *cells("results/{run}/tables/original_soft/{protocol}/{model}.html"),
    *ranking_cells("results/{run}/tables/insertion_deletion/{model}.html"),
    f"results/{RUN}/tables/accuracy.html",
    f"results/{RUN}/tables/timings.html",
    f"results/{RUN}/tables/cost.html",
    *cells("results/{run}/tables/method_agreement/{model}.html"),
]
UNCERTAINTY_TABLES = [
    *cells("results/{run}/tables/metric_agreement/{model}.html"),
    *cells("results/{run}/tables/ranks/{protocol}/{model}.html"),
]


rule tabulate_pi_soft_auc:
    input:
        samples=rules.summarise.output.samples,
        curves=rules.summarise.output.curves,
        script="scripts/build_table.py",
        code=TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/pi_soft_auc/{protocol}/{model}.csv",
        tex="results/{run}/tables/pi_soft_auc/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/pi_soft_auc/{protocol}/{model}.html",
            caption="captions/pi_soft_auc.rst",
            category="Tables",
            subcategory="AUC of π-Soft-NS and π-Soft-NC",
            labels={"model": "{model}", "protocol": "{protocol}"},
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
        "--samples {input.samples:q} --curves {input.curves:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_original_soft:
    input:
        samples=rules.summarise.output.samples,
        script="scripts/build_table.py",
        code=TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/original_soft/{protocol}/{model}.csv",
        tex="results/{run}/tables/original_soft/{protocol}/{model}.tex",
        html=report(
            "results/{run}/tables/original_soft/{protocol}/{model}.html",
            caption="captions/original_soft.rst",
            category="Tables",
            subcategory="Original Soft-NS and Soft-NC",
            labels={"model": "{model}", "protocol": "{protocol}"},
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
        "--samples {input.samples:q} "
        "--protocol {wildcards.protocol} --model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_insertion_deletion:
    input:
        samples=rules.summarise_ranking.output.samples,
        script="scripts/tabulate_insertion_deletion.py",
        code=code("curves", "analysis/summary", "analysis/table_writer", "analysis/tables"),
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/insertion_deletion/{model}.csv",
        tex="results/{run}/tables/insertion_deletion/{model}.tex",
        html=report(
            "results/{run}/tables/insertion_deletion/{model}.html",
            caption="captions/insertion_deletion.rst",
            category="Tables",
            subcategory="Insertion and deletion",
            labels={"model": "{model}", "protocol": "–"},
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
        "python {input.script} --settings {params.settings:q} --samples {input.samples:q} "
        "--model {wildcards.model} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_accuracy:
    input:
        accuracy=rules.summarise_accuracy.output.accuracy,
        script="scripts/build_table.py",
        code=TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/accuracy.csv",
        tex="results/{run}/tables/accuracy.tex",
        html=report(
            "results/{run}/tables/accuracy.html",
            caption="captions/accuracy.rst",
            category="Tables",
            subcategory="Accuracy of the models",
            labels={"model": "all", "protocol": "–"},
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
        "python {input.script} --kind accuracy --settings {params.settings:q} "
        "--accuracy {input.accuracy:q} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


rule tabulate_timings:
    input:
        timings=rules.summarise_timings.output.timings,
        script="scripts/build_table.py",
        code=TABLE_CODE,
        templates=TABLE_TEMPLATES,
    output:
        csv="results/{run}/tables/timings.csv",
        tex="results/{run}/tables/timings.tex",
        html=report(
            "results/{run}/tables/timings.html",
            caption="captions/timings.rst",
            category="Tables",
            subcategory="Time and memory of attribution",
            labels={"model": "all", "protocol": "–"},
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
        "python {input.script} --kind timings --settings {params.settings:q} "
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
            category="Tables",
            subcategory="Cost, predicted and measured",
            labels={"model": "all", "protocol": "–"},
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
            category="Tables",
            subcategory="Agreement of methods on tokens",
            labels={"model": "{model}", "protocol": "–"},
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
        statistics="results/{run}/summary/statistics.parquet",
        script="scripts/tabulate_metric_agreement.py",
        code=code(
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
            category="Tables",
            subcategory="Agreement of metrics on methods",
            labels={"model": "{model}", "protocol": "–"},
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
        statistics="results/{run}/summary/statistics.parquet",
        leave_one_out="results/{run}/summary/leave_one_out.parquet",
        script="scripts/tabulate_ranks.py",
        code=code(
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
            category="Tables",
            subcategory="Ranks and critical differences",
            labels={"model": "{model}", "protocol": "{protocol}"},
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
