# Everything a developer types; HACKING.md says when. Nothing outside this folder is touched and no root is needed.
# All paths are relative, so that a folder with spaces in its name works.

PYTHON ?=
WORKERS ?= 4
VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := $(patsubst %/,%,$(wildcard penstock/ ctld/ nodedaemon/ cli/ accounting/ _fastsched/ sim/ rest/ pamd/ sdk/ tools/))
PIP := $(PY) -m pip --quiet --disable-pip-version-check install

.PHONY: help build demo check test test-full test-gpu steady observe fuzz bench bench-sim bench-sched bench-live bench-guard bench-history peer-tools mpi-tools client-tools differential proto records manual statistics web lock clean
.DELETE_ON_ERROR:
# Only what SIDE_BY_SIDE starts is known to be independent.
ifndef INDEPENDENT
.NOTPARALLEL:
endif
SIDE_BY_SIDE = $(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target INDEPENDENT=yes

help:
	@echo "make build      virtual environment, dependencies, Cython: afterwards $(VENV)/bin holds every command"
	@echo "make demo       a private cluster runs a few jobs and shows them (under a minute)"
	@echo "make test       make check, then the tests"
	@echo "make test-full  the long sweeps too"
	@echo "make test-gpu   the tests on this machine's NVIDIA GPU (4 minutes); writes gpu-real.json into the folder OUT (.)"
	@echo "make steady     run TESTS (those that differ from origin/main) 30 times on a busy machine; prints which failed how often"
	@echo "make observe    a cluster on this machine, watched by Prometheus (and Grafana, where it is installed), until Ctrl-C"
	@echo "make fuzz       follow the branches of the parsers with atheris for SECONDS (60)"
	@echo "make check      lint, format, types, import contracts, generated files"
	@echo "make bench      measure this machine with an optimised python3 (PYTHON= another); writes bench/out/main.json"
	@echo "make bench-sim  run the workload logs with published results; writes bench/out/sim.json and openb.json"
	@echo "make bench-sched  measure the planner; writes bench/out/sched.json and sched.png"
	@echo "make bench-live  1,000 hollow nodes and 12,000 jobs on one controller; writes bench/out/live.json"
	@echo "make bench-guard  is this tree slower than its parent? both in turns, 5 minutes; PARTS= some, BASE= another commit"
	@echo "make bench-history  keep bench/out/main.json as this release's figures: bench/history.jsonl, docs/history.svg"
	@echo "make peer-tools HyperQueue for make bench, which does it and goes on without (30 MB)"
	@echo "make mpi-tools  MPICH, Open MPI and torch for the tests in tests/mpi, which are skipped without (about 1.5 GB)"
	@echo "make client-tools  other people's programs that tests/clients runs (make test does it; about 1.7 GB)"
	@echo "make differential  the same command lines on a real Slurm (Debian's slurm-wlm, munge; root) and here, new requests of resources, and plays over time; prints what differs"
	@echo "make proto      generate penstock/v1 from proto/"
	@echo "make records    generate ctld/store/rows.py and the fields of stored records from tools/records"
	@echo "make manual     write docs/compatibility.md, manual pages and completions from the option tables"
	@echo "make statistics write the sizes in ARCHITECTURE.md's last section"
	@echo "make web        build the web interface from web/ into rest/static (node and npm; users need neither)"
	@echo "make lock       choose the newest versions for requirements-dev.lock"
	@echo "make clean      remove all that the others made"

# An environment does not survive that its folder is moved, so it remembers its place. And a broken link (the machine's
# python was upgraded) counts as missing, so it is made again then, too.
ifneq ("$(shell cat $(VENV)/.place 2>/dev/null)","$(CURDIR)")
.PHONY: $(PY)
endif
$(PY):
	@python=$$(sh tools/prerequisites.sh "$(PYTHON)") && echo "making $(VENV) with $$python" && rm -rf $(VENV) && "$$python" -m venv $(VENV)
	@printf '%s\n' "$(CURDIR)" >$(VENV)/.place

$(VENV)/.dependencies: requirements-dev.lock $(PY)
	@echo "installing dependencies (about a minute the first time)"
	@$(PIP) -r requirements-dev.lock
	@touch $@

$(VENV)/.built: $(VENV)/.dependencies setup.py pyproject.toml $(wildcard _fastsched/*.p[xy][xdi] _fastsched/*/*.p[xy][xd] rest/*.py[xi] native/*.c)
	@sh tools/prerequisites.sh $(PY) >/dev/null
	@echo "building"
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

build: $(VENV)/.built

demo: build
	@$(VENV)/bin/penstock demo

# What `check` tests, so `test` does not again: circles of imports (of Cython too), the code map, writes to a record by a stranger, both halves of a handler, banned words, names of two types, `Any` without a reason.
HOUSE_RULES = $(addprefix tests/tidy/test_,circles.py planner_modules.py map.py rooms.py owners.py applying.py words.py names.py any.py public_faces.py ignores.py docs_parameters.py)
# The longest first.
CHECKS := check-types check-generated check-rules check-imports check-style
.PHONY: $(CHECKS) compiled-tests
check: build
	@$(SIDE_BY_SIDE) $(CHECKS)

check-style:
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet . || { echo "make check: not formatted as above; run $(VENV)/bin/ruff format ." >&2; exit 1; }

check-types:
	@$(PY) -m mypy $(PACKAGES) tests bench

check-imports:
	@$(VENV)/bin/lint-imports --no-logo

check-generated:
	@$(PY) tools/proto.py --check
	@$(PY) -m tools.records --check
	@$(PY) -m tools.manual --check
	@$(PY) -m tools.statistics --check
	@$(PY) -m tools.webtypes --check
	@$(PY) -m tools.webbuild --check

check-rules:
	@$(PY) -m tools.testgate --out build/gate-rules --workers 0 -- -q --no-header $(HOUSE_RULES)

compiled-tests:
	@$(PY) -m tools.testgate.compiled

# Runs the tests, and a few that failed once more, alone: tools/testgate decides.
GATE = $(PY) -m tools.testgate --workers $(WORKERS) -- $(addprefix --ignore=,$(HOUSE_RULES))
test: build
	@$(SIDE_BY_SIDE) compiled-tests $(CHECKS)
	@$(CLIENT_TOOLS_OR_GO_ON)
	@$(GATE) -m "not slow"

test-full: check
	@$(CLIENT_TOOLS_OR_GO_ON)
	@PENSTOCK_HYPOTHESIS=full $(GATE) --timeout=7200 -o faulthandler_timeout=7500

# TESTS: those that differ from origin/main if empty.
steady: build
	@$(PY) -m tools.testgate.steady $(TESTS)

observe: build
	@$(PY) -m tools.observe

# PYTHON_GPU: another python that has the dependencies (and torch, for a real load), where .venv cannot be made.
PYTHON_GPU ?= $(PY)
test-gpu: $(if $(filter $(PY),$(PYTHON_GPU)),build)
	@PENSTOCK_REAL_GPU=1 OUT="$${OUT:-.}" $(PYTHON_GPU) -m pytest -m realgpu -rs -s tests/gpu

SECONDS ?= 60
fuzz: build
	@$(PY) tests/support/fuzz.py --seconds $(SECONDS)

# An optimised interpreter is measured: PYTHON (whatever its build), that of $(VENV), or another one of this machine in $(VENV)/bench.
BENCH = @python=$$($(PY) -m bench.environment $(PYTHON)) && venv=$(VENV)$${python:+/bench} && \
	{ [ -z "$$python" ] || $(MAKE) --no-print-directory build VENV="$$venv" PYTHON="$$python"; } && "$$venv/bin/python" -m
bench: build
	@$(MAKE) --no-print-directory peer-tools || echo "make peer-tools failed: the report has no figures of HyperQueue" >&2
	$(BENCH) bench

bench-sim: build
	$(BENCH) bench.simbench
	$(BENCH) bench.openbbench

bench-sched: build
	$(BENCH) bench.schedbench

bench-live: build
	$(BENCH) bench.live

bench-history: build
	@$(PY) -m bench.history

# A peer that runs beside Penstock in the part "peers", in an environment of its own. Optional.
PEER_TOOLS := $(VENV)/hyperqueue/.done
$(PEER_TOOLS): bench/requirements-hyperqueue.txt $(PY)
	@echo "installing HyperQueue for the benchmarks"
	@rm -rf $(@D) && $(PY) -m venv $(@D)
	@$(@D)/bin/python -m pip --quiet --disable-pip-version-check install -r $<
	@touch $@

peer-tools: $(PEER_TOOLS)

# BASE: what the working tree is compared with. PARTS: some of bench/guardload.py; all if empty.
bench-guard: build
	$(BENCH) bench.guard $(if $(BASE),--base $(BASE)) $(PARTS)

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
	@PYTHONPATH=tests/support:. $(PY) -m differential.accounts
	@PYTHONPATH=tests/support:. $(PY) -m differential.grants
	@PYTHONPATH=tests/support:. $(PY) -m differential.plays

proto: $(VENV)/.dependencies
	@$(PY) tools/proto.py

records: build
	@$(PY) -m tools.records

manual: build
	@$(PY) -m tools.manual

web: build
	@$(PY) -m tools.webtypes
	@$(PY) -m tools.webbuild

statistics: build
	@$(PY) -m tools.statistics

lock:
	@sh tools/lock.sh "$(PYTHON)"

clean:
	@rm -rf $(VENV) build dist *.egg-info _fastsched/*.so _fastsched/*.c _fastsched/*/*.so _fastsched/*/*.c rest/*.so rest/*.c .mypy_cache .ruff_cache .hypothesis .import_linter_cache .pytest_cache bench/out
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
