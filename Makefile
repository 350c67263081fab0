# The commands README and CI use. `make run ARGS="--ephemeral --kafka-port 0"` passes options on.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := setup
.PHONY: setup pipeline-setup run programs definitions jars unit test test-clients test-pulsar soak nodes alerts hostile fuzz audit check lint bench bench-pipeline \
	proto dist release images helm clean

# Each step in its order, with `make -j` too.
.NOTPARALLEL:
# A start without bytecode takes three times as long, and pytest would rewrite every assertion on each run.
unexport PYTHONDONTWRITEBYTECODE

# Set-up for developing: every package that `make check` and `make test` need, from the lock files with their hashes, and what
# `make unit` takes of Kafka. PySpark is among them, for the pipeline's types and tests: a large download, built once.
setup: $(VENV)/.dev $(VENV)/.pipeline $(VENV)/.compiled definitions

# The bridge with its Spark jobs, without the tools: `.venv/bin/bridge-pipeline`.
pipeline-setup: $(VENV)/.run $(VENV)/.pipeline

# Start a Pulsar and the bridge here, demonstrate them, stay until Ctrl-C.
run: $(VENV)/.run $(VENV)/.compiled
	@exec $(BIN)/bridge standalone $(ARGS)

# What needs no Pulsar, no Kafka, no Spark, no network and no program but Python. Properties are tried with a fifth of the examples
# that are usual, simulations with a twelfth of the seeds.
unit soak: PROCESSES ?= 2
unit: $(VENV)/.dev definitions
	$(BIN)/python -m pytest -n $(PROCESSES) --offline --example-factor 0.2 --schedule-factor 0.4 -m "not (pulsar or kafka or spark or programs or soak)" $(ARGS)

# All that CI runs: the programs that tests run are installed or named, then all of `make check`, then every test. With ARGS it is tests alone.
# Three processes of pytest on two cores, for most tests with servers wait for them; `make test PROCESSES=0` runs one after the
# other. The longest tests go first, so that the first minutes show few of twelve thousand dots.
# Properties are tried with a quarter of the examples that are usual, simulations with a tenth of the seeds; `make soak` tries twice
# as many as usual.
test: PROCESSES ?= 3
test: programs $(if $(ARGS),,lint) jars $(VENV)/.compiled
	$(BIN)/python -m pytest -n $(PROCESSES) --example-factor 0.25 --schedule-factor 0.4 $(ARGS)

# The programs of this system that tests run: apt-get installs those that are missing, or one line names them.
programs: | $(BIN)/python
	@$(BIN)/python -m tests.support.programs

# Kafka's definitions of its messages: 10 MB, by Maven, once.
definitions: $(VENV)/.dev
	@$(BIN)/python -m tests.support.fetch definitions

# All that tests fetch, with its progress shown. A download inside a test would run into its time limit. Pulsar's and Kafka's
# classes are kept as their JVMs have them in memory (some 140 MB, made once): each of the many starts is half the work.
jars: $(VENV)/.dev $(VENV)/.pipeline
	$(BIN)/python -m bridge.standalone.jars
	$(BIN)/python -m bridge.pipeline.jars
	$(BIN)/python -m tests.support.fetch
	$(BIN)/python -m tests.support.keep_classes

# Every client against the bridge and, as the control, a real Apache Kafka; docs/compatibility.md and docs/security.md have
# the results.
# Where Go is, franz-go logs in as well, and it and sarama are among the clients of transactions.
test-clients: programs jars
	$(BIN)/python -X dev -m pytest tests/clients tests/pipeline/test_spark_contract.py --control --matrix docs/compatibility.md \
		--logins docs/security.md $(if $(shell command -v go),--go) $(ARGS)

# What speaks with Pulsar, on another version of it: `make test-pulsar VERSION=4.2.4`. docs/compatibility.md tells which were tried.
test-pulsar: $(VENV)/.dev
	$(BIN)/python -m tests.support.pulsar_versions $(VERSION)
	$(BIN)/python -m pytest --pulsar-version $(VERSION) -m "pulsar and not soak" tests/apis tests/cluster tests/contract \
		tests/faults tests/owned_log tests/pulsar tests/storage tests/check $(ARGS)

# Half an hour: 20 kills under groups; a million records into an archive and out of it, each job killed twice; the tests
# marked `soak`. An hour more: thousands of simulated clusters (`ARGS=--deselect=tests/cluster` leaves them out).
soak: programs jars
	$(BIN)/python -m pytest tests/faults/test_groups.py --group-kills 20 $(ARGS)
	$(BIN)/python -m pytest -m soak tests/pipeline/test_whole_way.py --pipeline-records 1000000 --pipeline-kills 2 $(ARGS)
	$(BIN)/python -m pytest -n $(PROCESSES) --example-factor 2 -m "not (pulsar or kafka or spark or programs or soak)" $(ARGS)
	$(BIN)/python -m pytest -m soak $(ARGS)

# Real clients over three nodes and more: nodes killed, restarted, frozen, cut off; the figures go to build/nodes.md. franz-go
# is among them where Go is.
# An otherwise idle machine, about an hour. `make nodes ARGS="-k rolling"` runs a part.
nodes: programs jars
	@mkdir -p build
	$(BIN)/python -m pytest tests/faults/nodes -m "soak or not soak" --figures build/nodes.md \
		$(if $(shell command -v go),--go) $(ARGS)

# Real faults under load, and what each alert did, for docs/alerts.md: ten minutes, as root.
alerts: programs jars
	$(BIN)/python -m pytest -m soak tests/monitoring -s --time-line docs/alerts.md $(ARGS)

# Bad input of every kind, and what attacks cost, each beside a well-behaved client: a quarter of an hour on an idle machine.
# docs/hostile.md and docs/limits.md have the results; `make hostile ARGS="--part rows"` is the first of them.
hostile: jars
	$(BIN)/python -m tests.hostile $(ARGS)

# What the public advisories know of the packages that users get; it needs the network, and fails where it cannot ask.
audit: $(VENV)/audit/.made
	for lock in run build pipeline; do \
		$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/$$lock.lock || exit 1; \
	done

# Every decoder under coverage-guided fuzzing, ten seconds each, some 3 minutes in all; docs/contributing.md has the rest.
# `make fuzz ARGS="entries tokens --seconds 600"` runs parts.
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m tests.fuzz.decoders $(ARGS)

# The last of it is one of the tests that `make test` runs anyway.
check: lint
	$(BIN)/python -m pytest --quiet tests/deploy/test_chart.py

lint: $(VENV)/.dev $(VENV)/.pipeline
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Beside a native Pulsar client and a real Kafka, on an otherwise idle machine, about 25 minutes. It writes
# docs/benchmarks.md and its plots. `make bench ARGS=--quick` takes 5 and writes none, `ARGS="--only produce fetch"` runs
# parts.
bench: $(VENV)/.bench $(VENV)/.compiled
	$(BIN)/python -m bridge.standalone.jars
	$(BIN)/python -m bench $(ARGS)

# The Spark jobs on the bridge beside the same jobs on Kafka, about 15 minutes; the figures go to docs/benchmarks.md with the
# next `make bench`.
bench-pipeline: $(VENV)/.bench jars
	$(BIN)/python -m bench.pipeline $(ARGS)

# The Pulsar protocol's Python code, from our own description of it. The generator has an environment of its own: newer
# generators write code that the oldest protobuf we allow refuses.
proto: $(VENV)/proto/.made
	PATH="$(VENV)/proto/bin:$$PATH" $(VENV)/proto/bin/python -m grpc_tools.protoc --proto_path=proto \
		--python_out=bridge/pulsar/pb --mypy_out=bridge/pulsar/pb proto/PulsarApi.proto

# The packages of a release, built and checked, in dist/: the source distribution, and a wheel each for x86-64 and aarch64.
# `make dist ARGS="--architecture x86_64"` builds one of them.
dist: $(VENV)/dist/.made
	$(VENV)/dist/bin/python -m tests.dist $(ARGS)

# All that is published, made, checked and signed in dist/, and what to press then; nothing is sent. `make release
# ARGS=--trial` goes through it before the version is set.
release: $(VENV)/.dev $(VENV)/dist/.made
	$(BIN)/python -m tests.dist.release $(ARGS)

# The images of the Dockerfile and the compose file, by the digests that their tags have now: before a release, with Docker.
images: $(VENV)/.dev
	$(BIN)/python -m tests.support.image_digests

# What Helm makes of the chart, into config/kubernetes/ and tests/deploy/charts/: `make check` validates it and fails where it
# is not of the chart as it is. Where helm is not, Go builds it: a minute and a half, once.
helm: $(VENV)/.dev
	$(BIN)/python -m tests.deploy.helm

# Environments of their own.
$(VENV)/proto/.made $(VENV)/audit/.made $(VENV)/dist/.made: $(VENV)/%/.made: requirements/%.lock | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/$*
	$(VENV)/$*/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/$*.lock
	@touch $@

clean:
	rm -rf $(VENV) build dist native/target bridge/codec/_native.*so *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache \
		.coverage htmlcov

# .run and .dev record what is installed. The development lock has all packages of the runtime lock, so .dev also touches .run.
# The package itself is installed as a link to this directory, built without network access.
INSTALL := $(BIN)/python requirements/install.py
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The native codec is built if cargo is there and gets its crates; the time limits are for machines without network. An older
# one is removed first: it must not outlive a failed build, and a running process may have it open.
NATIVE := $(wildcard .cargo/config.toml native/Cargo.toml native/Cargo.lock native/src/*.rs)
INSTALL_BRIDGE := rm -f bridge/codec/_native.*so && CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 $(PIP) install --no-index --no-deps --no-build-isolation -e .

$(VENV)/.run: requirements/run.lock requirements/build.lock pyproject.toml $(NATIVE) | $(BIN)/python
	@$(INSTALL) run.lock build.lock
	@command -v cargo >/dev/null && echo "building the native codec: once, one to three minutes" || echo "without the native codec: there is no cargo"
	@$(INSTALL_BRIDGE)
	@$(BIN)/bridge --version
	@touch $@

$(VENV)/.dev: requirements/dev.lock pyproject.toml $(NATIVE) | $(BIN)/python
	@$(INSTALL) dev.lock
	@command -v cargo >/dev/null && echo "building the native codec: once, one to three minutes" || echo "without the native codec: there is no cargo"
	@$(INSTALL_BRIDGE)
	@$(BIN)/bridge --version
	@touch $@ $(VENV)/.run

# So that the first start is as quick as others.
$(VENV)/.compiled: $(shell find bridge -name "*.py") | $(BIN)/python
	$(BIN)/python -m compileall -q bridge
	@touch $@

$(VENV)/.bench: requirements/bench.lock | $(VENV)/.dev
	@$(INSTALL) bench.lock
	@touch $@

$(VENV)/.fuzz: requirements/fuzz.lock | $(VENV)/.dev
	@$(INSTALL) fuzz.lock
	@touch $@

$(VENV)/.pipeline: requirements/pipeline.lock | $(BIN)/python
	@$(INSTALL) pipeline.lock
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "bridge: Python 3.11 or newer \
	is needed and \`$(PYTHON)\` is not: install it, or name it with \`make PYTHON=python3.12\`" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "bridge: Python's venv module is incomplete: install it \
	with \`sudo apt-get install python3-venv\` or your system's like" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
