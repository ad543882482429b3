#!/usr/bin/env bash
# What a prediction of many classes takes in memory: a phantom of 384^3 voxels, a model of 100 classes, patches of 128^3.
# `tandem predict --dry-run` prints the computed bound of sums and result beside the measured peak of the model on one window.
# With --run it predicts the whole volume under a limit of 8 GB of address space for data (hours on a small CPU).
# usage: bench/predict_memory.sh [--run] [--size N] [--classes N] [--patch N]     needs build/bin/tandem
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
size=384 classes=100 patch=128 full=0
while [ $# -gt 0 ]; do
  case $1 in
    --run) full=1; shift ;;
    --size) size=$2; shift 2 ;;
    --classes) classes=$2; shift 2 ;;
    --patch) patch=$2; shift 2 ;;
    *) echo "predict_memory: unknown option $1" >&2; exit 2 ;;
  esac
done
tandem=$PWD/build/bin/tandem
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
labels="background: 0"
for ((c = 1; c < classes; ++c)); do labels+=", c$c: $c"; done
"$tandem" data synth "$folder/small.h5" --size 32 > /dev/null
"$tandem" data synth "$folder/volume.nii" --label "$folder/labels.nii" --size "$size" > /dev/null
cat > "$folder/job.yaml" <<YAML
name: memory
data: {train: [small.h5], labels: {$labels}, other_labels: background}
model: {name: unet3d, features: [4, 8]}
patch: {size: [$patch, $patch, $patch]}
train: {batch_size: 1, iterations: 1}
YAML
"$tandem" train "$folder/job.yaml" --run-dir "$folder/run" --no-progress patch.size='[16, 16, 16]' 2> /dev/null
"$tandem" predict "$folder/run" --input "$folder/volume.nii" --dry-run "patch.size=[$patch, $patch, $patch]" predict.mirror_tta=false
if [ $full = 1 ]; then
  ulimit -d $((8 * 1000 * 1000 * 1000 / 1024))
  "$tandem" predict "$folder/run" --input "$folder/volume.nii" --output "$folder/out.nii.gz" "patch.size=[$patch, $patch, $patch]" \
    predict.mirror_tta=false
fi
