# Everything that is done with this repository, as one word each.
# Needs python3 (3.11 to 3.14) with venv, and make; the rest is set up here.

PYTHON ?= python3
VENV ?= .venv
UV ?= uv

bin := $(VENV)/bin
pip := $(bin)/python -m pip --disable-pip-version-check --quiet
# The newest release that `make lock` may take is a week old, so that a release that
# is withdrawn in its first days never gets here.
cooldown := $(shell date -u -d '7 days ago' +%Y-%m-%dT00:00:00Z 2>/dev/null \
    || date -u -v-7d +%Y-%m-%dT00:00:00Z)

.DEFAULT_GOAL := help
# Half an environment (no ensurepip, say) must not look like a whole one.
.DELETE_ON_ERROR:
.PHONY: help run test kernels check format lint types imports spelling docs accuracy speed demo-mail lock audit image clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.compiled  ## serve on 127.0.0.1:8025, with SQLite in var/
	$(bin)/postbayes serve

# Each process of the tests has databases and servers of its own.  The one that is
# idle takes over from the other: some tests take a hundred times as long as others.
# Hundreds of processes import the service, so what Python compiles is kept.
test kernels: export PYTHONDONTWRITEBYTECODE =
test: kernels  ## run the tests that need Python alone; PYTEST="-k words -x" narrows them down
	$(bin)/python -m pytest --numprocesses auto --dist worksteal -m "$(SELECT)" $(PYTEST)

# Once, and not in each process of the tests; a second time is a second.
kernels: $(VENV)/.dev
	$(bin)/python -m tests.support.imported

SELECT := not (postgresql or mail or clients or disk or browser or slow)

check: SELECT :=
check: lint types imports spelling test  ## all that CI asks for: every test

format: $(VENV)/.dev  ## lay out the code, and fix what can be fixed safely
	$(bin)/ruff check --fix --show-fixes
	$(bin)/ruff format

lint: $(VENV)/.dev
	$(bin)/ruff format --check
	$(bin)/ruff check

types: $(VENV)/.dev
	$(bin)/mypy

imports: $(VENV)/.dev
	$(bin)/lint-imports

spelling: $(VENV)/.dev
	$(bin)/codespell

docs: $(VENV)/.dev spelling  ## write the reference anew, and test what the documents promise
	$(bin)/python scripts/reference
	$(bin)/python -m pytest tests/test_repository.py tests/test_design.py tests/test_docs.py --no-header

accuracy: $(VENV)/.run  ## evaluate on CORPORA=folder (one folder with an `index` per stream)
	$(bin)/python benchmarks/accuracy.py $(or $(CORPORA),$(error say where the mail is: make accuracy CORPORA=folder))

speed: $(VENV)/.run  ## measure latency and throughput on INDEX=file (a TREC-style index)
	$(bin)/python benchmarks/http_latency.py --index $(or $(INDEX),$(error say which mail to send: make speed INDEX=file))

demo-mail: $(VENV)/.dev  ## a real Postfix and Dovecot on loopback: mail is marked, filed and taught; needs root
	$(bin)/python scripts/demo-mail

lock: ## choose the versions in requirements/ anew; needs uv
	$(UV) pip compile $(lock_options) --extra postgres --extra oidc --group build \
	    --output-file requirements/run.txt pyproject.toml
	$(UV) pip compile $(lock_options) --all-extras --group build --group test --group lint \
	    --constraint requirements/run.txt \
	    --output-file requirements/dev.txt pyproject.toml

# No header and no index: the files name packages, not their source.  With extras: pip
# before 23.3 takes the newest `urllib3` for `urllib3[socks]` where that is not pinned.
lock_options := --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links --exclude-newer $(cooldown)

# Not a part of `check`, which asks nobody: an answer of today says nothing of tomorrow.
# Without --strict, what could not be asked about has no known flaw.
audit:  ## ask the public database for known flaws of the locked versions
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip --disable-pip-version-check --quiet install pip-audit==2.10.1
	build/audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements/run.txt

image:  ## build the container image `postbayes`
	docker build --tag postbayes \
	    --build-arg VERSION=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' app/__init__.py) \
	    --build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) .

clean:  ## remove what was set up and cached; the data in var/ stays
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is as new as its prerequisites, so that a second run is instant.
# The project itself is installed in place: a change of code needs no stamp.
$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt pyproject.toml | $(VENV)/pyvenv.cfg
	$(pip) install --require-hashes -r requirements/run.txt
	$(pip) install --no-deps --no-build-isolation --editable .
	touch $@

# A service that compiles the kernels itself takes 0.7 GB until it ends, not 0.25.
$(VENV)/.compiled: $(VENV)/.run $(wildcard app/kernels/*.py)
	@echo 'Compiling the kernels, once; this takes about half a minute.'
	$(bin)/python deploy/compile > /dev/null
	touch $@

# Most of what is installed to develop is never imported, and compiling all of it takes
# half of the time.
$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(VENV)/pyvenv.cfg
	$(pip) install --require-hashes --no-compile -r requirements/dev.txt
	$(pip) install --no-deps --no-build-isolation --editable .
	touch $@
