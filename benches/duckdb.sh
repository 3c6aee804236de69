#!/usr/bin/env bash
# DuckDB from PyPI into target/duckdb, for `cargo bench --bench ingest` to compare with.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x target/duckdb/bin/python ] || python3 -m venv target/duckdb
target/duckdb/bin/python -c 'import duckdb' 2>/dev/null || target/duckdb/bin/pip install --quiet duckdb
target/duckdb/bin/python -c 'import duckdb; print("DuckDB", duckdb.__version__)'
