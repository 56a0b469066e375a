# make            the homework: both problems trained and analysed, the report; skips what this clone has made already
# make beyond     what is upstairs and takes minutes
# make studies    the long studies; SCHEDULER=tcp://HOST:8786 runs them on the machines of a Dask scheduler
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
HOMEWORK := sinusoidal learned none
# Of the homework's encodings, beside the default seed.
SEEDS := 642 643
OTHERS := randomized rope alibi t5 window onehot randomized_learned randomized_rope

.PHONY: all problem1 problem2 report readme beyond program rounding any_length schemes explorer studies population \
	lengths all_schemes published bench faults grade autograder starter format test clean help
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# Says whether what is committed is what was made.
define UNCHANGED
changed=$$(git status --porcelain --untracked-files=no 2>/dev/null) || exit 0; if [ -z "$$changed" ]; \
then echo "No committed file has changed: what is committed is what make makes."; \
else echo "Committed files that differ now:"; echo "$$changed"; fi
endef

# Prints what a stage took: "== problem1/results/training_log.json: 52 s".
timed = @started=$$(date +%s); echo "$(1)"; $(1); status=$$?; echo "== $@: $$(($$(date +%s) - started)) s"; exit $$status
# A training that was stopped has no log yet and continues; after one that was finished, a new one begins.
train = $(call timed,$(PY) $(1) $(if $(wildcard $@),,--resume))

##@ Begin here

# A .venv of another Python, or without pip, is made anew. What pip does is shown: it takes minutes.
$(VENV)/ready: requirements.txt requirements-dev.txt  ## once: installs into .venv; downloads take minutes
	@$(PYTHON) -c 'import sys; (3, 10) <= sys.version_info[:2] <= (3, 14) or sys.exit("error: $(PYTHON) is Python " \
	+ ".".join(map(str, sys.version_info[:2])) + ", and 3.10 to 3.14 is needed: make PYTHON=python3.12, for example.")'
	@version='import sys; print(sys.version_info[:2])'; \
	[ "$$($(PY) -c "import pip; $$version" 2>&1)" = "$$($(PYTHON) -c "$$version")" ] || $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install -r requirements-dev.txt
	@touch $@

all: $(VENV)/ready  ## the homework: both problems and the report; about three minutes
	@$(PARALLEL) problem1 problem2
	@$(PARALLEL) report
	@echo
	@echo "Made: problem1/results (addition), problem2/results (sorted or not) and the report."
	@echo "Look first at report/report.pdf, then at the figures in both folders of results."
	@$(UNCHANGED)

beyond: $(VENV)/ready  ## what is upstairs and takes minutes, and the explorer; about eight minutes
	@$(PARALLEL) program schemes rounding any_length  # in this order both cores are busy to the end
	@$(PARALLEL) explorer
	@$(PY) report/build.py
	@echo
	@echo "Made: beyond/{rounding,program,any_length}/results, all position schemes in problem2/results, the explorer."
	@echo "Look first at explorer/explorer.html in a browser, then at beyond/*/README.md."
	@$(UNCHANGED)

studies: $(VENV)/ready  ## the long studies, hours: population, lengths, all_schemes, published
	@for study in population lengths all_schemes published; do $(MAKE) --no-print-directory $$study || exit; done
	@$(PY) report/build.py
	@echo
	@echo "Made: beyond/{population,any_length,schemes,published}/results."
	@echo "Look first at the README of each of these folders. make readme puts the numbers into README.md."
	@$(UNCHANGED)

test: $(VENV)/ready  ## the test suite; six to seven minutes
	$(VENV)/bin/ruff check .
	$(PY) -m pytest -n $(CORES) --dist loadfile

help:  ## this list
	@awk -F ':.*  ## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} \
	/^[$$A-Za-z0-9_()\/]+:.*  ## / {sub(/^all$$/, "", $$1); sub(/\$$\(VENV\)/, "$(VENV)", $$1); \
	printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ The homework, piece by piece
#
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

problem2: $(P2)/extrapolation/extrapolation_results.json  ## sorting: train three position schemes, evaluate all

$(P2)/%/training_log.json: problem2/data/test.json
	$(call train,problem2/train.py --encoding $*)

$(P2)/extrapolation/extrapolation_results.json: $(HOMEWORK:%=$(P2)/%/training_log.json)
	$(call timed,$(PY) problem2/analyze.py)

# The same with another seed: the stem is SEED/SCHEME.
$(P2)/seeds/%/training_log.json: problem2/data/test.json
	$(call train,problem2/train.py --encoding $(*F) --seed $(*D) --output-dir $(P2)/seeds/$(*D))

# The report reads results upstairs, too: `make beyond` sets it again when it has made them.
report: report/report.pdf  ## report/report.pdf and its companion beyond/beyond.pdf, from the results

report/report.pdf: $(wildcard report/*.typ beyond/beyond.typ) report/build.py $(P1)/carry/summary.txt \
		$(P2)/extrapolation/extrapolation_results.json | $(VENV)/ready
	$(call timed,$(PY) report/build.py)

##@ Upstairs, piece by piece

program: beyond/program/results/program.json  ## which algorithm does the addition model run?

beyond/program/results/program.json: $(P1)/training_log.json
	$(call timed,$(PY) beyond/program/analyze.py)

rounding: beyond/rounding/results/rounding.json  ## is it right on every machine?

beyond/rounding/results/rounding.json: $(P1)/training_log.json
	$(call timed,$(PY) beyond/rounding/analyze.py)

any_length: beyond/any_length/results/proof.json  ## addition as text: train on short sums, prove every length

beyond/any_length/results/training_log.json: problem1/data/test.json
	$(call train,beyond/any_length/train.py)

beyond/any_length/results/proof.json: beyond/any_length/results/training_log.json
	$(call timed,$(PY) beyond/any_length/analyze.py)

schemes: $(P2)/extrapolation/extrapolation_details.json  ## sorting: train every other position scheme, and two more seeds

$(P2)/extrapolation/extrapolation_details.json: $(HOMEWORK:%=$(P2)/%/training_log.json) \
		$(OTHERS:%=$(P2)/%/training_log.json) \
		$(foreach seed,$(SEEDS),$(HOMEWORK:%=$(P2)/seeds/$(seed)/%/training_log.json))
	$(call timed,$(PY) problem2/analyze.py)

explorer: explorer/explorer.html  ## explorer/explorer.html: the trained models, running in one page

explorer/explorer.html: $(wildcard explorer/*.js explorer/*.css explorer/*.json explorer/page.html explorer/build.py) \
		$(P1)/carry/summary.txt \
		beyond/program/results/program.json beyond/any_length/results/proof.json \
		$(P2)/extrapolation/extrapolation_details.json | $(VENV)/ready
	$(call timed,$(PY) explorer/build.py)

##@ The studies; what a study has finished is kept, and one that was stopped goes on

ENGINE := $(if $(SCHEDULER), --scheduler $(SCHEDULER))

population: | $(VENV)/ready  ## addition: who hands each carry on, in 182 models (two hours on two cores)
	$(PY) beyond/population/study.py$(ENGINE)

lengths: | $(VENV)/ready  ## addition as text: other seeds, smaller models, a million digits
	$(PY) beyond/any_length/study.py$(ENGINE)
	$(PY) beyond/any_length/scaling.py

all_schemes: | $(VENV)/ready  ## sorting: every scheme, two protocols, three seeds (half an hour)
	$(PY) beyond/schemes/study.py$(ENGINE)

published: | $(VENV)/ready  ## what published solutions say, and what we find (half an hour of processor time)
	$(PY) beyond/published/contradictions.py$(ENGINE)

##@ For courses

grade: | $(VENV)/ready  ## these results against what is expected; others: python -m grading FOLDER
	$(PY) -m grading

autograder: | $(VENV)/ready  ## autograder.zip for Gradescope: grades uploaded results; with CODE=1 checks the code, too
	$(PY) -m grading.autograder

starter:  ## starter.zip: what students begin with, as it stands here
	git archive --format=zip -o starter.zip $$(git stash create | grep . || echo HEAD):starter
	@echo "starter.zip: unzip it in an empty folder, then python check.py"

##@ For work on this repository

readme: | $(VENV)/ready  ## what was found, in README.md and those of beyond/, from the results
	$(PY) report/readme.py

bench: | $(VENV)/ready  ## speed beside what people would use instead; leave the machine alone meanwhile
	$(PY) benchmarks/bench.py

faults: | $(VENV)/ready  ## kills, full disks and malformed files against every script (a quarter of an hour)
	$(PY) -m tests.fault_injection

format: | $(VENV)/ready  ## Python by ruff, the page's scripts by prettier (needs npx, which comes with Node.js)
	$(VENV)/bin/ruff format .
	npx --yes prettier@3.10.1 --write "explorer/*.js"

clean:  ## forget generated data and resumable state; results and .venv stay
	rm -rf problem1/data problem2/data beyond/*/data
	find problem1 problem2 beyond -name last.pth -delete

