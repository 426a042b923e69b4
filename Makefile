# Every target does its own set-up first; a second call does none.
PROFILE ?= quick
BIN := .venv/bin
FAULTS = $(BIN)/python -m pytest -m "slow or not slow" --durations=20
# what failed on real servers while four workers shared the machine is tried once more, alone
AGAIN = $(BIN)/python -m pytest -m "not slow" --last-failed --last-failed-no-failures none --maxfail 5
# whole modules for the workers, the longest first (LONGEST in tests/conftest.py)
SHARED = --dist loadfile --no-loadscope-reorder
# what loads the whole machine, and what counts: after all others
LAST = tests/faults/test_load.py tests/faults/test_toll.py
# they measure little, and run beside the others, with a lock of their own
BESIDE = $(patsubst %,tests/faults/test_%.py,bad_input canary disk fuzz hostile kill_worker leftovers many_runs odd_paths other_user own_server pages_harmed)

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## install what is missing: system packages, .venv, the server build
	@lib/setup.sh

reports: setup ## measure the five studies and render reports/index.html (PROFILE=smoke|quick|standard|full|recorded)
	$(BIN)/noisefloor report --profile $(PROFILE)

measure: setup ## measure what lacks a sitting on this processor (MINUTES=60), and pack it
	@for build in mysql-8.0 mariadb-11.8; do $(BIN)/noisefloor doctor --fetch $$build >/dev/null || true; done
	$(BIN)/noisefloor measure --minutes $(or $(MINUTES),60)

test: ## run the tests, but for the slow ones
	@lib/setup.sh tests/apt.txt
	$(BIN)/python -m pytest -m "not slow" -n 4 $(SHARED) || { [ $$? -eq 1 ] && $(AGAIN); }

unit: setup ## the tests that need no server and draw nothing (15 seconds)
	$(BIN)/python -m pytest -n 2 $(SHARED) tests/unit

slow: ## run the slow tests: every recorded page made, verified and opened in a browser; more engines
	@lib/setup.sh tests/apt.txt
	$(BIN)/python -m pytest -m slow -n 3 --ignore tests/faults

test-faults: ## break it, on real servers: kills, hangs, full disks, load (20 minutes)
	@lib/setup.sh tests/apt.txt
	@rm -f .toll.txt; export NOISEFLOOR_TOLL=$$PWD/.toll.txt; \
	NOISEFLOOR_LOCK=$$PWD/tests/live $(FAULTS) $(BESIDE) > .faults.txt & beside=$$!; trap "kill $$beside; wait $$beside; exit 130" INT TERM; \
	NOISEFLOOR_LOCK=$$PWD/tests/faults $(FAULTS) $(BESIDE:%=--ignore %) $(LAST:%=--ignore %) tests/faults; killed=$$?; \
	wait $$beside; read=$$?; cat .faults.txt; \
	$(FAULTS) $(LAST); exit $$((killed | read | $$?))

fuzz: setup ## damaged logs by the million, on one core; continues where it was stopped
	nice -n 19 $(BIN)/python tests/faults/fuzz.py --record .fuzz.json

lab: setup ## JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

check: setup ## ruff, format, import order, types, rules of the notebooks
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/mypy && $(BIN)/python tests/notebook_rules.py

screenshots: ## the pictures of README and docs, made anew (needs Chromium)
	@lib/setup.sh tests/apt.txt
	$(BIN)/python tests/screenshots.py

bench: setup ## how fast it is, as ratios, into BENCHMARKS.md (30 quiet minutes)
	$(BIN)/python tests/bench/bench.py

lock: setup ## compile requirements.txt anew from pyproject.toml
	UV_SYSTEM_CERTS=1 $(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --all-extras pyproject.toml -o requirements.txt
	$(BIN)/python tests/licences.py

clean: ## remove what can be made again; measurements stay
	rm -rf .venv .setup .engines/*mysql-* .engines/mariadb-* .engines/view-* reports/*.html .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
	find data/processed -maxdepth 1 -type f -name "[!.]*.*" ! -name "history.sqlite*" -delete

.PHONY: help setup reports measure test slow test-faults lab check screenshots bench fuzz lock clean
