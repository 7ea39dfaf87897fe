# The targets for newcomers and CI. Each target first installs its tools in $(VENV), once.

PYTHON ?= python3
VENV ?= .venv
# The GPU's extra: cuda12 or cuda13, as the driver supports.
CUDA ?= cuda13
# Options of the demo and of the benchmarks, as in `make demo ARGS="--backend cupy"`.
ARGS ?=
# For the tests: three processes keep two cores busy while tests wait. Each starts with its own part of the tests, longest
# first, and takes tests from the others when it is done.
PYTEST ?= -n 3 --dist worksteal

# The environment for the real CuPy on the CPU, apart from the CuPy of the other tests.
HOSTCUDA ?= out/cupy

PY := $(VENV)/bin/python
# pip compiles no bytecode, which takes it half the time: Python does, for the modules that are imported.
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --no-compile
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-all test-heavy test-long test-long-forms test-interpreters rehearse-gpu test-parity test-cupy test-gpu packages check check-format check-lint check-mypy check-pyright check-tests format generated docs bench bench-check bench-gpu clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 24

# One thread multiplies small matrices as fast as several do on idle cores, and far faster than they do on busy ones.
demo test test-fast test-all test-heavy test-long-forms test-interpreters rehearse-gpu test-parity test-cupy test-gpu: export OMP_NUM_THREADS ?= 1
demo test test-fast test-all test-heavy test-long-forms test-interpreters rehearse-gpu test-parity test-cupy test-gpu: export OPENBLAS_NUM_THREADS ?= 1
# Hundreds of tests start Python anew, and each start would compile again what pip has not compiled.
export PYTHONDONTWRITEBYTECODE :=
# Tests that need a heavy extra run in test-heavy and test-parity, even if the extra is installed.
test test-fast test-all: export BURNPY_HEAVY_TESTS := 0

demo: $(INSTALLED)-demo $(if $(findstring cupy,$(ARGS)),$(INSTALLED)-$(CUDA)) ## train a CNN on real handwritten digits, in under a minute (ARGS="--backend cupy" on the GPU)
	@$(PY) examples/digits.py $(ARGS)

test: $(INSTALLED)-test ## run the tests, except the slowest and those that need a heavy installation
	@$(PY) -m pytest $(PYTEST) -m "not slowest"

test-fast: $(INSTALLED)-test ## run the quick tests
	@$(PY) -m pytest $(PYTEST) -m "not slow"

test-all: $(INSTALLED)-test ## run the tests, the slowest too, except those that take minutes or need a heavy installation
	@$(PY) -m pytest $(PYTEST)

test-heavy: $(INSTALLED)-test-heavy ## run the tests that need Ray, Open MPI, pyarrow, datasets, einops, CuPy's wheel or others
	@$(PY) -m pytest $(PYTEST) -m heavy

test-parity: $(INSTALLED)-parity ## install PyTorch (several GB if pip finds no CPU build) and compare with it
	@$(PY) -m pytest $(PYTEST) -m parity

test-long: test-long-forms test-interpreters packages rehearse-gpu check-tests ## run these five, in an hour or more

test-long-forms: $(INSTALLED)-test-heavy ## run all tests in their long form (PYTEST="-n 3 tests/train" for a part)
	@BURNPY_LONG_TESTS=$${BURNPY_LONG_TESTS:-200} $(PY) -m pytest $(PYTEST)

test-interpreters: $(INSTALLED)-test ## run the quick tests on each Python from 3.11 to 3.14
	@$(PY) -m tests.interpreters

rehearse-gpu: ## run what test-gpu and bench-gpu run, without a GPU
	@$(MAKE) --no-print-directory VENV=$(HOSTCUDA) $(HOSTCUDA)/.installed-hostcuda
	@$(HOSTCUDA)/bin/python -m tests.hostcuda.build
	@$(HOSTCUDA)/bin/python -m tests.hostcuda.gpu --rehearse
	@$(HOSTCUDA)/bin/python -m benchmarks.gpu --rehearse --out out/gpu-rehearsal.md

test-cupy: ## run the CuPy backend without a GPU: the real CuPy, on the CPU (ARGS="-k softmax" for some tests)
	@$(MAKE) --no-print-directory VENV=$(HOSTCUDA) $(HOSTCUDA)/.installed-hostcuda
	@$(HOSTCUDA)/bin/python -m tests.hostcuda $(ARGS)

test-gpu: ## check the CuPy backend on a GPU, with the packages of PYTHON, the most telling checks first, in nine minutes
	@PYTHONPATH=.:backends $(PYTHON) -m tests.hostcuda.gpu

packages: $(INSTALLED)-test ## build the wheel and the sdist in out/packages, and try both in a clean environment of each Python from 3.11 to 3.14
	@$(PY) -m tests.packages

check: $(INSTALLED)-test ## check format, lint and types
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync check-format check-lint check-mypy check-pyright

check-format:
	$(PY) -m ruff format --check
check-lint:
	$(PY) -m ruff check
check-mypy:
	$(PY) -m tests.typing.checkers mypy
check-pyright:
	$(PY) -m tests.typing.checkers pyright

check-tests: $(INSTALLED)-test ## check the types of the tests, which takes mypy half a minute more than the package
	$(PY) -m mypy tests

format: $(INSTALLED)-test ## format the code
	$(PY) -m ruff check --fix --select I .
	$(PY) -m ruff format .

# The table of methods is made from sources alone: without it, the package may not import.
generated: $(INSTALLED)-test ## write stubs, tables and pages that are made from the code
	@$(PY) burnpy/docs/generated_code.py
	@$(PY) -m burnpy.docs.generated

docs: $(INSTALLED)-docs ## build the book as HTML in out/docs
	@$(PY) -m sphinx --fail-on-warning --keep-going --nitpicky --quiet --jobs auto -c burnpy/docs/html -d out/doctrees burnpy/docs out/docs
	@echo "out/docs/index.html"

bench: $(INSTALLED)-bench ## measure against autograd and MyGrad, and PyTorch if it is installed
	@$(PY) -c 'import torch' 2>/dev/null || echo "PyTorch is not installed and is left out; to compare with it: $(PY) -m pip install torch"
	@$(PY) -m benchmarks $(ARGS)

bench-check: $(INSTALLED)-bench ## measure, and fail if a ratio to PyTorch is worse than the committed one for this processor (ARGS="--only training" for a part)
	@$(PY) -m benchmarks --check $(ARGS)

bench-gpu: ## measure on a GPU, with the packages of PYTHON, beside PyTorch if it has CUDA, in some four minutes; writes out/gpu.md
	@PYTHONPATH=.:backends $(PYTHON) -m benchmarks.gpu $(ARGS)

clean: ## remove the output of the other targets
	rm -rf $(VENV) out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The contents and cost of the large extras.
SIZE_test := NumPy, SciPy, scikit-learn, Matplotlib, LLVM, two type checkers and pytest: 1 GB, about a minute
SIZE_test-heavy := as make test, and Ray, Open MPI, pyarrow, datasets, statsmodels, Sphinx and CuPy: 1 GB more, about a minute
SIZE_parity := as make test, and PyTorch: 0.8 GB more with its CPU build, about a minute

comma := ,
# An extra of pyproject.toml, or several with commas between them, installed together with the project itself, which
# stays editable. What builds the project is in $(VENV): an environment for the build alone takes pip five seconds.
$(INSTALLED)-%: pyproject.toml $(VENV)/.ready
	@echo "installing burnpy[$*] in $(VENV)$(if $(SIZE_$*), ($(SIZE_$*)); this is done once) ..."
	@$(PIP) --no-build-isolation --editable ".[$*]"
	@touch $(patsubst %,$(INSTALLED)-%,$(subst $(comma), ,$*))

install-%: $(INSTALLED)-% ;

$(VENV)/.ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "burnpy needs Python 3.11 or newer, and $(PYTHON) is older; name another, as in: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) lacks the module that makes virtual environments; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip hatchling # old versions of pip take twice the time to choose wheels
	@touch $@
