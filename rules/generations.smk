# In:  <data>/prompts/{model}/{part}.parquet and the model.
# Out: <data>/generations/{model}/{part}.parquet, answers and explained steps.


rule generate:
    input:
        prompts=rules.build_prompts.output.prompts,
        model=SOURCES.model,
    output:
        generations="<data>/generations/{model}/{part}.parquet",
    log:
        "<logs>/generate/{model}/{part}.log",
    benchmark:
        "<logs>/generate/{model}/{part}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: model_threads
    resources:
        **model_resources("generate"),
    params:
        **job("generate", "generate"),
    message:
        "Generating with {wildcards.model} on {wildcards.part}"
    shell:
        "{params.command} --settings {params.settings:q} --gpus {resources.gpu} "
        "--prompts {input.prompts:q} "
        "--model {input.model:q} --output {output.generations:q} > {log:q} 2>&1"
