# In:  <data>/samples/{part}.parquet and a model's tokenizer.
# Out: <data>/prompts/{model}/{part}.parquet, token ids and masks.


rule build_prompts:
    input:
        samples=rules.sample_dataset.output.samples,
        model=WEIGHTS.files,
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
        model=WEIGHTS.option,
    message:
        "Building prompts of {wildcards.part} for {wildcards.model}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--samples {input.samples:q} "
        "{params.model} --output {output.prompts:q} > {log:q} 2>&1"
