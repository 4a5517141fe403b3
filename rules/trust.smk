# In:  the evaluated cells of constructed scores, permuted twins and the search; inspected inputs;
#      attributions of methods on a model that knows less.
# Out: <data>/summary/controls/, twins/ and search/, samples of those alone, and what they tell:
#      diagnosis, oracle_scale, twins; sanity, whether scores change with model and input; and
#      off_distribution, what the model makes of perturbed inputs.
# Whether the metrics can be trusted: nothing in here changes a number of the methods themselves.


use rule summarise as summarise_controls with:
    input:
        soft=control_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        soft_samples="<data>/summary/controls/soft_samples.parquet",
        soft_curves="<data>/summary/controls/soft_curves.parquet",
        soft_sample_curves="<data>/summary/controls/soft_sample_curves.parquet",
    log:
        "<logs>/summarise_controls.log",
    benchmark:
        "<logs>/summarise_controls.tsv"
    params:
        **room_job("statistics/soft", "summarise"),


use rule summarise_ranking as summarise_ranking_of_controls with:
    input:
        ranking=ranked_control_cells("<data>/ranking/{model}/{method}/{part}.parquet"),
    output:
        ranking_samples="<data>/summary/controls/ranking_samples.parquet",
    log:
        "<logs>/summarise_ranking_of_controls.log",
    benchmark:
        "<logs>/summarise_ranking_of_controls.tsv"
    params:
        **room_job("statistics/insertion_deletion", "summarise_ranking"),


use rule summarise_datamodel_scores as summarise_datamodel_scores_of_controls with:
    input:
        prompts=control_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=[
            *control_cells(f"<data>/attributions/{{model}}/{CONTROL}/{{part}}.parquet"),
            *control_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
        ],
        soft=control_cells(f"<data>/soft/{{protocol}}/{{model}}/{CONTROL}/{{part}}.parquet"),
    output:
        datamodel_samples="<data>/summary/controls/datamodel_samples.parquet",
    log:
        "<logs>/summarise_datamodel_scores_of_controls.log",
    benchmark:
        "<logs>/summarise_datamodel_scores_of_controls.tsv"
    params:
        **room_job("statistics/datamodel_scores", "datamodel"),


use rule summarise as summarise_search with:
    input:
        soft=search_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        soft_samples="<data>/summary/search/soft_samples.parquet",
    log:
        "<logs>/summarise_search.log",
    benchmark:
        "<logs>/summarise_search.tsv"
    params:
        **room_job("statistics/search", "summarise"),


SEARCH_SAMPLES = [*(rules.summarise_search.output if search_cells("{dataset}") else [])]
# Files of a kind: of the methods, and of the controls, if there are any.
SOME_CONTROLS = bool(control_cells("{dataset}"))
OF_CONTROLS = {
    kind: [
        rules.summarise.output[kind],
        *([rules.summarise_controls.output[kind]] if SOME_CONTROLS else []),
    ]
    for kind in ("soft_samples", "soft_curves", "soft_sample_curves")
}
if ranked_control_cells("{dataset}"):
    OF_CONTROLS["ranking_samples"] = [
        *rules.summarise_ranking.output,
        *rules.summarise_ranking_of_controls.output,
    ]
if DATAMODEL_SAMPLES and SOME_CONTROLS:
    OF_CONTROLS["datamodel_samples"] = [
        *DATAMODEL_SAMPLES,
        *rules.summarise_datamodel_scores_of_controls.output,
    ]


use rule summarise as validate_metrics with:
    input:
        **OF_CONTROLS,
    output:
        metric_validation="<data>/summary/metric_validation.parquet",
    log:
        "<logs>/validate_metrics.log",
    benchmark:
        "<logs>/validate_metrics.tsv"
    params:
        **room_job("statistics/metric_validation", "diagnosis"),


use rule summarise as normalise_scores with:
    input:
        **OF_CONTROLS | {"soft_samples": [*OF_CONTROLS["soft_samples"], *SEARCH_SAMPLES]},
    output:
        normalised_scores="<data>/summary/normalised_scores.parquet",
    log:
        "<logs>/normalise_scores.log",
    benchmark:
        "<logs>/normalise_scores.tsv"
    params:
        **room_job("statistics/normalised_scores", "resampling"),


use rule summarise as summarise_twins with:
    input:
        soft=twin_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        soft_samples="<data>/summary/permutation_baseline/soft_samples.parquet",
        soft_curves="<data>/summary/permutation_baseline/soft_curves.parquet",
        soft_sample_curves="<data>/summary/permutation_baseline/soft_sample_curves.parquet",
    log:
        "<logs>/summarise_twins.log",
    benchmark:
        "<logs>/summarise_twins.tsv"
    params:
        **room_job("statistics/soft", "summarise"),


use rule summarise as estimate_permutation_baseline with:
    input:
        soft_samples=[
            rules.summarise.output.soft_samples,
            rules.summarise_twins.output.soft_samples,
        ],
    output:
        permutation_baseline="<data>/summary/permutation_baseline.parquet",
    log:
        "<logs>/estimate_permutation_baseline.log",
    benchmark:
        "<logs>/estimate_permutation_baseline.tsv"
    params:
        **room_job("statistics/permutation_baseline", "twins"),


use rule summarise as check_sanity with:
    input:
        prompts=checked_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=[
            *checked_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
            *sanity_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
        ],
    output:
        sanity_checks="<data>/summary/sanity_checks.parquet",
    log:
        "<logs>/check_sanity.log",
    benchmark:
        "<logs>/check_sanity.tsv"
    params:
        **room_job("statistics/sanity_checks", "sanity"),


use rule summarise as summarise_off_distribution with:
    input:
        inputs=inspected_cells("<data>/inputs/{protocol}/{model}/{part}.parquet"),
    output:
        off_distribution="<data>/summary/off_distribution.parquet",
    log:
        "<logs>/summarise_off_distribution.log",
    benchmark:
        "<logs>/summarise_off_distribution.tsv"
    params:
        **room_job("statistics/off_distribution", "resampling"),
