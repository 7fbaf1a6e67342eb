# Every target makes its own environment in .venv the first time and starts at once after that.
# Choose another interpreter with `make PYTHON=/path/to/python test`.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.installed
WHEEL := build/lint
# Two processes of tests; a file's tests stay together, since they share what they have compiled. The order of the files
# is ours (tests/conftest.py): the longest first.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-fast lint bench bench-models paper-tables sbc study notebooks docs clean
.NOTPARALLEL:

# An environment whose interpreter has gone, or that was made for a checkout in another place, is made anew.
ifneq ($(shell $(BIN)/python -c 'print(open("$(STAMPS)/venv").read().strip())' 2>/dev/null),$(CURDIR))
$(shell rm -rf $(STAMPS))
endif

help:
	@echo "make demo       who was right in the 1979 anaesthesia data, and how sure one may be"
	@echo "make test       all tests"
	@echo "make coverage   all tests, and which lines they reach"
	@echo "make test-fast  the tests that are not slow"
	@echo "make lint       ruff, types and the import contract (the last two on the built wheel)"
	@echo "make bench      benchmarks of speed and memory, side by side with peers"
	@echo "make paper-tables  every method that the papers name on real sets, next to the printed figures"
	@echo "make bench-models  every model under every engine on real sets, an hour; goes on where it was stopped"
	@echo "make sbc        simulation-based calibration of every sampler on every model (writes docs/calibration.md)"
	@echo "make study      moment estimators on simulated and real labels, as starts, on classifiers (writes docs/moments.md)"
	@echo "make notebooks  run the notebooks again and keep their outputs"
	@echo "make docs       write the pages that come from docstrings"
	@echo "make clean      remove the environment and everything built"

# The first interpreter that runs, is new enough and can make environments: a version manager's shim may be on the PATH
# and fail, and some systems ship Python without venv.
$(STAMPS)/venv:
	@for python in $(PYTHON) python3 python3.13 python3.12 python; do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$($$python -c 'import sys; print(sys.executable, sys.version.split()[0])')"; \
	    $$python -m venv --clear $(VENV) && mkdir -p $(STAMPS) && echo "$(CURDIR)" > $@ && exit 0; \
	    echo "$$python could not make $(VENV) (see above); trying the next one" >&2; \
	  fi; \
	done; \
	echo "No Python here can make the environment. Tried: $(PYTHON) python3 python3.13 python3.12 python." >&2; \
	echo "What is needed: Python 3.12 or newer that runs, with the modules venv and ensurepip." >&2; \
	echo "  Debian, Ubuntu: apt-get install python3 python3-venv;  Fedora: dnf install python3;  macOS: brew install python" >&2; \
	echo "  pyenv: pyenv install 3.12;  or name one: make PYTHON=/path/to/python3.12 test" >&2; \
	exit 1

# One stamp per set of extras: what a target does not need, it does not wait for.
define install
	@echo "installing bayescrowd$(1) into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.$(1)'
	@touch $(STAMPS)/run $@
endef

$(STAMPS)/run: pyproject.toml | $(STAMPS)/venv
	$(call install,)
$(STAMPS)/test: pyproject.toml | $(STAMPS)/venv
	$(call install,[test])
$(STAMPS)/dev: pyproject.toml | $(STAMPS)/venv
	$(call install,[dev])
	@touch $(STAMPS)/test
$(STAMPS)/bench: pyproject.toml | $(STAMPS)/venv
	$(call install,[bench])
	@touch $(STAMPS)/test

demo: $(STAMPS)/run
	@$(BIN)/python -m bayescrowd fit --dataset anesthesia --model dawid-skene --engine nuts --out build/demo

test: $(STAMPS)/test
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

coverage: $(STAMPS)/test
	COVERAGE_CORE=sysmon $(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term-missing $(ARGS)

test-fast: $(STAMPS)/test
	$(BIN)/python -m pytest $(WORKERS) -m "not slow" $(ARGS)

# Types and imports are judged on an installed wheel: only there does bayescrowd.models lie inside the package.
lint: $(STAMPS)/dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	@rm -rf $(WHEEL) build/lib build/bdist.*
	@$(BIN)/python -m pip wheel -qq --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(WHEEL) .
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --target $(WHEEL)/site $(WHEEL)/*.whl
	@rm -rf build/lib build/bdist.*
	cd $(WHEEL)/site && MYPYPATH=. ../../../$(BIN)/python -m mypy --config-file ../../../pyproject.toml --cache-dir ../../../.mypy_cache -p bayescrowd
	cd $(WHEEL)/site && ../../../$(BIN)/lint-imports --no-logo ../../../pyproject.toml --cache-dir ../../../.import_linter_cache

bench: $(STAMPS)/bench
	$(BIN)/python tests/benchmarks $(ARGS)

# Needs a folder of real sets, NAME/labels.csv and NAME/truth.csv: BAYESCROWD_DATA. To try it: ARGS=--quick.
bench-models: $(STAMPS)/bench
	$(BIN)/python tests/benchmarks models $(ARGS)

paper-tables: $(STAMPS)/bench
	$(BIN)/python tests/benchmarks papers $(ARGS)

sbc: $(STAMPS)/test
	$(BIN)/python tests/sbc $(ARGS)

study: $(STAMPS)/bench
	$(BIN)/python tests/study $(ARGS)

notebooks: $(STAMPS)/test
	$(BIN)/python notebooks/run.py $(ARGS)

docs: $(STAMPS)/run
	$(BIN)/python docs/reference.py $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
