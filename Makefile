# Needs git, make and Python 3.11 or newer. Everything else is installed into $(VENV), anew when a pyproject.toml changes.

PYTHON ?= python3
VENV ?= .venv
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# One and a half per core: many tests wait for a server, a process, a browser, or a backoff. Quick tests do not wait.
WORKERS = $(shell expr $(CORES) + $(CORES) / 2)
test: WORKERS = $(CORES)
PYTEST_ARGS ?= -n $(WORKERS) --dist worksteal
BENCH_ARGS ?=
RELEASES ?= https://github.com/OWNER/stowplan/releases/download/v$(VERSION)
VERSION = $(shell $(BIN)/python -c 'import stowplan; print(stowplan.__version__)')

BIN := $(VENV)/bin
# What users need, and what developers need beside it.
USABLE := $(VENV)/.usable
STAMP := $(VENV)/.installed
SOURCES := packages tests website conftest.py $(wildcard benchmarks examples)
DISTRIBUTIONS := packages/stowplan packages/stowplan-cluster packages/stowplan-lab packages/stowplan-scheduler-plugins
# What `make test` runs; everything relies on kubectl's reading and writing.
QUICK ?= $(addsuffix /tests/unit,$(DISTRIBUTIONS)) tests/golden tests/integration/test_kubectl_reading.py

# For every platform and Python version; wheels alone; no address of an index, which whoever builds the image chooses.
LOCK := --quiet --upgrade --universal --python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-annotate --custom-compile-command 'make lock'

# Tests start hundreds of processes: each would compile every module anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help test test-compiled compiled compiled-wheel test-full suite wheels krew lock check lint types format demo site pictures page bench bench-apiserver clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

test: $(STAMP) ## the quick tests: unit tests, with a tenth of the examples and of the recorded clusters
	STOWPLAN_EXAMPLES=0.1 $(BIN)/python -m pytest -m 'not slow' $(PYTEST_ARGS) $(QUICK)

test-compiled: compiled ## the same in the compiled form
	PYTHONPATH=build/compiled $(BIN)/stowplan --version | grep -F ', compiled ('
	PYTHONPATH=$(CURDIR)/build/compiled $(MAKE) --no-print-directory test

# About five minutes; MYPYC_OPT_LEVEL=1 takes three.
compiled: $(STAMP) ## the compiled form (docs/project/compiled.md), in build/compiled: run with PYTHONPATH=build/compiled
	cd packages/stowplan-c && $(CURDIR)/$(BIN)/python setup.py --quiet build_py build_ext build \
		--build-lib $(CURDIR)/build/compiled

# The build is isolated: pip installs what it needs, and sees no other environment.
compiled-wheel: $(STAMP) ## a wheel of the compiled form for this interpreter, installed beside stowplan's, and commands run from there
	rm -rf build/compiled-wheels && mkdir -p build/compiled-wheels
	for one in packages/stowplan packages/stowplan-c; do \
		$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/compiled-wheels $$one || exit; done
	$(BIN)/python deploy/try_wheels.py build/compiled-wheels compiled

test-full: check suite ## linters, types, layer order and the whole test suite

suite: $(STAMP) ## the whole test suite alone; REQUIRE=assets,kubectl,helm,promtool,otelcol: nothing skipped
	$(BIN)/python -m pytest $(PYTEST_ARGS)

wheels: $(STAMP) ## a wheel of each distribution, installed alone into an empty environment, and its commands run from there
	rm -rf build/wheels && mkdir -p build/wheels
	for one in $(DISTRIBUTIONS); do $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheels $$one; done
	$(BIN)/python deploy/try_wheels.py build/wheels

# RELEASES: the URL below which the archive will be.
krew: $(STAMP) ## the plugin of kubectl as krew installs it: an archive and its manifest in build/krew, installed and run
	rm -rf build/krew
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/krew/wheel packages/stowplan
	$(BIN)/python deploy/krew/build.py build/krew/wheel/stowplan-*.whl build/krew "$(RELEASES)"

lock: ## the versions and hashes that the image and hosted CI install, anew from the files pyproject.toml
	$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'
	build/lock/bin/uv pip compile $(LOCK) packages/stowplan/pyproject.toml -o deploy/container/requirements.txt
	$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("packages/stowplan/pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' >build/lock/build.in
	build/lock/bin/uv pip compile $(LOCK) build/lock/build.in -o deploy/container/build-requirements.txt
	$(PYTHON) -c 'import tomllib; extras = tomllib.load(open("packages/stowplan-lab/pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*(one for name in extras if name != "all" for one in extras[name]), sep="\n")' >build/lock/lab.in
	build/lock/bin/uv pip compile $(LOCK) packages/stowplan/pyproject.toml --extra mcp --extra traces build/lock/lab.in --group dev --group docs -o requirements-dev.txt

check: lint types ## linters, types and layer order only

lint: $(STAMP)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml examples/pull-requests/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions action.yml .github/actions/*/action.yml
	$(BIN)/towncrier build --draft --version 0 >/dev/null
	@[ ! -d page/node_modules ] || (cd page && npm run --silent check)
	@[ ! -d headlamp/node_modules ] || (cd headlamp && npm run --silent check)

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP) ## format the sources, and mend what the linter can mend
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)
	$(BIN)/ruff format --quiet $(SOURCES)
	@[ ! -d page/node_modules ] || (cd page && npm run --silent format)

demo: $(USABLE) ## a small cluster comes up, a workload is placed, one pod that waits is explained
	@$(BIN)/stowplan demo
	@command -v stowplan >/dev/null || printf '  %-32s %s\n' 'source $(BIN)/activate' 'first: puts stowplan on your PATH'

site: $(STAMP) ## the documentation, in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

PICTURES ?= build/pictures
pictures: $(STAMP) ## the pictures of the page in the docs; PICTURES=docs/assets: instead of those there; needs Chromium and kubectl
	$(BIN)/python website/page_pictures.py $(PICTURES) $(WEEK)
	$(BIN)/python website/moving_picture.py $(PICTURES)/page-moving.png

page: ## the page's client, from page/ into packages/stowplan/src/stowplan/ui/static; needs Node, which users do not
	cd page && npm ci --silent --no-audit --no-fund && npm run --silent check && npm test --silent && npm run --silent build

bench: $(STAMP) ## µs for each decision, at several cluster sizes
	$(BIN)/python benchmarks/cycle.py $(BENCH_ARGS)

bench-apiserver: $(STAMP) ## creates, binds and watch lines a second of the embedded API
	$(BIN)/python benchmarks/apiserver.py $(BENCH_ARGS)

clean: ## remove the environment and all caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find packages tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(USABLE): pyproject.toml $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "stowplan needs Python 3.11 or newer, and '$(PYTHON)' is not there. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "stowplan needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "'$(PYTHON) -m venv' failed; some distributions keep it in a package of its own (python3-venv)." >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1' $(addprefix -e ,$(DISTRIBUTIONS))
	@# As pip does for what it unpacks. Else the first run compiles, and in each of its processes.
	@$(BIN)/python -m compileall -q -j 0 packages
	@touch $@

$(STAMP): $(USABLE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e 'packages/stowplan[mcp,traces]' -e 'packages/stowplan-lab[all]' --group dev --group docs
	@touch $@
