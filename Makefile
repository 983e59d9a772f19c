# Every command a person needs. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install run up test mutate check audit coverage format bench gate chaos two-hosts compose-env compose-proof streaming screenshots delivery clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

install: $(STAMP) ## create .venv and install everything into it

$(STAMP): pyproject.toml constraints.txt
	@echo "installing into $(VENV) (about half a minute) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: install ## run the example specs and show how they end
	$(BIN)/consensus demo examples/specs.jsonl examples/teams.jsonl

up: install ## start everything and keep it serving
	$(BIN)/consensus up

test: install ## all tests; services are embedded unless CONSENSUS_TEST_* point at yours
	$(BIN)/python -m pytest -q

# One process at low priority, of 8 GiB at most, as a loop that a mutant makes endless would take all there is.
# PART=core mutates one part, `MUTANTS=` any pattern of mutmut's names; results are kept in mutants/, and what was tried
# is not tried again unless it is named.
MUTANTS ?= $(if $(PART),workers.$(PART).*)
mutate: install ## whether the unit tests notice mutants of core, agentlens and more (hours; PART=core for one)
	ulimit -v 8388608; nice -n 10 $(BIN)/python -m mutmut run --max-children 1 $(if $(MUTANTS),'$(MUTANTS)')
	@$(BIN)/python benchmarks/mutation.py --only '$(PART)'

check: install ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: install ## unsafe calls, known vulnerabilities, licences; scripts want `python ops/audit.py` for its exit code
	$(BIN)/python ops/audit.py

coverage: install ## lines and branches that the tests go through, processes they start included (a quarter of an hour)
	$(BIN)/python -m pytest -q -m "not cpu" --cov --cov-report= tests/unit tests/api tests/contract tests/integration tests/e2e \
	  --ignore tests/e2e/chaos --ignore tests/e2e/two_hosts --ignore tests/e2e/compose --ignore tests/e2e/web
	$(BIN)/coverage report

format: install ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install ## time 40 runs in flight against a bare asyncio script
	$(BIN)/python benchmarks/pipeline.py

gate: install ## forty programs with planted and invented defects through the cage; needs a Docker engine
	$(BIN)/python benchmarks/gate.py

chaos: install ## a thousand runs while servers, workers and models fail in every way (a quarter of an hour)
	$(BIN)/python -m tests.e2e.chaos

two-hosts: install ## workers on one host, database and broker on another, the line between them cut; needs root
	$(BIN)/python -m tests.e2e.two_hosts

compose-env: ## .env for docker compose, with new passwords
	@test ! -e .env || { echo ".env is there already; remove it for new passwords" >&2; exit 1; }
	@umask 077 && sed -e "s/^POSTGRES_PASSWORD=$$/&$$(openssl rand -hex 24)/" \
	  -e "s/^REDIS_PASSWORD=$$/&$$(openssl rand -hex 24)/" \
	  -e "s/^CONSENSUS_FLOWER_AUTH=$$/&consensus:$$(openssl rand -hex 12)/" \
	  -e "s/^DOCKER_GID=.*/DOCKER_GID=$$(stat -c %g /var/run/docker.sock 2>/dev/null || echo 0)/" .env.example >.env
	@echo "wrote .env; now: docker compose up --detach"

compose-proof: install ## the compose file brought up with images made here, a batch through it, and down; needs root
	$(BIN)/python -m tests.e2e.compose

streaming: install ## how soon 500 clients see a review that was committed
	$(BIN)/python benchmarks/streaming.py

delivery: install ## what the broker's delivery settings are worth, beside others
	$(BIN)/python benchmarks/delivery.py

screenshots: install ## pictures of every page into docs/screenshots; needs chromium
	$(BIN)/python -m tests.e2e.web.screenshots docs/screenshots

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants build *.egg-info
