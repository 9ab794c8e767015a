# The project's one interface, the same for people and for CI.
#
#   make run     a real Open WebUI with everything installed     make demo    the loop as a story
#   make test    the whole suite                                 make check   lint, types, contracts
#   make test-browser   what people see, in a real Chromium      make bench   the figures
#   make test-deploy    Kubernetes files, proxy, many workers    make bench-load    fifty open chats
#   make render  what `kubectl apply -k` sends, into deploy/rendered
#   make eval    whether lessons help, in a real Open WebUI: a verdict and a page
#
# TORCH: which torch to install, first and alone (a CPU build is enough; elsewhere e.g.
#   make run TORCH='torch --index-url https://download.pytorch.org/whl/cpu')
# PYTHON: which interpreter makes the virtual environment (3.11 or 3.12)

SHELL := /bin/bash
VENV ?= .venv
TORCH ?= torch==2.13.0
PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARGS ?=
# Most tests wait for disks, servers and children: four at once, on two cores as well.
SIDE_BY_SIDE ?= -n 4 --dist worksteal
# What shares a server stays together (tests/support/groups.py); two at once are enough for two cores.
IN_GROUPS ?= -n 2 --dist loadfile
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet
PARTS := filter promote seeds eval deploy

.PHONY: run demo eval test test-browser chromium test-deploy deploy-tools render bench-load check bench bundle types clean
.DEFAULT_GOAL := check

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no python found: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' \
		|| { echo "$(PYTHON) is not Python 3.11 or 3.12 (Open WebUI needs one of them): make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.torch: | $(BIN)/python
	@echo "installing torch and Open WebUI into $(VENV): 3 GB with a CPU build of torch, else 7 GB; five to ten minutes"
	$(PIP) $(TORCH)
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.torch
	$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.demo
	$(PIP) -e '.[demo,dev]'
	@touch $@

run: $(VENV)/.demo
	@$(BIN)/lessons up $(ARGS)

demo: $(VENV)/.demo
	@$(BIN)/lessons demo $(ARGS)

# 1,248 answers, 200 s of CPU time (measured, with the script that stands in for a model); ARGS='--runs 1': a third.
eval: $(VENV)/.demo
	@$(BIN)/lessons eval demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m "not e2e and not browser and not deploy" $(ARGS)
	LESSONS_BUNDLE=1 $(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m "not e2e and not browser and not deploy" $(ARGS)
	$(BIN)/python -m pytest -q $(IN_GROUPS) -m e2e $(ARGS)

# Manifests, policy proxy, images, many workers and upgrades: real nginx, real Chroma, real Open WebUI.
test-deploy: $(VENV)/.dev deploy-tools
	$(BIN)/python -m pytest -q $(IN_GROUPS) -m deploy $(ARGS)

deploy-tools:
	@deploy/tools.sh

# What `kubectl apply -k` sends, committed so that a review sees it; after any change below deploy/base or deploy/overlays.
render: deploy-tools
	@for layer in base overlays/small overlays/production overlays/evaluation; do \
		kubectl kustomize deploy/$$layer >deploy/rendered/.tmp && mv deploy/rendered/.tmp deploy/rendered/$${layer##*/}.yaml \
			|| { rm -f deploy/rendered/.tmp; exit 1; }; done

# Screenshots of every scene are kept in build/screenshots.
test-browser: $(VENV)/.dev chromium
	$(BIN)/python -m pytest -q -m browser $(ARGS)

# Playwright's own browser is a download of its own; Debian's package does.
chromium:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then exit 0; fi >/dev/null; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	if ! command -v apt-get >/dev/null || { [ "$$sudo" ] && ! command -v sudo >/dev/null; }; then \
		echo "no Chromium here, and no way to install it: install it by hand (chromium on the PATH)" >&2; exit 1; fi; \
	echo "installing Debian's chromium"; \
	$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		$$sudo apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null \
	|| { echo "chromium could not be installed: install it by hand (chromium on the PATH)" >&2; exit 1; }

# setuptools' import hook is closed to type checkers: they follow this ignored link folder.
types:
	@mkdir -p .cache/types/lessons_loop
	@for part in $(PARTS); do ln -sfn ../../../$$part .cache/types/lessons_loop/$$part; done

check: $(VENV)/.dev types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p lessons_loop
	$(BIN)/lint-imports
	$(BIN)/python -m lessons_loop.deploy.bundle --check

bundle: $(VENV)/.dev
	$(BIN)/python -m lessons_loop.deploy.bundle

bench: $(VENV)/.dev
	$(BIN)/python -m lessons_loop.deploy.bench $(ARGS)

# Three minutes a series; ARGS='--seconds 20': what the tests run.
bench-load: $(VENV)/.dev deploy-tools
	$(BIN)/python -m lessons_loop.deploy.bench.load $(ARGS)

clean:
	rm -rf $(VENV) .cache .run build *.egg-info
