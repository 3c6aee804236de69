#!/usr/bin/env bash
# What the tests need beside Rust, from Debian's packages: curl and jq for the walk through every endpoint,
# python3 with venv for schemathesis, and the FashionMNIST images for the acceptance figures.
set -euo pipefail
missing=()
command -v curl >/dev/null || missing+=(curl)
command -v jq >/dev/null || missing+=(jq)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
[ -f /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || missing+=(dataset-fashion-mnist)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "the tests need: ${missing[*]}; run: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
apt-get update -qq
apt-get install -y -qq "${missing[@]}" >/dev/null
