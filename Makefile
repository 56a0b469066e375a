# make            set up, train and analyse both problems, build the report (skips what is up to date)
# make test       set up and run the tests
# make help       all targets
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

P1 := problem1/results
P2 := problem2/results
# What a training depends on; an analysis depends on all of its problem's modules besides.
LAB := $(addprefix lab/,training.py parallel.py heads.py linear.py)
P1_TRAINING := $(addprefix problem1/,dataset.py attention.py model.py train.py) $(LAB)
TEXT_TRAINING := problem1/attention.py $(addprefix problem1/text/,dataset.py model.py places.py train.py) $(LAB)
P2_TRAINING := $(addprefix problem2/,dataset.py attention.py positional_encoding.py model.py train.py) $(LAB)

.PHONY: all problem1 text problem2 report grade seeds study contradictions bench campaign test clean help
.DELETE_ON_ERROR:

all: problem1 text problem2 report  ## everything below but the longer studies

# Says what a stage took: "== problem1/results/training_log.json: 52 s".
timed = @started=$$(date +%s); echo "$(1)"; $(1); status=$$?; echo "== $@: $$(($$(date +%s) - started)) s"; exit $$status

# --- set-up -------------------------------------------------------------------------------------------------

$(VENV)/ready: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet -r requirements.txt
	@touch $@

$(VENV)/ready-dev: requirements-dev.txt $(VENV)/ready
	$(PY) -m pip install --quiet -r requirements-dev.txt
	@touch $@

# --- data: the same rows for everyone, made from the seed, not kept in git ----------------------------------

problem1/data/test.json: problem1/generate_data.py | $(VENV)/ready
	$(PY) $<

problem2/data/test.json: problem2/generate_data.py | $(VENV)/ready
	$(PY) $<

# --- training and analysis ----------------------------------------------------------------------------------
# A training that was interrupted has no log yet and goes on where it was; one that was finished starts anew.
fresh-or-resume = $(if $(wildcard $(1)),,--resume)

problem1: $(P1)/carry/summary.txt  ## addition: train, verify on every sum, analyse every head

$(P1)/training_log.json: problem1/data/test.json $(P1_TRAINING) | $(VENV)/ready
	$(call timed,$(PY) problem1/train.py $(call fresh-or-resume,$@))

$(P1)/carry/summary.txt: $(P1)/training_log.json $(wildcard problem1/*.py)
	$(call timed,$(PY) problem1/analyze.py)
	@touch $@

text: $(P1)/text/proof.json  ## addition as text: train on 32 characters, prove every length

$(P1)/text/training_log.json: $(TEXT_TRAINING) | $(VENV)/ready
	$(call timed,$(PY) problem1/train.py --task text $(call fresh-or-resume,$@))

$(P1)/text/proof.json: $(P1)/text/training_log.json $(wildcard problem1/text/*.py)
	$(call timed,$(PY) problem1/analyze.py --task text)
	@touch $@

problem2: $(P2)/extrapolation/extrapolation_results.json  ## sorting: train every position scheme, ask at every length

$(P2)/sinusoidal/training_log.json: problem2/data/test.json $(P2_TRAINING) | $(VENV)/ready
	$(call timed,$(PY) problem2/train.py $(call fresh-or-resume,$@))

$(P2)/extrapolation/extrapolation_results.json: $(P2)/sinusoidal/training_log.json $(wildcard problem2/*.py)
	$(call timed,$(PY) problem2/analyze.py)
	@touch $@

# --- longer studies: their results are committed ------------------------------------------------------------

seeds: | $(VENV)/ready  ## addition again: five seeds, another width, five and ten digits; text with every scheme (forty minutes)
	$(PY) problem1/robustness.py
	$(PY) problem1/text/study.py

# The window scheme's strict model is asked for a proof, which wants more rows than a test does; what is trained is kept.
study: | $(VENV)/ready  ## sorting: nine schemes, two protocols, three seeds (about an hour)
	$(PY) problem2/study.py --protocols strict --encoding window --epochs 128
	$(PY) problem2/study.py

contradictions: | $(VENV)/ready  ## the mistakes behind published results, each reproduced (needs `make` and `make seeds`)
	$(PY) report/contradictions.py

# --- report, grading, benchmarks, tests ----------------------------------------------------------------------

report: report/report.pdf  ## report/report.pdf from the results

report/report.pdf: $(wildcard report/*.typ) report/build.py $(P1)/carry/summary.txt $(P1)/text/proof.json \
		$(P2)/extrapolation/extrapolation_results.json $(wildcard report/*.json) | $(VENV)/ready-dev
	$(call timed,$(PY) report/build.py)
	$(PY) report/key_numbers.py

bench: | $(VENV)/ready-dev  ## speed beside what people would use instead; leave the machine alone meanwhile (half an hour)
	$(PY) benchmarks/bench.py

campaign: | $(VENV)/ready-dev  ## kills, full disks and rubbish files against every script (a quarter of an hour)
	$(PY) benchmarks/campaign.py

grade: | $(VENV)/ready  ## these results against what is expected; others: python -m grading FOLDER
	$(PY) -m grading

test: $(VENV)/ready-dev  ## the whole test suite
	$(VENV)/bin/ruff check .
	OMP_NUM_THREADS=1 $(PY) -m pytest

clean:  ## forget generated data and resumable state; results and .venv stay
	rm -rf problem1/data problem2/data
	find problem1 problem2 report -name last.pth -delete

help:  ## this list
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## /\1\t/' | expand -t 16
