# Everything runs in one environment, .venv, made on first use from requirements.lock.
#   PYTHON=python3.12   which Python a new environment gets (3.11 to 3.13; `make clean` first to change it)
#   VENV=build/other    another environment
#   NAMES="30 31"       only these notebooks, for `run` and `notebooks`
#   OUT=/elsewhere      where results go, in place of build/

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run notebook report slides app lab test unit slow stored browser notebooks results bench lock clean

VENV ?= .venv
WORKERS ?= 2
NAMES ?=
OUT ?=
OUT_OPTION = $(if $(OUT),--out "$(OUT)")
UV := $(shell command -v uv 2>/dev/null)

# A name on the PATH is not enough: a pyenv shim exists for versions that do not run, and Debian's python3 may
# come without ensurepip, which only uv does without.
IN_RANGE = -c 'import sys$(if $(UV),,, ensurepip); sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do $$p $(IN_RANGE) && { command -v $$p; break; }; done)

ifneq ($(UV),)
CREATE = "$(UV)" venv --quiet --no-python-downloads --python "$(PYTHON)" "$(VENV)"
INSTALL = "$(UV)" pip install --quiet --python "$(VENV)/bin/python"
else
CREATE = "$(PYTHON)" -m venv "$(VENV)"
INSTALL = "$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check
endif

# The caller's settings must not change a result: MPLBACKEND=agg makes inline figures vanish, JUPYTER_PATH can
# bring in another kernel, and a personal IPython or matplotlib profile another style. PYTHONDONTWRITEBYTECODE
# changes none, but uv leaves compiling to the first import, and every kernel would do it again.
unexport MPLBACKEND MATPLOTLIBRC JUPYTER_PATH PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export JUPYTER_PREFER_ENV_PATH := 1
export IPYTHONDIR := $(abspath $(VENV))/var/ipython
export MPLCONFIGDIR := $(abspath $(VENV))/var/matplotlib
export JUPYTER_CONFIG_DIR := $(abspath $(VENV))/var/jupyter/config
export JUPYTER_DATA_DIR := $(abspath $(VENV))/var/jupyter/data
export JUPYTER_RUNTIME_DIR := $(abspath $(VENV))/var/jupyter/runtime
export PYDEVD_DISABLE_FILE_VALIDATION := 1

PY = "$(VENV)/bin/python"
INSTALLED = $(VENV)/.installed
STORED = $(PY) -m pytest -q -n $(WORKERS) --dist loadfile --nbval --nbval-current-env --nbval-cell-timeout=300 \
  notebooks/*.ipynb

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED)  ## make the environment (the others do it when needed)

# Touched last, so that a set-up that broke off is taken up again.
$(INSTALLED): requirements.lock pyproject.toml
	@test -e "$(VENV)/bin/python" || "$(PYTHON)" $(IN_RANGE) || \
	  { echo "make: no Python 3.11 to 3.13 that runs$(if $(UV),, and has ensurepip); name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -e "$(VENV)/bin/python" || { echo "Making $(VENV) with $(PYTHON) ..."; $(CREATE); }
	@echo "Installing the packages of requirements.lock into $(VENV) ..."
	@$(INSTALL) -r requirements.lock
	@$(INSTALL) --no-deps -e .
	@mkdir -p "$(IPYTHONDIR)/profile_default" "$(MPLCONFIGDIR)"
	@echo 'get_config().IPKernelApp.log_level = 50  # no start-up noise' \
	  >"$(IPYTHONDIR)/profile_default/ipython_kernel_config.py"
	@touch "$(INSTALLED)"

run: $(INSTALLED)  ## run all notebooks; results in build/notebooks/ and build/report.html
	$(PY) -m goodput.report run $(NAMES) $(OUT_OPTION)

notebook: $(INSTALLED)  ## run one: make notebook NAME=30 PARAMS='seeds=50 overrides="{pool.spares: 8}"'
	@test -n "$(NAME)" || { echo "make: name a notebook, as in: make notebook NAME=30 PARAMS='seeds=50'" >&2; exit 2; }
	@$(PY) -m goodput.report notebook $(NAME) $(PARAMS) $(OUT_OPTION)

test: $(INSTALLED)  ## style, unit tests, examples in docstrings, notebooks against their stored outputs, pages in a browser
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest -q -rs -n $(WORKERS)
	$(STORED)

unit: $(INSTALLED)  ## unit tests and examples in docstrings alone
	$(PY) -m pytest -q -n $(WORKERS) --ignore tests/browser

slow: $(INSTALLED)  ## the slow tests: thousands of seeds, and how often intervals hold the truth
	$(PY) -m pytest -q -n $(WORKERS) -m slow --durations=5

stored: $(INSTALLED)  ## notebooks against their stored outputs alone
	$(STORED)

browser: $(INSTALLED)  ## the what-if, the report and the deck in a real Chromium alone
	$(PY) -m pytest -q -rs tests/browser

notebooks: $(INSTALLED)  ## rerun the committed notebooks and store their outputs, in place
	$(PY) -m goodput.report notebooks $(NAMES)

results: $(INSTALLED)  ## renew the golden result, and the README's figure, table and outputs
	$(PY) -m goodput.results

bench: $(INSTALLED)  ## speed and memory as one table of ratios, also in build/bench.md
	$(PY) -m pytest -q tests/benchmarks

lab: $(INSTALLED)  ## open the what-if in JupyterLab, the other notebooks beside it
	$(PY) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/60_what_if.ipynb

report: $(INSTALLED)  ## the seven scenarios on one page: build/seven_scenarios.html
	$(PY) -m goodput.summary $(OUT_OPTION)

slides: $(INSTALLED)  ## notebooks 30 and 31 as one deck: build/slides.html
	$(PY) -m goodput.deck $(NAMES) $(OUT_OPTION)

app: $(INSTALLED)  ## serve the what-if as a page without code
	$(PY) -m voila notebooks/60_what_if.ipynb

# Versions that still fit stay; `make lock UPGRADE=--upgrade` takes the newest of all.
lock: $(INSTALLED)  ## renew requirements.lock from pyproject.toml
	@test -n "$(UV)" || test -x build/uv/bin/uv || { $(PY) -m venv build/uv && build/uv/bin/python -m pip install --quiet uv; }
	"$(or $(UV),build/uv/bin/uv)" pip compile --quiet pyproject.toml --all-extras --universal --python-version 3.11 \
	  --no-annotate --custom-compile-command "make lock" $(UPGRADE) -o requirements.lock

clean:  ## remove what was made: build/, caches and the environment
	rm -rf build .pytest_cache .ruff_cache .hypothesis *.egg-info
	find goodput tests notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
	@test ! -e "$(VENV)/pyvenv.cfg" || rm -rf "$(VENV)"
