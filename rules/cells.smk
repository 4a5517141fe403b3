# Which files there are for which cells (protocol, model, method, dataset).
RANDOM_MODELS = {model for _, model, method, _ in CELLS if method == CONTROL}
SEVERAL_METHODS = {model for model in CONFIG.models if len(CONFIG.methods_of(model)) > 1}
RANKED, WITH_EVIDENCE = ranked_datasets(CONFIG), evidence_datasets(CONFIG)

# Cells in order of selection, by the name that displays have for them.
CELLS_OF = {
    "all": CELLS,
    # Insertion and deletion, recovery of evidence, time: not of every dataset and method.
    "ranking": [cell for cell in CELLS if cell[3] in RANKED],
    "evidence": [cell for cell in CELLS if cell[3] in WITH_EVIDENCE],
    "timed": [cell for cell in CELLS if cell[2] in COMPUTED],
    "compared": [cell for cell in CELLS if cell[1] in SEVERAL_METHODS],
    # Masks of random scores; those of single elements say nothing of whole tokens.
    "drawn": [
        cell
        for cell in CELLS
        if cell[1] in RANDOM_MODELS and CONFIG.run_file.evaluation.mask == "token"
    ],
    # Once for all protocols of a model.
    "first_protocol": [*{cell[1:]: cell for cell in reversed(CELLS)}.values()][::-1],
    "sensitivity": CELLS if CONFIG.run_file.sensitivity else [],
    "qualitative": CELLS if CONFIG.run_file.qualitative is not None else [],
    "study": STUDY_CELLS,
    # Constructed scores, with which the metrics are validated; permuted scores of methods.
    "control": CONFIG.control_cells,
    "ranked_control": [cell for cell in CONFIG.control_cells if cell[3] in RANKED],
    "permuted": CONFIG.permuted_cells,
    # Methods on a randomised model, and those that they are compared with.
    "sanity": CONFIG.sanity_cells,
    "checked": [
        ("", model, name, dataset)
        for model, methods in CONFIG.sanity.items()
        for name in methods
        for dataset in CONFIG.sanity_datasets
        if dataset in CONFIG.datasets_of(model)
    ],
    # By other operators, which `protocol` names, too; inspected inputs, of no method.
    "operator": CONFIG.operator_cells,
    "inspected": [(*cell[:2], "", cell[2]) for cell in CONFIG.inspected],
}


def cells(pattern, of="all"):
    """Return a pattern's files for cells, each file once; those with `{part}`, for every part."""
    return files_of(CELLS_OF[of], pattern)


def fitting_cells(pattern):
    """Return an input function: a pattern's files for every cell that fits the wildcards."""

    def fits(cell, wildcards):
        keys = ("protocol", "model", "method", "dataset")
        return all(wildcards.get(key, name) == name for key, name in zip(keys, cell))

    return lambda wildcards: files_of((cell for cell in CELLS if fits(cell, wildcards)), pattern)


def files_of(chosen, pattern):
    """Return a pattern's files for chosen cells."""
    keys = ("protocol", "model", "method", "dataset")
    files = {}
    for names in chosen:
        cell = dict(zip(keys, names))
        every = parts(CONFIG, cell["model"], cell["dataset"]) if "{part}" in pattern else [""]
        files |= dict.fromkeys(pattern.format(**cell, part=part) for part in every)
    return [*files]
