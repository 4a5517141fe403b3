# In:  the configuration of a tiny model and the embedded tasks it learns; a GGUF file;
#      the commit of a model on the hub that is quantised.
# Out: <data>/models/{model}{variant}/ and <data>/masked_models/{masked_model}/, model folders as
#      `save_pretrained` writes them.


rule train_model:
    output:
        files=expand("<data>/models/{{model}}{{variant}}/{file}", file=MODEL_FILES),
        training="<data>/models/{model}{variant}/training.json",
    log:
        "<logs>/train_model/{model}{variant}.log",
    benchmark:
        "<logs>/train_model/{model}{variant}.tsv"
    wildcard_constraints:
        model=one_of(
            name for name, entry in CONFIG.models.items() if entry.source.kind == "trained"
        ),
        variant=f"|{MARK}{SHUFFLED_LABELS}",
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
        "Training model {wildcards.model}{wildcards.variant}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--output-folder {params.folder:q} > {log:q} 2>&1"


use rule train_model as make_masked_model with:
    output:
        files=expand("<data>/masked_models/{{masked_model}}/{file}", file=MASKED_MODEL_FILES),
        training="<data>/masked_models/{masked_model}/training.json",
    log:
        "<logs>/make_masked_model/{masked_model}.log",
    benchmark:
        "<logs>/make_masked_model/{masked_model}.tsv"
    wildcard_constraints:
        masked_model=one_of(CONFIG.masked_models),
    params:
        **job("make_masked_model", "make_masked"),
    message:
        "Making masked model {wildcards.masked_model}"


rule convert_model:
    input:
        model=SOURCES.original_model,
    output:
        files=expand("<data>/models/{{model}}/{file}", file=MODEL_FILES),
        origin="<data>/models/{model}/origin.json",
    log:
        "<logs>/convert_model/{model}.log",
    benchmark:
        "<logs>/convert_model/{model}.tsv"
    wildcard_constraints:
        model=one_of(name for name, entry in CONFIG.models.items() if entry.is_converted),
    conda:
        "../envs/lm.yaml"
    threads: model_threads
    resources:
        **model_resources("convert_model"),
    params:
        **job("convert_model", "convert"),
        folder=lambda wildcards, output: Path(output.origin).parent,
    message:
        "Converting model {wildcards.model}"
    shell:
        "{params.command} --settings {params.settings:q} --gpus {resources.gpu} "
        "--model {input.model:q} --output-folder {params.folder:q} > {log:q} 2>&1"
