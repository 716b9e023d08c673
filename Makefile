# make setup      make .venv from nothing: exactly what requirements.lock says
# make reproduce  regenerate every table and figure (CONFIG=mini; SEEDS=3 for the training-seed spread)
# make own        generate and score your own prompts: PROMPTS=mine.jsonl, in GenEval 2's format
#                 (OUT=results/own; ADAPTER=results/mini/mini-flux2/cast/seed0/adapter, none by default)
# make compare    two evaluated runs side by side: A=results/mini/mini-flux2/cast/seed0 B=...
# make report     report.html: every figure with its caption, by section of the paper
# make site       site/index.html: claims, figures and executed notebooks; opens from disk
# make preflight  what CONFIG=paper needs, costs and lacks, in seconds (PRICE=3.50 of a GPU-hour)
# make test       run the tests
# make test-slurm the faults of a real one-node SLURM (Debian, as root; minutes of waiting)
# make lint       what CI checks besides
# make lock       renew requirements.lock from pyproject.toml
# make clean      remove what the workflow made (results, figures), not .venv
CONFIG ?= mini
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin

# One thread a process and one process a core: two threads on a shared core are many times slower.
export OMP_NUM_THREADS = 1
export TOKENIZERS_PARALLELISM = false

FIGURES = $(BIN)/python -m cast.figures --config config/$(CONFIG).yaml

.PHONY: setup reproduce preflight own compare report site test test-slurm lint lock clean

setup: .venv/.complete

.venv/.complete: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

reproduce: setup
	@$(BIN)/python -m cast.workflow --configfile config/$(CONFIG).yaml $(if $(SEEDS),--seeds $(SEEDS))

own: setup
	@test -n "$(PROMPTS)" || { echo "Name your file: make own PROMPTS=mine.jsonl"; exit 2; }
	@$(FIGURES) own "$(PROMPTS)" --out "$(or $(OUT),results/own)" $(if $(ADAPTER),--adapter "$(ADAPTER)")

compare: setup
	@test -n "$(A)" -a -n "$(B)" || { echo "Name two runs: make compare A=run B=run"; exit 2; }
	@$(FIGURES) compare "$(A)" "$(B)" --out "$(or $(OUT),results/compare)"

report: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --report report.html --configfile config/$(CONFIG).yaml

site: setup
	@$(BIN)/python -m cast.site --config config/$(CONFIG).yaml --out "$(or $(OUT),site)"

preflight: setup
	@$(BIN)/python -m cast.full_size preflight config/$(CONFIG).yaml $(if $(PRICE),--price $(PRICE))

test: setup
	@$(BIN)/python -m pytest

test-slurm: setup
	@CAST_SLURM_TESTS=1 $(BIN)/python -m pytest tests/workflow/slurm

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/snakefmt --check --compact-diff Snakefile rules
	$(BIN)/nbstripout --verify notebooks/*.ipynb

lock:
	$(BIN)/pip-compile --extra dev --strip-extras --allow-unsafe --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --output-file requirements.lock pyproject.toml
	sed -i -e 's/+cpu$$//' requirements.lock

clean:
	rm -rf results paper_figures site report.html .snakemake
