# Everything a newcomer and CI run. Each target makes what it needs in $(VENV) first, once.

PYTHON ?= python3
VENV ?= .venv
# The GPU's extra: cuda12 or cuda13, as the driver supports.
CUDA ?= cuda13
# Options of the demo and of the benchmarks, as in `make demo ARGS="--backend cupy"`.
ARGS ?=
# For the tests: two processes are what two cores have room for.
PYTEST ?= -n 2

# Where the real CuPy computes on the CPU, apart from the CuPy that the other tests look at.
HOSTCUDA ?= out/cupy

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-parity test-cupy test-gpu check check-format check-lint check-mypy check-pyright format bench bench-check bench-gpu clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

# One thread multiplies small matrices as fast as several do on idle cores, and far faster than they do on busy ones.
demo test test-fast test-parity test-cupy test-gpu: export OMP_NUM_THREADS ?= 1
demo test test-fast test-parity test-cupy test-gpu: export OPENBLAS_NUM_THREADS ?= 1

demo: $(INSTALLED)-demo $(if $(findstring cupy,$(ARGS)),$(INSTALLED)-$(CUDA)) ## train a CNN on real handwritten digits, in under a minute (ARGS="--backend cupy" on the GPU)
	@$(PY) examples/digits.py $(ARGS)

test: $(INSTALLED)-test $(INSTALLED)-cupy-check ## run all tests
	@$(PY) -m pytest $(PYTEST)

test-fast: $(INSTALLED)-test $(INSTALLED)-cupy-check ## run the quick tests, in one to two minutes
	@$(PY) -m pytest $(PYTEST) -m "not slow" --ignore=tests/parity

test-parity: $(INSTALLED)-parity ## compare with PyTorch, which is installed for it: several GB where pip finds no CPU build
	@$(PY) -m pytest $(PYTEST) tests/parity tests/record/test_from_torch.py tests/tensor/test_protocols.py tests/benchmarks

test-cupy: ## run the CuPy backend without a GPU: the real CuPy, on the CPU (ARGS="-k softmax" for some tests)
	@$(MAKE) --no-print-directory VENV=$(HOSTCUDA) $(HOSTCUDA)/.installed-hostcuda
	@$(HOSTCUDA)/bin/python -m tests.hostcuda $(ARGS)

test-gpu: $(INSTALLED)-test $(INSTALLED)-$(CUDA) ## run the CuPy backend on a GPU, the first questions first, in some ten minutes
	@$(PY) -m tests.hostcuda.gpu

check: $(INSTALLED)-check ## check format, lint and types
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync check-format check-lint check-mypy check-pyright

check-format:
	$(PY) -m ruff format --check
check-lint:
	$(PY) -m ruff check
check-mypy:
	$(PY) -m mypy
check-pyright:
	$(PY) -m basedpyright --pythonpath $(PY)

format: $(INSTALLED)-check ## bring the code into its format
	$(PY) -m ruff check --fix --select I .
	$(PY) -m ruff format .

bench: $(INSTALLED)-bench ## measure against autograd and MyGrad, and PyTorch where it is installed
	@$(PY) -c 'import torch' 2>/dev/null || echo "PyTorch is left out, as it is not installed; to compare with it: $(PY) -m pip install torch"
	@$(PY) -m benchmarks $(ARGS)

bench-check: $(INSTALLED)-bench ## measure, and fail if a ratio to PyTorch is worse than the committed one of this processor (ARGS="--only training" for a part)
	@$(PY) -m benchmarks --check $(ARGS)

bench-gpu: $(INSTALLED)-bench $(INSTALLED)-$(CUDA) ## measure on a GPU, beside PyTorch where it has CUDA, in some ten minutes; writes out/gpu.md
	@$(PY) -m benchmarks.gpu $(ARGS)

clean: ## remove what the other targets made
	rm -rf $(VENV) out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An extra of pyproject.toml, installed together with the project itself, which stays editable.
$(INSTALLED)-%: pyproject.toml $(VENV)/.made
	@echo "installing burnpy[$*] in $(VENV) ..."
	@$(PIP) --editable ".[$*]"
	@touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "burnpy needs Python 3.11 or newer, which $(PYTHON) is not; name one that is, as in: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) lacks the module that makes virtual environments; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@
