# Which files there are for which combinations of protocol, model, method and dataset.


def cells(pattern):
    """Return a pattern's files for every selected combination, in order of selection."""
    return files_of(CELLS, pattern)


def first_protocol_cells(pattern):
    """Return a pattern's files for every combination, once for all of a model's protocols."""
    first = {cell[1:]: cell for cell in reversed(CELLS)}
    return files_of(reversed(first.values()), pattern)


def ranking_cells(pattern):
    """Return a pattern's files for every combination that insertion and deletion are run on."""
    datasets = ranked_datasets(CONFIG)
    return files_of((cell for cell in CELLS if cell[-1] in datasets), pattern)


def evidence_cells(pattern):
    """Return a pattern's files for every combination whose dataset has known evidence."""
    datasets = evidence_datasets(CONFIG)
    return files_of((cell for cell in CELLS if cell[-1] in datasets), pattern)


def timed_cells(pattern):
    """Return a pattern's files for every combination whose scores the run computes, and times."""
    return files_of((cell for cell in CELLS if cell[2] in COMPUTED), pattern)


def compared_cells(pattern):
    """Return a pattern's files for every combination of a model with several methods."""
    methods = {}
    for _, model, method, _ in CELLS:
        methods.setdefault(model, set()).add(method)
    return files_of((cell for cell in CELLS if len(methods[cell[1]]) > 1), pattern)


def drawn_cells(pattern):
    """Return a pattern's files for every combination of a model that random scores are made for.

    There is none if masks are of single elements, which say nothing of whole tokens.
    """
    drawn = {model for _, model, method, _ in CELLS if method == CONTROL}
    if CONFIG.run_file.evaluation.mask != "token":
        drawn = {}
    return files_of((cell for cell in CELLS if cell[1] in drawn), pattern)


def study_cells(pattern):
    """Return a pattern's files for every combination of the layer study; none without a study."""
    return files_of(STUDY_CELLS, pattern)


def control_cells(pattern):
    """Return a pattern's files for every control of the metrics; none if that is not asked."""
    return files_of(CONFIG.control_cells, pattern)


def ranked_control_cells(pattern):
    """Return a pattern's files for every control that insertion and deletion are run on."""
    datasets = ranked_datasets(CONFIG)
    return files_of((cell for cell in CONFIG.control_cells if cell[-1] in datasets), pattern)


def sanity_cells(pattern):
    """Return a pattern's files for every method on every model that knows less."""
    return files_of(CONFIG.sanity_cells, pattern)


def checked_cells(pattern):
    """Return a pattern's files for every method whose scores are compared with those."""
    checked = [
        ("", model, name, dataset)
        for model, methods in CONFIG.sanity.items()
        for name in methods
        for dataset in CONFIG.sanity_datasets
    ]
    return files_of(checked, pattern)


def permuted_cells(pattern):
    """Return a pattern's files for every permutation of a method's scores."""
    return files_of(CONFIG.twin_cells, pattern)


def operator_cells(pattern):
    """Return a pattern's files for every method by other operators; `protocol` names those, too."""
    return files_of(CONFIG.operator_cells, pattern)


def inspected_cells(pattern):
    """Return a pattern's files for every protocol, model and dataset of inspected inputs."""
    return files_of(((*cell[:2], "", cell[2]) for cell in CONFIG.inspected), pattern)


def fitting_cells(pattern, **fixed):
    """Return an input function: a pattern's files for every combination that fits the wildcards."""

    def fits(cell, known):
        keys = ("protocol", "model", "method", "dataset")
        return all(known.get(key, name) == name for key, name in zip(keys, cell))

    def files(wildcards):
        known = {**dict(wildcards.items()), **fixed}
        return files_of((cell for cell in CELLS if fits(cell, known)), pattern)

    return files


def qualitative_cells(pattern):
    """Return a pattern's files for every model and dataset; none if such figures are not wanted."""
    return [] if CONFIG.run_file.qualitative is None else cells(pattern)


def files_of(chosen, pattern):
    """Return a pattern's files for cells, each file once; those with `{part}`, for every part."""
    keys = ("protocol", "model", "method", "dataset")
    files = {}
    for names in chosen:
        cell = dict(zip(keys, names))
        every = parts(CONFIG, cell["model"], cell["dataset"]) if "{part}" in pattern else [""]
        files |= dict.fromkeys(pattern.format(**cell, part=part) for part in every)
    return [*files]
