# All commands of the README. They run in .venv, which is made from requirements.lock when missing.
#   make study CORES=8      more processes
#   make PYTHON=/path/to/python3.11 study

ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell command -v python3.11 || command -v python3)
endif
CORES := 2
BIN := .venv/bin

# Rules of the workflow call `linvit` and `python` by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: study smoke test lint clean-env

study: .venv/.installed
	$(BIN)/snakemake --cores $(CORES)

smoke: .venv/.installed
	$(BIN)/snakemake --cores $(CORES) --configfile workflow/studies/smoke.yaml

test: lint
	$(BIN)/python -m pytest

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

.venv/.installed: requirements.lock pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "linvit needs Python 3.11 or newer and '$(PYTHON)' is not;" \
	    "name one: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	"$(PYTHON)" -m venv .venv
	@echo "installing requirements.lock into .venv"
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean-env:
	rm -rf .venv
