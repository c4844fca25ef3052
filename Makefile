# strataflow from a fresh clone: `make demo` shows it, `make test` tests it. Both make .venv first.
# Needs git, make and Python 3.11 or newer with venv. `make PYTHON=/path/to/python3 ...` picks an interpreter.

.DEFAULT_GOAL := help
.PHONY: help demo test lint format types wheel-check acceptance bench torture clean

BIN := .venv/bin
export PYTHON
# For `make test`: more arguments to pytest, as in  make test ARGS="tests/store -x"
ARGS ?=

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv/.installed ## the main job in one command: processes share a store, one is killed
	$(BIN)/strataflow demo

test: .venv/.installed-dev ## the whole test suite
	$(BIN)/python -m pytest $(ARGS)

lint: .venv/.installed-dev ## style and layout of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/.installed-dev ## lay the code out and repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/.installed-dev ## mypy, strict
	$(BIN)/mypy

wheel-check: .venv/.installed-dev ## build the wheel, compare it with the tree, install and run it elsewhere
	$(BIN)/python .ci/wheel_check.py

acceptance: .venv/.installed-dev ## write docs/acceptance.md anew from the markers in the tests
	PYTHONPATH=tests $(BIN)/python -m kit.acceptance_map

bench: .venv/.installed ## measure
	$(BIN)/strataflow bench

# For `make torture`: how long it may take, and how many processes work.
MINUTES ?= 30
JOBS ?= 2
PARTS ?= soak,processes,crash states,worlds

torture: .venv/.installed-dev ## crash states, simulated worlds, killed processes and a soak: MINUTES=30 JOBS=2
	PYTHONPATH=tests $(BIN)/python -m kit.torture --minutes "$(MINUTES)" --jobs "$(JOBS)" --parts "$(PARTS)"

clean: ## remove everything that these commands made
	rm -rf .venv build dist .coverage .torture .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: installing is repeated when the list of dependencies changes, not on every call. A stamp is written last,
# so that an interrupted install is not taken for a finished one.
.venv/.installed: pyproject.toml .ci/setup
	@echo "Installing strataflow into .venv ..."
	@sh .ci/setup run
	@touch $@

.venv/.installed-dev: .venv/.installed
	@echo "Installing the development tools into .venv ..."
	@sh .ci/setup dev
	@touch $@
