# In:  <data>/summary/*.parquet and summary/agreement/; prompts, generations, attributions,
#      evaluated cells.
# Out: <results>/figures/, each figure as PDF, SVG and PNG.
# A figure is scripts/pisoft/figures/NAME.py, captions/figures/NAME.rst, and a rule like those below.

FIRST_DATASET = next(iter(CONFIG.datasets))


rule plot_pi_curves:
    input:
        soft_curves=rules.summarise.output.soft_curves,
        statistics=rules.estimate_uncertainty.output.statistics,
    output:
        **figure_files(
            "pi_curves/{protocol}/{model}/{dataset}",
            "Curves over the retaining probability",
        ),
    log:
        "<logs>/plot_pi_curves/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_pi_curves/{protocol}/{model}/{dataset}.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **room_job("figures/pi_curves", "display"),
    message:
        "Plotting {params.name} {params.cell}"
    shell:
        "{params.command} {params.name} --settings {params.settings:q} "
        "--cell {params.cell:q} --files {params.files:q} "
        "--pdf {output.pdf:q} --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"


use rule plot_pi_curves as plot_pi_curves_all with:
    input:
        soft_curves=rules.summarise.output.soft_curves,
    output:
        **figure_files(
            "pi_curves_all/{protocol}/{model}/{dataset}",
            "Curves over the retaining probability, all methods",
        ),
    log:
        "<logs>/plot_pi_curves_all/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_pi_curves_all/{protocol}/{model}/{dataset}.tsv"
    params:
        **room_job("figures/pi_curves_all", "display"),


use rule plot_pi_curves as plot_protocol with:
    input:
        soft_samples=rules.summarise.output.soft_samples,
        soft_curves=rules.summarise.output.soft_curves,
        prompts=fitting_cells(
            "<data>/prompts/{model}/{dataset}.parquet",
            dataset=FIRST_DATASET,
        ),
        attributions=fitting_cells(
            "<data>/attributions/{model}/{method}/{dataset}.parquet",
            dataset=FIRST_DATASET,
        ),
        soft=fitting_cells(
            "<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet",
            dataset=FIRST_DATASET,
        ),
    output:
        **figure_files("protocol/{protocol}/{model}", "Why scores are calibrated"),
    log:
        "<logs>/plot_protocol/{protocol}/{model}.log",
    benchmark:
        "<logs>/plot_protocol/{protocol}/{model}.tsv"
    params:
        **room_job("figures/protocol", "protocol_figure"),


use rule plot_pi_curves as plot_tokens with:
    input:
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        generations="<data>/generations/{model}/{dataset}.parquet",
        attributions=fitting_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
    output:
        **token_files("sentence", "text"),
    log:
        "<logs>/plot_tokens/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_tokens/{model}/{dataset}.tsv"
    params:
        **room_job("figures/tokens", "tokens"),


use rule plot_pi_curves as plot_scores with:
    input:
        prompts=fitting_cells("<data>/prompts/{model}/{dataset}.parquet"),
        attributions=fitting_cells("<data>/attributions/{model}/{method}/{dataset}.parquet"),
    output:
        **figure_files("scores/{model}", "Distribution of the scores"),
    log:
        "<logs>/plot_scores/{model}.log",
    benchmark:
        "<logs>/plot_scores/{model}.tsv"
    params:
        **room_job("figures/scores", "scores"),


use rule plot_pi_curves as plot_method_agreement with:
    input:
        agreement=AGREEMENT_FILES,
    output:
        **figure_files("method_agreement/{model}", "Do methods agree on tokens?", of=compared_cells),
    log:
        "<logs>/plot_method_agreement/{model}.log",
    benchmark:
        "<logs>/plot_method_agreement/{model}.tsv"
    params:
        **room_job("figures/method_agreement", "model_display"),


use rule plot_pi_curves as plot_metric_agreement with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
    output:
        **figure_files("metric_agreement/{model}", "Do metrics agree on methods?"),
    log:
        "<logs>/plot_metric_agreement/{model}.log",
    benchmark:
        "<logs>/plot_metric_agreement/{model}.tsv"
    params:
        **room_job("figures/metric_agreement", "model_display"),


use rule plot_pi_curves as plot_language with:
    input:
        language=rules.summarise_language.output.language,
    output:
        **figure_files(
            "language/{protocol}/{model}",
            "Is a perturbed input still language?",
            of=inspected_cells,
        ),
    log:
        "<logs>/plot_language/{protocol}/{model}.log",
    benchmark:
        "<logs>/plot_language/{protocol}/{model}.tsv"
    params:
        **room_job("figures/language", "model_display"),


use rule plot_pi_curves as plot_sensitivity with:
    input:
        sensitivity=rules.summarise_sensitivity.output.sensitivity,
    output:
        **figure_files("sensitivity/{protocol}/{model}", "Would other choices change the order?"),
    log:
        "<logs>/plot_sensitivity/{protocol}/{model}.log",
    benchmark:
        "<logs>/plot_sensitivity/{protocol}/{model}.tsv"
    params:
        **room_job("figures/sensitivity", "model_display"),


use rule plot_pi_curves as plot_ranks with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        comparisons=rules.estimate_uncertainty.output.comparisons,
    output:
        **figure_files("ranks/{protocol}/{model}", "Ranks and critical differences"),
    log:
        "<logs>/plot_ranks/{protocol}/{model}.log",
    benchmark:
        "<logs>/plot_ranks/{protocol}/{model}.tsv"
    params:
        **room_job("figures/ranks", "ranks"),


use rule plot_pi_curves as plot_advantage with:
    input:
        advantage=rules.summarise_advantage.output.advantage,
    output:
        **figure_files(
            "advantage/{protocol}/{model}/{dataset}", "Advantage over random scores by π"
        ),
    log:
        "<logs>/plot_advantage/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_advantage/{protocol}/{model}/{dataset}.tsv"
    params:
        **room_job("figures/advantage", "display"),


use rule plot_pi_curves as plot_density with:
    input:
        statistics=rules.estimate_uncertainty.output.statistics,
        density=rules.summarise_density.output.density,
        density_correlations=rules.summarise_density.output.density_correlations,
    output:
        **figure_files("density/{protocol}/{model}/{dataset}", "Are dense scores what is rewarded?"),
    log:
        "<logs>/plot_density/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_density/{protocol}/{model}/{dataset}.tsv"
    params:
        **room_job("figures/density", "model_display"),


use rule plot_pi_curves as plot_layer_study with:
    input:
        layer_study=rules.summarise_layer_study.output.layer_study,
    output:
        **figure_files(
            "layer_study/{protocol}/{model}/{dataset}",
            "Layers that Grad-ELLM sums",
            of=study_cells,
        ),
    log:
        "<logs>/plot_layer_study/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_layer_study/{protocol}/{model}/{dataset}.tsv"
    params:
        **room_job("figures/layer_study", "layer_study_display"),


use rule plot_pi_curves as plot_diagnosis with:
    input:
        diagnosis=rules.diagnose_metrics.output.diagnosis,
    output:
        **figure_files(
            "diagnosis/{protocol}/{model}/{dataset}", "Can the metrics tell?", of=control_cells
        ),
    log:
        "<logs>/plot_diagnosis/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/plot_diagnosis/{protocol}/{model}/{dataset}.tsv"
    params:
        **room_job("figures/diagnosis", "trust_display"),


use rule plot_pi_curves as plot_twins with:
    input:
        twins=rules.compare_with_twins.output.twins,
    output:
        **figure_files("twins/{protocol}/{model}", "Gain over permuted twins", of=twin_cells),
    log:
        "<logs>/plot_twins/{protocol}/{model}.log",
    benchmark:
        "<logs>/plot_twins/{protocol}/{model}.tsv"
    params:
        **room_job("figures/twins", "display"),


use rule plot_pi_curves as plot_sanity with:
    input:
        sanity=rules.check_sanity.output.sanity,
    output:
        **figure_files("sanity/{model}", "Do scores change with model and input?", of=sanity_cells),
    log:
        "<logs>/plot_sanity/{model}.log",
    benchmark:
        "<logs>/plot_sanity/{model}.tsv"
    params:
        **room_job("figures/sanity", "display"),
