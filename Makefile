# netgang: needs python3 (3.11 or newer), make and network on a fresh machine; Go only for the real control plane.
SHELL := /bin/bash
PYTHON ?= python3
UV := .venv/bin/uv
RUN := $(UV) run --frozen --no-sync
UV_VERSION := 0.13.8
VERSIONS ?= 1.36.3
E2E_WORKERS ?= 3
export UV_PROJECT_ENVIRONMENT := .venv
# compiled once, into .venv and not beside the sources, whatever the shell says: a program starts in half the time
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run cluster fmt lint test e2e nightly manifests archives bench fuzz soak chaos papers check image-test release clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: .venv/.synced ## make .venv with everything locked (the other targets call it)

.venv/.synced: pyproject.toml uv.lock
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv
	@test -x $(UV) || .venv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) sync --frozen --quiet
	@touch $@

run: setup ## serve the paper's test bed, where jobs come and go, on 127.0.0.1:8888 (no Go, no cluster)
	$(RUN) netgang demo

cluster: setup ## start a real control plane with netgang on it (needs Go; first time ≈ 5 min)
	$(RUN) python -m lab.testbed up

fmt: setup ## format the code
	$(RUN) ruff format . && $(RUN) ruff check --fix .

lint: setup ## lint, types, import contracts, and the site of docs/ in site/
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(RUN) lint-imports
	$(RUN) python -m tests.contract.reference
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

test: setup ## unit, property and in-process tests: 3 min on two cores, no Go, no cluster
	$(RUN) python -m pytest -n 2 --ignore=tests/e2e --ignore=tests/browser -m "not slow" -rfEs

e2e: setup ## the rest: real control plane, browser, slow tests, more examples; VERSIONS=1.36.3,1.37.2,1.35.4
	$(RUN) python -m lab.testbed archives --optional
	$(RUN) python -m lab.testbed build --e2e --optional
	$(RUN) python -m pytest -n $(E2E_WORKERS) tests/e2e tests/browser -m "not nightly" --versions=$(VERSIONS) -rfEs --durations=40 --durations-min=5
	HYPOTHESIS_PROFILE=ci $(RUN) python -m pytest -n 2 --ignore=tests/e2e --ignore=tests/browser -m "slow or hypothesis" -rfEs

# slow tests and properties with twenty times as many examples, new ones each time, and what is too long for every change
nightly: setup
	HYPOTHESIS_PROFILE=nightly $(RUN) python -m pytest -n 2 --ignore=tests/e2e --ignore=tests/browser -m "slow or hypothesis" -rfEs
	$(RUN) python -m pytest -n 1 tests/e2e -m nightly -rfEs
	$(MAKE) image-test

# the real OpenSearch, Prometheus and Chromium that some tests run against; `make e2e` fetches what it can by itself
archives: setup
	$(RUN) python -m lab.testbed archives

# manifests/ is what the chart in charts/netgang prints: after a change there
manifests: setup
	$(RUN) python -m tests.contract.manifests

bench: setup ## measure verbs, planner and large clusters, then netgang beside its peers (needs Go; ≈ 20 min)
	$(RUN) python -m lab.bench.http
	$(RUN) python -m lab.bench.planner
	$(RUN) python -m lab.bench.scale
	$(RUN) python -m lab.bench peers --workload gangs --workload wide

soak: setup ## long runs: `make soak` 20 min beside a busy cluster, `make chaos` 10 min of faults and attacks, `make fuzz`
	$(RUN) python -m lab.bench.scale --nodes 5000 --waiting 1000 --seconds $(or $(SECONDS),1200)

# 50,000 hostile objects read by the real readers: OBJECTS=50000 SEED=7
fuzz: setup
	$(RUN) python -m tests.fuzz --objects $(or $(OBJECTS),50000) --seed $(or $(SEED),1)

# MINUTES=10 SEED=7: how long, and which things happen; KILLS=100: only leaders are killed, so many of them
chaos: setup
	LEADER_KILLS=$(KILLS) CHAOS_MINUTES=$(or $(MINUTES),10) CHAOS_SEED=$(or $(SEED),0) \
		$(RUN) python -m pytest -n 0 -q -s $(if $(KILLS),tests/e2e/faults/test_leaders.py -k leaders_are_killed,tests/e2e/faults/test_chaos.py)

# the papers' figures by pods that train on nodes with impaired networks (docs/explanation/papers.md): ROWS="N4 G6" RUNS=3
papers: setup
	$(RUN) python -m lab.papers $(ROWS) --runs $(or $(RUNS),3)

check: lint test ## what CI runs first; then `make image-test` and `make release VERSION=0.1.0`

# build the image without a daemon and run it read-only (Linux, root, Debian's buildah and mmdebstrap): 6 min, then 3
image-test: setup
	$(RUN) python -m release.image_test

# wheels, chart, SBOM, checksums and image in dist/VERSION (docs/developers/release.md); DRAFT=1: before it has a date
release: setup
	@test -n "$(VERSION)" || { echo "say which: make release VERSION=0.1.0"; exit 2; }
	$(RUN) python -m release $(VERSION) $(if $(DRAFT),--draft)

clean: ## remove what the targets made in the tree (not the control plane's cache)
	rm -rf .venv dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/e2e/artifacts tests/browser/artifacts
