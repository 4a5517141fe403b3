# Contents of the workflow: data flows from the first include to the last.
from snakemake.utils import min_version

min_version("9.27")


# A file given by --configfile replaces the embedded default; it is not merged into it.
if not workflow.overwrite_configfiles:

    configfile: f"{workflow.current_basedir}/config/config.yaml"


include: "rules/common.smk"


# What <results> (for people), <data> (for jobs) and <logs> (with times) stand for in paths.
pathvars:
    results=str(RESULTS),
    data=str(DATA),
    logs=f"{RESULTS}/logs",


wildcard_constraints:
    protocol=one_of(CONFIG.run_file.protocols),
    # With their mark, or empty.
    operator=f"|{one_of(sorted({c.wildcards['operator'] for c in CONFIG.cells('operators')}))}",
    variant=f"|{one_of(sorted({c.wildcards['variant'] for c in CONFIG.cells('sanity_checks')}))}",
    model=one_of(CONFIG.models),
    masked_model=one_of(CONFIG.masked_models),
    dataset=one_of(CONFIG.datasets),
    part=part_constraint(CONFIG),
    method=one_of(CONFIG.evaluated_methods),


report: "rules/captions/workflow.rst"


include: "rules/hub.smk"
include: "rules/datasets.smk"
include: "rules/models.smk"
include: "rules/prompts.smk"
include: "rules/generations.smk"
include: "rules/attributions.smk"
include: "rules/evaluations.smk"
include: "rules/summaries.smk"
include: "rules/displays.smk"
include: "rules/pages.smk"
include: "rules/checks.smk"
include: "rules/driver.smk"


rule all:
    default_target: True
    input:
        tables=[*TABLES],
        figures=[*FIGURES],
        front=expand("<results>/{name}", name=["index.html", "verdicts.txt", "report.html"]),
        pages=[*PAGES, "<results>/docs.html"],
    message:
        "All results are there"
