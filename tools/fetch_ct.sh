#!/usr/bin/env bash
# Fetches the demo's CT and its labels into FOLDER: example_ct.nii.gz and example_seg.nii.gz, from the source package
# totalsegmentator 2.18.0 (Apache-2.0) on the Python package index. The labels are TotalSegmentator's own output.
# Exit 0: both files are there and have the right digest. Exit 3: not reachable (the caller may use a phantom). Exit 4:
# anything else (another digest than expected, a full disk, ...).
# usage: tools/fetch_ct.sh FOLDER
set -euo pipefail
repo=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
folder=${1:?usage: tools/fetch_ct.sh FOLDER}
package_digest=5d4223ef93973bc36d710869d11e7742ead2c154c72f7f9edcaaadd5b6c4bd03
ct_digest=dbd3ae6d614d1d7e
seg_digest=e8097758e56e7309

has_digest() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -c1-"${#2}")" = "$2" ]; }

if has_digest "$folder/example_ct.nii.gz" $ct_digest && has_digest "$folder/example_seg.nii.gz" $seg_digest; then
  exit 0
fi

mkdir -p "$folder" "$repo/.deps"
work=$(mktemp -d "$folder/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
venv="$repo/.deps/fetch"
log="$work/pip.log"
{
  [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import setuptools, wheel, numpy' 2>/dev/null || {
    rm -rf "$venv"
    python3 -m venv "$venv" && "$venv/bin/python" -m pip install --quiet --retries 1 --timeout 15 --disable-pip-version-check \
      setuptools==80.9.0 wheel==0.45.1 numpy==2.2.6
  }
  "$venv/bin/python" -m pip download --quiet --retries 1 --timeout 15 --disable-pip-version-check --no-deps --no-binary :all: \
    --no-build-isolation --dest "$work" totalsegmentator==2.18.0
} > "$log" 2>&1 || {
  if grep -qiE 'connection|resolve|timed out|unreachable|proxy|403 forbidden' "$log" &&
     ! grep -qi 'no space left' "$log"; then
    echo "fetch: the package index could not be reached:" >&2
    tail -n 2 "$log" >&2
    exit 3
  fi
  echo "fetch: the package could not be fetched:" >&2
  tail -n 5 "$log" >&2
  exit 4
}
package=$(ls "$work"/*.tar.gz)
has_digest "$package" $package_digest || { echo "fetch: $(basename "$package") has another digest than expected" >&2; exit 4; }
members=totalsegmentator-2.18.0/tests/reference_files
tar -xzf "$package" -C "$work" "$members/example_ct.nii.gz" "$members/example_seg_fast_force_split.nii.gz"
has_digest "$work/$members/example_ct.nii.gz" $ct_digest &&
  has_digest "$work/$members/example_seg_fast_force_split.nii.gz" $seg_digest ||
  { echo "fetch: the CT or its labels have another digest than expected" >&2; exit 4; }
mv "$work/$members/example_seg_fast_force_split.nii.gz" "$folder/example_seg.nii.gz"
mv "$work/$members/example_ct.nii.gz" "$folder/example_ct.nii.gz"
