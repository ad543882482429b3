#!/usr/bin/env bash
# Installs what is missing, builds everything, runs all tests. Last line: "N passed, N failed".
# usage: ./test.sh [PRESET]     PRESET: release (default), debug, asan, tsan (the threads of the data loader alone), or cuda
#                               (the CUDA plug-in, the program and their tests; needs a toolkit, no device)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
preset=${1:-release}
trap '[ $? -eq 0 ] || [ -n "${counted:-}" ] || echo "0 passed, 1 failed"' EXIT
./setup.sh --tests
# Without a device the plug-in is built and tested by its own preset alone.
cuda=OFF
if [ "$preset" = cuda ] || [ -e /dev/nvidiactl ]; then cuda=AUTO; fi
configured=$(cmake --preset "$preset" -DTANDEM_TESTS=ON -DTANDEM_CUDA=$cuda)
if [ "$preset" = cuda ] && ! grep -q '^-- TANDEM_CUDA: ON' <<< "$configured"; then
  echo "skipped: no CUDA toolkit: $(sed -n 's/^-- TANDEM_CUDA: OFF: //p' <<< "$configured")"
  counted=1
  echo "0 passed, 0 failed"
  exit 0
fi
build=build; [ "$preset" = release ] || build=build-$preset
targets=() selection=()
if [ "$preset" = tsan ]; then
  # Tests whose threads are the loader's own: libgomp is not instrumented, so that OpenMP teams look like races.
  targets=(--target test_data)
  selection=(--tests-regex '^(Loader|Hdf5\.ManyThreadsMayRead)')
  export OMP_THREAD_LIMIT=1 TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"
fi
if [ "$preset" = cuda ]; then
  targets=(--target tandem_cuda tandem)
  selection=(--label-regex cuda)
fi
cmake --build "$build" --parallel "$(nproc)" "${targets[@]}"
# Several test programs run side by side, each with a small team: waiting threads must give way.
export OMP_WAIT_POLICY=passive
status=0
ctest --test-dir "$build" "${selection[@]}" --parallel "$(nproc)" --output-on-failure --output-junit "$PWD/$build/tests.xml" \
  --test-output-size-passed 65536 > "$build/tests.log" 2>&1 || status=$?
counted=1
python3 tests/summary.py "$build/tests.xml" "$build/tests.log" "$status"
