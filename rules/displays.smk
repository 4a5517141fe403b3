# In:  <data>/summary/; prompts, generations, attributions, evaluated cells of single samples.
# Out: <results>/tables/, each table as CSV, LaTeX and HTML; <results>/figures/, each figure as PDF,
#      SVG and PNG, some with their numbers as CSV.
# A table is a decorated function in scripts/pisoft/tables/NAME.py, a figure one in figures/NAME.py;
# captions/tables/NAME.rst or captions/figures/NAME.rst is its caption, if it has one. One job makes
# all tables, and one job all figures of a kind.


rule tabulate:
    input:
        **display_inputs(DISPLAYS["tables"]),
    output:
        **display_outputs("tables", DISPLAYS["tables"]),
    log:
        "<logs>/tabulate.log",
    benchmark:
        "<logs>/tabulate.tsv"
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **display_job("tabulate_results", "tables", DISPLAYS["tables"], *TABLE_TEMPLATES),
        explorer=f"{RESULTS}/explorer.html" if CONFIG.run_file.explorer else "",
        warning=WARNING,
    message:
        "Writing all tables"
    shell:
        "{params.command} --settings {params.settings:q} --files {params.files:q} "
        "--explorer {params.explorer:q} --warning {params.warning:q} "
        "--folder {params.folder:q} --show {params.show:q} > {log:q} 2>&1"


for figure in DISPLAYS["figures"]:
    figure_displays = {figure: DISPLAYS["figures"][figure]}

    rule:
        name:
            f"plot_{figure}"
        input:
            **display_inputs(figure_displays),
        output:
            **display_outputs("figures", figure_displays),
        log:
            f"<logs>/plot_{figure}.log",
        benchmark:
            f"<logs>/plot_{figure}.tsv"
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=120,
        params:
            **display_job("plot_results", "figures", figure_displays),
        message:
            f"Plotting {figure}"
        shell:
            "{params.command} --settings {params.settings:q} --files {params.files:q} "
            "--folder {params.folder:q} --show {params.show:q} > {log:q} 2>&1"
