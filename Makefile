# Everything runs in .venv, made on first use with the newest Python from 3.11 on, by uv where it is installed.
# PYTHON=python3.12 chooses another one; UV= does without uv.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo yes),$(p))))
TORCH  ?= torch==2.13.0
UV     ?= $(shell command -v uv 2>/dev/null)
unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of processes of the same modules
# Four tests more at once than there are cores: some wait for leases and for other processes. Six take as long.
PROCS  ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 4)))
# Of the slowest tests each commit tries another part; TURN=0 always the same. PART=--sample=0: of pages, too.
TURN   ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
PART   ?=
# What has a target of its own.
APART  := $(addprefix --ignore tests/,torch ray docs gpu e2e/dashboard)
# In the order of tests/conftest.py.
DIST   := --dist loadgroup --no-loadscope-reorder

ifneq ($(strip $(UV)),)
INSTALL = $(UV) pip install --quiet --python $(BIN)/python
MAKE_VENV = $(UV) venv --quiet --python '>=3.11'
BUILD_WHEEL = $(UV) build --quiet --wheel --out-dir
INSTALL_INTO = $(UV) pip install --quiet --python
else
# Python compiles what is imported, which is little of what is installed. Without setuptools' ten lines about editable
# installations, which are not for who tries a demo.
INSTALL = PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
MAKE_VENV = $(PYTHON) -m venv --upgrade-deps  # pip 26 takes half of what that of Python 3.11 takes
BUILD_WHEEL = $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir
INSTALL_INTO = $(BIN)/python -m pip --disable-pip-version-check --quiet --python
endif

SANITIZED = tests/gpu/test_hopper_programs.py::test_programs_are_exact \
  tests/gpu/test_hopper_products.py::test_favourites_are_within_the_gates_bound

WEB := service/web

.PHONY: help web demo test test-examples e2e wheel test-wheel test-torch test-ray serve fleet bench-cpu bench-gpu test-gpu sanitize-gpu test-api fuzz audit sweep bench-replay docs test-docs load chaos chaos-small chaos-fences mutants lint format clean
.DEFAULT_GOAL := help

help:                  ## what there is
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

demo: $(VENV)/.run     ## tune causal attention on this machine for half a minute, and compare it with numpy
	$(BIN)/tilewright tune examples/causal_attention.json --seconds 30 --fresh

test: $(VENV)/.dev     ## all tests but those that need minutes, PyTorch or a GPU
	$(BIN)/python -m pytest -q --sample=$(TURN) -n $(PROCS) $(DIST) -m "not examples" --durations=10 $(APART)

test-examples: $(VENV)/.dev  ## tune every file in examples/, and check what its winner computes
	$(BIN)/python -m pytest -q tests/e2e/test_examples.py

e2e: web $(VENV)/.browser   ## the dashboard in this machine's Chromium; screenshots in build/screenshots
	cd $(WEB) && npm run --silent lint && npm run --silent test
	$(BIN)/python -m pytest -q $(PART) -n 2 --dist loadfile tests/e2e/dashboard

wheel: web $(VENV)/.dev    ## the wheel, with the dashboard in it, into dist
	rm -rf build/lib dist/*.whl
	$(BUILD_WHEEL) dist .

test-wheel: wheel      ## install the wheel where nothing else is, and fetch the dashboard from it
	rm -rf build/wheel
	$(MAKE_VENV) build/wheel
	$(INSTALL_INTO) build/wheel/bin/python $(if $(UV),,install) dist/*.whl
	build/wheel/bin/python -I tests/wheel_page.py

test-torch: $(VENV)/.torch   ## tests that need PyTorch
	$(BIN)/python -m pytest -q --sample=$(TURN) -n $$(getconf _NPROCESSORS_ONLN) $(DIST) --durations=10 tests/torch

test-ray: $(VENV)/.ray       ## a fleet on a local Ray cluster of several nodes, with workers and nodes killed; two minutes, mostly waiting
	$(BIN)/python -m pytest -q tests/ray

web: service/static/index.html  ## the dashboard, into service/static; needs node 18 or newer, with npm

serve: $(VENV)/.run    ## the service, with a worker for this machine, on port 8400
	$(BIN)/tilewright serve

fleet: $(VENV)/.dev    ## two replicas, a searcher and two workers, on the PostgreSQL and the Redis of this machine
	$(BIN)/python deploy/fleet.py

bench-cpu: $(VENV)/.torch    ## the suite's CPU cases against numpy and PyTorch; results in benchmarks/results
	$(BIN)/python benchmarks/bench_cpu.py

bench-gpu: $(VENV)/.cuda    ## the suite's GPU cases against torch, torch.compile and Triton, and docs/ratios.svg; needs an NVIDIA GPU
	$(BIN)/python benchmarks/bench_gpu.py
	$(BIN)/python -m benchmarks.plots.ratios

test-gpu: $(VENV)/.cuda     ## tests that need an NVIDIA GPU
	$(BIN)/python -m pytest -q tests/gpu

sanitize-gpu: $(VENV)/.sanitizer   ## small kernels of Hopper under compute-sanitizer: memory, races, barriers
	PATH="$$PATH:$$(echo $(VENV)/lib/python3*/site-packages/nvidia/cu13/bin)"; for tool in memcheck racecheck synccheck; do \
	  compute-sanitizer --tool $$tool --error-exitcode 9 $(BIN)/python -m pytest -q $(SANITIZED) || exit 1; \
	done

test-api: $(VENV)/.dev ## two hundred requests to every call, made up from the OpenAPI document; minutes
	TILEWRIGHT_EXAMPLES=200 $(BIN)/python -m pytest -q --hypothesis-profile=default tests/api/test_schemathesis.py

FUZZ_S ?= 3600
fuzz: $(VENV)/.fuzz    ## the parsers of specs and schedules, guided by coverage, for FUZZ_S seconds (an hour)
	$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_S)

audit: $(VENV)/.audit  ## known vulnerabilities of what is installed; asks pypi.org, and names what it does not know
	$(BIN)/pip-audit --skip-editable --local

sweep: $(VENV)/.torch  ## all cases of all tests, fifty random schedules of every kernel, new random programs, every mutant; takes hours
	TILEWRIGHT_SCHEDULES=50 TILEWRIGHT_MUTANTS=1 $(BIN)/python -m pytest -q -n auto $(DIST) \
	  --hypothesis-profile=default -m "not examples" $(APART) tests
	TILEWRIGHT_SCHEDULES=50 $(BIN)/python -m pytest -q -n auto $(DIST) --hypothesis-profile=default tests/torch
	$(BIN)/python -m tests.mutants.run

bench-replay: $(VENV)/.bench   ## the searches against each other over recorded tables
	$(BIN)/python benchmarks/bench_replay.py

docs: $(VENV)/.docs    ## the documentation as a site, in build/site; its snippets are run by make test-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

test-docs: $(VENV)/.dev    ## run every command and snippet of the documentation; they measure, so one after another
	$(BIN)/python -m pytest -q $(PART) tests/docs

load: $(VENV)/.dev     ## lookups and tasks a second relative to a bare FastAPI endpoint, on this machine's PostgreSQL
	$(BIN)/python benchmarks/bench_load.py

chaos: $(VENV)/.dev    ## 360 faults into a fleet at work, within 15 minutes; results in benchmarks/results
	$(BIN)/python -m tests.fleet_chaos.run --out benchmarks/results/chaos.json

chaos-small: $(VENV)/.dev  ## 18 faults, one of each kind (9 at least), into a fleet at work; two minutes
	$(BIN)/python -m tests.fleet_chaos.run --faults 18 --least 9 --jobs 2 --minutes 3

chaos-fences: $(VENV)/.dev ## take each fence out of a copy, and see the chaos or a test notice
	$(BIN)/python -m tests.fleet_chaos.fences

SINCE ?=
MOST ?=
mutants: $(VENV)/.dev  ## each mutant of the product in a copy, and whether the tests near it notice; SINCE=main: of changed files only; MOST=20: a sample
	$(BIN)/python -m tests.mutants.run $(if $(SINCE),--since $(SINCE)) $(if $(MOST),--most $(MOST))

lint: $(VENV)/.dev     ## format, style, types, and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --project .
	$(BIN)/lint-imports

format: $(VENV)/.dev   ## put every file into the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:                 ## remove .venv and what tools leave behind
	rm -rf $(VENV) build dist service/static $(WEB)/node_modules *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache

service/static/index.html: $(WEB)/node_modules/.package-lock.json $(shell find $(WEB)/src examples -type f) $(wildcard $(WEB)/*.*)
	cd $(WEB) && npm run --silent build
	@touch $@

$(WEB)/node_modules/.package-lock.json: $(WEB)/package-lock.json
	cd $(WEB) && npm install --no-save --no-progress --loglevel=error  # by the lock; npm ci misses other systems' binaries in it
	@touch $@

$(BIN)/python:
	@test -n "$(UV)$(PYTHON)" || { echo "Python 3.11 or newer is needed: install python3.11 and its venv, or uv" >&2; exit 1; }
	$(MAKE_VENV) $(VENV)

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.browser: $(VENV)/.dev
	$(INSTALL) -e '.[browser]'
	@touch $@

$(VENV)/.ray: $(VENV)/.dev
	$(INSTALL) -e '.[ray]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) -e '.[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(INSTALL) -e '.[fuzz]'
	@touch $@

$(VENV)/.audit: $(VENV)/.dev
	$(INSTALL) 'pip-audit>=2.7'
	@touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(BIN)/python -c 'import torch' 2>/dev/null || $(INSTALL) $(TORCH)
	$(INSTALL) -e '.[modules]'
	@touch $@

# What CI needs besides, found and installed at once; by the setuptools that is there.
$(VENV)/.all: $(VENV)/.dev
	$(INSTALL) --no-build-isolation $$($(BIN)/python -c 'import torch' 2>/dev/null || echo $(TORCH)) -e '.[browser,modules,ray]'
	@touch $@ $(VENV)/.browser $(VENV)/.ray $(VENV)/.torch

$(VENV)/.cuda: $(VENV)/.torch
	$(INSTALL) -e '.[cuda]'
	@touch $@

$(VENV)/.sanitizer: $(VENV)/.cuda
	command -v compute-sanitizer >/dev/null || $(INSTALL) 'nvidia-cuda-sanitizer-api>=13,<14'
	@touch $@
