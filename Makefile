# make demo: a first look on real data.   make test: checks and tests.   make test-all: and the examples with other frameworks.
# make docs: the site.   make bench: speed and memory.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test test-all check docs browser bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,docs]'
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/digits.py

# One thread a process: two busy processes with two OpenMP threads each are several times slower on small tensors.
test: $(READY) check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

# Lightning, Accelerate, timm and others, some in two processes; timm and torchvision are fetched by their test.
test-all: test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q -m integrations tests/test_integrations.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# The site of docs/, to be opened at docs/_build/html/index.html; any warning fails it.
docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going --nitpicky --quiet docs docs/_build/html

# The tests of `ncmi report` open its page in Chromium. Where it is missing and cannot be installed they are skipped.
browser:
	command -v chromium || (apt-get update -qq && apt-get install -qq --yes chromium > /dev/null) || true

bench: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.head
	$(BIN)/python -m benchmarks.loop
	$(BIN)/python -m benchmarks.bags
	$(BIN)/python -m benchmarks.table README.md

clean:
	rm -rf $(VENV) demo dist build docs/_build .pytest_cache .ruff_cache .hypothesis
