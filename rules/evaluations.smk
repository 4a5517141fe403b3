# In:  prompts, generations, attributions and the model.
# Out: results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet, the distance of every draw;
#      results/{run}/ranking/{model}/{method}/{dataset}.parquet, whether each step of insertion and
#      deletion flips the label word.


rule evaluate_soft:
    input:
        prompts=rules.build_prompts.output.prompts,
        generations=rules.generate.output.generations,
        attributions=rules.attribute.output.attributions,
        model=model_files,
        script="scripts/evaluate_soft.py",
        code=code(
            "curves",
            "faithfulness/budget",
            "faithfulness/calibration",
            "faithfulness/distances",
            "faithfulness/masks",
            "faithfulness/perturbation",
            "faithfulness/scope",
            "faithfulness/scores",
            "faithfulness/soft",
            "keyed",
            "lm/attention",
            "lm/batching",
            "lm/loading",
            "lm/model",
            "lm/precision",
            "lm/prefix",
            "lm/repository",
            "lm/tokenizer",
        ),
    output:
        soft="results/{run}/soft/{protocol}/{model}/{method}/{dataset}.parquet",
    log:
        "results/{run}/logs/evaluate_soft/{protocol}/{model}/{method}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/evaluate_soft/{protocol}/{model}/{method}/{dataset}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: model_resource("threads")
    resources:
        gpu=model_resource("gpu"),
        mem_mb=model_resource("mem_mb"),
        runtime=model_resource("runtime"),
    params:
        settings=settings("evaluate"),
        model_folder=model_folder_option,
    message:
        "Evaluating {wildcards.method} on {wildcards.model}, {wildcards.dataset} "
        "({wildcards.protocol} routing)"
    shell:
        "python {input.script} --settings {params.settings:q} --prompts {input.prompts:q} "
        "--generations {input.generations:q} --attributions {input.attributions:q} "
        "{params.model_folder} --output {output.soft:q} > {log:q} 2>&1"


rule evaluate_ranking:
    input:
        prompts=rules.build_prompts.output.prompts,
        generations=rules.generate.output.generations,
        attributions=rules.attribute.output.attributions,
        model=model_files,
        script="scripts/evaluate_ranking.py",
        code=code(
            "faithfulness/ranking",
            "faithfulness/scope",
            "keyed",
            "lm/attention",
            "lm/batching",
            "lm/generation",
            "lm/loading",
            "lm/model",
            "lm/precision",
            "lm/prefix",
            "lm/repository",
            "lm/tokenizer",
        ),
    output:
        ranking="results/{run}/ranking/{model}/{method}/{dataset}.parquet",
    log:
        "results/{run}/logs/evaluate_ranking/{model}/{method}/{dataset}.log",
    benchmark:
        "results/{run}/benchmarks/evaluate_ranking/{model}/{method}/{dataset}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: model_resource("threads")
    resources:
        gpu=model_resource("gpu"),
        mem_mb=model_resource("mem_mb"),
        runtime=model_resource("runtime"),
    params:
        settings=settings("ranking"),
        model_folder=model_folder_option,
    message:
        "Ranking by {wildcards.method} on {wildcards.model}, {wildcards.dataset}"
    shell:
        "python {input.script} --settings {params.settings:q} --prompts {input.prompts:q} "
        "--generations {input.generations:q} --attributions {input.attributions:q} "
        "{params.model_folder} --output {output.ranking:q} > {log:q} 2>&1"
