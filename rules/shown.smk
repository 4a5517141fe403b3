# What rules of summaries, displays and pages share.
from pisoft.columns import FILES
from pisoft.displays import ENDINGS, displays_in
from pisoft.pages.groups import ORDER, group_of, place_of


def room_job(name, slice_name):
    """Return the parameters of a summary's job.

    Args:
        name: its room and module, such as `statistics/ranks`.
        slice_name: its slice of settings.
    """
    room, module = name.split("/")
    return {
        **job("summarise_results", slice_name, f"pisoft.{room}.{module}"),
        "name": module,
        "cell": shown_cell,
        "files": named_files,
    }


def explorer_address(wildcards, output):
    """Return where the explorer lies, seen from a page; nothing if the run makes none."""
    explorer = os.path.relpath(f"{RESULTS}/explorer.html", Path(output.html).parent)
    return explorer if CONFIG.run_file.explorer else ""


def shown_cell(wildcards):
    """Return what a summary is of, as KEY=NAME."""
    return [f"{key}={name}" for key, name in wildcards.items()]


def named_files(wildcards, input):
    """Return a job's input files as patterns KIND=FILES, the kind being the input's name."""
    listed = ((kind, [files] if isinstance(files, str) else files) for kind, files in input.items())
    return [f"{kind}={pattern}" for kind, files in listed for pattern in shortened(files, SHARDED)]


def named_outputs(wildcards, output):
    """Return a job's output files as KIND=FILE, the kind being the output's name."""
    return named_files(wildcards, output)


# Tables and figures --------------------------------------------------------------------------

TABLE_TEMPLATES = [
    f"scripts/pisoft/tables/templates/{name}.jinja"
    for name in ("parts.html", "table.html", "table.tex")
]


def paths_of(name, display):
    """Return where the files of a display lie, without ending: one for all that it is made of."""
    return [path for pattern in display.patterns(name) for path in cells(pattern, display.cells)]


def made_displays(room):
    """Return the displays of a room that the run has any of, by name, in order of reading."""
    in_order = sorted(displays_in(room).items(), key=lambda display: place_of(display[0]))
    return {name: display for name, display in in_order if paths_of(name, display)}


def shown_files(room):
    """Return the title of each file to look at, by its path."""
    return {
        f"<results>/{room}/{path}.{ENDINGS[room][-1]}": display.title
        for name, display in DISPLAYS[room].items()
        for path in paths_of(name, display)
    }


DISPLAYS = {room: made_displays(room) for room in ENDINGS}
TABLES, FIGURES = shown_files("tables"), shown_files("figures")


def patterns_read(displays):
    """Return where the files lie that displays read, by the kind of their rows."""
    kinds = dict.fromkeys(kind for display in displays.values() for kind in display.reads)
    return {kind: f"{DATA}/{FILES[kind].pattern}.parquet" for kind in kinds}


def display_inputs(displays):
    """Return the files that displays read, by the kind of their rows."""
    inputs = {}
    for display in displays.values():
        for kind, pattern in patterns_read({"": display}).items():
            files = cells(pattern, display.cells)
            inputs[kind] = list(dict.fromkeys([*inputs.get(kind, []), *files]))
    return inputs


def display_outputs(room, displays):
    """Return the files of displays by their ending; the report shows those to look at."""
    outputs = {}
    for name, display in displays.items():
        for path in paths_of(name, display):
            for ending in display.endings(room):
                outputs.setdefault(ending, []).append(f"<results>/{room}/{path}.{ending}")
            outputs[ending][-1] = reported(outputs[ending][-1], room, name, display.cell(path))
    return outputs


def reported(file, room, name, cell):
    """Return a file of a display as the report shows it.

    It is listed in the group that the front page has it in; the report sorts groups by name, so they
    are numbered. Labels say all that tells a file from others, because its search lists all together.
    """
    caption, group = f"captions/{room}/{name}.rst", group_of(name)
    keys = {"protocol": "routing", "part": "shown"}
    return report(
        file,
        caption=caption if (ROOT / "rules" / caption).is_file() else None,
        category={"tables": "2 Tables", "figures": "3 Figures"}[room],
        subcategory=f"{ORDER.index(group) + 1} {group}",
        labels={
            room.removesuffix("s"): DISPLAYS[room][name].title,
            **{keys.get(key, key): value for key, value in cell.items()},
        },
    )


def display_job(script, room, displays, *templates):
    """Return the parameters of the job that makes displays; files are named by their patterns."""
    files = [f"{kind}={pattern}" for kind, pattern in patterns_read(displays).items()]
    return {
        **job(script, "display", *(f"pisoft.{room}.{name}" for name in displays), *templates),
        "files": lambda wildcards: files,
        "folder": lambda wildcards: f"{RESULTS}/{room}",
        "show": [path for name, display in displays.items() for path in paths_of(name, display)],
    }
