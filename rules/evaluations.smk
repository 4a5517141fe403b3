# In:  prompts, generations, attributions and the model. The first three may hold more samples than
#      one evaluation. For counterfactuals, also the masked model, or prompts of the whole dataset.
# Out: <data>/soft/{protocol}{operator}/{model}/{method}/{part}.parquet, the distance of every draw;
#      <data>/inputs/{protocol}/{model}/{part}.parquet, the model's response to such inputs;
#      <data>/ranking/{model}/{method}/{part}.parquet, whether each step flips the label word.


rule evaluate_soft:
    input:
        **SOURCES.evaluated,
    output:
        soft="<data>/soft/{protocol}{operator}/{model}/{method}/{part}.parquet",
    log:
        "<logs>/evaluate_soft/{protocol}{operator}/{model}/{method}/{part}.log",
    benchmark:
        "<logs>/evaluate_soft/{protocol}{operator}/{model}/{method}/{part}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: model_threads
    resources:
        **model_resources("evaluate_soft"),
    params:
        **job("evaluate_soft", "evaluate"),
    message:
        "Evaluating {wildcards.method} on {wildcards.model}, {wildcards.part} "
        "({wildcards.protocol}{wildcards.operator} routing)"
    shell:
        "{params.command} --settings {params.settings:q} --gpus {resources.gpu} "
        "--prompts {input.prompts:q} "
        "--generations {input.generations:q} --attributions {input.attributions:q} "
        "--model {input.model:q} --output {output:q} > {log:q} 2>&1"


rule inspect_inputs:
    input:
        prompts=rules.build_prompts.output.prompts,
        generations=rules.generate.output.generations,
        model=SOURCES.model,
    output:
        inputs="<data>/inputs/{protocol}/{model}/{part}.parquet",
    log:
        "<logs>/inspect_inputs/{protocol}/{model}/{part}.log",
    benchmark:
        "<logs>/inspect_inputs/{protocol}/{model}/{part}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: model_threads
    resources:
        **model_resources("inspect_inputs"),
    params:
        **job("inspect_inputs", "inspect"),
    message:
        "Inspecting perturbed inputs of {wildcards.model}, {wildcards.part} "
        "({wildcards.protocol} routing)"
    shell:
        "{params.command} --settings {params.settings:q} --gpus {resources.gpu} "
        "--prompts {input.prompts:q} --generations {input.generations:q} "
        "--model {input.model:q} --output {output.inputs:q} > {log:q} 2>&1"


use rule evaluate_soft as evaluate_ranking with:
    input:
        **SOURCES.evaluated,
        replacements=SOURCES.replacements,
    output:
        ranking="<data>/ranking/{model}/{method}/{part}.parquet",
    log:
        "<logs>/evaluate_ranking/{model}/{method}/{part}.log",
    benchmark:
        "<logs>/evaluate_ranking/{model}/{method}/{part}.tsv"
    resources:
        **model_resources("evaluate_ranking"),
    params:
        **job("evaluate_ranking", "ranking", option="replacements"),
    message:
        "Ranking by {wildcards.method} on {wildcards.model}, {wildcards.part}"
