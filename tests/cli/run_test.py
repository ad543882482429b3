"""train, eval, predict, summary and ckpt on a small phantom job."""
import itertools
import json
import subprocess

import harness

# Copies a case file; with a third word, with /weight: 0 in every second voxel of a line, else 1.
COPY_CASE = """
import sys, h5py, numpy
with h5py.File(sys.argv[1]) as file, h5py.File(sys.argv[2], "w") as copy:
    file.copy("raw", copy)
    file.copy("label", copy)
    if len(sys.argv) > 3:
        copy["weight"] = numpy.ones(file["raw"].shape[-3:], "f4")
        copy["weight"][:, :, ::2] = 0
"""


class RunTest(harness.CommandLineTest):
    def test_a_run_from_training_to_prediction(self):
        run = self.folder / "a run"
        done = self.tandem("train", self.job(iterations=12, every=6), "--run-dir", run, "--no-progress", "validate.every=6")
        self.assertIn("loss scale 65536; 0 skipped", done.stderr)
        self.assertEqual({p.name for p in run.iterdir()} >= {"config.resolved.yaml", "environment.json", "log.txt",
                                                             "metrics.jsonl", "latest"}, True)
        self.assertEqual([line["step"] for line in self.metrics(run) if line["kind"] == "val"], [6, 12])

        scores = json.loads(self.tandem("eval", run, "--json").stdout)
        self.assertEqual(scores["step"], 12)
        self.assertEqual(list(scores["dice"]), ["hip", "gluteus_maximus", "gluteus_medius", "iliopsoas", "autochthon"])
        last = [line for line in self.metrics(run) if line["kind"] == "val"][-1]
        self.assertAlmostEqual(scores["mean_dice"], last["mean_dice"], places=12)

        output = self.folder / "prediction.nii.gz"
        self.tandem("predict", run, "--input", self.folder / "phantom.nii.gz", "--output", output)
        self.assertTrue(output.exists())
        again = self.tandem("predict", run, "--input", self.folder / "phantom.nii.gz", "--output", output, status=2)
        self.assertIn("exists already", again.stderr)

    def test_the_resolved_file_runs_the_job_again(self):
        first, second = self.folder / "first", self.folder / "second"
        self.tandem("train", self.job(iterations=4, every=4), "--run-dir", first, "--no-progress")
        self.tandem("train", first / "config.resolved.yaml", "--run-dir", second, "--no-progress")
        self.assertIn("identical", self.tandem("ckpt", "diff", first, second).stdout)

    def test_threads_and_workers_of_one_kind_give_one_result(self):
        runs = []
        for workers in (0, 1, 4):
            run = self.folder / f"workers {workers}"
            self.tandem("train", self.job(iterations=6, every=6), "--run-dir", run, "--no-progress", f"data.workers={workers}")
            runs.append(run)
        for other in runs[1:]:
            self.tandem("ckpt", "diff", runs[0], other)

    def test_every_precision_trains(self):
        for compute in ("fp32", "bf16", "fp16"):
            run = self.folder / compute
            self.tandem("train", self.job(f"{compute}.yaml", compute=compute, iterations=25, every=25), "--run-dir", run,
                        "--no-progress")
            losses = [line["loss"] for line in self.metrics(run) if line["kind"] == "step"]
            self.assertLess(sum(losses[-5:]), sum(losses[:5]), compute)

    def test_isa_levels_agree(self):
        levels = ["sse4", "avx2", "avx512", "amx"]
        available = json.loads(self.tandem("doctor", "--json").stdout)["isa"]["available"]
        levels = levels[:levels.index(available) + 1]
        for compute in ("fp32", "fp16", "bf16"):
            losses = {}
            for isa in levels:
                run = self.folder / f"{isa} {compute}"
                self.tandem("train", self.job(compute=compute, iterations=5, every=5), "--run-dir", run, "--no-progress",
                            environment={"TANDEM_ISA": isa})
                losses[isa] = [line["loss"] for line in self.metrics(run) if line["kind"] == "step"]
                self.assertEqual(json.loads((run / "environment.json").read_text(encoding="utf-8"))["isa"], isa)
            for one, other in itertools.combinations(levels, 2):
                for a, b in zip(losses[one], losses[other], strict=True):
                    self.assertAlmostEqual(a, b, delta=1e-4 if compute == "fp32" else 2e-3, msg=f"{compute}: {one}, {other}")

    def test_dry_run_writes_nothing(self):
        run = self.folder / "dry"
        done = self.tandem("train", self.job(), "--run-dir", run, "--dry-run")
        self.assertIn("nothing was written", done.stderr)
        self.assertFalse(run.exists())

    def test_fewer_threads_than_asked_for_change_nothing(self):
        runs = []
        for name, environment in (("two", {}), ("limited", {"OMP_THREAD_LIMIT": "1"})):
            run = self.folder / name
            self.tandem("train", self.job(iterations=3, every=3, threads=2), "--run-dir", run, "--no-progress",
                        environment=environment)
            runs.append([line["loss"] for line in self.metrics(run) if line["kind"] == "step"])
        for a, b in zip(*runs):
            self.assertAlmostEqual(a, b, delta=1e-3)

    def test_a_diverged_model_is_not_scored_or_written(self):
        run = self.folder / "diverged"
        self.tandem("train", self.job("diverged.yaml", iterations=3, every=3), "--run-dir", run, "--no-progress")
        output = self.folder / "diverged.nii.gz"
        bad = "data.normalize=[{channel: 0, kind: ct, mean: 0, std: 1.0e-38}]"
        for words in (("eval", run, bad), ("predict", run, "--input", self.folder / "phantom.nii.gz", "--output", output, bad)):
            self.assertIn("not a number", self.tandem(*words, status=5).stderr)
        self.assertFalse(output.exists())

    def test_giving_up_keeps_the_good_checkpoints_and_can_be_cured(self):
        run = self.folder / "gave up"
        job = self.job("gave up.yaml", iterations=20, every=5)
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        wild = ("optimizer.lr=1000", "schedule={name: constant}", "train.clip_norm=null", "train.iterations=200",
                "--resume", "auto", "--no-progress")
        done = self.tandem("train", job, "--run-dir", run, *wild, status=5)
        self.assertIn("optimizer.lr: 1000.0 here, 0.002 in the checkpoint", done.stderr.replace("1000 here", "1000.0 here"))
        names = sorted(p.name for p in run.glob("step-*.h5"))
        self.assertIn("step-000000020.h5", names)
        self.assertNotEqual(self.metrics(run)[-1]["event"], "good")
        healed = self.tandem("train", job, "--run-dir", self.folder / "healed", "--resume", run / "step-000000020.h5",
                             "--no-progress", "train.iterations=25")
        self.assertIn("25 steps", healed.stderr)

    def test_a_bad_validation_case_is_found_at_the_start(self):
        run = self.folder / "bad validation"
        done = self.tandem("train", self.job(), "data.validation=[phantom.nii.gz]", "--run-dir", run, status=3)
        self.assertNotIn("step", done.stdout)
        self.assertFalse(run.exists())

    def test_never_validating_is_allowed(self):
        self.tandem("train", self.job(iterations=3, every=3), "validate.every=0", "--run-dir", self.folder / "never",
                    "--no-progress")

    def test_rules_of_sections_that_are_not_written_hold_too(self):
        path = self.folder / "no train.yaml"
        path.write_text("data: {train: [left.h5], labels: {background: 0, a: 1}}\n", encoding="utf-8")
        done = self.tandem("config", "check", path, status=2)
        self.assertIn("'train.iterations': got neither iterations nor epochs", done.stderr)
        path.write_text("", encoding="utf-8")
        self.assertIn("'data.labels': got no classes", self.tandem("config", "check", path, status=2).stderr)

    def test_ignored_voxels_are_in_no_loss(self):
        job = self.job("ignore.yaml", iterations=4)
        job.write_text(job.read_text(encoding="utf-8").replace("labels: {background: 0, hip: [77, 78],",
                                                               "ignore_label: 77\n  labels: {background: 0, hip: 78,"),
                       encoding="utf-8")
        run = self.folder / "ignore"
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        self.assertEqual({line["event"] for line in self.metrics(run) if line["kind"] == "step"}, {"good"})

    def test_regions_train_with_independent_channels(self):
        run, regions = self.folder / "regions", "data.regions={both: [77, 78, 80, 81], hip: [77, 78]}"
        done = self.tandem("train", self.job(iterations=4), "--run-dir", run, regions, status=2)
        self.assertIn("'loss.name': got dice_ce with data.regions, expected dice_bce or bce", done.stderr)
        self.assertFalse(run.exists())
        self.tandem("train", self.job(iterations=4), "--run-dir", run, "--no-progress", regions, "loss.name=dice_bce")
        self.assertEqual({line["event"] for line in self.metrics(run) if line["kind"] == "step"}, {"good"})
        scores = json.loads(self.tandem("eval", run, "--json").stdout)
        self.assertEqual(list(scores["dice"]), ["both", "hip"])

    def test_weights_per_voxel_reach_the_loss(self):
        python = harness.python_with("h5py")
        for name, words in (("left", []), ("weighted", ["with weights"])):
            subprocess.run([python, "-c", COPY_CASE, self.folder / "left.h5",
                            self.folder / f"{name} copy.h5", *words], check=True)
        losses = []
        for name in ("left", "weighted"):
            run = self.folder / f"{name} run"
            self.tandem("train", self.job(iterations=1), f"data.train=['{self.folder / name} copy.h5']", "--run-dir", run, "--no-progress")
            losses.append(next(line["loss"] for line in self.metrics(run) if line["kind"] == "step"))
        self.assertNotEqual(*losses)

    def test_a_finished_run_says_so(self):
        run = self.folder / "finished"
        job = self.job(iterations=2)
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        again = self.tandem("train", job, "--run-dir", run, "--no-progress", "--resume", "auto")
        self.assertIn("the run is complete at step 2 of 2: raise train.iterations", again.stderr)

    def test_summary_counts_the_parameters(self):
        done = self.tandem("summary", self.job(), "model.features=[16, 32, 64]", "patch.size=[16, 16, 16]")
        self.assertIn("parameters   340172", done.stdout)

    def test_mistakes_are_one_clear_text_with_the_right_exit_code(self):
        job = self.job()
        text = job.read_text(encoding="utf-8").replace("  lr:", "  learing_rate:").replace("lr: 2.0e-3", "learing_rate: 2.0e-3")
        wrong = self.folder / "wrong.yaml"
        wrong.write_text(text, encoding="utf-8")
        done = self.tandem("train", wrong, status=2)
        self.assertIn("unknown key 'optimizer.learing_rate'", done.stderr)
        self.assertIn("did you mean 'lr'", done.stderr)
        cases = [
            (("train", self.folder / "none.yaml"), 2, "no such file"),
            (("train", job, "patch.size=[9, 8, 8]", "--run-dir", self.folder / "m1"), 2, "multiples of [2, 2, 2]"),
            (("train", job, "data.train=[missing.h5]", "--run-dir", self.folder / "m2"), 3, "missing.h5"),
            (("train", job, "device=cuda", "--run-dir", self.folder / "m3"), 7, "no CUDA"),
            (("eval", self.folder / "no-run"), 4, "no-run"),
            (("trian", job), 2, "train"),
            (("train", job, "data.labels={}", "--dry-run"), 2, "labels"),
            (("summary", job, "data.train=[]"), 2, "--channels"),
        ]
        for words, status, needle in cases:
            done = self.tandem(*words, status=status)
            self.assertIn(needle, done.stderr, words)
            self.assertNotIn("terminate called", done.stderr)


if __name__ == "__main__":
    harness.main()
