# In:  a hub, by its branch or tag.
# Out: <data>/commits/{kind}/{repository}/{revision}.json, the commit that all jobs of the run read.
#      It stays as it is until it is asked for anew: --forcerun resolve_commit.


rule resolve_commit:
    localrule: True # computing nodes may have no network
    output:
        commit="<data>/commits/{kind}/{repository}/{revision}.json",
    log:
        "<logs>/resolve_commit/{kind}/{repository}/{revision}.log",
    benchmark:
        "<logs>/resolve_commit/{kind}/{repository}/{revision}.tsv"
    wildcard_constraints:
        kind="models|datasets",
        repository=one_of(sorted({source.repository for source in hub_sources(CONFIG)})),
        revision=one_of(sorted({source.revision for source in hub_sources(CONFIG)})),
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
