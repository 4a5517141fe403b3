# π-Soft Bench. `make demo` is all a fresh clone needs; `make help` lists the rest.

PYTHON ?= python3# the interpreter the environment is made from, 3.11 or newer
PIP_FLAGS ?=# for example --extra-index-url https://download.pytorch.org/whl/cpu
WORKERS ?= 2# test processes
CONFIG ?= config/config.yaml# the run file that is planned, or fetched for
THROUGHPUT ?=# TFLOP/s of the device that is planned for; measured on this machine if not given
SETTINGS ?=# keys of the run file that are changed for that, as --config has them: max_samples=8
LOCAL_ROOT ?=# folder that {local_root} stands for in a run file's paths
RUN ?= results/demo# the finished run whose draws `make bench` repeats
MODEL_FOLDER ?=# weights of that run's model, if they lie in a folder of their own

BIN := .venv/bin
STAMP := .venv/.installed
RESULTS := results/demo
BENCH := PYTHONPATH=scripts:tests $(BIN)/python tests/bench

.DEFAULT_GOAL := help
.PHONY: demo plan fetch test test-all lint docs bench bench-gpu bench-aggregation bench-readings bench-comparisons \
	bench-scheduler bench-start-up schema readme lock unlock slurm env clean help

demo: $(STAMP) ## run the embedded benchmark and write its report (6 minutes on two cores, no network, no GPU)
	$(BIN)/snakemake --cores all
	@$(BIN)/snakemake --report $(RESULTS)/report.html > $(RESULTS)/logs/report.log 2>&1 \
		|| { cat $(RESULTS)/logs/report.log; exit 1; }
	@printf '\nAll tables and figures in one page: %s\n' $(RESULTS)/report.html

plan: $(STAMP) ## predict the cost of a run: make plan CONFIG=config/paper.yaml THROUGHPUT=400
	@$(BIN)/python scripts/plan.py --configfile $(CONFIG) \
		$(if $(THROUGHPUT),--throughput '$(THROUGHPUT)') \
		--config $(if $(LOCAL_ROOT),'local_root=$(LOCAL_ROOT)') $(SETTINGS)

fetch: $(STAMP) ## download what a run reads of the hub, for nodes without a network: CONFIG=…
	$(BIN)/snakemake fetch_hub --cores 1 --forcerun fetch_hub --configfile $(CONFIG) \
		$(if $(LOCAL_ROOT)$(SETTINGS),--config $(if $(LOCAL_ROOT),'local_root=$(LOCAL_ROOT)') $(SETTINGS))

PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

test: $(STAMP) ## say whether this clone works: units, contracts, one small run of the workflow
	$(PYTEST) -m "not slow"

test-all: $(STAMP) ## run all tests
	$(PYTEST)

lint: $(STAMP) ## check format, types, spelling, imports between packages, and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/mypy
	$(BIN)/codespell
	PYTHONPATH=scripts $(BIN)/lint-imports --no-logo
	$(BIN)/snakemake --lint

docs: $(STAMP) ## build the pages of docs/ as a site, site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(STAMP) ## measure the speed of evaluation and attribution, and what draws of RUN buy
	$(BENCH)/evaluation.py
	$(BENCH)/attribution.py
	@if [ -d $(RUN)/soft ]; then set -x; $(BENCH)/draws.py --run $(RUN) \
			$(if $(MODEL_FOLDER),--model-folder '$(MODEL_FOLDER)'); \
		else echo "no draws to repeat in $(RUN): make demo, or name a run: make bench RUN=results/…"; fi

bench-gpu: $(STAMP) ## measure evaluation and attribution at the size of an 8B model, on a GPU
	$(BENCH)/gpu.py

bench-aggregation: $(STAMP) ## measure tables and figures of a full-size result set (3 GB of TMPDIR)
	$(BENCH)/aggregation.py

bench-readings: $(STAMP) ## measure what each reading that the paper leaves open changes in CONFIG
	$(BENCH)/readings.py --configfile $(CONFIG) \
		--config $(if $(LOCAL_ROOT),'local_root=$(LOCAL_ROOT)') $(SETTINGS)

bench-comparisons: $(STAMP) ## simulate what the tests between methods find, and how often they are wrong
	$(BENCH)/comparisons.py

bench-scheduler: $(STAMP) ## measure what Snakemake itself takes, by scheduler setting (12 minutes)
	$(BENCH)/scheduler.py

bench-start-up: $(STAMP) ## measure what starting a job costs, and what the job itself takes
	$(BENCH)/start_up.py

schema: $(STAMP) ## write config/schema/ and the generated pages of docs/reference/
	$(BIN)/python scripts/make_schema.py

readme: $(STAMP) ## write the table and the figure of README.md from the results of `make demo`
	$(BIN)/python scripts/make_readme.py

# CUDA packages are left out: torch pins them itself, and a CPU build has none.
lock: $(STAMP) ## install what pyproject.toml adds, then pin every package in requirements.lock
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*p["dependencies"], *p["optional-dependencies"]["dev"], sep="\n")' \
		| $(BIN)/python -m pip install $(PIP_FLAGS) --requirement /dev/stdin
	$(BIN)/python -m pip freeze --all --exclude-editable --exclude pip --exclude pisoft \
		--exclude snakemake-executor-plugin-slurm --exclude snakemake-executor-plugin-slurm-jobstep \
		> .venv/freeze.txt
	{ sed -n 's/^\(torch==[^+]*\).*/\1/p' .venv/freeze.txt; \
		grep -vE '^(torch==|nvidia-|cuda-|triton==)' .venv/freeze.txt | LC_ALL=C sort -f; \
		} > requirements.lock
	@touch $(STAMP)

env: $(STAMP) ## make the environment in .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) > /dev/null || \
		{ echo "error: '$(PYTHON)' is not found; name Python 3.11 or newer: make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed, '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
		"name another one: make PYTHON=python3.11" >&2; exit 1; }
	@$(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || \
		$(PYTHON) -m venv --clear .venv || \
		{ echo "error: no virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --disable-pip-version-check $(PIP_FLAGS) --requirement requirements.lock
	@touch $@

# Other runs' results stay, and so does .snakemake: it remembers what made them.
unlock: $(STAMP) ## free the folder after a run was killed; refused while it, or a job of it, is at work
	@$(BIN)/python scripts/unlock.py

slurm: $(STAMP) ## install the executor that profiles/slurm needs
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*p["optional-dependencies"]["slurm"], sep="\n")' \
		| $(BIN)/python -m pip install --requirement /dev/stdin

clean: ## remove caches, the site and the results of the embedded benchmark
	rm -rf $(RESULTS) site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
