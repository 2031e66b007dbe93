# Every command of the project. Laptop and CI call the same targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared
SIZES ?= 300,1000,3000
RUNS ?= 3
SOURCES := core installation adapters lambdas simulator cli infra benchmarks tests app.py

export AWS_ACCOUNT_ID_ENDPOINT_MODE := disabled
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 1

.PHONY: help setup demo page wheel test test-long e2e e2e-peer e2e-handover e2e-shadow fuzz mutants sim replay nightly test-lambda-python coverage check fix docs site synth package deploy deploy-local trace conformance oracle bench bench-quick bench-disruption scale clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv takes a tenth of pip's time, but reads neither pip's settings nor PIP_INDEX_URL: where it cannot install, pip does.
INSTALL = $(BIN)/uv pip install --quiet $(2) --python $(1) --require-hashes -r requirements-dev.lock \
	|| $(1) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock

# Where Python may not store bytecode, each process of each test would compile these again.
COMPILED := core installation adapters lambdas simulator cli infra benchmarks tests

setup: $(VENV)/.installed ## Make the virtual environment with everything in it

$(VENV)/.installed: requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	@echo "installing what is pinned in requirements-dev.lock into $(VENV)"
	@awk '/^[^ ]/ {wanted = /^uv==/} wanted' requirements-dev.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	$(call INSTALL,$(BIN)/python,--compile-bytecode)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python -m compileall -q -j 0 -x /test_ $(COMPILED)
	@touch $@

demo: setup ## The main job on embedded defaults: a cluster's night in virtual time, and build/demo.html
	@mkdir -p build
	$(BIN)/python -m cli simulate examples/demo.yaml --report build/demo.html --compare --record build/demo.jsonl
	@$(BIN)/python -m tests.page build/demo.html

page: ## Use build/demo.html in Chromium as a person would; pictures at three widths and those of README and the documents in build/page
	@test -f build/demo.html || { echo "make demo writes build/demo.html first"; exit 2; }
	$(BIN)/python -m tests.page build/demo.html --screenshots build/page --screens build/page

HYPOTHESIS ?= ci
.PHONY: browser
browser: ## Install Debian's Chromium, in which the pages are tested, where no browser is and apt-get may; says so where it cannot
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null \
		|| { timeout 120 apt-get -qq update && timeout 240 apt-get -qq install -y --no-install-recommends chromium; } > /dev/null 2>&1 \
		|| echo "no Chromium is here and none can be installed: tests of pages in a browser are left out"

wheel: setup ## Build the wheel, install it in a clean environment, and run plan, validate, diff and simulate there
	$(BIN)/python -m tests.wheel build/wheel

ELSEWHERE ?=
RUN_TESTS := -m pytest -n auto --dist worksteal --hypothesis-profile=$(HYPOTHESIS)
TESTS := $(RUN_TESTS) -m "not slow and not e2e"
test: setup ## The tests, in five minutes on two processors: those that take a processor two seconds or more are left to `make test-all`
	$(BIN)/python $(RUN_TESTS) -m "not slow and not e2e and not ci"

.PHONY: test-all
test-all: setup ## All tests that CI runs, in ten minutes; ELSEWHERE="tidy lambda" leaves out those that `make check` and `make test-lambda-python` run
	$(BIN)/python $(TESTS) $(if $(filter tidy,$(ELSEWHERE)),--ignore=tests/tidy) $(if $(filter lambda,$(ELSEWHERE)),$(LAMBDA_TESTS:%=--ignore=%))

coverage: setup ## The same run with branch coverage of core/ by its own tests, at least 90 %
	$(BIN)/python $(TESTS) --cov --cov-report=term:skip-covered

test-long: setup ## The long tests: many more random cases and seeds
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow --hypothesis-profile=$(HYPOTHESIS)

LAMBDA_VENV := build/lambda-python
NOT_ON_LAMBDA := __pycache__ benchmarks cli docs e2e installation mutation nightly simulator
LAMBDA_TESTS = $(filter-out $(NOT_ON_LAMBDA:%=tests/unit/%),$(wildcard tests/unit/*))
test-lambda-python: setup ## The core's and the functions' own tests on Python 3.13, which is what Lambda runs
	@python=$$($(BIN)/python -m infra.packaging.bytecode) || exit $$?; test -x $(LAMBDA_VENV)/bin/python || "$$python" -m venv $(LAMBDA_VENV)
	$(call INSTALL,$(LAMBDA_VENV)/bin/python)
	$(LAMBDA_VENV)/bin/python -m compileall -q -j 0 -x '/test_|/aws_cdk/' $(LAMBDA_VENV)/lib $(COMPILED)
	$(LAMBDA_VENV)/bin/python $(TESTS) -p no:cacheprovider $(LAMBDA_TESTS)

nightly: setup ## Everything that is too long for CI, in hours: SEEDS=10000 CASES=20000 SEED=1 SAMPLE=500; all of it in build/nightly.json
	$(BIN)/python -m tests.nightly --sizes SEEDS=$(NIGHTLY_SEEDS),CASES=$(CASES),SEED=$(SEED),SAMPLE=$(SAMPLE)

WORLDS ?= 4
e2e: setup ## The functions against real control planes and DynamoDB Local, in WORLDS=4 processes, on Kubernetes 1.37 or KUBERNETES=1.31, 1.35; builds them at the first run (25 minutes)
	@$(BIN)/python -m tests.e2e.parts --build-only
	$(BIN)/python -m pytest -n $(WORLDS) --no-loadscope-reorder -m e2e tests/e2e tests/contract

.PHONY: e2e-smoke
SMOKE := tests/e2e/test_crds.py tests/e2e/test_command_line.py tests/e2e/test_access.py tests/e2e/test_burst.py
e2e-smoke: setup ## Definitions, roles, the command line and a burst against a real control plane, with parts that `make e2e` has built
	$(BIN)/python -m pytest -n 2 --no-loadscope-reorder -m e2e $(SMOKE)

CASES ?= 20000
SEED ?= 1
PROCESSES ?= 2
FUZZED := --cases $(CASES) --seed $(SEED) --processes $(PROCESSES)
.PHONY: fuzz-scheduling fuzz-tight fuzz-disruption fuzz-manifests
fuzz: fuzz-scheduling fuzz-tight fuzz-disruption fuzz-manifests ## Random clusters and disruptions against the naive judges, or one of them (make fuzz-disruption): CASES=20000 SEED=1 PROCESSES=2
fuzz-scheduling: setup
	$(BIN)/python -m tests.property.naive.fuzz $(FUZZED)
fuzz-tight: setup
	$(BIN)/python -m tests.property.naive.fuzz --tight $(FUZZED)
fuzz-disruption: setup
	$(BIN)/python -m tests.property.naive_disruption.fuzz $(FUZZED)
fuzz-manifests: setup
	$(BIN)/python -m tests.property.naive_manifests.fuzz $(FUZZED)

OBJECTS ?= 20000
.PHONY: fuzz-objects
fuzz-objects: setup ## Odd objects of every kind in a healthy cluster, none of which may end a run: OBJECTS=20000 SEED=1, ALONE=groups for those that ask for several pods; build/fuzz-objects.json
	$(BIN)/python -m tests.property.hostile.fuzz --objects $(OBJECTS) --seed $(SEED) $(if $(ALONE),--$(ALONE)) --json build/fuzz-objects.json

SAMPLE ?= 500
mutants: setup ## Deliberate faults in core, controllers and command line, asked of the tests of their area: SAMPLE=500 SEED=1; build/mutants.json
	$(BIN)/python -m tests.mutation --sample $(SAMPLE) --seed $(SEED) --processes $(PROCESSES) --json build/mutants.json

.PHONY: mutants-named
mutants-named: setup ## The faults of tests/mutation/named.toml, each of which a test of its area must notice
	$(BIN)/python -m tests.mutation --named --processes $(PROCESSES) --wanted 100 --json build/mutants-named.json

.PHONY: steady
steady: setup ## Seven virtual days of a steady cluster under price noise, a sold-out type and cron pods: no pod moves (5 minutes)
	$(BIN)/python -m pytest -q -s -m slow tests/simulation/test_steady.py

SEEDS ?= 200
NIGHTLY_SEEDS ?= 10000
FIRST ?= 1
sim: setup ## Seeded worlds under seeded faults, judged: SEEDS=200 FIRST=1 PROCESSES=2, LEDGERS=build/ledgers for their decisions, OPTIONS=all or none for disturbances and options in all worlds or none; from 200 on, a crash at every call site; figures in build/sim.json
	$(if $(LEDGERS),rm -rf $(LEDGERS))
	$(BIN)/python -m simulator.campaign --seeds $(SEEDS) --first $(FIRST) --processes $(PROCESSES) $(if $(OPTIONS),--options $(OPTIONS)) $(if $(LEDGERS),--ledger $(LEDGERS)) \
		$(if $(filter 1,$(shell expr $(SEEDS) '>=' 200)),--every-site) --json build/sim.json

DRAWS ?= 200000
.PHONY: deadlines
deadlines: setup ## In how many of DRAWS=200000 draws with failed launches a pod that may wait starts before its deadline
	$(BIN)/python -c "from tests.unit.test_pods import deadlines_kept; print(f'{deadlines_kept($(DRAWS)) / $(DRAWS):.4%} of $(DRAWS) deadlines kept')"

REPLAYED ?= 40
REPEATED ?= 1000
REPLAYED_SCENARIOS ?= examples/demo.yaml $(if $(wildcard $(SHARED)/data/openb-pods-default.csv.gz),examples/trace.yaml)
replay: setup ## Decisions of the demo, the trace and REPLAYED=40 seeds (or of LEDGERS that `make sim` left), repeated byte for byte in other processes, also on Lambda's Python where test-lambda-python made it; build/replay.json
	$(BIN)/python -m tests.replay $(if $(LEDGERS),--recorded $(LEDGERS),--seeds $(REPLAYED)) --wanted $(REPEATED) --processes $(PROCESSES) $(addprefix --scenario ,$(REPLAYED_SCENARIOS)) \
		$(if $(wildcard $(LAMBDA_VENV)/bin/python),--python $(LAMBDA_VENV)/bin/python)

e2e-peer: setup ## Karpenter's whole controller and our functions in the same place, one after the other (SIZES=300,1000,3000 RUNS=3)
	$(BIN)/python -m tests.e2e.peer --sizes $(SIZES) --runs $(RUNS)

e2e-handover: setup ## Nodes of Karpenter's own controller are adopted and given back on a real control plane, in five minutes
	$(BIN)/python -m tests.e2e.peer.handover

e2e-shadow: setup ## Our functions look on, with no right to act, while Karpenter's own controller works on a real control plane
	$(BIN)/python -m tests.e2e.peer.shadow

check: setup ## Format, lint, types, import contracts, manners
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/tidy

fix: setup ## Fix what a machine can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: prose
AGAINST ?=
prose: setup ## How the user documents read: words a sentence, clauses, a word list; AGAINST=main shows both sides; fails outside of the bounds
	$(BIN)/python -m tests.prose $(if $(AGAINST),--against $(AGAINST))

FIGURES ?=
BENCH ?=
DISRUPTION ?=
PEER ?=
SIM ?=
PACKAGE ?=
COLD_START ?=
COST ?=
PICTURE ?=
DASHBOARDS ?=
docs: setup ## Write the reference pages and the CustomResourceDefinitions from the code, and figures from FIGURES=build/nightly.json BENCH=build/bench.json DISRUPTION=build/bench-disruption.json PEER=build/e2e-peer.json SIM=build/sim.json PACKAGE=build/package.json COLD_START=build/cold-start.json COST=build/cost.json PICTURE=build/page DASHBOARDS=build/dashboards
	$(if $(FIGURES),cp $(FIGURES) docs/figures.json)
	$(if $(BENCH),cp $(BENCH) docs/benchmarks.json)
	$(if $(DISRUPTION),cp $(DISRUPTION) docs/bench-disruption.json)
	$(if $(PEER),cp $(PEER) docs/e2e-peer.json)
	$(if $(SIM),cp $(SIM) docs/sim.json)
	$(if $(PACKAGE),cp $(PACKAGE) docs/package.json)
	$(if $(COLD_START),cp $(COLD_START) docs/cold-start.json)
	$(if $(COST),cp $(COST) docs/cost.json)
	$(if $(PICTURE),cp $(addprefix $(PICTURE)/,demo-light.png demo-dark.png top.svg console.png comment.png) docs/reference)
	$(if $(DASHBOARDS),cp $(DASHBOARDS)/operations.png docs/reference)
	$(BIN)/python -m tests.reference
	$(BIN)/python -m tests.access.page
	$(BIN)/python -m tests.template_checks.partitions_page

SITE := build/site-tools
site: ## The documents as a site with search, in build/site; fails for a link that leads nowhere
	@test -x $(SITE)/bin/mkdocs || { $(PYTHON) -m venv $(SITE) && $(SITE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.lock; }
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

synth: setup ## Write the CloudFormation templates to cdk.out, offline
	TEMPLATES_ONLY=1 CDK_CONTEXT_JSON="$$($(BIN)/python -c 'import json; print(json.dumps(json.load(open("cdk.json"))["context"]))')" $(BIN)/python app.py

.PHONY: walk
walk: setup ## The files that one pod, one plan and one consolidation enter, in order; what a start loads; build/walk.json
	$(BIN)/python -m tests.walk

.PHONY: lock cold-start
lock: setup ## Pin what the functions, the development environment and the site need, with hashes, and the CDK's command line
	$(BIN)/uv pip compile requirements.txt --generate-hashes --python-version 3.13 --python-platform aarch64-manylinux_2_34 \
		--no-header --no-annotate --quiet --output-file requirements.lock
	for name in dev site; do $(BIN)/uv pip compile requirements-$$name.txt --generate-hashes --universal --python-version 3.11 \
		--no-header --no-annotate --quiet --output-file requirements-$$name.lock; done
	npm install --package-lock-only --no-audit --no-fund

deploy-local: setup ## The synthesized stacks in MiniStack, an AWS emulator from PyPI: nodes from an audit line to their end, across an update and a roll-back; build/deploy-local.json
	$(BIN)/python -m tests.deploy_local

.PHONY: lint-templates
lint-templates: setup ## Templates of public and private clusters in all partitions and of twenty in one: written twice, asked of cfn-lint and cdk-nag, made in moto
	$(BIN)/python -m tests.template_checks
	$(BIN)/python -m pytest -m slow tests/infra

package: setup ## Build the functions' two bundles for arm64 in build/package; sizes in build/package.json
	$(BIN)/python -m infra.packaging

.PHONY: release release-tools
release: setup ## Everything of a release in build/release: VERSION=1.2.3, HOMEPAGE=https://… for krew and Homebrew, SIGNING_KEY=FILE (SSH, ed25519) to sign the checksums; each file is installed by a test, and release.json has the results
	@test -n "$(VERSION)" || { echo "usage: make release VERSION=1.2.3"; exit 2; }
	SIGNING_KEY="$(SIGNING_KEY)" $(BIN)/python -m infra.release "$(VERSION)" build/release $(HOMEPAGE)
	$(BIN)/python -m tests.release build/release

release-tools: ## Build the programs that judge a release's charts, image, workflows and manifests (Go; helm takes minutes), and fetch schemas, in build/release-tools
	$(BIN)/python -m tests.release.tools

cold-start: setup ## What a cold start of each function costs, on its bundle; figures in build/cold-start.json
	$(BIN)/python -m benchmarks.cold_start

.PHONY: cost dashboards
cost: setup ## What the functions cost a month beside 0, 100 and 1,000 nodes, measured in the embedded world, and calculated from them for 5,000; build/cost.json
	$(BIN)/python -m benchmarks.operations cost

dashboards: setup ## Both CloudWatch dashboards as pictures of a simulated night, in build/dashboards
	$(BIN)/python -m benchmarks.operations dashboards

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund --ignore-scripts

cdk: node_modules/.package-lock.json ## Install the AWS CDK's command line as package-lock.json has it

.PHONY: cdk
deploy: package cdk ## Package, then `cdk deploy` into the account of the environment
	npx --no-install cdk deploy --all

trace: setup ## Two busy days of the public Alibaba trace; summary in build/trace.json
	@mkdir -p build
	@test -f $(SHARED)/data/openb-pods-default.csv.gz || { echo "the trace is not at $(SHARED)/data: set SHARED to its folder"; exit 2; }
	$(BIN)/python -m cli simulate examples/trace.yaml -o json > build/trace.json
	@cat build/trace.json

conformance: setup ## The public conformance scenarios, where they lie beside the project
	@test -d $(SHARED)/conformance || { echo "no scenarios at $(SHARED)/conformance: set SHARED to their folder"; exit 2; }
	$(BIN)/python -m tests.conformance $(SHARED)/conformance

EMULATE ?=
# From seed 30000 on, random clusters also have what manifests say beyond the model.
WIDE ?= 20
.PHONY: oracle-scheduler
oracle-scheduler: setup ## Plans and waves of consolidation, of the conformance corpora, of SEEDS=300 random clusters and of WIDE=20 with more in their manifests, judged by the real kube-scheduler's plugins, and our table of what the API server refuses by its own code (Go; EMULATE=1.31 for the gates of another version); build/oracle-scheduler.json
	$(BIN)/python -m tests.oracle_scheduler --shared $(SHARED) --seeds $(if $(findstring command,$(origin SEEDS)),$(SEEDS),300) $(if $(EMULATE),--emulate $(EMULATE))
	$(BIN)/python -m tests.oracle_scheduler --shared $(SHARED) --no-conformance --seeds $(WIDE) --first 30000 --json build/oracle-scheduler-wide.json $(if $(EMULATE),--emulate $(EMULATE))
	$(BIN)/python -m pytest -q -rs -n 0 -m slow tests/unit/cli/manifests/test_inventory.py

.PHONY: agreement
agreement: setup ## Which share of announced moves holds where kube-scheduler's own plugins choose, on fragmented clusters (Go; minutes); build/agreement.json
	$(BIN)/python -m tests.oracle_scheduler.agreement --shared $(SHARED)

oracle: setup ## Record what Karpenter's provider makes of instance types, and compare: PAGE=.../reference/instance-types.md of its repository; else its code, from $(SHARED)/oracle-aws (Go; minutes)
	$(if $(PAGE),$(BIN)/python -m tests.oracle $(PAGE),rm -rf build/oracle-aws && mkdir -p build && cp -R $(SHARED)/oracle-aws build/oracle-aws && chmod -R u+w build/oracle-aws && cd build/oracle-aws && go build -o ORACLE . && cd ../.. && $(BIN)/python -m tests.oracle --provider build/oracle-aws/ORACLE)
	$(BIN)/python -m pytest -q -n 0 tests/oracle

.PHONY: oracle-requests
oracle-requests: setup ## Record what Karpenter's provider asks EC2 for, from $(SHARED)/oracle-aws-next, and compare with ours (Go; minutes)
	$(BIN)/python -m tests.oracle --requests $(SHARED)/oracle-aws-next
	$(BIN)/python -m pytest -q -n 0 tests/oracle/test_requests.py

bench: setup ## Plans and their cost beside Karpenter's on the same pods (25 minutes); all figures in build/bench.json
	$(BIN)/python -m benchmarks --data $(SHARED)/data

bench-quick: setup ## The same in two minutes
	$(BIN)/python -m benchmarks --quick --data $(SHARED)/data --json build/bench-quick.json

.PHONY: bench-stages
bench-stages: setup ## What each stage of the search earns: cost, processor seconds and lines with it switched off; build/stages.json (15 minutes)
	$(BIN)/python -m benchmarks.stages --data $(SHARED)/data

.PHONY: bench-scale
bench-scale: setup ## How processor time grows with pods, nodes, NodePools and types, each at most to the power of 1.15; build/growth.json and .svg (6 minutes; GROWTH=--large for 200,000 pods and 20,000 nodes)
	$(BIN)/python -m benchmarks.growth --data $(SHARED)/data $(GROWTH)

.PHONY: bench-groups
bench-groups: setup ## What 200 groups of 8 among 5,000 pods cost beside the same pods without groups, and what groups wait in 30 simulated worlds; build/groups.json
	$(BIN)/python -m benchmarks.groups

bench-disruption: setup ## What fragmented clusters of 500 nodes cost after disruption, beside the bound and Karpenter's own moves; build/bench-disruption.json
	$(BIN)/python -m benchmarks.disruption --data $(SHARED)/data

.PHONY: week
week: setup ## A simulated week in which nodes may go on Sunday alone: nodes, dollars, evictions and bound in build/week.svg and build/week.json (5 minutes)
	$(BIN)/python -m benchmarks.disruption.week

.PHONY: month
month: setup ## A simulated month of 200 nodes with hours: calendars beside Karpenter with CronJobs that patch limits (about an hour of processor for each of the three, PROCESSES=4 parts at once; SCALE=0.12 for 24 nodes); build/month.json
	$(BIN)/python -m benchmarks.month --scale $(or $(SCALE),1) --processes $(or $(PROCESSES),2)

scale: setup ## Memory, time and requests of the functions beside 5,000 nodes and 100,000 pods (10 minutes); figures in build/scale.json
	$(BIN)/python -m benchmarks.scale

clean: ## Remove what the targets made
	rm -rf build cdk.out $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
