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
# Nothing that pip installs here is imported often enough to be worth compiling in advance.
pip=(install -q --disable-pip-version-check --no-compile)

# The tool that builds wheels is in an environment of its own, which is kept: it is not what is tested.
if ! "$env/tools/bin/maturin" --version 2>/dev/null | grep -q '^maturin 1\.16'; then
  python3 -m venv "$env/tools"
  "$env/tools/bin/pip" "${pip[@]}" 'maturin==1.16.*'
fi
CARGO=$here/cargo-shared "$env/tools/bin/maturin" build -q --profile dev --target-dir "$target" \
  --auditwheel skip --out "$env/wheels"

python3 -m venv "$env/venv"
"$env/venv/bin/pip" "${pip[@]}" "$env"/wheels/guarantor-*.whl -r requirements-test.txt
# Of obp the notebook needs the sample and the estimators, and not torch, seaborn and the rest.
"$env/venv/bin/pip" "${pip[@]}" --no-deps obp==0.4.1
export PATH="$env/venv/bin:$PATH" VIRTUAL_ENV=$env/venv
ruff check -q .
ruff format -q --check .
mypy --python-executable "$env/venv/bin/python" --cache-dir "$env/mypy"
pyright --pythonpath "$env/venv/bin/python"

# From another directory, so that the installed package is imported and not the one here.
cd "$env"
installed=$(python -c 'import guarantor, pathlib; print(pathlib.Path(guarantor.__file__).parent)')
case $installed in "$env"/venv/*) ;; *) echo "the tests would import $installed" >&2; exit 1 ;; esac
export GUARANTOR_BIN=$target/debug/guarantor
pytest -c "$here/pyproject.toml" --rootdir "$here/tests" -p no:cacheprovider --doctest-modules \
  "$here/tests" "$installed" "$@"
