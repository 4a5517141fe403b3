# What rules of summaries, tables and figures share: outputs as the report shows them, and jobs.

TABLES, FIGURES = {}, {}  # titles of what a run makes by default, by path; their rules add to them


def table_files(path, title, of=cells):
    """Return the outputs of a table, by format; its HTML is a target, and shown in the report.

    Args:
        path: below tables/, without ending: the table's name, and wildcards of what a file shows.
        title: under which the report lists it.
        of: what it is made for by default: a function from a pattern to files.
    """
    files = formats(f"tables/{path}", "csv", "tex", "html")
    TABLES.update(dict.fromkeys(of(files["html"]), title))
    return {**files, "html": reported(files["html"], f"tables/{path}", "2 Tables", table=title)}


def figure_files(path, title, of=cells, **labels):
    """Return the outputs of a figure, as :func:`table_files` does; its SVG is what is shown.

    Labels, besides its wildcards, tell it from others of its title in the report.
    """
    files = formats(f"figures/{path}", "pdf", "png", "svg")
    FIGURES.update(dict.fromkeys(of(files["svg"]), title))
    shown = reported(files["svg"], f"figures/{path}", "3 Figures", figure=title, **labels)
    return {**files, "svg": shown}


def token_files(*parts):
    """Return the outputs of the figures of single texts, one file of each format for each part."""
    title = "Most important tokens of single texts"
    made = [
        figure_files(
            f"tokens/{{model}}/{{dataset}}/{part}", title, of=qualitative_cells, shown=part
        )
        for part in parts
    ]
    return {ending: [files[ending] for files in made] for ending in ("pdf", "png", "svg")}


def formats(path, *endings):
    """Return files of a run by their ending, alike but for it."""
    return {ending: f"<results>/{path}.{ending}" for ending in endings}


def reported(path, name, category, **labels):
    """Return an output that the report shows, labelled by its wildcards as well.

    Its caption, if there is one, is captions/ROOM/NAME.rst. It is listed in the group that the
    front page has it in. The report sorts groups by name, so they are numbered. Labels say all
    that tells an output from others, because its search lists all outputs together.
    """
    wildcards = re.findall(r"{(\w+)}", path)
    labels |= {name.replace("protocol", "routing"): f"{{{name}}}" for name in wildcards}
    named = Path("captions", *(part for part in Path(name).parts if not part.startswith("{")))
    caption = f"{named}.rst"
    group = group_of(Path(name).parts[1])
    return report(
        path,
        caption=caption if (ROOT / "rules" / caption).is_file() else None,
        category=category,
        subcategory=f"{ORDER.index(group) + 1} {group}",
        labels=labels,
    )


ROOM_SCRIPTS = {
    "statistics": "summarise_results",
    "tables": "tabulate_results",
    "figures": "plot_results",
}


def room_job(name, slice_name):
    """Return the parameters of a summary's, a table's or a figure's job.

    Args:
        name: its room and module, such as `tables/ranks`.
        slice_name: its slice of settings.
    """
    room, module = name.split("/")
    templates = TABLE_TEMPLATES if room == "tables" else []
    return {
        **job(ROOM_SCRIPTS[room], slice_name, f"pisoft.{room}.{module}", *templates),
        "name": module,
        "cell": shown_cell,
        "files": named_files,
        **({"warning": WARNING, "explorer": explorer_address} if room == "tables" else {}),
    }


def explorer_address(wildcards, output):
    """Return where the explorer lies, seen from a page; nothing if the run makes none."""
    explorer = os.path.relpath(f"{RESULTS}/explorer.html", Path(output.html).parent)
    return explorer if CONFIG.run_file.explorer else ""


def shown_cell(wildcards):
    """Return what a table or a figure shows, as KEY=NAME."""
    return [f"{key}={name}" for key, name in wildcards.items()]


def named_files(wildcards, input):
    """Return a job's input files as KIND=FILE, the kind being the input's name."""
    listed = ((kind, [files] if isinstance(files, str) else files) for kind, files in input.items())
    return [f"{kind}={file}" for kind, files in listed for file in files]


def named_outputs(wildcards, output):
    """Return a job's output files as KIND=FILE, the kind being the output's name."""
    return named_files(wildcards, output)
