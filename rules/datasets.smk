# In:  the hub, local files, or the generator of synthetic records.
# Out: <data>/datasets/{dataset}.parquet, every record;
#      <data>/samples/{part}.parquet, the sampled records; local files are read directly.


rule fetch_dataset:
    input:
        records=SOURCES.records,
        commit=SOURCES.commit,
    output:
        records="<data>/datasets/{dataset}.parquet",
    log:
        "<logs>/fetch_dataset/{dataset}.log",
    benchmark:
        "<logs>/fetch_dataset/{dataset}.tsv"
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **job("fetch_dataset", "fetch"),
    message:
        "Fetching dataset {wildcards.dataset}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--commit {input.commit:q} --output {output.records:q} > {log:q} 2>&1"


rule sample_dataset:
    input:
        records=SOURCES.candidates,
    output:
        samples="<data>/samples/{part}.parquet",
    log:
        "<logs>/sample_dataset/{part}.log",
    benchmark:
        "<logs>/sample_dataset/{part}.tsv"
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        **job("sample_dataset", "sample"),
        records=SOURCES.records_of_part,
    message:
        "Sampling dataset {wildcards.part}"
    shell:
        "{params.command} --settings {params.settings:q} --records {input.records:q} "
        "--output {output.samples:q} > {log:q} 2>&1"
