#!/usr/bin/env bash
# Builds the last stage of the Dockerfile as it is and runs it: the demo, and a server with the settings and
# secrets of docker/kubernetes. It needs root, buildah and debootstrap (tests/setup.sh installs them), no daemon and
# no registry: the base image is made from the Debian mirror that apt uses on this machine.
# Usage: tests/image.sh BINARY
set -euo pipefail
binary=$(realpath "${1:?pass the guarantor binary}")
cd "$(dirname "$0")/.."
suite=bookworm
mkdir -p target/image
work=$(mktemp -d -p "$PWD/target/image" run.XXXXXX)
export TMPDIR=$work
store=(buildah --root "$work/store" --runroot "$work/state" --storage-driver vfs)

clean_up() {
  "${store[@]}" rm --all >/dev/null 2>&1 || true
  grep -o " $work[^ ]*" /proc/self/mounts | sort -r | xargs -r umount || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

# The settings of apt that decide how packages are fetched, and its mirror of the suite.
fetching() { apt-config dump | grep -E '^Acquire::https?::' || true; }
mirror() {
  apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite { print $2; exit }'
}

# The base image, kept for a week: debootstrap takes longer than everything else.
base=target/image/$suite.tar
if [ -z "$(find "$base" -mtime -7 2>/dev/null)" ]; then
  from=$(mirror)
  # 77: the test is skipped, because this is not a Debian $suite.
  [ -n "$from" ] || { echo "apt has no source for Debian $suite" >&2; exit 77; }
  more=()
  case $from in https:*) more=(--include=ca-certificates) ;; esac
  proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
  ${proxy:+env http_proxy="$proxy"} debootstrap --variant=minbase "${more[@]}" \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$work/root" "$from" >"$work/debootstrap.log" ||
    { cat "$work/debootstrap.log" >&2; exit 1; }
  rm -f "$work"/root/var/cache/apt/archives/*.deb
  fetching >"$work/root/etc/apt/apt.conf.d/90fetching"
  if [ ${#more[@]} -gt 0 ]; then
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/ca-certificates.crt"
  fi
  tar -C "$work/root" -cf "$work/base.tar" .
  rm -rf --one-file-system "$work/root"
  mv "$work/base.tar" "$base"
fi

stage=$(awk '/^FROM /{ last = NR } { line[NR] = $0 } END { for (i = last; i <= NR; i++) print line[i] }' Dockerfile)
name=$(awk 'NR == 1 { print $2 }' <<<"$stage")
container=$("${store[@]}" from scratch)
"${store[@]}" add -q "$container" "$base" / >/dev/null
"${store[@]}" commit -q "$container" "$name" >/dev/null
"${store[@]}" rm "$container" >/dev/null

mkdir "$work/build"
strip -o "$work/build/guarantor" "$binary"
printf '%s\n' "$stage" >"$work/Dockerfile"
"${store[@]}" build --isolation chroot --format docker --pull-never --build-context build="$work/build" \
  -t guarantor -f "$work/Dockerfile" "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
if grep -i 'warning.*uid' "$work/build.log"; then
  echo "building the image warns" >&2
  exit 1
fi

container=$("${store[@]}" from --pull-never localhost/guarantor)
inside() { "${store[@]}" run --isolation chroot "$@"; }
[ "$(inside "$container" -- sh -c 'echo "$(id -u):$(id -g)"')" = 10001:10001 ] || { echo "the user is not 10001" >&2; exit 1; }
inside "$container" -- guarantor demo | tee "$work/demo.log" >&2
grep -q '200: ok true, decision deploy' "$work/demo.log"

# The same mounts as in docker/kubernetes/base/statefulset.yaml. With fsGroup, the kubelet makes volumes writable
# for the group, and secrets readable for it.
mkdir "$work/data" "$work/secret"
"$binary" keys new >"$work/secret/api-key"
"$binary" keys new --signing >"$work/secret/signing-key.json"
chgrp -R 10001 "$work/data" "$work/secret"
chmod 2775 "$work/data"
chmod 0440 "$work"/secret/*
inside --volume "$work/data:/var/lib/guarantor" --volume "$work/secret:/run/secrets/guarantor:ro" \
  --volume "$PWD/docker/kubernetes/base:/etc/guarantor:ro" --env GUARANTOR_CONFIG=/etc/guarantor/settings.toml \
  --env GUARANTOR_LISTEN=127.0.0.1:0 "$container" -- bash -euc '
    guarantor serve >/tmp/listens &
    server=$!
    trap "kill $server" EXIT
    for _ in $(seq 600); do [ -s /tmp/listens ] && break; sleep 0.1; done
    url=$(sed "s/Guarantor listens on //" /tmp/listens)
    curl -fsS "$url/readyz"
    authorization="Authorization: Bearer $(cat /run/secrets/guarantor/api-key)"
    status() { curl -s -o /dev/null -w "%{http_code}" "$@" "$url/v1/jobs"; }
    [ "$(status)" = 401 ]
    [ "$(status -H "$authorization")" = 200 ]
    key=$(sed -n "s/.*\"public_key\": \"\(.*\)\".*/\1/p" /run/secrets/guarantor/signing-key.json)
    curl -fsS -H "$authorization" "$url/v1/certificates/key" | grep -qF "$key"
    [ ! -e /var/lib/guarantor/signing-key.json ]
    trap - EXIT
    kill -TERM "$server"
    wait "$server"
  ' >&2
echo "the image works"
