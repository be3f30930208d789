# Every line can be typed by hand. `make verify` and `make test` do all the set-up first; a second run installs nothing.
PYTHON ?= python3

.PHONY: verify test bench lint proof mistakes

verify: .venv/installed
	.venv/bin/gemelos verify

test: .venv/installed
	.venv/bin/python -m pytest -n auto --dist worksteal --hypothesis-profile ci

bench: .venv/installed
	.venv/bin/gemelos bench

lint: .venv/installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# The long proofs: 10,000 cases of every op for every implementation, then every known mistake against every check.
proof: .venv/installed
	.venv/bin/gemelos verify --cases 10000

mistakes: .venv/installed
	.venv/bin/gemelos mistakes

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch .venv/installed
