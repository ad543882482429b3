#!/usr/bin/env bash
# Installs what Tandem needs on Debian 12 (root, or sudo): packages, and oneDNN 3 in a private virtual environment
# under .deps/. Idempotent: says nothing and changes nothing when all is there.
# usage: ./setup.sh [--tests]     --tests also installs what only the tests need (GoogleTest, h5py, nibabel, tensorboard)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

want_tests=false
[ "${1:-}" = "--tests" ] && want_tests=true

packages=(g++ cmake ninja-build python3 python3-venv libhdf5-dev libyaml-cpp-dev libeigen3-dev libcli11-dev libfmt-dev
          libspdlog-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev)
$want_tests && packages+=(libgtest-dev libgmock-dev libbenchmark-dev)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: packages are missing and neither root nor sudo is available: ${missing[*]}" >&2; exit 6; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# make_venv FOLDER REQUIREMENT...: a virtual environment with exactly these, made again when the list changes or when an
# earlier run was interrupted (the list is written last).
make_venv() {
  local folder=$1; shift
  [ "$(cat "$folder/.requirements" 2>/dev/null)" = "$*" ] && return
  echo "setup: installing $* in $folder"
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  echo "$*" > "$folder/.requirements"
}

mkdir -p .deps
make_venv .deps/onednn onednn-devel-cpu-gomp==2023.2.0
$want_tests && make_venv .deps/python numpy==2.2.6 h5py==3.14.0 nibabel==5.3.2 tensorboard==2.20.0
exit 0
