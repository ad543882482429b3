#!/usr/bin/env bash
# What does blind growth of the loss scale cost? Trains the demo's job in FP16 with loss_scale.mode dynamic and headroom, both
# with a short growth interval, and prints the skipped steps of each beside the number of growths. Needs the demo's data
# (./demo.sh) and build/bin/tandem.
# usage: bench/loss_scale_modes.sh [--interval N] [--folder DIR] [key=value ...]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
interval=50 folder=runs/loss_scale_modes
while [[ "${1:-}" == --* ]]; do
  case $1 in
    --interval) interval=$2; shift 2 ;;
    --folder) folder=$2; shift 2 ;;
    *) echo "loss_scale_modes: unknown option $1" >&2; exit 2 ;;
  esac
done
mkdir -p "$folder"
for mode in dynamic headroom; do
  build/bin/tandem train configs/unet3d_ct.yaml --run-dir "$folder/$mode" --overwrite --no-progress precision.compute=fp16 \
    "precision.loss_scale.mode=$mode" "precision.loss_scale.growth_interval=$interval" validate.every=1000000 "$@" \
    > "$folder/$mode.out" 2>&1 || { tail -n 5 "$folder/$mode.out" >&2; exit 1; }
done
python3 - "$folder" "$interval" "$*" <<'PY'
import json, sys
folder, interval, overrides = sys.argv[1:]
print(f"configs/unet3d_ct.yaml FP16 growth_interval={interval} {overrides}".rstrip())
print("| loss_scale.mode | steps | growths | skipped steps | skipped after the first growth | last scale | last mean Dice |")
print("|---|---|---|---|---|---|---|")
for mode in ("dynamic", "headroom"):
    lines = [json.loads(line) for line in open(f"{folder}/{mode}/metrics.jsonl")]
    steps = [line for line in lines if line["kind"] == "step"]
    growths = [line["step"] for line in lines if line["kind"] == "event" and line["event"] == "loss_scale" and "growth" in line["text"]]
    skips = [line["step"] for line in steps if line["event"] != "good"]
    late = [step for step in skips if growths and step > growths[0]]
    dice = [line["mean_dice"] for line in lines if line["kind"] == "val"][-1]
    print(f"| {mode} | {steps[-1]['step']} | {len(growths)} | {len(skips)} | {len(late)} | {steps[-1]['scale']:g} | {dice:.4f} |")
PY
