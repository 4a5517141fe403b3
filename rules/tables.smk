# In:  <data>/summary/*.parquet.
# Out: <results>/tables/, each table as CSV, LaTeX and HTML.
# A table is scripts/pisoft/tables/NAME.py, captions/tables/NAME.rst, and a rule like those below; its
# inputs are named after the kind of rows that they hold, and reach the module by that name.

TABLE_TEMPLATES = [
    f"scripts/pisoft/tables/templates/{name}.jinja"
    for name in ("parts.html", "table.html", "table.tex")
]
AGREEMENT_FILES = expand(
    rules.compare_methods.output.agreement, dataset=CONFIG.datasets, allow_missing=True
)


rule tabulate_pi_soft_auc:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        soft_samples=SOFT_SAMPLES,
        soft_curves=rules.summarise.output.soft_curves,
    output:
        **table_files("pi_soft_auc/{protocol}/{model}", "AUC of π-Soft-NS and π-Soft-NC"),
    log:
        "<logs>/tabulate_pi_soft_auc/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_pi_soft_auc/{protocol}/{model}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        **room_job("tables/pi_soft_auc", "soft_display"),
    message:
        "Tabulating {params.name} {params.cell}"
    shell:
        "{params.command} {params.name} --settings {params.settings:q} "
        "--cell {params.cell:q} --files {params.files:q} --explorer {params.explorer:q} "
        "--warning {params.warning:q} "
        "--csv {output.csv:q} --tex {output.tex:q} --html {output.html:q} > {log:q} 2>&1"


use rule tabulate_pi_soft_auc as tabulate_robust_statistics with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        soft_samples=SOFT_SAMPLES,
    output:
        **table_files("robust_statistics/{protocol}/{model}", "AUC, other statistics"),
    log:
        "<logs>/tabulate_robust_statistics/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_robust_statistics/{protocol}/{model}.tsv"
    params:
        **room_job("tables/robust_statistics", "soft_display"),


use rule tabulate_pi_soft_auc as tabulate_original_soft with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        soft_samples=rules.summarise.output.soft_samples,
    output:
        **table_files("original_soft/{protocol}/{model}", "Original Soft-NS and Soft-NC"),
    log:
        "<logs>/tabulate_original_soft/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_original_soft/{protocol}/{model}.tsv"
    params:
        **room_job("tables/original_soft", "soft_display"),


use rule tabulate_pi_soft_auc as tabulate_variances with:
    input:
        variances=rules.estimate_uncertainty.output.variances,
    output:
        **table_files("variances/{protocol}/{model}", "Where the variance comes from"),
    log:
        "<logs>/tabulate_variances/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_variances/{protocol}/{model}.tsv"
    params:
        **room_job("tables/variances", "soft_display"),


use rule tabulate_pi_soft_auc as tabulate_insertion_deletion with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        ranking_samples=rules.summarise_ranking.output.ranking_samples,
    output:
        **table_files("insertion_deletion/{model}", "Insertion and deletion", of=ranking_cells),
    log:
        "<logs>/tabulate_insertion_deletion/{model}.log",
    benchmark:
        "<logs>/tabulate_insertion_deletion/{model}.tsv"
    params:
        **room_job("tables/insertion_deletion", "ranked"),


use rule tabulate_pi_soft_auc as tabulate_evidence with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        evidence_samples=rules.summarise_evidence.output.evidence_samples,
    output:
        **table_files("evidence/{model}", "Do methods find the evidence?", of=evidence_cells),
    log:
        "<logs>/tabulate_evidence/{model}.log",
    benchmark:
        "<logs>/tabulate_evidence/{model}.tsv"
    params:
        **room_job("tables/evidence", "ranked"),


use rule tabulate_pi_soft_auc as tabulate_stored_draws with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        stored_samples=rules.summarise_stored_draws.output.stored_samples,
    output:
        **table_files(
            "stored_draws/{protocol}/{model}",
            "Do scores predict the draws of random scores?",
            of=drawn_cells,
        ),
    log:
        "<logs>/tabulate_stored_draws/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_stored_draws/{protocol}/{model}.tsv"
    params:
        **room_job("tables/stored_draws", "ranked"),


use rule tabulate_pi_soft_auc as tabulate_ranks with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        leave_one_out=rules.estimate_uncertainty.output.leave_one_out,
    output:
        **table_files("ranks/{protocol}/{model}", "Ranks and critical differences"),
    log:
        "<logs>/tabulate_ranks/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_ranks/{protocol}/{model}.tsv"
    params:
        **room_job("tables/ranks", "ranks"),


use rule tabulate_pi_soft_auc as tabulate_method_agreement with:
    input:
        agreement=AGREEMENT_FILES,
    output:
        **table_files("method_agreement/{model}", "Do methods agree on tokens?", of=compared_cells),
    log:
        "<logs>/tabulate_method_agreement/{model}.log",
    benchmark:
        "<logs>/tabulate_method_agreement/{model}.tsv"
    params:
        **room_job("tables/method_agreement", "model_display"),


use rule tabulate_pi_soft_auc as tabulate_metric_agreement with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
    output:
        **table_files("metric_agreement/{model}", "Do metrics agree on methods?"),
    log:
        "<logs>/tabulate_metric_agreement/{model}.log",
    benchmark:
        "<logs>/tabulate_metric_agreement/{model}.tsv"
    params:
        **room_job("tables/metric_agreement", "model_display"),


use rule tabulate_pi_soft_auc as tabulate_language with:
    input:
        language=rules.summarise_language.output.language,
    output:
        **table_files(
            "language/{protocol}/{model}",
            "Is a perturbed input still language?",
            of=inspected_cells,
        ),
    log:
        "<logs>/tabulate_language/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_language/{protocol}/{model}.tsv"
    params:
        **room_job("tables/language", "model_display"),


use rule tabulate_pi_soft_auc as tabulate_sensitivity with:
    input:
        sensitivity=rules.summarise_sensitivity.output.sensitivity,
    output:
        **table_files("sensitivity/{protocol}/{model}", "Would other choices change the order?"),
    log:
        "<logs>/tabulate_sensitivity/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_sensitivity/{protocol}/{model}.tsv"
    params:
        **room_job("tables/sensitivity", "model_display"),


use rule tabulate_pi_soft_auc as tabulate_advantage with:
    input:
        advantage=rules.summarise_advantage.output.advantage,
    output:
        **table_files("advantage/{protocol}/{model}", "Advantage over random scores by π"),
    log:
        "<logs>/tabulate_advantage/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_advantage/{protocol}/{model}.tsv"
    params:
        **room_job("tables/advantage", "soft_display"),


use rule tabulate_pi_soft_auc as tabulate_density with:
    input:
        density=rules.summarise_density.output.density,
        density_correlations=rules.summarise_density.output.density_correlations,
    output:
        **table_files("density/{protocol}/{model}", "Are dense scores what is rewarded?"),
    log:
        "<logs>/tabulate_density/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_density/{protocol}/{model}.tsv"
    params:
        **room_job("tables/density", "model_display"),


use rule tabulate_pi_soft_auc as tabulate_layer_study with:
    input:
        layer_study=rules.summarise_layer_study.output.layer_study,
    output:
        **table_files(
            "layer_study/{protocol}/{model}", "Layers that Grad-ELLM sums", of=study_cells
        ),
    log:
        "<logs>/tabulate_layer_study/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_layer_study/{protocol}/{model}.tsv"
    params:
        **room_job("tables/layer_study", "layer_study_display"),


use rule tabulate_pi_soft_auc as tabulate_diagnosis with:
    input:
        diagnosis=rules.diagnose_metrics.output.diagnosis,
    output:
        **table_files("diagnosis/{model}", "Can the metrics tell?", of=control_cells),
    log:
        "<logs>/tabulate_diagnosis/{model}.log",
    benchmark:
        "<logs>/tabulate_diagnosis/{model}.tsv"
    params:
        **room_job("tables/diagnosis", "trust_display"),


use rule tabulate_pi_soft_auc as tabulate_oracle_scale with:
    input:
        oracle_scale=rules.scale_by_oracle.output.oracle_scale,
    output:
        **table_files("oracle_scale/{model}", "From random scores to the oracle", of=scaled_cells),
    log:
        "<logs>/tabulate_oracle_scale/{model}.log",
    benchmark:
        "<logs>/tabulate_oracle_scale/{model}.tsv"
    params:
        **room_job("tables/oracle_scale", "trust_display"),


use rule tabulate_pi_soft_auc as tabulate_twins with:
    input:
        twins=rules.compare_with_twins.output.twins,
    output:
        **table_files("twins/{protocol}/{model}", "Gain over permuted twins", of=twin_cells),
    log:
        "<logs>/tabulate_twins/{protocol}/{model}.log",
    benchmark:
        "<logs>/tabulate_twins/{protocol}/{model}.tsv"
    params:
        **room_job("tables/twins", "display"),


use rule tabulate_pi_soft_auc as tabulate_sanity with:
    input:
        sanity=rules.check_sanity.output.sanity,
    output:
        **table_files("sanity/{model}", "Do scores change with model and input?", of=sanity_cells),
    log:
        "<logs>/tabulate_sanity/{model}.log",
    benchmark:
        "<logs>/tabulate_sanity/{model}.tsv"
    params:
        **room_job("tables/sanity", "display"),


use rule tabulate_pi_soft_auc as tabulate_accuracy with:
    input:
        accuracy=rules.summarise_accuracy.output.accuracy,
    output:
        **table_files("accuracy", "Accuracy of the models"),
    log:
        "<logs>/tabulate_accuracy.log",
    benchmark:
        "<logs>/tabulate_accuracy.tsv"
    params:
        **room_job("tables/accuracy", "accuracy"),


use rule tabulate_pi_soft_auc as tabulate_timings with:
    input:
        timings=rules.summarise_timings.output.timings,
    output:
        **table_files("timings", "Time and memory of attribution", of=timed_cells),
    log:
        "<logs>/tabulate_timings.log",
    benchmark:
        "<logs>/tabulate_timings.tsv"
    params:
        **room_job("tables/timings", "timings"),


use rule tabulate_pi_soft_auc as tabulate_cost with:
    input:
        cost=rules.summarise_cost.output.cost,
    output:
        **table_files("cost", "Cost, predicted and measured"),
    log:
        "<logs>/tabulate_cost.log",
    benchmark:
        "<logs>/tabulate_cost.tsv"
    params:
        **room_job("tables/cost", "cost"),
