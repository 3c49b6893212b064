# Two commands for a newcomer: `make demo` and `make test`. `make help` lists the rest.
VENV ?= .venv
PYTHON ?= python3.11
PORT ?= 8000
ARGS ?=
FILE ?= tests/memory/labelled_messages.jsonl
SETS ?= $(wildcard ../shared/eval/retrieval/*)
export OMP_NUM_THREADS ?= 1
# gRPC's own lines about a slow keepalive of the vector store's client look like a crash, and are none.
export GRPC_VERBOSITY ?= NONE

bin := $(VENV)/bin
base := $(VENV)/.base-installed
dev := $(VENV)/.dev-installed

.DEFAULT_GOAL := help
.PHONY: help system demo run test test-deep acceptance endpoint-named evaluate evaluate-retrieval peers check format openapi benchmarks benchmarks-scale outages clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

system: ## Debian packages that tests need (as root)
	@missing="$$(PYTHON=$(PYTHON) tests/missing-packages)"; \
	test -n "$$missing" || { echo "make system: nothing is missing"; exit 0; }; \
	test "$$(id -u)" = 0 || { echo "make system installs Debian packages: run it as root; missing here: $$missing"; exit 1; }; \
	apt-get update -qq; known=""; \
	for package in $$missing; do \
		if apt-cache show $$package >/dev/null 2>&1; then known="$$known $$package"; else echo "apt has no $$package here"; fi; \
	done; \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$known

$(bin)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is missing: install it, or say which to use: make demo PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "$(PYTHON) is not Python 3.11; say which to use: make demo PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python's venv module is missing: install python3.11-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(base): requirements-base.txt | $(bin)/pip
	@echo "Installing requirements-base.txt into $(VENV), about a minute the first time ..."
	$(bin)/pip install --quiet --disable-pip-version-check -r requirements-base.txt
	@touch $@

$(dev): requirements-dev.txt requirements.txt requirements-base.txt | $(bin)/pip
	@command -v cc >/dev/null || { echo "A C compiler is missing: make system (as root), or install build-essential"; exit 1; }
	@$(bin)/python -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || { echo "Python's headers are missing: make system (as root), or install python3.11-dev"; exit 1; }
	@pkg-config --exists mysqlclient 2>/dev/null || pkg-config --exists mariadb 2>/dev/null || pkg-config --exists libmariadb 2>/dev/null || { echo "The MySQL client headers are missing: make system (as root), or install default-libmysqlclient-dev and pkg-config"; exit 1; }
	@echo "Installing requirements-dev.txt into $(VENV), some minutes the first time ..."
	$(bin)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(base)

demo: $(base) ## The whole product in half a minute: publish, ask, change, revoke, remember, forget, check the promises
	$(bin)/python manage.py demo

run: $(base) ## Serve admin, API and docs on PORT (8000)
	$(bin)/python manage.py run --port $(PORT)

test: $(dev) ## The suite, on servers of its own; ARGS=... goes to pytest
	$(bin)/python -m tests.servers $(bin)/pytest $(if $(ARGS),$(ARGS),-n 2)

test-deep: $(dev) ## A longer search for histories that break a promise, and each guard taken out; a quarter of an hour
	$(bin)/python -m tests.servers $(bin)/pytest -m deep $(ARGS)

acceptance: endpoint-named $(dev) ## Four checks of a real model: ZHIFU_ACCEPTANCE_MODEL, _BASE_URL, ZHIFU_SECRET_ACCEPTANCE
	$(bin)/python -m tests.servers $(bin)/pytest tests/acceptance -m acceptance $(ARGS)

endpoint-named:
	@for name in ZHIFU_ACCEPTANCE_MODEL ZHIFU_ACCEPTANCE_BASE_URL ZHIFU_SECRET_ACCEPTANCE; do \
		printenv $$name | grep -q . || { echo "make acceptance asks a real model: set ZHIFU_ACCEPTANCE_MODEL, ZHIFU_ACCEPTANCE_BASE_URL (https://host/v1) and ZHIFU_SECRET_ACCEPTANCE (its key, or any word); missing here: $$name"; exit 1; }; \
	done

evaluate: $(base) ## How well the chat model reads wishes, on FILE (tests/memory/labelled_messages.jsonl)
	$(bin)/python manage.py migrate --verbosity 0
	$(bin)/python manage.py evaluate_extraction $(FILE) $(ARGS)

evaluate-retrieval: $(base) ## How well search finds, on SETS (folders with corpus.jsonl, queries.jsonl, qrels.tsv)
	@test -n "$(strip $(SETS))" || { echo "make evaluate-retrieval needs judged sets: SETS='folder ...', each with corpus.jsonl, queries.jsonl and qrels.tsv"; exit 1; }
	$(bin)/python manage.py evaluate_retrieval $(SETS) $(ARGS)

PEERS ?= .venv-peers

$(PEERS)/.installed: benchmarks/peers/requirements.txt
	test -x $(PEERS)/bin/pip || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

peers: $(PEERS)/.installed ## The same sets against LangChain's ensemble, in an environment of its own
	$(MAKE) evaluate-retrieval ARGS="--export var/peers $(ARGS)"
	PYTHONPATH=. $(PEERS)/bin/python benchmarks/peers/langchain_ensemble.py var/peers

check: $(dev) ## What CI runs: lint, format, types, migrations, schema, tests
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/python manage.py makemigrations --check --dry-run
	$(bin)/python manage.py spectacular --validate --fail-on-warn --file /dev/null
	$(MAKE) test

format: $(dev) ## Format the code and mend what lint can
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

openapi: $(dev) ## Refresh tests/openapi.yaml after a change of the API
	$(bin)/python manage.py spectacular --validate --fail-on-warn --file tests/openapi.yaml

benchmarks: $(dev) ## Search and turn benchmarks against their bare parts
	ZHIFU_ENCODER=hashing_in_model_time DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.search
	DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.search
	DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.turns

benchmarks-scale: $(dev) ## Search over 5,000 and 20,000 chunks, and the database's part in 2,000,000; ten minutes
	ZHIFU_ENCODER=hashing_in_model_time DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.search --chunks 5000
	ZHIFU_ENCODER=hashing_in_model_time DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.search --chunks 20000
	DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.verify $(ARGS)

outages: $(dev) ## Take Milvus away under load, in every way, and bring it back; three minutes
	DJANGO_SETTINGS_MODULE=tests.settings $(bin)/python -m tests.servers $(bin)/python -m benchmarks.outages $(ARGS)

clean: ## Remove the environment and the embedded data
	rm -rf $(VENV) var
