# In:  the hub.
# Out: <data>/commits/{kind}/{repository}/{revision}.json, the commit that all jobs of the run read.
#      It stays unchanged until `--forcerun resolve_commit`;
#      <data>/fetched.txt, the downloads of `make fetch`. No other job needs it.

HUB_SOURCES = [*hub_models(CONFIG), *hub_datasets(CONFIG).values()]


rule resolve_commit:
    output:
        commit="<data>/commits/{kind}/{repository}/{revision}.json",
    log:
        "<logs>/resolve_commit/{kind}/{repository}/{revision}.log",
    benchmark:
        "<logs>/resolve_commit/{kind}/{repository}/{revision}.tsv"
    wildcard_constraints:
        kind="models|datasets",
        repository=one_of(sorted({source.repository for source in HUB_SOURCES})),
        revision=one_of(sorted({source.revision for source in HUB_SOURCES})),
    localrule: True  # compute nodes may have no network
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        **job("resolve_commit", "resolve"),
    message:
        "Resolving {wildcards.repository} at {wildcards.revision}"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--output {output.commit:q} > {log:q} 2>&1"


rule fetch_hub:
    input:
        commits=[str(commit_file(DATA, model)) for model in hub_models(CONFIG)],
        records=[f"<data>/datasets/{name}.parquet" for name in hub_datasets(CONFIG)],
    output:
        fetched="<data>/fetched.txt",
    log:
        "<logs>/fetch_hub.log",
    benchmark:
        "<logs>/fetch_hub.tsv"
    localrule: True
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=600,
    params:
        **job("fetch_hub", "fetch_hub"),
    message:
        "Downloading models of the hub"
    shell:
        "{params.command} --settings {params.settings:q} --commits {input.commits:q} "
        "--output {output.fetched:q} 2>&1 | tee {log:q}"
