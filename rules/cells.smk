# The files of cells.

CELLS = CONFIG.cells()
RANDOM_MODELS = {cell.model for cell in CELLS if cell.method == CONTROL}
SEVERAL_METHODS = {model for model in CONFIG.models if len(CONFIG.methods_of(model)) > 1}
RANKED = ranked_datasets(CONFIG)  # and whether they have label words
WHOLE_TOKENS = CONFIG.run_file.evaluation.mask == "token"

# Named subsets of the studies' cells, in their order.
SOME_CELLS = {
    # Insertion and deletion, recovery of evidence, times: not for every dataset and method.
    "ranking": [cell for cell in CELLS if cell.dataset in RANKED],
    "flipped": [cell for cell in CELLS if RANKED.get(cell.dataset) is True],
    "generated": [cell for cell in CELLS if RANKED.get(cell.dataset) is False],
    "ranked_controls": [cell for cell in CONFIG.cells("controls") if RANKED.get(cell.dataset)],
    "replaced": [cell for cell in CELLS if CONFIG.counterfactuals and RANKED.get(cell.dataset)],
    "evidence": [cell for cell in CELLS if CONFIG.datasets[cell.dataset].has_evidence],
    "context_use": [cell for cell in CELLS if CONFIG.datasets[cell.dataset].planted_task],
    "timed": [cell for cell in CELLS if cell.method in COMPUTED],
    "compared": [cell for cell in CELLS if cell.model in SEVERAL_METHODS],
    # Masks of random scores; masks of single elements are no evidence about whole tokens.
    "drawn": [cell for cell in CELLS if WHOLE_TOKENS and cell.model in RANDOM_MODELS],
    # Once for all protocols of a model.
    "first_protocol": [*{cell[1:]: cell for cell in reversed(CELLS)}.values()][::-1],
    "decided": CELLS if CONFIG.run_file.stop is not None else [],
    "sensitivity": CELLS if CONFIG.run_file.sensitivity else [],
    "qualitative": CELLS if CONFIG.run_file.qualitative is not None else [],
    # References for methods on a randomised model.
    "checked": [cell._replace(variant="") for cell in CONFIG.cells("sanity_checks")],
}


def cells_of(name):
    """Return the cells of a study or of a named subset."""
    return SOME_CELLS[name] if name in SOME_CELLS else CONFIG.cells(name)


def cells(pattern, of="main"):
    """Return a pattern's files for cells without repeats; with `{part}`, for every part."""
    return files_of(cells_of(of), pattern)


def fitting_cells(pattern):
    """Return an input function: a pattern's files for every cell that fits the wildcards."""

    def fits(cell, wildcards):
        return all(cell.wildcards[key] == name for key, name in wildcards.items())

    return lambda wildcards: files_of((cell for cell in CELLS if fits(cell, wildcards)), pattern)


def files_of(cells, pattern):
    """Return a pattern's files for cells."""
    files = {}
    for cell in cells:
        parts = parts_of_files(CONFIG, pattern, cell) if "{part}" in pattern else [""]
        files |= dict.fromkeys(pattern.format(**cell.wildcards, part=part) for part in parts)
    return [*files]
