#!/usr/bin/env bash
# Installs what the tests need besides Rust, from Debian packages: curl and jq for tests/curl.sh, python3 with
# venv for schemathesis, kubernetes-validate and Playwright, chromium with a font for the dashboard, Java for
# Spark, PostgreSQL and faketime for tests/replicas, the FashionMNIST images for the figures of crates/lab, and, for root, who alone can use them, buildah and
# debootstrap for tests/image.sh.
set -euo pipefail
missing=()
command -v curl >/dev/null || missing+=(curl)
command -v jq >/dev/null || missing+=(jq)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v chromium >/dev/null || missing+=(chromium)
[ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || command -v initdb >/dev/null || missing+=(postgresql)
command -v faketime >/dev/null || missing+=(faketime)
command -v java >/dev/null || missing+=(openjdk-17-jre-headless)
[ -d /usr/share/fonts/truetype/dejavu ] || missing+=(fonts-dejavu-core)
[ -f /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || missing+=(dataset-fashion-mnist)
if [ "$(id -u)" -eq 0 ]; then
  command -v buildah >/dev/null || missing+=(buildah)
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  command -v strip >/dev/null || missing+=(binutils)
else
  echo "Not root: the test of the image is skipped." >&2
fi
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "The tests need ${missing[*]}. Run: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
apt-get update -qq
apt-get install -y -qq "${missing[@]}" >/dev/null
