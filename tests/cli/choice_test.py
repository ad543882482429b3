"""The losses, optimizers and schedules that a job can name; what a validation decides; and that it all survives a resume."""
import json
import shutil

import harness

LOSSES = ("dice_ce", "dice", "ce", "dice_bce", "bce", "dice_focal", "focal", "generalized_dice", "generalized_dice_ce", "tversky",
          "tversky_ce", "mse", "l1", "smooth_l1")


class ChoiceTest(harness.CommandLineTest):
    def test_every_loss_takes_a_step(self):
        job = self.job("losses.yaml")
        for name in LOSSES:
            done = self.tandem("train", job, f"loss={{name: {name}}}", "--dry-run")
            self.assertIn("events good, good", done.stderr, name)
        self.tandem("train", job, "loss={name: ce, ce: {class_weights: sqrt}}", "--dry-run")
        done = self.tandem("train", job, "loss={name: dice_bce}", "loss.activation=softmax", "--dry-run", status=2)
        self.assertIn("activation", done.stderr)
        done = self.tandem("train", job, "loss={name: ce, ce: {class_weights: [1, 2]}}", "--dry-run", status=2)
        self.assertIn("got 2 values, expected 6", done.stderr)
        done = self.tandem("train", job, "optimizer.groups=[{match: heads}]", "--dry-run", status=2)
        self.assertIn("Did you mean 'head0'?", done.stderr)

    def test_deep_supervision_trains(self):
        run = self.folder / "deep"
        self.tandem("train", self.job("deep.yaml", iterations=20, every=20), "model.features=[4, 8, 8]",
                    "model.deep_supervision=true", "--run-dir", run, "--no-progress")
        losses = [line["loss"] for line in self.metrics(run) if line["kind"] == "step"]
        self.assertLess(sum(losses[-4:]), sum(losses[:4]))

    # Each resumed from every checkpoint that it wrote, before and after validations.
    def test_every_state_is_in_the_checkpoint(self):
        common = ["select={metric: dice}", "validate.every=3", "checkpoint={every: 2, keep_last: 100, verify: false}",
                  "train.iterations=8"]
        variants = {
            "rmsprop": ["optimizer={name: rmsprop, lr: 1.0e-3, momentum: 0.8, rho: 0.9, centered: true, ema: {decay: 0.9}}",
                        "schedule={name: onecycle}"],
            "plateau": ["schedule={name: plateau, patience: 0, threshold: 1, factor: 0.5}", "train.clip_value=0.01",
                        "optimizer.groups=[{match: '*.bias', weight_decay: 0}]"],
            "early": ["train.early_stop={patience: 2, min_delta: 10}", "train.iterations=100"],
        }
        for name, changes in variants.items():
            job = self.job(f"{name}.yaml")
            whole = self.folder / name
            self.tandem("train", job, *common, *changes, "--run-dir", whole, "--no-progress")
            steps = sorted(int(path.stem.split("-")[1]) for path in whole.glob("step-*.h5"))
            if name == "early":
                self.assertEqual(steps[-1], 9, "the first validation is the best, two more are not")
                self.assertEqual([line for line in self.metrics(whole) if line["kind"] == "event"][-1]["event"], "early_stop")
            for first in steps[:-1]:
                part = self.folder / f"{name} from {first}"
                shutil.copytree(whole, part)
                for step in steps:
                    if step > first:
                        (part / f"step-{step:09d}.h5").unlink()
                self.tandem("train", job, *common, *changes, "--run-dir", part, "--resume", "auto", "--no-progress")
                self.assertIn("identical", self.tandem("ckpt", "diff", whole, part).stdout, f"{name} from {first}")

    def test_another_metric_begins_its_list_anew(self):
        run, job = self.folder / "other metric", self.job("metric.yaml", iterations=4, every=2)
        words = ("--run-dir", run, "--no-progress", "validate.every=2", "validate.metrics=[dice, hd95]")
        self.tandem("train", job, *words, "select={metric: dice}")
        done = self.tandem("train", job, *words, "select={metric: hd95, mode: min}", "train.iterations=8", "--resume", "auto")
        self.assertIn("best checkpoints, early stop and plateau begin anew", done.stderr)
        best = (run / "best").read_text(encoding="utf-8")
        self.assertIn(best.strip(), ("step-000000006.h5", "step-000000008.h5"))

    def test_eval_uses_the_mean_weights_as_validation_does(self):
        run = self.folder / "mean weights"
        self.tandem("train", self.job("mean.yaml", iterations=6, every=6), "optimizer.ema={decay: 0.9}", "validate.every=6",
                    "--run-dir", run, "--no-progress")
        last = [line for line in self.metrics(run) if line["kind"] == "val"][-1]
        mean = json.loads(self.tandem("eval", run, "--json").stdout)["mean_dice"]
        self.assertAlmostEqual(mean, last["mean_dice"], places=12)
        other = json.loads(self.tandem("eval", run, "optimizer.ema=null", "--json").stdout)["mean_dice"]
        self.assertNotEqual(mean, other)

    def test_time_ends_a_run_with_a_checkpoint_and_a_validation(self):
        run = self.folder / "minutes"
        self.tandem("train", self.job("minutes.yaml", iterations=100000), "train.max_minutes=0.02", "--run-dir", run,
                    "--no-progress")
        lines = [line for line in self.metrics(run) if line["kind"] in ("event", "val")]
        self.assertEqual(lines[-1]["event"], "max_minutes")
        if lines[-1]["step"] > 0:  # a slow machine may not get so far
            self.assertEqual(lines[-2]["kind"], "val")
            self.assertTrue((run / f"step-{lines[-1]['step']:09d}.h5").exists())


if __name__ == "__main__":
    harness.main()
