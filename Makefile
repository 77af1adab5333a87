# `make demo` and `make test` need only Python >= 3.11 and make; all they install goes to .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo experiments test coverage check fuzz format pictures clean

demo: $(VENV)/demo.stamp  ## Record four placements of one model, compare them, draw the chart
	@$(BIN)/python scripts/demo.py

experiments: $(VENV)/demo.stamp  ## Run the four experiments; page with tables and charts in experiment-runs/report.md
	@$(BIN)/python scripts/experiments.py

# WITH="jax torch" installs these packages first, whose tests are skipped without them.
test: $(VENV)/test.stamp  ## All tests, as many files at once as there are processors
	@[ -z "$(WITH)" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check $(WITH)
	@# Programs that tests start take half as long where Python keeps what it compiled of gpuprof.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses logical --dist loadfile $(COVERAGE)

coverage: COVERAGE := --cov --cov-report=term
coverage: test  ## The same, and which lines no test runs; takes twice the time

check: $(VENV)/test.stamp  ## Format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fuzz: $(VENV)/fuzz.stamp  ## Change recordings at random for a quarter of an hour; nothing may fail but with a message
	$(BIN)/python tests/readers/fuzz_by_coverage.py --seconds 200
	$(BIN)/python tests/readers/fuzz.py --seconds 200
	$(BIN)/python tests/readers/fuzz_structure.py --seconds 200
	$(BIN)/python tests/native/fuzz_native.py --seconds 200

format: $(VENV)/test.stamp  ## Bring the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

pictures: $(VENV)/test.stamp  ## Draw the recordings and pictures of the documentation
	$(BIN)/python scripts/draw_recordings.py
	$(BIN)/python scripts/make_pictures.py

clean:  ## Remove the virtual environment and what the demo wrote
	rm -rf $(VENV) demo-runs experiment-runs

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gpuprof needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: pyproject.toml | $(BIN)/python
	@echo "Installing gpuprof and TensorFlow into $(VENV) (about a minute) ..."
	@# Python compiles what the demo imports, which is less than what pip would.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[tensorflow]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	@echo "Installing gpuprof, TensorFlow and the test tools into $(VENV) (about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[tensorflow,dev]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/fuzz.stamp: $(VENV)/test.stamp
	@echo "Installing atheris into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@
