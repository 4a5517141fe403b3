# In:  the configuration of a tiny model and the embedded tasks it learns; a GGUF file.
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
        model=models_of(CONFIG, "trained"),
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


rule dequantise_model:
    input:
        weights=lambda wildcards: CONFIG.models[wildcards.model].source.path,
    output:
        files=expand("<data>/models/{{model}}/{file}", file=MODEL_FILES),
        report="<data>/models/{model}/gguf.json",
    log:
        "<logs>/dequantise_model/{model}.log",
    benchmark:
        "<logs>/dequantise_model/{model}.tsv"
    wildcard_constraints:
        model=models_of(CONFIG, "gguf"),
    conda:
        "../envs/lm.yaml"
    threads: 1
    resources:
        # The tensors of the file, and the weights that they become.
        mem_mb=lambda wildcards, input: 2000 + 12 * os.path.getsize(input.weights) // 10**6,
        runtime=30,
    params:
        **job("dequantise_model", "dequantise"),
        folder=lambda wildcards, output: Path(output.report).parent,
    message:
        "Dequantising model {wildcards.model}"
    shell:
        "{params.command} --settings {params.settings:q} --weights {input.weights:q} "
        "--output-folder {params.folder:q} > {log:q} 2>&1"
