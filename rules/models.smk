# In:  the configuration of a tiny model and the embedded tasks it learns.
# Out: <data>/models/{model}/ and <data>/masked_models/{masked_model}/, model folders
#      as `save_pretrained` writes them.


rule train_model:
    output:
        files=expand("<data>/models/{{model}}/{file}", file=MODEL_FILES),
        training="<data>/models/{model}/training.json",
    log:
        "<logs>/train_model/{model}.log",
    benchmark:
        "<logs>/train_model/{model}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("train_model", "train"),
        folder=lambda wildcards, output: Path(output.training).parent,
    message:
        "Training model {wildcards.model}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--output-folder {params.folder:q} > {log:q} 2>&1"


rule train_masked_model:
    output:
        files=expand("<data>/masked_models/{{masked_model}}/{file}", file=MASKED_MODEL_FILES),
        training="<data>/masked_models/{masked_model}/training.json",
    log:
        "<logs>/train_masked_model/{masked_model}.log",
    benchmark:
        "<logs>/train_masked_model/{masked_model}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("train_masked_model", "train_masked"),
        folder=lambda wildcards, output: Path(output.training).parent,
    message:
        "Training masked model {wildcards.masked_model}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--output-folder {params.folder:q} > {log:q} 2>&1"
