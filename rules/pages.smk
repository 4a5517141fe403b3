# In:  summaries and figures; prompts, generations, attributions and soft files of the run.
# Out: <results>/index.html, the front page, and verdicts.txt, its verdicts, which also open the
#      report and close a run; docs.html, documentation for readers; tables/published/, numbers
#      beside the paper's, if the run has one of its models; explorer.html, the scores of single
#      samples, token by token; report.html, which replaces a report older than a result.
from pisoft.workflow.displays import EXPLORER_TEMPLATES, INDEX_TEMPLATES, reported_page


rule build_index:
    input:
        **summary_files("statistics", "comparisons", "ranks", "coverage", "variance_components"),
        metric_validation=if_any("controls", "<data>/summary/metric_validation.parquet"),
        permutation_baseline=if_any("permuted", "<data>/summary/permutation_baseline.parquet"),
        figure=cells("<results>/figures/pi_curves/{protocol}/{model}/{dataset}.svg")[0],
        generations=cells(GENERATIONS),
        attributions=cells(ATTRIBUTIONS),
        soft=cells(SOFT),
    output:
        html=reported_page("<results>/index.html", "Answer"),
        docs="<results>/docs.html",
        verdicts="<results>/verdicts.txt",
    log:
        "<logs>/build_index.log",
    benchmark:
        "<logs>/build_index.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        **job("build_index", "index", *INDEX_TEMPLATES),
        files=named_files,
        outputs=named_outputs,
        links=[
            f"{title}={path.removeprefix('<results>/')}"
            for path, title in (TABLES | FIGURES | PAGES).items()
        ],
        pages=BAR,
        warning=WARNING,
    message:
        "Writing the front page and the docs"
    shell:
        "{params.command} --settings {params.settings:q} --files {params.files:q} "
        "--outputs {params.outputs:q} --links {params.links:q} --pages {params.pages:q} "
        "--warning {params.warning:q} > {log:q} 2>&1"


use rule build_index as note_report with:
    input:
        displays=[*TABLES, *FIGURES],
        pages=["<results>/index.html", *PAGES],
    output:
        html="<results>/report.html",
    log:
        "<logs>/note_report.log",
    benchmark:
        "<logs>/note_report.tsv"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        **job("note_report", "index", *PAGE_TEMPLATES),
        sealed=False,  # Snakemake's --report overwrites it
        files=[],
        links=[],
    message:
        "Noting that there is no report of these results yet"


use rule build_index as compare_with_paper with:
    input:
        **summary_files("statistics"),
        timings=if_any("timed", "<data>/summary/timings.parquet"),
        layer_study=if_any("layer_study", "<data>/summary/layer_study.parquet"),
    output:
        cells="<results>/tables/published/cells.csv",
        agreement="<results>/tables/published/agreement.csv",
        robustness="<results>/tables/published/robustness.csv",
        tex="<results>/tables/published/against_paper.tex",
        html=reported_page("<results>/tables/published/against_paper.html", "Against the paper"),
    log:
        "<logs>/compare_with_paper.log",
    benchmark:
        "<logs>/compare_with_paper.tsv"
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        **job("compare_with_paper", "published", "config/published.csv", *PAGE_TEMPLATES),
        links=[],
    message:
        "Comparing with the paper"


use rule build_index as build_explorer with:
    input:
        prompts=cells(PROMPTS),
        generations=cells(GENERATIONS),
        attributions=cells(ATTRIBUTIONS),
        soft=cells(SOFT, "first_protocol"),
        soft_samples=SAMPLES["soft_samples"],
        soft_sample_curves=SAMPLES["soft_sample_curves"],
        evidence_samples=EVIDENCE_SAMPLES,
        datamodel_samples=DATAMODEL_SAMPLES,
    output:
        html=reported_page("<results>/explorer.html", "Explorer"),
    log:
        "<logs>/build_explorer.log",
    benchmark:
        "<logs>/build_explorer.tsv"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **job("build_explorer", "explorer", *EXPLORER_TEMPLATES),
        links=[],
    message:
        "Building the attribution explorer"
