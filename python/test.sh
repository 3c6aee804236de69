#!/usr/bin/env bash
# Builds the wheel in the dev profile, into the target directory of the Rust tests, installs it into a fresh
# environment and runs every check of the Python package there. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-$PWD/../target}
env=${GUARANTOR_PYTHON_ENV:-$target/python}
rm -rf "$env/wheels" "$env/venv"
mkdir -p "$env"

# The tools come into an environment of their own, which is kept: they are not what is tested.
if ! "$env/tools/bin/maturin" --version 2>/dev/null | grep -q '^maturin 1\.16'; then
  python3 -m venv "$env/tools"
  "$env/tools/bin/pip" install -q --disable-pip-version-check 'maturin==1.16.*'
fi
"$env/tools/bin/maturin" build -q --profile dev --target-dir "$target" --auditwheel skip --out "$env/wheels"

python3 -m venv "$env/venv"
"$env/venv/bin/pip" install -q --disable-pip-version-check "$env"/wheels/guarantor-*.whl -r requirements-test.txt
export PATH="$env/venv/bin:$PATH"
ruff check .
ruff format --check .
mypy --python-executable "$env/venv/bin/python"
pyright --pythonpath "$env/venv/bin/python"

# From another directory, so that the installed package is imported and not the one here.
tests=$PWD/tests
cd "$env"
installed=$("$env/venv/bin/python" -c 'import guarantor, pathlib; print(pathlib.Path(guarantor.__file__).parent)')
pytest -c "$tests/../pyproject.toml" --rootdir "$tests" --doctest-modules "$tests" "$installed" "$@"
