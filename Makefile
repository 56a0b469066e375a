# make            train and analyse both problems, build the report; skips what this clone has made already
# make test       the test suite
# make help       all targets
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
# Stages run side by side, one thread each; each prints its lines when it has ended.
PARALLEL := $(MAKE) --no-print-directory -j$(CORES) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

P1 := problem1/results
P2 := problem2/results
SCHEMES := sinusoidal learned none randomized rope alibi t5 window onehot randomized_learned randomized_rope

.PHONY: all problem1 text problem2 report explorer readme seeds study contradictions bench faults grade autograder starter test \
	clean help
.DELETE_ON_ERROR:

all: $(VENV)/ready  ## everything below but the longer studies
	@$(PARALLEL) problem1 text problem2
	@$(PARALLEL) report explorer
	@changed=$$(git status --porcelain --untracked-files=no 2>/dev/null) || exit 0; if [ -z "$$changed" ]; \
	then echo "No committed file has changed: what is committed is what make makes."; \
	else echo "Committed files that differ now:"; echo "$$changed"; fi

# Prints what a stage took: "== problem1/results/training_log.json: 52 s".
timed = @started=$$(date +%s); echo "$(1)"; $(1); status=$$?; echo "== $@: $$(($$(date +%s) - started)) s"; exit $$status
# A training that was stopped has no log yet and continues; after one that was finished, a new one begins.
train = $(call timed,$(PY) $(1) $(if $(wildcard $@),,--resume))

# --- set-up -------------------------------------------------------------------------------------------------

$(VENV)/ready: requirements.txt requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet -r requirements-dev.txt
	@touch $@

# --- training and analysis ----------------------------------------------------------------------------------
# Data is made once in a clone, and everything else after it. Results do not depend on the code's time stamps: after
# a change, run the script in question, or `make clean all` for everything.

problem1/data/test.json: | $(VENV)/ready
	$(PY) problem1/generate_data.py

problem2/data/test.json: | $(VENV)/ready
	$(PY) problem2/generate_data.py

problem1: $(P1)/carry/summary.txt  ## addition: train, verify on every sum, analyse every head

$(P1)/training_log.json: problem1/data/test.json
	$(call train,problem1/train.py)

$(P1)/carry/summary.txt: $(P1)/training_log.json
	$(call timed,$(PY) problem1/analyze.py)

text: $(P1)/text/proof.json  ## addition as text: train on short sums, prove every length

$(P1)/text/training_log.json: problem1/data/test.json
	$(call train,problem1/text/train.py)

$(P1)/text/proof.json: $(P1)/text/training_log.json
	$(call timed,$(PY) problem1/text/analyze.py)

problem2: $(P2)/extrapolation/extrapolation_results.json  ## sorting: train every position scheme, evaluate at every length

$(P2)/%/training_log.json: problem2/data/test.json
	$(call train,problem2/train.py --encoding $*)

$(P2)/extrapolation/extrapolation_results.json: $(SCHEMES:%=$(P2)/%/training_log.json)
	$(call timed,$(PY) problem2/analyze.py)

# --- report and README --------------------------------------------------------------------------------------

report: report/report.pdf  ## report/report.pdf from the results

report/report.pdf: $(wildcard report/*.typ) report/build.py $(P1)/carry/summary.txt $(P1)/text/proof.json \
		$(P2)/extrapolation/extrapolation_results.json $(wildcard report/*.json) | $(VENV)/ready
	$(call timed,$(PY) report/build.py)

explorer: report/explorer.html  ## report/explorer.html: the trained models, running in one page

report/explorer.html: $(wildcard report/explorer/*) $(P1)/carry/summary.txt $(P1)/text/proof.json \
		$(P2)/extrapolation/extrapolation_results.json | $(VENV)/ready
	$(call timed,$(PY) report/explorer/build.py)

readme: | $(VENV)/ready  ## the tables of README.md from the results
	$(PY) report/key_numbers.py

# --- longer studies: their results are committed ------------------------------------------------------------

seeds: | $(VENV)/ready  ## addition: ten seeds, another width, five and ten digits; text: other seeds, smaller models, a million digits
	$(PY) problem1/seeds.py
	$(PY) problem1/text/study.py
	$(PY) problem1/text/scaling.py

study: | $(VENV)/ready  ## sorting: every scheme, two protocols, three seeds (half an hour)
	$(PY) problem2/study.py

contradictions: | $(VENV)/ready  ## suspected causes of published results, each tried (needs `make` and `make seeds`)
	$(PY) report/contradictions.py

bench: | $(VENV)/ready  ## speed beside what people would use instead; leave the machine alone meanwhile
	$(PY) benchmarks/bench.py

faults: | $(VENV)/ready  ## kills, full disks and malformed files against every script (a quarter of an hour)
	$(PY) -m tests.fault_injection

# --- checks -------------------------------------------------------------------------------------------------

grade: | $(VENV)/ready  ## these results against what is expected; others: python -m grading FOLDER
	$(PY) -m grading

autograder: | $(VENV)/ready  ## autograder.zip for Gradescope: grades uploaded results, runs nothing of them
	$(PY) -m grading.autograder

starter:  ## starter.zip: what students begin with, as it stands here
	git archive --format=zip -o starter.zip $$(git stash create | grep . || echo HEAD):starter
	@echo "starter.zip: unzip it in an empty folder, then python check.py"

test: $(VENV)/ready  ## the whole test suite
	$(VENV)/bin/ruff check .
	$(PY) -m pytest -n $(CORES) --dist loadfile

clean:  ## forget generated data and resumable state; results and .venv stay
	rm -rf problem1/data problem2/data
	find problem1 problem2 report -name last.pth -delete

help:  ## this list
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## /\1\t/' | expand -t 16
