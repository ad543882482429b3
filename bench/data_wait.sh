#!/usr/bin/env bash
# Data larger than memory: how long does a training step wait for its batch? Generates gzipped phantom cases, trains a real job on
# them under a memory limit (so that the disk cache is used) and prints the share of data wait, without the first step, and
# the peak memory of the process. Fails above --most per cent. A folder given by --folder stays, with its cases and the cache.
# usage: bench/data_wait.sh [--cases 20] [--shape 300,512,512] [--limit 2] [--steps 200] [--format nifti|hdf5] [--folder DIR]
#          [--generate] [--most 3] [key=value ...]       --limit in GiB; --generate: make the cases and stop; needs build/bin/tandem
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
cases=20 shape=300,512,512 limit=2 steps=200 format=nifti folder="" most=3 generate=0
while [[ "${1:-}" == --* ]]; do
  case $1 in
    --cases) cases=$2; shift 2 ;;
    --shape) shape=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    --steps) steps=$2; shift 2 ;;
    --format) format=$2; shift 2 ;;
    --folder) folder=$2; shift 2 ;;
    --most) most=$2; shift 2 ;;
    --generate) generate=1; shift ;;
    *) echo "data_wait: unknown option $1" >&2; exit 2 ;;
  esac
done
tandem=${TANDEM:-$PWD/build/bin/tandem}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/cases"
for ((i = 1; i <= cases; ++i)); do
  name=$folder/cases/$(printf 'case%02d' "$i")
  if [ "$format" = hdf5 ]; then
    [ -s "$name.h5" ] || "$tandem" data synth "$name.h5" --shape "$shape" --seed "$i" > /dev/null
  elif [ ! -s "${name}_label.nii.gz" ]; then
    "$tandem" data synth "$name.nii.gz" --label "${name}_label.nii.gz" --shape "$shape" --seed "$i" --overwrite > /dev/null
  fi
done
echo "data: $cases cases of $shape voxels ($format), $(du -sh --exclude=.tandem-cache "$folder/cases" | cut -f1) compressed"
[ "$generate" = 1 ] && exit 0
cat > "$folder/job.yaml" <<YAML
name: data_wait
data:
  format: $format
  train: [cases]
  labels: {background: 0, hip: [77, 78], gluteus_maximus: [80, 81], gluteus_medius: [82, 83], iliopsoas: [88, 89], autochthon: [86, 87]}
  normalize: [{channel: 0, kind: zscore, clip: [-1000, 1000]}]
augment: {mirror: [z, y, x], rotate_deg: 30, scale: [0.7, 1.4], noise_std: 0.1, blur_sigma: [0.5, 1], brightness: [0.75, 1.25],
  contrast: [0.75, 1.25], low_resolution: [0.5, 1], gamma: [0.7, 1.5], probability: {noise: 0.1, brightness: 0.15}}   # nnU-Net's
model: {name: unet3d, features: [32, 64, 128, 256]}
patch: {size: [64, 64, 64], foreground: 0.33}
optimizer: {name: sgd, lr: 0.01, momentum: 0.99, nesterov: true, weight_decay: 3.0e-5}
train: {batch_size: 1, iterations: $steps, clip_norm: 12}
checkpoint: {every: 1000000}
log: {every: 1}
YAML
rm -rf "$folder/run"
python3 - "$limit" "$folder" "$most" "$tandem" train "$folder/job.yaml" --run-dir "$folder/run" --no-progress "$@" <<'PY'
import json, os, resource, subprocess, sys, time

limit, folder, most, command = int(float(sys.argv[1]) * 2**30), sys.argv[2], float(sys.argv[3]), sys.argv[4:]


def control_group():
    """A new memory group of version 1 or 2 with the limit, or None where none can be made."""
    for parent, key, extra in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", None),
                               ("/sys/fs/cgroup", "memory.max", "memory.swap.max")):
        group = f"{parent}/tandem-data-wait-{os.getpid()}"
        try:
            os.mkdir(group)
            open(f"{group}/{key}", "w").write(str(limit))
            if extra and os.path.exists(f"{group}/{extra}"):
                open(f"{group}/{extra}", "w").write("0")
            return group
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
    return None


group = control_group()


def enter():
    if group:
        open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


start = time.time()
with open(f"{folder}/out.txt", "w") as out:
    code = subprocess.run(command, preexec_fn=enter, stdout=out, stderr=subprocess.STDOUT).returncode
seconds = time.time() - start
if group:
    os.rmdir(group)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
kind = "control group (page cache included)" if group else "RLIMIT_DATA (page cache not limited)"
print(f"limit: {limit / 2**20:.0f} MiB by {kind}; peak resident {peak:.0f} MiB; exit code {code}; {seconds:.0f} s in all")
if code == -9:
    sys.exit("killed: the limit is too small for cases, model and activations together")
if code != 0:
    sys.exit(open(f"{folder}/out.txt").read()[-2000:])
lines = [line for line in map(json.loads, open(f"{folder}/run/metrics.jsonl")) if line["kind"] == "step" and line["step"] > 1]
wait, total = sum(l["data_wait_ms"] for l in lines), sum(l["step_ms"] for l in lines)
share = 100 * wait / total
longest = max(lines, key=lambda l: l["data_wait_ms"])
print(f"{len(lines)} steps of {total / len(lines):.0f} ms; data wait {share:.2f} % (at most {most:g} %); longest "
      f"{longest['data_wait_ms']:.0f} ms in step {longest['step']}")
print("cache: " + next((l.strip() for l in open(f"{folder}/out.txt") if "read from the cache" in l), "not used: all cases in memory"))
sys.exit(0 if share <= most else 1)
PY
