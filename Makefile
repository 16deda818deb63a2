# Everything runs inside .venv, which is made on first use; the demo has a small environment
# of its own. Start with `make help`.

PYTHON ?= python3
JOBS   ?= 2
ARGS   ?=

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

# The demo needs neither torch nor the tools, so it does not wait for them.
DEMO       := .venv-demo
DEMO_STAMP := $(DEMO)/.installed

# pip says nothing unless it fails (-qq below hides its warnings, not its errors).
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-all test-portable test-kernels soak lint docs packages bench bench-benchopt bench-data bench-gpu reproduce clean

help: ## Show this list
	@echo "weakprox: make <target>, where <target> is one of"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'Settings: PYTHON=python3.12 (for a new .venv), JOBS=4 and ARGS="..." (for test, reproduce).'

setup: $(STAMP) ## Create .venv and install weakprox with all its tools

$(VENV)/bin/python $(DEMO)/bin/python: %/bin/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "Cannot find '$(PYTHON)'. Name a Python 3.11 or newer: make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "weakprox needs Python 3.11 or newer, but '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)." >&2; \
	  echo "Name another one: make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "Making $* with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $* || { rm -rf $*; exit 1; }

$(STAMP): pyproject.toml constraints.txt $(BIN)/python
	@echo "Installing weakprox and its tools (a few minutes the first time)"
	@$(BIN)/python -m pip install -qq -c constraints.txt -e ".[dev]"
	@touch $@

$(DEMO_STAMP): pyproject.toml constraints.txt $(DEMO)/bin/python
	@echo "Installing what the demo needs (less than a minute)"
	@$(DEMO)/bin/python -m pip install -qq -c constraints.txt -e ".[plot]"
	@touch $@

demo: $(DEMO_STAMP) ## Solve a small problem and draw the result
	$(DEMO)/bin/python examples/demo.py

test: export OPENBLAS_NUM_THREADS := 1
test: export OMP_NUM_THREADS := 1
test: export MPLBACKEND := Agg
test: export PYTHONDONTWRITEBYTECODE :=  # the tests start many processes, which import the same
test: $(STAMP) ## Run the tests (ARGS="..." goes to pytest)
	$(BIN)/pytest -n $(JOBS) $(ARGS)

test-all: export WEAKPROX_TEST_ALL := 1
test-all: export WEAKPROX_TEST_THOROUGH := 1
test-all: test ## Run the tests with every variant of the largest grids and searches as users have them

test-portable: $(STAMP) ## Run the numerical core as other machines would
	JOBS=$(JOBS) $(BIN)/python tests/portable.py

test-kernels: export OPENBLAS_NUM_THREADS := 1
test-kernels: $(STAMP) ## Interpret the GPU kernels on the CPU, against their formulas
	@$(BIN)/python -c "import triton" 2>/dev/null || $(BIN)/python -m pip install -qq triton
	TRITON_INTERPRET=1 $(BIN)/pytest -n $(JOBS) tests/backends/test_kernels.py tests/backends/test_device_engine.py $(ARGS)

soak: export OPENBLAS_NUM_THREADS := 1
soak: export OMP_NUM_THREADS := 1
soak: $(STAMP) ## Run stress tests: random problems, killed runs and workers, fuzzed files (ARGS="--quick")
	@$(BIN)/python -m pip install -qq -c constraints.txt -e ".[soak]"
	$(BIN)/python tests/soak/run.py $(ARGS)

lint: $(STAMP) ## Check style, formatting, types, import layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

docs: export OPENBLAS_NUM_THREADS := 1  # two examples run at a time
docs: $(STAMP) ## Build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

packages: ## Build the wheel and the sdist into dist, and try them in a clean environment
	$(PYTHON) tests/packages.py $(ARGS)

bench: export WEAKPROX_COMPILE := always
bench: $(STAMP) ## Time the solvers, and other software (ARGS="..." goes to the latter)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/iteration.py
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/peers/run.py $(ARGS)

bench-benchopt: $(STAMP) ## Race solvers as a benchmark of benchopt (ARGS="-s weakprox ...")
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/benchopt run benchmarks/benchopt -r 1 -n 100 --timeout 60 --no-display $(ARGS)

bench-data: export OPENBLAS_NUM_THREADS := 1
bench-data: $(STAMP) ## Score the models on real data, beside simple methods (ARGS="votes ...")
	$(BIN)/python benchmarks/data/run.py $(ARGS)

bench-gpu: $(STAMP) ## Time the certified solver on a CUDA device (ARGS="20000 ...")
	$(BIN)/python benchmarks/gpu.py $(ARGS)

reproduce: $(STAMP) ## Reproduce the paper's tables and figures (ARGS="--quick" for a first look)
	$(BIN)/weakprox reproduce all --out reproduction $(ARGS)

clean: ## Delete built files and caches (keeps .venv and .venv-demo)
	rm -rf build dist docs/_build docs/gallery docs/generated
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis demo.png reproduction
	find src tests examples benchmarks docs -name __pycache__ -type d -prune \
	  -exec rm -rf {} + 2>/dev/null || true
