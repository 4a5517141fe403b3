# In:  summaries and figures; prompts, generations, attributions and soft files of the run.
# Out: <results>/index.html, the front page, and verdicts.txt, what it says first, with which the
#      report begins and a run ends; <results>/tables/published/, the run's numbers beside the
#      paper's; <results>/explorer.html, the scores of single samples, token by token.
# The report sorts categories by name, so they are numbered.

PAGE_TEMPLATES = [
    *TABLE_TEMPLATES,
    *(f"scripts/pisoft/pages/templates/{name}.jinja" for name in ("page.html", "page.tex")),
]
EXPLORER_TEMPLATES = [
    f"scripts/pisoft/pages/templates/explorer.{end}" for end in ("html.jinja", "css", "js")
]
# Titles of the pages that the front page links to, by path.
PAGES = {"<results>/tables/published/against_paper.html": "Against the paper"}
if CONFIG.run_file.explorer:
    PAGES["<results>/explorer.html"] = "Scores token by token"
LINKS = [
    f"{title}={path.removeprefix('<results>/')}"
    for path, title in (TABLES | FIGURES | PAGES).items()
]


rule build_index:
    input:
        **of_kinds("statistics", "comparisons", "ranks", "coverage"),
        figure=cells("<results>/figures/pi_curves/{protocol}/{model}/{dataset}.svg")[0],
        generations=cells(GENERATIONS),
    output:
        html=report(
            "<results>/index.html",
            caption="captions/index.rst",
            category="1 Overview",
            labels={"page": "A first reading"},
        ),
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
        **job("build_index", "index", *PAGE_TEMPLATES),
        files=named_files,
        links=LINKS,
        warning=WARNING,
    message:
        "Writing the front page"
    shell:
        "{params.command} --settings {params.settings:q} --files {params.files:q} "
        "--links {params.links:q} --warning {params.warning:q} "
        "--output {output.html:q} --verdicts {output.verdicts:q} > {log:q} 2>&1"


rule compare_with_paper:
    input:
        **of_kinds("statistics"),
        timings=if_any("timed", "<data>/summary/timings.parquet"),
        layer_study=if_any("layer_study", SAMPLES["layer_study"]),
    output:
        cells="<results>/tables/published/cells.csv",
        agreement="<results>/tables/published/agreement.csv",
        robustness="<results>/tables/published/robustness.csv",
        tex="<results>/tables/published/against_paper.tex",
        html=report(
            "<results>/tables/published/against_paper.html",
            caption="captions/against_paper.rst",
            category="1 Overview",
            labels={"page": "Against the paper"},
        ),
    log:
        "<logs>/compare_with_paper.log",
    benchmark:
        "<logs>/compare_with_paper.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        **job("compare_with_paper", "published", "config/published.csv", *PAGE_TEMPLATES),
        explorer=explorer_address,
        warning=WARNING,
    message:
        "Comparing with the paper"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--statistics {input.statistics:q} --timings {input.timings:q} "
        "--layer-study {input.layer_study:q} --explorer {params.explorer:q} "
        "--warning {params.warning:q} "
        "--cells {output.cells:q} --agreement {output.agreement:q} "
        "--robustness {output.robustness:q} --tex {output.tex:q} --html {output.html:q} "
        "> {log:q} 2>&1"


rule build_explorer:
    input:
        prompts=cells(PROMPTS),
        generations=cells(GENERATIONS),
        attributions=cells(ATTRIBUTIONS),
        soft=cells(SOFT, "first_protocol"),
        soft_samples=SAMPLES["soft_samples"],
        evidence_samples=EVIDENCE_SAMPLES,
        datamodel_samples=DATAMODEL_SAMPLES,
    output:
        html=report(
            "<results>/explorer.html",
            caption="captions/explorer.rst",
            category="1 Overview",
            labels={"page": "Scores token by token"},
        ),
    log:
        "<logs>/build_explorer.log",
    benchmark:
        "<logs>/build_explorer.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **job("build_explorer", "explorer", *EXPLORER_TEMPLATES),
        files=named_files,
        warning=WARNING,
    message:
        "Building the attribution explorer"
    shell:
        "{params.command} --settings {params.settings:q} "
        "--files {params.files:q} --warning {params.warning:q} "
        "--output {output.html:q} > {log:q} 2>&1"
