# In:  <data>/samples/{part}.parquet and a model's tokenizer.
# Out: <data>/prompts/{model}/{part}.parquet, token ids and masks.


rule build_prompts:
    input:
        samples=rules.sample_dataset.output.samples,
        model=SOURCES.tokenizer,
    output:
        prompts="<data>/prompts/{model}/{part}.parquet",
    log:
        "<logs>/build_prompts/{model}/{part}.log",
    benchmark:
        "<logs>/build_prompts/{model}/{part}.tsv"
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **job("build_prompts", "prompt"),
    message:
        "Building prompts of {wildcards.part} for {wildcards.model}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--samples {input.samples:q} "
        "--model {input.model:q} --output {output.prompts:q} > {log:q} 2>&1"
