# On a fresh machine with Python 3.11 and make: `make demo`, `make test`, or `make quick` while working.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= results
# make reproduce DATA=path/to/mnist.npz: the paper's size, n = 6000 and d = 5000, made from MNIST's 4 and 9.
DATA ?=
LIKE ?= $(if $(findstring mnist,$(notdir $(DATA))),gisette)

.PHONY: demo reproduce test quick study lint bench docs figures package clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py --out $(OUT)/demo

ifeq ($(DATA),)
reproduce: $(STAMP)
	$(BIN)/unsaddle reproduce --out $(OUT)/reproduce
	$(BIN)/unsaddle compare --out $(OUT)/reproduce
	$(BIN)/unsaddle complexity --out $(OUT)/reproduce
else
reproduce: $(STAMP)
	$(BIN)/unsaddle reproduce --data $(DATA) $(if $(LIKE),--as $(LIKE)) --out $(OUT)/$(basename $(notdir $(DATA)))
endif

# Compiled tests are kept, whatever the environment says: rewriting their asserts takes half of what collecting does.
export PYTHONDONTWRITEBYTECODE :=

# A worker on every core; conftest.py says which tests stay with one of them.
PYTEST := $(BIN)/python -m pytest -q -n auto

test: $(STAMP)
	$(PYTEST) -m "not study"

# How often claims hold, over hundreds of seeds.
study: $(STAMP)
	$(PYTEST) -m study tests

# Without files that start processes, or import large packages of others: trainers, JAX, ASE.
APART := $(addprefix --ignore tests/,distributed interop/test_trainers.py interop/test_jax.py interop/ase)
quick: $(STAMP)
	$(PYTEST) -m "not slow and not study" $(APART) tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.step_cost
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.harness

# The site, into the folder site: open site/index.html. Warnings are errors.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site: site/index.html"

# Figures that pages draw by their own code; `python -m benchmarks.figures` lists the commands of all others.
figures: $(STAMP)
	$(BIN)/python -m benchmarks.figures --pages

# sdist and wheel into dist, each installed into an empty environment, where a verdict is asked for.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m benchmarks.package dist

clean:
	rm -rf $(VENV)

$(STAMP): pyproject.toml constraints.txt
	command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
