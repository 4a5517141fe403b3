# In:  prompts, generations, the model, one method's own file, and the masked model if it needs one.
# Out: <data>/attributions/{model}/{method}/{part}.parquet, raw scores by step;
#      <data>/attribution_times/{model}/{method}/{part}.parquet, what they took. It is apart,
#      so that scores made again are the same file, after which nothing is evaluated again.


rule attribute:
    input:
        prompts=rules.build_prompts.output.prompts,
        generations=rules.generate.output.generations,
        model=model_files,
        masked_model=masked_model_files,
    output:
        attributions="<data>/attributions/{model}/{method}/{part}.parquet",
        times="<data>/attribution_times/{model}/{method}/{part}.parquet",
    log:
        "<logs>/attribute/{model}/{method}/{part}.log",
    benchmark:
        "<logs>/attribute/{model}/{method}/{part}.tsv"
    conda:
        "../envs/lm.yaml"
    threads: model_resource("threads")
    resources:
        gpu=model_resource("gpu"),
        mem_mb=growing_resource("mem_mb"),
        runtime=growing_resource("runtime"),
    params:
        **job("attribute", "attribute", module=method_module),
        model=model_option,
        masked_model=masked_model_option,
    message:
        "Attributing {wildcards.model} on {wildcards.part} by {wildcards.method}"
    shell:
        "{params.command} --settings {params.settings:q} --gpus {resources.gpu} "
        "--prompts {input.prompts:q} "
        "--generations {input.generations:q} {params.model} "
        "{params.masked_model} --output {output.attributions:q} --times {output.times:q} "
        "> {log:q} 2>&1"
