# Everything a developer types; HACKING.md says when. Nothing outside this folder is touched and no root is needed.
# All paths are relative, so that a folder with spaces in its name works.

PYTHON ?=
WORKERS ?= 4
VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := $(patsubst %/,%,$(wildcard penstock/ ctld/ nodedaemon/ cli/ accounting/ _fastsched/ sim/ web/ tools/))
PIP := $(PY) -m pip --quiet --disable-pip-version-check install

.PHONY: help build demo check test test-full test-gpu fuzz bench bench-sim bench-sched bench-live mpi-tools client-tools differential proto manual lock clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make build      virtual environment, dependencies, Cython: afterwards $(VENV)/bin holds every command"
	@echo "make demo       a private cluster runs a few jobs and shows them (under a minute)"
	@echo "make test       make check, then the tests"
	@echo "make test-full  the long sweeps too"
	@echo "make test-gpu   the tests on this machine's NVIDIA GPU (4 minutes); writes gpu-real.json into the folder OUT (.)"
	@echo "make fuzz       follow the branches of the parsers with atheris for SECONDS (60)"
	@echo "make check      lint, format, types, import contracts, generated files"
	@echo "make bench      measure this machine; writes bench/out/main.json"
	@echo "make bench-sim  run the workload logs with published results; writes bench/out/sim.json and openb.json"
	@echo "make bench-sched  measure the planner; writes bench/out/sched.json and sched.png"
	@echo "make bench-live  1,000 hollow nodes and 12,000 jobs on one controller; writes bench/out/live.json"
	@echo "make mpi-tools  MPICH, Open MPI and torch for the tests in tests/mpi, which are skipped without (about 1.5 GB)"
	@echo "make client-tools  other people's programs that tests/clients runs (make test does it; about 1.7 GB)"
	@echo "make differential  the same command lines on a real Slurm (Debian's slurm-wlm, munge; root) and here; prints what differs"
	@echo "make proto      generate penstock/v1 from proto/"
	@echo "make manual     write docs/compatibility.md, manual pages and completions from the option tables"
	@echo "make lock       choose the newest versions for requirements-dev.lock"
	@echo "make clean      remove all that the others made"

# An environment does not survive that its folder is moved, so it remembers its place. And a broken link (the machine's
# python was upgraded) counts as missing, so it is made again then, too.
ifneq ("$(shell cat $(VENV)/.place 2>/dev/null)","$(CURDIR)")
.PHONY: $(PY)
endif
$(PY):
	@python=$$(sh tools/prerequisites.sh "$(PYTHON)") && echo "making $(VENV)" && rm -rf $(VENV) && "$$python" -m venv $(VENV)
	@printf '%s\n' "$(CURDIR)" >$(VENV)/.place

$(VENV)/.dependencies: requirements-dev.lock $(PY)
	@echo "installing dependencies (about a minute the first time)"
	@$(PIP) -r requirements-dev.lock
	@touch $@

$(VENV)/.built: $(VENV)/.dependencies setup.py pyproject.toml $(wildcard _fastsched/*.pyx _fastsched/*.pxi native/*.c)
	@sh tools/prerequisites.sh $(PY) >/dev/null
	@echo "building"
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

build: $(VENV)/.built

demo: build
	@$(VENV)/bin/penstock demo

check: build
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet . || { echo "make check: not formatted as above; run $(VENV)/bin/ruff format ." >&2; exit 1; }
	@$(PY) -m mypy $(PACKAGES)
	@$(VENV)/bin/lint-imports --no-logo
	@$(PY) tools/proto.py --check
	@$(PY) -m tools.manual --check

test: check
	@$(CLIENT_TOOLS_OR_GO_ON)
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

test-full: check
	@$(CLIENT_TOOLS_OR_GO_ON)
	@PENSTOCK_HYPOTHESIS=full $(PY) -m pytest -n $(WORKERS) --dist worksteal

# PYTHON_GPU: another python that has the dependencies (and torch, for a real load), where .venv cannot be made.
PYTHON_GPU ?= $(PY)
test-gpu: $(if $(filter $(PY),$(PYTHON_GPU)),build)
	@PENSTOCK_REAL_GPU=1 OUT="$${OUT:-.}" $(PYTHON_GPU) -m pytest -m realgpu -rs -s tests/gpu

SECONDS ?= 60
fuzz: build
	@$(PY) tests/support/fuzz.py --seconds $(SECONDS)

bench: build
	@$(PY) -m bench

bench-sim: build
	@$(PY) -m bench.simbench
	@$(PY) -m bench.openbbench

bench-sched: build
	@$(PY) -m bench.schedbench

bench-live: build
	@$(PY) -m bench.live

# What the tests in tests/mpi run: one environment a library, as two of them bring the same names. Optional.
MPI_TOOLS := $(patsubst tests/mpi/requirements-%.txt,$(VENV)/mpi/%/.done,$(wildcard tests/mpi/requirements-*.txt))
$(VENV)/mpi/%/.done: tests/mpi/requirements-%.txt $(PY)
	@echo "installing $* for tests/mpi"
	@rm -rf $(@D) && $(PY) -m venv $(@D)
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install -r $<
	@touch $@

mpi-tools: $(MPI_TOOLS)

# What the tests in tests/clients run, one environment a group. Not optional: a test whose environment is missing fails, and says so.
CLIENT_TOOLS := $(patsubst tests/clients/requirements/%.txt,$(VENV)/clients/%/.done,$(wildcard tests/clients/requirements/*.txt))
CLIENT_TOOLS_OR_GO_ON := $(MAKE) --no-print-directory --keep-going client-tools || echo "make client-tools failed: tests in tests/clients will, too" >&2
$(VENV)/clients/%/.done: tests/clients/requirements/%.txt $(PY)
	@echo "installing $* for tests/clients"
	@rm -rf $(@D) && $(PY) -m venv $(@D)
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install -r $<
	@touch $@

client-tools: $(CLIENT_TOOLS)

differential: build
	@PYTHONPATH=tests/support:. $(PY) -m differential

proto: $(VENV)/.dependencies
	@$(PY) tools/proto.py

manual: build
	@$(PY) -m tools.manual

lock:
	@sh tools/lock.sh "$(PYTHON)"

clean:
	@rm -rf $(VENV) build dist *.egg-info _fastsched/*.so _fastsched/*.c .mypy_cache .ruff_cache .hypothesis .import_linter_cache .pytest_cache bench/out
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
