#!/usr/bin/env bash
# Installs what is missing, builds everything, runs all tests. Last line: "N passed, N failed".
# usage: ./test.sh [PRESET]     PRESET: release (default), debug, asan, or tsan (the threads of the data loader alone)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
preset=${1:-release}
trap '[ $? -eq 0 ] || [ -n "${counted:-}" ] || echo "0 passed, 1 failed"' EXIT
./setup.sh --tests
cmake --preset "$preset" -DTANDEM_TESTS=ON > /dev/null
build=build; [ "$preset" = release ] || build=build-$preset
targets=() selection=()
if [ "$preset" = tsan ]; then
  # Tests whose threads are the loader's own: libgomp is not instrumented, so that OpenMP teams look like races.
  targets=(--target test_data)
  selection=(--tests-regex '^(Loader|Hdf5\.ManyThreadsMayRead)')
  export OMP_THREAD_LIMIT=1 TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"
fi
cmake --build "$build" --parallel "$(nproc)" "${targets[@]}"
# Several test programs run side by side, each with a small team: waiting threads must give way.
export OMP_WAIT_POLICY=passive
status=0
ctest --test-dir "$build" "${selection[@]}" --parallel "$(nproc)" --output-on-failure --output-junit "$PWD/$build/tests.xml" \
  --test-output-size-passed 65536 > "$build/tests.log" 2>&1 || status=$?
counted=1
python3 tests/summary.py "$build/tests.xml" "$build/tests.log" "$status"
