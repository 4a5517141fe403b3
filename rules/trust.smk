# In:  the evaluated cells of constructed scores, permuted twins and the search; inspected inputs;
#      attributions of methods on a model that knows less.
# Out: <data>/summary/controls/, twins/ and search/, samples of those alone, and what they tell:
#      diagnosis, oracle_scale, twins; sanity, whether scores change with model and input; and
#      language, what the model makes of perturbed inputs.
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


use rule summarise_stored_draws as summarise_stored_draws_of_controls with:
    input:
        prompts=control_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=[
            *control_cells(f"<data>/attributions/{{model}}/{CONTROL}/{{part}}.parquet"),
            *control_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
        ],
        soft=control_cells(f"<data>/soft/{{protocol}}/{{model}}/{CONTROL}/{{part}}.parquet"),
    output:
        stored_samples="<data>/summary/controls/stored_samples.parquet",
    log:
        "<logs>/summarise_stored_draws_of_controls.log",
    benchmark:
        "<logs>/summarise_stored_draws_of_controls.tsv"
    params:
        **room_job("statistics/stored_draws", "stored_draws"),


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
if STORED_SAMPLES and SOME_CONTROLS:
    OF_CONTROLS["stored_samples"] = [
        *STORED_SAMPLES,
        *rules.summarise_stored_draws_of_controls.output,
    ]


use rule summarise as diagnose_metrics with:
    input:
        **OF_CONTROLS,
    output:
        diagnosis="<data>/summary/diagnosis.parquet",
    log:
        "<logs>/diagnose_metrics.log",
    benchmark:
        "<logs>/diagnose_metrics.tsv"
    params:
        **room_job("statistics/diagnosis", "diagnosis"),


use rule summarise as scale_by_oracle with:
    input:
        **OF_CONTROLS | {"soft_samples": [*OF_CONTROLS["soft_samples"], *SEARCH_SAMPLES]},
    output:
        oracle_scale="<data>/summary/oracle_scale.parquet",
    log:
        "<logs>/scale_by_oracle.log",
    benchmark:
        "<logs>/scale_by_oracle.tsv"
    params:
        **room_job("statistics/oracle_scale", "resampling"),


use rule summarise as summarise_twins with:
    input:
        soft=twin_cells("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
    output:
        soft_samples="<data>/summary/twins/soft_samples.parquet",
        soft_curves="<data>/summary/twins/soft_curves.parquet",
        soft_sample_curves="<data>/summary/twins/soft_sample_curves.parquet",
    log:
        "<logs>/summarise_twins.log",
    benchmark:
        "<logs>/summarise_twins.tsv"
    params:
        **room_job("statistics/soft", "summarise"),


use rule summarise as compare_with_twins with:
    input:
        soft_samples=[
            rules.summarise.output.soft_samples,
            rules.summarise_twins.output.soft_samples,
        ],
    output:
        twins="<data>/summary/twins.parquet",
    log:
        "<logs>/compare_with_twins.log",
    benchmark:
        "<logs>/compare_with_twins.tsv"
    params:
        **room_job("statistics/twins", "twins"),


use rule summarise as check_sanity with:
    input:
        prompts=checked_cells("<data>/prompts/{model}/{part}.parquet"),
        attributions=[
            *checked_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
            *sanity_cells("<data>/attributions/{model}/{method}/{part}.parquet"),
        ],
    output:
        sanity="<data>/summary/sanity.parquet",
    log:
        "<logs>/check_sanity.log",
    benchmark:
        "<logs>/check_sanity.tsv"
    params:
        **room_job("statistics/sanity", "sanity"),


use rule summarise as summarise_language with:
    input:
        inputs=inspected_cells("<data>/inputs/{protocol}/{model}/{part}.parquet"),
    output:
        language="<data>/summary/language.parquet",
    log:
        "<logs>/summarise_language.log",
    benchmark:
        "<logs>/summarise_language.tsv"
    params:
        **room_job("statistics/language", "resampling"),
