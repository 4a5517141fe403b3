# In:  <data>/summary/; prompts, generations, attributions, evaluated cells of single samples.
# Out: <results>/tables/, each table as CSV, LaTeX and HTML; <results>/figures/, each figure as PDF,
#      SVG and PNG, some with their numbers as CSV, and a page with its caption and its data.
# A table is a decorated function in scripts/pisoft/tables/NAME.py, a figure one in figures/NAME.py;
# captions/tables/NAME.rst or captions/figures/NAME.rst is its caption, if it has one. One job makes
# all tables; one job makes all figures of a kind.
from pisoft.config.jobs.pages import published_models
from pisoft.workflow.displays import PAGE_TEMPLATES, TABLE_TEMPLATES, Displays, FigurePages

TABULATED, PLOTTED = (Displays(room, DATA, ROOT / "rules", cells) for room in ("tables", "figures"))
TABLES, FIGURES = TABULATED.titles(), PLOTTED.titles()  # titles by path

# Pages of the run (titles by path), and the navigation bar at the head of each page.
PAGES = {"<results>/explorer.html": "Explorer"} if CONFIG.run_file.explorer else {}
if published_models(CONFIG):
    PAGES["<results>/tables/published/against_paper.html"] = "Against the paper"
BAR = {
    "<results>/index.html": "Answer",
    "<results>/index.html#all-results": "Tables and figures",
    **PAGES,
    "<results>/report.html": "Report",
    "<results>/index.html#how-to-read-these-numbers": "How to read",
    "<results>/docs.html": "Docs",
}
BAR = [f"{title}={path.replace('<results>', str(RESULTS))}" for path, title in BAR.items()]


def draw(rule_name, message_text, script, displays, minutes, *templates, options=()):
    """Define the rule that makes `displays`, all tables or all figures of a kind."""

    rule:
        name:
            rule_name
        input:
            **displays.inputs(),
        output:
            **displays.outputs(),
        log:
            f"<logs>/{rule_name}.log",
        benchmark:
            f"<logs>/{rule_name}.tsv"
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=minutes,
        params:
            **job(script, displays.settings, *displays.code(), *templates),
            **displays.parameters(),
            options=[*options],
        message:
            message_text
        shell:
            "{params.command} --settings {params.settings:q} --files {params.files:q} "
            "{params.options:q} --folder {params.folder:q} --show {params.show:q} > {log:q} 2>&1"


PAGE_OPTIONS = ("--pages", *BAR, "--warning", WARNING)
draw(
    *("tabulate", "Writing all tables", "tabulate_results", TABULATED, 30),
    *TABLE_TEMPLATES,
    options=PAGE_OPTIONS,
)
draw(
    *("build_figure_pages", "Writing the pages of figures", "build_figure_pages"),
    *(FigurePages("figures", DATA, ROOT / "rules", cells), 10),
    *PAGE_TEMPLATES,
    options=PAGE_OPTIONS,
)
for figure, plotted in PLOTTED.single().items():
    draw(f"plot_{figure}", f"Plotting {figure}", "plot_results", plotted, 120)
