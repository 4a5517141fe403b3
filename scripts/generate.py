"""Generate the model's answers and choose the steps to explain."""

from __future__ import annotations

import argparse
from functools import partial

from pisoft.config.jobs.cells import GenerateJob
from pisoft.models.batching import blocks
from pisoft.models.device import token_budget
from pisoft.models.generation import (
    answer_counterfactuals,
    answers_of_block,
    classify,
    continue_greedily,
)
from pisoft.models.loading import load_model, model_facts
from pisoft.models.repository import located
from pisoft.models.tokenizer import load_tokenizer
from pisoft.progress import progress
from pisoft.prompts.token_texts import token_texts
from pisoft.store.cells import read_prompts
from pisoft.store.parquet import provenance, write_rows
from pisoft.workflow.commandline import MODEL_OPTIONS, job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Read prompts, generate block by block, and write generations in the order of the prompts."""
    settings = GenerateJob.model_validate_json(arguments.settings)
    prompts = read_prompts(arguments.prompts)
    source, folder = located(settings.model, arguments.model)
    model = load_model(source, folder, arguments.gpus)
    tokenizer = load_tokenizer(source, folder)
    chosen = blocks(prompts, settings.block_size)
    budgets = [token_budget(settings.token_budget, model.device)]  # the last is in force
    answer = partial(classify, model, note_budget=budgets.append)
    if settings.task == "generation":
        answer = partial(
            continue_greedily,
            model,
            note_budget=budgets.append,
            max_new_tokens=settings.max_new_tokens,
            step_interval=settings.step_interval,
        )
    rows: list[dict] = []
    for block in progress(chosen, sum(map(len, chosen)), "generating"):
        for prompt in block:
            where = f"{arguments.prompts}: sample {prompt['sample_id']}"
            model.check_ids(prompt["input_ids"] + prompt["label_token_ids"], where)
        answers = answers_of_block(block, partial(answer, token_budget=budgets[-1]))
        answer_counterfactuals(block, answers, partial(answer, token_budget=budgets[-1]))
        rows += answers
    for row in rows:
        row["output_text"] = row["output_text"] or tokenizer.decode(row["output_ids"])
        row["output_token_texts"] = token_texts(tokenizer, row["output_ids"])
        if row["greedy_token_id"] is not None:
            (row["greedy_token_text"],) = token_texts(tokenizer, [row["greedy_token_id"]])
    facts = {**model_facts(model), "token_budget_used": budgets[-1]}
    origin = provenance(settings.model_dump(mode="json"), **facts)
    write_rows(arguments.output, "generations", rows, origin)


if __name__ == "__main__":
    run(main, job_parser(__doc__, "prompts", *MODEL_OPTIONS))
