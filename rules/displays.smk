# In:  <data>/summary/; prompts, generations, attributions, evaluated cells of single samples.
# Out: <results>/tables/, each table as CSV, LaTeX and HTML; <results>/figures/, each figure as PDF,
#      SVG and PNG, some with their numbers as CSV.
# A table is a decorated function in scripts/pisoft/tables/NAME.py, a figure one in figures/NAME.py;
# captions/tables/NAME.rst or captions/figures/NAME.rst is its caption, if it has one. One job makes
# all tables, and one job all figures of a kind.
from pisoft.workflow.displays import TABLE_TEMPLATES, Displays

TABULATED, PLOTTED = (Displays(room, DATA, ROOT / "rules", cells) for room in ("tables", "figures"))
TABLES, FIGURES = TABULATED.titles(), PLOTTED.titles()  # of files to look at, by path


def draw(called, message_text, script, displays, minutes, *templates, options=()):
    """Define the rule that makes displays, which are all tables, or all figures of a kind."""

    rule:
        name:
            called
        input:
            **displays.inputs(),
        output:
            **displays.outputs(),
        log:
            f"<logs>/{called}.log",
        benchmark:
            f"<logs>/{called}.tsv"
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=minutes,
        params:
            **job(script, "display", *displays.code(), *templates),
            **displays.parameters(),
            options=[*options],
        message:
            message_text
        shell:
            "{params.command} --settings {params.settings:q} --files {params.files:q} "
            "{params.options:q} --folder {params.folder:q} --show {params.show:q} > {log:q} 2>&1"


EXPLORER = f"{RESULTS}/explorer.html" if CONFIG.run_file.explorer else ""
OF_TABLES = ("--explorer", EXPLORER, "--warning", WARNING)
draw(
    *("tabulate", "Writing all tables", "tabulate_results", TABULATED, 30),
    *TABLE_TEMPLATES,
    options=OF_TABLES,
)
for figure, plotted in PLOTTED.single().items():
    draw(f"plot_{figure}", f"Plotting {figure}", "plot_results", plotted, 120)
