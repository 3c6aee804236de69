#!/usr/bin/env bash
# Builds the wheel in the dev profile, into the target directory of the Rust tests, installs it into a fresh
# environment and runs every check of the Python package there. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
target=${CARGO_TARGET_DIR:-$(cd .. && pwd)/target}
env=${GUARANTOR_PYTHON_ENV:-$target/python}
rm -rf "$env/wheels" "$env/venv"
mkdir -p "$env"

# The tools that build and install wheels are in an environment of their own, which is kept: they are not what is tested.
# uv unpacks a gigabyte of packages in half the processor time that pip takes.
tools=$env/tools/bin
if ! "$tools/maturin" --version 2>/dev/null | grep -q '^maturin 1\.16' || ! "$tools/uv" --version >/dev/null 2>&1; then
  python3 -m venv "$env/tools"
  "$tools/pip" install -q --disable-pip-version-check 'maturin==1.16.*' 'uv==0.13.*'
fi
CARGO=$here/cargo-shared "$tools/maturin" build -q --profile dev --target-dir "$target" \
  --auditwheel skip --out "$env/wheels"

python3 -m venv --without-pip "$env/venv"
install() { "$tools/uv" pip install -q --python "$env/venv/bin/python" "$@"; }
install "$env"/wheels/guarantor-*.whl -r requirements-test.txt
# Of obp the notebook needs the sample and the estimators, and not torch, seaborn and the rest.
install --no-deps obp==0.4.1
export PATH="$env/venv/bin:$PATH" VIRTUAL_ENV=$env/venv
ruff check -q . ../benches/spark.py
ruff format -q --check . ../benches/spark.py
mypy --python-executable "$env/venv/bin/python" --cache-dir "$env/mypy"
pyright --pythonpath "$env/venv/bin/python"

# From another directory, so that the installed package is imported and not the one here.
cd "$env"
installed=$(python -c 'import guarantor, pathlib; print(pathlib.Path(guarantor.__file__).parent)')
case $installed in "$env"/venv/*) ;; *) echo "the tests would import $installed" >&2; exit 1 ;; esac
export GUARANTOR_BIN=$target/debug/guarantor
pytest -c "$here/pyproject.toml" --rootdir "$here/tests" -p no:cacheprovider --doctest-modules \
  "$here/tests" "$installed" "$@"
