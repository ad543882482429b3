#!/usr/bin/env bash
# Does mixed precision cost agreement with the labels? Trains the demo's job in FP32, BF16 and FP16 with the same seeds and prints the mean
# Dice of each, paired, beside the spread of FP32's seeds. Finished runs are
# kept and not repeated. Needs the demo's data (./demo.sh) and build/bin/tandem.
# usage: bench/precision_seeds.sh [--seeds N] [--folder DIR] [key=value ...]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
seeds=5 folder=runs/precision_seeds
while [[ "${1:-}" == --* ]]; do
  case $1 in
    --seeds) seeds=$2; shift 2 ;;
    --folder) folder=$2; shift 2 ;;
    *) echo "precision_seeds: unknown option $1" >&2; exit 2 ;;
  esac
done
mkdir -p "$folder"
# Runs of other settings, another build or another instruction set do not belong into one table.
settings="$(build/bin/tandem version | head -n 1), $(build/bin/tandem doctor | grep '^isa'), $*"
[ -e "$folder/settings" ] || echo "$settings" > "$folder/settings"
if [ "$(cat "$folder/settings")" != "$settings" ]; then
  echo "precision_seeds: $folder: got runs of '$(cat "$folder/settings")', expected '$settings'. Choose another --folder." >&2
  exit 2
fi
for ((seed = 1; seed <= seeds; ++seed)); do
  for compute in fp32 bf16 fp16; do
    run=$folder/$compute-$seed
    [ -s "$run/evaluation.json" ] && continue
    echo "precision_seeds: $compute, seed $seed" >&2
    build/bin/tandem train configs/unet3d_ct.yaml --run-dir "$run" --overwrite --no-progress \
      "seed=$seed" "precision.compute=$compute" validate.every=1000000 "$@" > "$run.out" 2>&1 || { tail -n 5 "$run.out" >&2; exit 1; }
    build/bin/tandem eval "$run" > /dev/null  # writes evaluation.json, whole or not at all
  done
done
python3 - "$folder" "$seeds" "$*" <<'PY'
import json, math, statistics, sys
folder, seeds, overrides = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dice = {c: [json.load(open(f"{folder}/{c}-{s}/evaluation.json"))["mean_dice"] for s in range(1, seeds + 1)]
        for c in ("fp32", "bf16", "fp16")}
student = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}.get(seeds, 2.0)
spread = statistics.stdev(dice["fp32"]) if seeds > 1 else math.nan
half = student * spread / math.sqrt(seeds)
base = statistics.mean(dice["fp32"])
print(f"configs/unet3d_ct.yaml {overrides}: mean Dice, {seeds} seeds")
print("| compute | " + " | ".join(f"seed {s}" for s in range(1, seeds + 1)) + " | mean | paired difference |")
print("|---|" + "---|" * (seeds + 2))
ok = True
for c, values in dice.items():
    difference = statistics.mean(values) - base
    within = abs(difference) <= max(0.003, half)
    ok &= within
    print(f"| {c} | " + " | ".join(f"{v:.4f}" for v in values) + f" | {statistics.mean(values):.4f} | {difference:+.4f} |")
print(f"FP32's seeds: standard deviation {spread:.4f}, 95 % interval of the mean {base - half:.4f} .. {base + half:.4f}")
print("within 0.003 or that interval: " + ("yes" if ok else "NO"))
sys.exit(0 if ok else 1)
PY
