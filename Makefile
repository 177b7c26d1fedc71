# Two commands on a fresh machine: make demo, make test. Everything lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test retest lint types unit test-real test-real-long demo-real faults bench pictures clean

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -U "pip>=25.1"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e . --group dev
	@touch $@

demo: $(STAMP)  ## the console on the simulated rig
	@$(BIN)/console demo

test: lint types unit  ## the whole check

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -q

retest: lint types  ## what failed in the last run, once more and alone: tests of processes and clocks on a busy machine
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

test-real: $(STAMP)  ## the real SGLang on the CPU, one and two ranks
	tests/real/run.sh

test-real-long: $(STAMP)  ## the same with eight tensor-parallel ranks
	LONG=1 tests/real/run.sh

demo-real: $(STAMP)  ## the deck on the real SGLang on the CPU, under load
	tests/real/demo.sh

faults: $(STAMP)  ## each part of the simulated rig is killed, stopped, filled and garbled: a table of what came of it
	$(BIN)/python -m tests.faults

bench: $(STAMP)
	$(BIN)/python -m tests.bench

pictures: $(STAMP)  ## the pictures of README.md and docs/
	$(BIN)/python docs/make_pictures.py

clean:
	rm -rf $(VENV) .venv-engine .mypy_cache .ruff_cache .pytest_cache .hypothesis
