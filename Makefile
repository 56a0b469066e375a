# make            set up, train and analyse both problems, build the report (skips what is up to date)
# make test       set up and run the tests
# make help       all targets
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

LAB := $(wildcard lab/*.py)
P1 := problem1/results
P2 := problem2/results
P1_CORE := $(addprefix problem1/,generate_data.py dataset.py attention.py model.py train.py) $(LAB)

.PHONY: all problem1 test lint seeds clean help
.DELETE_ON_ERROR:

all: problem1  ## everything: both problems and the report

problem1: $(P1)/verification.json  ## addition: train, verify on every sum, analyse

# --- set-up -------------------------------------------------------------------------------------------------

$(VENV)/ready: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet -r requirements.txt
	@touch $@

$(VENV)/ready-dev: requirements-dev.txt $(VENV)/ready
	$(PY) -m pip install --quiet -r requirements-dev.txt
	@touch $@

# --- problem 1 ----------------------------------------------------------------------------------------------
# A run that was interrupted has no log yet and goes on where it was; a finished one starts anew.

$(P1)/training_log.json: $(P1_CORE) | $(VENV)/ready
	$(PY) problem1/train.py $(if $(wildcard $@),,--resume)

$(P1)/verification.json: $(P1)/training_log.json $(wildcard problem1/*.py) | $(VENV)/ready
	$(PY) problem1/analyze.py

seeds: | $(VENV)/ready  ## problem 1 again with other seeds, another width and more digits -> robustness.json
	$(PY) problem1/robustness.py

# --- tests --------------------------------------------------------------------------------------------------

test: $(VENV)/ready-dev  ## the whole test suite
	$(VENV)/bin/ruff check .
	OMP_NUM_THREADS=1 $(PY) -m pytest

clean:  ## forget generated data and resumable state; results and .venv stay
	rm -rf problem1/data problem2/data
	find problem1 problem2 -name last.pth -delete

help:  ## this list
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## /\1\t/' | expand -t 14
