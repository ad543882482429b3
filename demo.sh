#!/usr/bin/env bash
# From nothing to a trained 3-D U-Net: installs what is missing, builds `tandem`, fetches a real CT, trains
# configs/unet3d_ct.yaml in FP16 with dynamic loss scaling, evaluates and predicts the held-out half, and says where
# everything is. Exit 1 if the mean Dice is below 0.85.
# usage: ./demo.sh [key=value ...]     e.g. ./demo.sh precision.compute=bf16
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
repo=$PWD
required_dice=0.85
started=$SECONDS

./setup.sh
if [ ! -f build/build.ninja ]; then
  cuda=OFF
  if [ -e /dev/nvidiactl ]; then cuda=AUTO; fi
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTANDEM_CUDA=$cuda > /dev/null
fi
cmake --build build --parallel "$(nproc)" --target tandem > build/demo-build.log 2>&1 || {
  tail -n 40 build/demo-build.log >&2; echo "demo: the build failed" >&2; exit 1; }
tandem=$repo/build/bin/tandem
echo "demo: built in $((SECONDS - started)) s"

data=configs/data
mkdir -p "$data"
agreement="agreement with TotalSegmentator labels, one patient, other half of the body"
fetched=0
tools/fetch_ct.sh "$data" || fetched=$?
if [ $fetched -eq 0 ]; then
  source=ct
elif [ $fetched -ne 3 ]; then
  exit $fetched  # reachable, but not what was expected: no reason to train on something else
else
  echo "demo: no network: using a generated phantom instead of the CT"
  source=phantom
  agreement="agreement with the drawing of a generated phantom"
  "$tandem" data synth "$data/phantom.nii.gz" --label "$data/phantom_seg.nii.gz" --overwrite
fi
job=()
if [ $source = ct ]; then
  image=$data/example_ct.nii.gz label=$data/example_seg.nii.gz
else
  image=$data/phantom.nii.gz label=$data/phantom_seg.nii.gz
  job=(name=unet3d_phantom "data.train=[\"$repo/$data/phantom_left.h5\"]" "data.validation=[\"$repo/$data/phantom_right.h5\"]")
fi
left=$data/${source}_left.h5 right=$data/${source}_right.h5
"$tandem" data convert "$image" --label "$label" --region x=0:61 --output "$left" --overwrite
"$tandem" data convert "$image" --label "$label" --region x=61:122 --flip x --output "$right" --overwrite

run=runs/demo
# Without 16-bit matrix units 800 steps of two patches take longer than the demo's four minutes of training.
short=()
if ! "$tandem" doctor --json | grep '"used": "amx"' > /dev/null; then
  short=(train.batch_size=1)
  echo "demo: no AMX on this CPU: training with batch 1 instead of the job's 2"
fi
train_started=$SECONDS
"$tandem" train configs/unet3d_ct.yaml --run-dir "$run" --overwrite "${job[@]}" "${short[@]}" "$@"
train_seconds=$((SECONDS - train_started))

"$tandem" eval "$run" > /dev/null
"$tandem" predict "$run" --input "$right" --output "$run/prediction.nii.gz" --overwrite
python3 - "$run" "$required_dice" "$train_seconds" "$((SECONDS - started))" "$agreement" "$source" <<'PY'
import json, sys
run, required, train_seconds, seconds, agreement, source = sys.argv[1:]
result = json.load(open(f"{run}/evaluation.json"))
print(f"\nDice per class ({agreement}):")
for name, value in result["dice"].items():
    print(f"  {name:<18} {value:.3f}" if value is not None else f"  {name:<18} absent")
mean = result["mean_dice"] if result["mean_dice"] is not None else 0.0
print(f"mean Dice    {mean:.3f}   (required {required})")
print(f"time         training {train_seconds} s, all {seconds} s")
print(f"loss scale   {result['loss_scale_history']}")
print(f"data         {source}, configs/data/")
print(f"run folder   {run}/ (config.resolved.yaml, metrics.jsonl, log.txt, checkpoints)")
print(f"prediction   {run}/prediction.nii.gz")
if not mean >= float(required):
    sys.exit(f"demo: FAILED: mean Dice {mean:.3f} is below {required}")
print("demo: done")
PY
