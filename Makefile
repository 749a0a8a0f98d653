# Each target does its own set-up: Python 3.11 and make are all that must be there.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SECONDS ?= 600
SEED ?=

.PHONY: demo test test-large test-torch matrix fuzz lint docs paper package package-check readers-check clean help

help:
	@echo "make demo           train on real digits, export, prove the file on every runtime (about a minute after set-up)"
	@echo "make test           run the tests (about five minutes on two cores)"
	@echo "make test-large     run the tests that make test leaves out: large networks, long training"
	@echo "make test-torch     run the tests of the PyTorch backend in an environment of their own (about 5 GB)"
	@echo "make matrix         tests on other versions of Python, Keras, TensorFlow and numpy, an environment each (hours, 3 GB at a time)"
	@echo "make fuzz           damaged files, strange calls, blocked streams: make fuzz SECONDS=1800 SEED=7 (default: 10 minutes)"
	@echo "make lint           format check, lint, types"
	@echo "make docs           the documentation as a site, in site/; a broken link fails"
	@echo "make paper          reproduce the paper's table and figures on this machine (under ten minutes)"
	@echo "make package        build sdist and wheel into dist/ and check their metadata"
	@echo "make package-check  the same, then install each into a clean environment and use it (2 GB, minutes)"
	@echo "make readers-check  read exported files with other projects' strict readers (two minutes, 500 MB)"
	@echo "make clean          remove what the other targets made"

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found. Install Python 3.11, or name another: make PYTHON=python3"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/python examples/digits.py --output demo-output

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-large: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m large

# Beside TensorFlow PyTorch would double the environment; it needs no part of export.
.venv-torch/.ready:
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet torch keras numpy pytest
	@touch $@

test-torch: .venv-torch/.ready
	PYTHONPATH=. .venv-torch/bin/python -m pytest --noconftest -o addopts= -W ignore tests/on_torch.py

# Needs Python only. Part of it: make matrix ONLY="Python 3.13"
matrix:
	$(PYTHON) -m tools.version_matrix --write $(if $(ONLY),--only "$(ONLY)")

fuzz: $(READY)
	$(BIN)/python -m tools.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet -f tools/site/mkdocs.yml
	@echo "site/index.html"

paper: $(READY)
	$(BIN)/python -m benchmarks.paper

package: $(READY)
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

package-check: package
	$(BIN)/python tools/check_package.py dist

readers-check: $(READY)
	$(BIN)/python -m tools.check_readers

clean:
	rm -rf $(VENV) build dist site *.egg-info demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
