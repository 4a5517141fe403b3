# π-Soft Bench. `make demo` is all a fresh clone needs; `make help` lists the rest.

PYTHON ?= python3# Python 3.11.5 or newer, which makes the environment
# The PyTorch build: one of TORCH_INDEX (cpu, cu128, …), or pypi: PyPI's build, checked by its hash;
# empty: what pip chooses. The environment keeps its build until you pass another GPU=. The shell's
# variable GPU is ignored on purpose.
GPU := $(patsubst .venv/.installed-%,%,$(wildcard .venv/.installed-*))
TORCH_INDEX ?= https://download.pytorch.org/whl
PIP_FLAGS ?=# for installations from the lock, such as --index-url of a mirror
UPGRADE ?=# packages that `make lock` upgrades
WORKERS ?= 2# test processes
CONFIG ?= config/config.yaml# run file of make plan, fetch, export, summary, …
THROUGHPUT ?=# the device's TFLOP/s in forward passes; without it, make plan shows no time
SETTINGS ?=# overrides of the run file, in the form of --config: max_samples=8
LOCAL_ROOT ?=# folder for {local_root} in a run file's paths
CHECK = @$(BIN)/python scripts/check_run_file.py --configfile $(CONFIG) $(CHANGED)
CHANGED = --config $(if $(LOCAL_ROOT),'local_root=$(LOCAL_ROOT)') $(SETTINGS)
RUN ?= results/demo# the finished run of make check-run and make bench
RUNS ?=# folders of two finished runs, for make compare and make diff
TEXTS ?=# file with one text a line, for make bench-precision
FILE ?=# the leaderboard entry of make check-summary
SAMPLES ?=# not empty: make summary also keeps both areas of every sample
MODEL_FOLDER ?=# weights of the model of RUN, if they are not in the run

BIN := .venv/bin
STAMP := .venv/.installed$(GPU:%=-%)
DEMOS := demo demo-trust# runs on embedded records
OPEN := $(if $(filter Darwin,$(shell uname)),open,xdg-open)# shows a page in the browser
TOOLS := PYTHONPATH=scripts:tests $(BIN)/python tools
BENCH := $(TOOLS)/bench

.DEFAULT_GOAL := help
.PHONY: $(DEMOS) kills plan fetch export check-scores check-run compare diff test test-all lint docs bench bench-gpu \
	bench-aggregation bench-readings bench-combinations bench-precision bench-peers bench-scheduler bench-start-up \
	schema simulation families summary check-summary readme docs-figures lock audit licences unlock slurm env clean help

##@ Begin here
demo: RUN_FILE := config/config.yaml
demo: ## every method on two tiny models, in 4 minutes
demo-trust: RUN_FILE := config/demo-trust.yaml
demo-trust: ## validate the demo's metrics and methods, in 4 minutes

$(DEMOS): $(STAMP)
	$(BIN)/snakemake --cores all --configfile $(RUN_FILE)
	@$(BIN)/snakemake --configfile $(RUN_FILE) --report results/$@/report.html \
		> results/$@/logs/report.log 2>&1 || { cat results/$@/logs/report.log; exit 1; }
	@printf 'In one page: %s results/$@/report.html\n' $(OPEN)

test: $(STAMP) ## test this clone: units, contracts, one small run
	$(PYTEST) -m "not slow"

plan: $(STAMP) ## predict the cost of a run: make plan CONFIG=my.yaml THROUGHPUT=400
	@$(BIN)/python scripts/plan.py --configfile $(CONFIG) \
		$(if $(THROUGHPUT),--throughput '$(THROUGHPUT)') $(CHANGED)

fetch: $(STAMP) ## download a run's files from the hub: CONFIG=my.yaml
	$(CHECK)
	$(BIN)/snakemake fetch_hub --cores 1 --forcerun fetch_hub --configfile $(CONFIG) $(CHANGED)

unlock: $(STAMP) ## unlock the folder after a killed run
	@$(BIN)/python scripts/unlock.py

##@ Your runs
export: $(STAMP) ## export prompts, to score them elsewhere: CONFIG=my.yaml
	$(CHECK)
	$(BIN)/snakemake export_prompts --cores all --configfile $(CONFIG) $(CHANGED)

check-scores: export ## check imported scores: CONFIG=my.yaml
	@$(BIN)/python scripts/check_scores.py --configfile $(CONFIG) $(CHANGED)

compare: $(STAMP) ## compare the rankings of two runs: RUNS="results/a results/b"
	@$(BIN)/python scripts/compare_runs.py $(RUNS)

check-run: $(STAMP) ## check every result against its seal: RUN=results/my-run
	@$(BIN)/python scripts/check_run.py $(CHANGED) \
		$(if $(filter file,$(origin CONFIG)),--run $(RUN),--configfile $(CONFIG))

diff: $(STAMP) ## list differences between the files of two runs: RUNS="results/a results/b"
	@$(TOOLS)/diff_runs.py $(RUNS)

##@ Tests and docs
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test-all: $(STAMP) ## run all tests
	$(PYTEST)

kills: demo ## kill the demo 25 times, compare results: 7 minutes
	PISOFT_KILL_DEMO=1 $(BIN)/python -m pytest tests/workflow/test_kills.py -k demonstration --timeout 0

lint: $(STAMP) ## check format, types, spelling, imports, the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/mypy
	$(BIN)/codespell
	PYTHONPATH=scripts $(BIN)/lint-imports --no-logo
	$(BIN)/snakemake --lint

docs: $(STAMP) ## build the pages of docs/ as a site, site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

##@ Measurements
bench: $(STAMP) ## speed, and precision by draws: RUN=results/my-run
	$(BENCH)/evaluation.py
	$(BENCH)/attribution.py
	@if [ -d $(RUN)/data/soft ]; then set -x; $(BENCH)/draws.py --run $(RUN) \
			$(if $(MODEL_FOLDER),--model-folder '$(MODEL_FOLDER)'); \
		else echo "no draws to repeat in $(RUN): make demo, or name a run: make bench RUN=results/…"; fi

bench-gpu: $(STAMP) ## evaluation and attribution of an 8B model, on a GPU
	$(BENCH)/gpu.py

bench-aggregation: $(STAMP) ## tables and figures at full size (3 GB of TMPDIR)
	$(BENCH)/aggregation.py

bench-readings: $(STAMP) ## effect of each reading of the paper: CONFIG=…
	$(BENCH)/readings.py --configfile $(CONFIG) $(CHANGED)

bench-combinations: $(STAMP) ## readings closest to the paper's original metrics: RUN=…
	$(BENCH)/combinations.py --run $(RUN) $(if $(MODEL_FOLDER),--model-folder '$(MODEL_FOLDER)')

bench-precision: $(STAMP) ## effect of half precision: MODEL_FOLDER=… TEXTS=…
	$(BENCH)/precision.py --model-folder '$(MODEL_FOLDER)' --texts '$(TEXTS)'

bench-peers: $(STAMP) results/bench/peers/.installed ## compare scores with the authors' code, installed for it: MODEL_FOLDER=…
	$(BENCH)/peers.py $(if $(MODEL_FOLDER),--model-folder '$(MODEL_FOLDER)')

results/bench/peers/.installed: tools/bench/peers.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --requirement $<
	touch $@

bench-scheduler: $(STAMP) ## overhead of Snakemake: 15 minutes
	$(BENCH)/scheduler.py

bench-start-up: $(STAMP) ## cost of starting a job
	$(BENCH)/start_up.py

##@ Generated files
schema: $(STAMP) ## write config/schema/ and tables of docs/reference/
	$(TOOLS)/make_schema.py

simulation: $(STAMP) ## simulate the tests of which-test.md: an hour
	$(TOOLS)/simulate_statistics.py

families: $(STAMP) ## write docs/reference/families.md: 1 minute
	$(TOOLS)/families_table.py

summary: $(STAMP) ## write a finished run's entry of the leaderboard: CONFIG=my.yaml
	@$(TOOLS)/keep_summary.py --configfile $(CONFIG) $(CHANGED) $(if $(PREVIOUS),--previous '$(PREVIOUS)') \
		$(if $(SAMPLES),--samples)

check-summary: $(STAMP) ## check an entry: FILE=docs/leaderboard/my-run.json
	@$(TOOLS)/check_summary.py '$(FILE)'

readme: $(STAMP) ## write README.md's table and the page of real numbers
	$(TOOLS)/make_readme.py

docs-figures: $(STAMP) ## keep figures of both demos for README.md and the docs
	$(TOOLS)/keep_figures.py --runs $(DEMOS:%=results/%)
	$(TOOLS)/picture_explorer.py --run results/demo

##@ Environment
lock: $(STAMP) ## pin requirements.lock, with hashes: UPGRADE=numpy
	$(BIN)/uv pip compile pyproject.toml --extra dev --quiet --no-python-downloads \
		$(addprefix --upgrade-package ,$(UPGRADE)) --output-file requirements.lock

# Without --strict, a package that PyPI did not answer for would count as safe.
audit: $(STAMP) ## ask PyPI for known vulnerabilities of locked packages
	@$(BIN)/pip-audit --strict --disable-pip --requirement requirements.lock --progress-spinner off \
		2> .venv/audit.log; status=$$?; tail -n 1 .venv/audit.log >&2; \
		[ $$status = 0 ] || grep -q '^Found ' .venv/audit.log || \
		echo "error: not audited; the line above says why, .venv/audit.log all of it" >&2; exit $$status

licences: $(STAMP) ## list licences of locked packages; refuse unknown ones
	$(TOOLS)/list_licences.py

env: $(STAMP) ## make the environment in .venv from requirements.lock

# Builds of torch differ in their files, so only PyPI's can be checked by the lock's hashes. All others,
# and the CUDA packages that torch pins, come after all that is locked, which they leave as it is. A file
# pisoft.pth lets the environment import the package from this folder.
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check $(PIP_FLAGS)
# Hundreds of lines, which nobody reads unless it fails.
LOG := .venv/install.log
LOGGED = >> $(LOG) 2>&1 || { tail -n 20 $(LOG) >&2; exit 1; }
TORCH = $(shell sed -n 's/^\(torch==[0-9.]*\).*/\1/p' requirements.lock)

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) > /dev/null || \
		{ echo "error: '$(PYTHON)' is not found; name Python 3.11.5 or newer: make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' || \
		{ echo "error: Python 3.11.5 or newer is needed, '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
		"name another one: make PYTHON=python3.11" >&2; exit 1; }
	@$(if $(filter-out $@,$(wildcard .venv/.installed*)),false,$(BIN)/python -c \
		'import sys, pip; sys.exit(sys.version_info < (3, 11, 5))' 2> /dev/null) || \
		$(PYTHON) -m venv --clear .venv || \
		{ echo "error: no virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo 'Installing into .venv, which takes some minutes; $(LOG) has the details'
	@: > $(LOG)
ifeq ($(GPU),pypi)
	@$(INSTALL) --require-hashes --no-deps --requirement requirements.lock $(LOGGED)
else
	@awk '/^[a-z]/ { torch = /^(torch==|triton==|cuda-|nvidia-)/ } !torch' requirements.lock > .venv/locked.txt
	@$(INSTALL) --require-hashes --no-deps --requirement .venv/locked.txt $(LOGGED)
	@$(INSTALL) $(if $(GPU),--extra-index-url $(TORCH_INDEX)/$(GPU)) '$(TORCH)$(GPU:%=+%)' $(LOGGED)
endif
	@$(BIN)/python -m pip check $(LOGGED)
	@echo '$(CURDIR)/scripts' > "$$($(BIN)/python -c \
		'import sysconfig; print(sysconfig.get_path("purelib"))')/pisoft.pth"
	@touch $@

slurm: $(STAMP) ## install the executor that profiles/slurm needs
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*p["optional-dependencies"]["slurm"], sep="\n")' \
		| $(BIN)/python -m pip install --requirement /dev/stdin

clean: ## remove caches, the site, results of the embedded runs
	rm -rf $(DEMOS:%=results/%) site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find scripts tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { print (n++ ? "\n" : "") substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-18s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
