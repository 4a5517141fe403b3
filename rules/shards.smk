# In:  a cell's shards, if its dataset is cut into shards, and what the whole cell was made from.
# Out: the cell's file, which is read from there on as if there were no shards.


rule join_prompts:
    input:
        shards=shards("<data>/prompts/{model}/{part}.parquet"),
    output:
        joined="<data>/prompts/{model}/{dataset}.parquet",
    log:
        "<logs>/join_prompts/{model}/{dataset}.log",
    benchmark:
        "<logs>/join_prompts/{model}/{dataset}.tsv"
    wildcard_constraints:
        dataset=one_of(SHARDED),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **job("join_shards", "join"),
        kind="prompts",
        files=named_files,
    message:
        "Joining {output.joined}"
    shell:
        "{params.command} --settings {params.settings:q} --kind {params.kind} "
        "--files {params.files:q} --output {output.joined:q} > {log:q} 2>&1"


use rule join_prompts as join_generations with:
    input:
        shards=shards("<data>/generations/{model}/{part}.parquet"),
        prompts="<data>/prompts/{model}/{dataset}.parquet",
    output:
        joined="<data>/generations/{model}/{dataset}.parquet",
    log:
        "<logs>/join_generations/{model}/{dataset}.log",
    benchmark:
        "<logs>/join_generations/{model}/{dataset}.tsv"
    params:
        **job("join_shards", "join"),
        kind="generations",
        files=named_files,


use rule join_prompts as join_attributions with:
    input:
        shards=shards("<data>/attributions/{model}/{method}/{part}.parquet"),
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        generations="<data>/generations/{model}/{dataset}.parquet",
    output:
        joined="<data>/attributions/{model}/{method}/{dataset}.parquet",
    log:
        "<logs>/join_attributions/{model}/{method}/{dataset}.log",
    benchmark:
        "<logs>/join_attributions/{model}/{method}/{dataset}.tsv"
    params:
        **job("join_shards", "join"),
        kind="attributions",
        files=named_files,


use rule join_prompts as join_attribution_times with:
    input:
        shards=shards("<data>/attribution_times/{model}/{method}/{part}.parquet"),
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        generations="<data>/generations/{model}/{dataset}.parquet",
    output:
        joined="<data>/attribution_times/{model}/{method}/{dataset}.parquet",
    log:
        "<logs>/join_attribution_times/{model}/{method}/{dataset}.log",
    benchmark:
        "<logs>/join_attribution_times/{model}/{method}/{dataset}.tsv"
    params:
        **job("join_shards", "join"),
        kind="attribution_times",
        files=named_files,


use rule join_prompts as join_soft with:
    input:
        shards=shards("<data>/soft/{protocol}/{model}/{method}/{part}.parquet"),
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        generations="<data>/generations/{model}/{dataset}.parquet",
        attributions="<data>/attributions/{model}/{method}/{dataset}.parquet",
    output:
        joined="<data>/soft/{protocol}/{model}/{method}/{dataset}.parquet",
    log:
        "<logs>/join_soft/{protocol}/{model}/{method}/{dataset}.log",
    benchmark:
        "<logs>/join_soft/{protocol}/{model}/{method}/{dataset}.tsv"
    params:
        **job("join_shards", "join"),
        kind="soft",
        files=named_files,


use rule join_prompts as join_ranking with:
    input:
        shards=shards("<data>/ranking/{model}/{method}/{part}.parquet"),
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        generations="<data>/generations/{model}/{dataset}.parquet",
        attributions="<data>/attributions/{model}/{method}/{dataset}.parquet",
    output:
        joined="<data>/ranking/{model}/{method}/{dataset}.parquet",
    log:
        "<logs>/join_ranking/{model}/{method}/{dataset}.log",
    benchmark:
        "<logs>/join_ranking/{model}/{method}/{dataset}.tsv"
    params:
        **job("join_shards", "join"),
        kind="ranking",
        files=named_files,


use rule join_prompts as join_inputs with:
    input:
        shards=shards("<data>/inputs/{protocol}/{model}/{part}.parquet"),
        prompts="<data>/prompts/{model}/{dataset}.parquet",
        generations="<data>/generations/{model}/{dataset}.parquet",
    output:
        joined="<data>/inputs/{protocol}/{model}/{dataset}.parquet",
    log:
        "<logs>/join_inputs/{protocol}/{model}/{dataset}.log",
    benchmark:
        "<logs>/join_inputs/{protocol}/{model}/{dataset}.tsv"
    params:
        **job("join_shards", "join"),
        kind="inputs",
        files=named_files,
