# The commands of this project: `make` alone lists them. Everything is made in .venv, nothing outside this folder.
PYTHON ?= python3
BIN := .venv/bin
# -W and -n: a warning or a broken reference is an error; --keep-going: all of them are reported, not only the first.
# One thread: the models are small, and on a machine that has other work two threads wait for each other.
JB := OMP_NUM_THREADS=1 $(BIN)/jupyter-book build -W -n --keep-going
SITE := _build/html/index.html
# Two workers with a thread each: runs are compared to the bit, and another number of threads rounds otherwise. The tests
# of a page, a file or a group stay together (tests/conftest.py).
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup
export PYTHONDONTWRITEBYTECODE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help book test check lint links pdf zip pictures serve bench weights clinic mutation clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST)

.venv/made: requirements.txt pyproject.toml packages/sphinx-anywidget/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, and '$(PYTHON)' is older: name one with make PYTHON=..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable packages/sphinx-anywidget
	@touch $@

.venv/made-dev: .venv/made requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	@touch $@

# axe-core, which judges accessibility: nothing of it is published. Without npm its tests say that they are skipped.
node_modules/made: package.json package-lock.json
	@if command -v npm >/dev/null; then npm ci --no-audit --no-fund --silent && touch $@; else echo "npm was not found: ACCESSIBILITY IS NOT TESTED"; fi

# AGAIN=--all reads every page again by hand.
# SOLUTIONS=off leaves the solutions out, for a teacher. What works on the built book keeps its kind.
export SOLUTIONS
zip pdf serve: SOLUTIONS ?= $(shell cat _build/solutions 2>/dev/null)
KIND = $(if $(filter off,$(SOLUTIONS)),-without-solutions)
book: .venv/made ## execute the notebooks and build the book: _build/html/index.html
	@$(JB) $(AGAIN) .
	@echo "The book: $(CURDIR)/$(SITE)"

test: .venv/made-dev node_modules/made book ## install what the tests need, build the book, run every test
	$(PYTEST)

check: .venv/made-dev lint ## what to run before a commit: lint, and the tests without browser, notebooks and long processes
	$(PYTEST) -q -m 'not slow' --ignore tests/browser

lint: ## judge the style and the types of the code, and whether the workflows are sound
	@test -x $(BIN)/ruff -a -x $(BIN)/mypy -a -x $(BIN)/zizmor || $(MAKE) --no-print-directory .venv/made-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet .github

links: .venv/made ## ask every address outside of the book that it points to
	$(BIN)/jupyter-book build --builder linkcheck .

pdf: .venv/made-dev book ## print the book as one PDF, and put it into the site: _build/html/tiny-gpt.pdf
	$(BIN)/python print/pdf.py _build/tiny-gpt$(KIND).pdf
	@$(MAKE) --no-print-directory book

zip: book ## the whole site in one file, to hand out on a stick: dist/tiny-gpt-book.zip
	@mkdir -p dist && rm -f dist/tiny-gpt-book$(KIND).zip
	$(BIN)/python -c "import shutil; shutil.make_archive('dist/tiny-gpt-book$(KIND)', 'zip', '_build', 'html')"
	@echo "$(if $(KIND),Without,With) solutions: unpack dist/tiny-gpt-book$(KIND).zip and open html/index.html"

pictures: .venv/made-dev book ## every page at three widths, light and dark, to be looked at: _build/pictures (PAGES="05 13" takes some)
	$(BIN)/python print/screens.py $(PAGES)

serve: book ## show the book at http://localhost:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench/node_modules/made: bench/package.json bench/package-lock.json
	npm ci --prefix bench --no-audit --no-fund --silent && touch $@

# BOOK=1 first builds the book twice elsewhere, from nothing and once more, to time it: many minutes.
bench: .venv/made-dev bench/node_modules/made book ## measure what is how fast, pages included: bench/results.md (some minutes)
	$(if $(BOOK),JB='$(JB)' $(BIN)/python bench/book_build.py)
	$(BIN)/python bench/bench.py

weights: PRESET ?= cpu
weights: NAME = $(or $(basename $(notdir $(FILE))),$(PRESET))
weights: .venv/made ## train a model that the package carries again, from its seed: PRESET=cpu (minutes) or cpu-long; FILE=src/tiny_gpt/trained/strangers.py
	OMP_NUM_THREADS=1 $(BIN)/python -c "from tiny_gpt import weights; \
	  weights.make('$(PRESET)', '_build/weights/$(NAME)', 'book/assets/runs/$(NAME).json', '$(shell git rev-parse HEAD)', '$(FILE)')"

clinic: .venv/made ## train the clinic's patients again, from their seeds (minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -c "from tiny_gpt import clinic; clinic.make()"

mutation: .venv/made-dev ## try the checker on every planted bug and every right variant, and keep the verdicts (minutes)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutation.py

clean: ## remove what was built, but not .venv
	rm -rf _build build dist src/*.egg-info .pytest_cache .ruff_cache .mypy_cache
