# In:  prompts, generations, the model, the method's module, and the masked model if it needs one;
#      or a file of imported scores; or the evidence, or another method's scores.
# Out: <data>/attributions/{model}{variant}/{method}/{part}.parquet, raw scores by step;
#      <data>/attribution_times/{model}{variant}/{method}/{part}.parquet, their times, in a
#      separate file: scores that are recomputed alike then re-run no evaluation;
#      <data>/to_score.parquet, the inputs for scores that are computed elsewhere.


rule attribute:
    input:
        **SOURCES.explained,
        model=SOURCES.model,
        masked_model=SOURCES.masked_model,
    output:
        attributions="<data>/attributions/{model}{variant}/{method}/{part}.parquet",
        times="<data>/attribution_times/{model}{variant}/{method}/{part}.parquet",
    log:
        "<logs>/attribute/{model}{variant}/{method}/{part}.log",
    benchmark:
        "<logs>/attribute/{model}{variant}/{method}/{part}.tsv"
    wildcard_constraints:
        method=one_of(COMPUTED),
    conda:
        "../envs/lm.yaml"
    threads: model_threads
    resources:
        **model_resources("attribute"),
    params:
        **job("attribute", "attribute", module=SOURCES.method_module),
    message:
        "Attributing {wildcards.model}{wildcards.variant} on {wildcards.part} by {wildcards.method}"
    shell:
        "{params.command} --settings {params.settings:q} --gpus {resources.gpu} "
        "--prompts {input.prompts:q} "
        "--generations {input.generations:q} --model {input.model:q} "
        "--masked-model {input.masked_model:q} --output {output.attributions:q} --times {output.times:q} "
        "> {log:q} 2>&1"


rule export_prompts:
    input:
        prompts=cells("<data>/prompts/{model}/{part}.parquet"),
        generations=cells("<data>/generations/{model}/{part}.parquet"),
    output:
        to_score="<data>/to_score.parquet",
    log:
        "<logs>/export_prompts.log",
    benchmark:
        "<logs>/export_prompts.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **job("export_prompts", "export"),
        files=named_files,
        outputs=named_outputs,
    message:
        "Writing {output.to_score}"
    shell:
        "{params.command} --settings {params.settings:q} --files {params.files:q} "
        "--outputs {params.outputs:q} > {log:q} 2>&1"


# Imported scores have no times. The path of their file is no setting: its content is compared.
use rule export_prompts as import_scores with:
    input:
        prompts=rules.build_prompts.output.prompts,
        generations=rules.generate.output.generations,
        whole=SOURCES.all_parts("<data>/prompts/{model}/{part}.parquet"),
        scores=SOURCES.given_scores,
    output:
        attributions="<data>/attributions/{model}/{method}/{part}.parquet",
    log:
        "<logs>/import_scores/{model}/{method}/{part}.log",
    benchmark:
        "<logs>/import_scores/{model}/{method}/{part}.tsv"
    wildcard_constraints:
        method=one_of(CONFIG.sources(ScoresFile)),
    params:
        **job("import_scores", "import"),
    message:
        "Importing scores of {wildcards.model} on {wildcards.part} by {wildcards.method}"


# Constructed scores, and permuted scores of methods; they have no times.
use rule export_prompts as construct_scores with:
    input:
        **SOURCES.explained,
        attributions=SOURCES.permuted_scores,
    output:
        attributions="<data>/attributions/{model}/{method}/{part}.parquet",
    log:
        "<logs>/construct_scores/{model}/{method}/{part}.log",
    benchmark:
        "<logs>/construct_scores/{model}/{method}/{part}.tsv"
    wildcard_constraints:
        method=one_of(CONFIG.sources(Control, Permuted)),
    params:
        **job("construct_scores", "construct"),
    message:
        "Making the scores {wildcards.method} of {wildcards.model} on {wildcards.part}"
