"""`tandem sweep`, `tandem plan` and `--init-from`: runs one after the other, a failing one among them, and again."""
import csv
import re
import shutil
import signal
import time

from harness import CommandLineTest, main

LABELS = re.compile(r"label_(\d+)")


class SweepTest(CommandLineTest):
    def rows(self, folder):
        with open(folder / "sweep.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_a_failing_run_stops_no_other_and_is_tried_again(self):
        job, folder = self.job("sweep.yaml", compute="fp32", iterations=4), self.folder / "a sweep"
        missing = self.folder / "none.h5"  # the job is well formed, the run fails
        words = ("sweep", job, "validate.every=4", "--grid", f'data.train=[["{self.folder / "left.h5"}"], ["{missing}"]]',
                 "--run", "optimizer.lr=1e-2", "--sweep-dir", folder)
        listed = self.tandem(*words, "--dry-run").stdout
        self.assertIn("003: optimizer.lr=1e-2", listed)
        self.assertFalse(folder.exists())
        self.assertRegex(self.tandem(*words, status=3).stdout, "002: data.train=.*: exit code 3")
        rows = self.rows(folder)
        self.assertEqual([row["status"] for row in rows], ["done", "failed", "done"])
        self.assertEqual([row["optimizer.lr"] for row in rows], ["", "", "1e-2"])
        self.assertEqual([row["step"] for row in rows], ["4", "0", "4"])
        self.assertTrue(0 <= float(rows[0]["best_dice"]) <= 1)
        self.assertIn("no such file", (folder / "002.out").read_text(encoding="utf-8"))
        shutil.copy(self.folder / "left.h5", missing)
        again = self.tandem(*words).stdout
        missing.unlink()
        self.assertEqual(again.count("done before"), 2)
        self.assertEqual([row["status"] for row in self.rows(folder)], ["done"] * 3)

    def test_a_stopped_sweep_goes_on(self):
        job, folder = self.job("stopped.yaml", compute="fp32", iterations=400, every=50), self.folder / "stopped sweep"
        words = ("sweep", job, "--grid", "seed=[1, 2]", "--sweep-dir", folder)
        sweep = self.start(*words)
        while not (folder / "001" / "metrics.jsonl").exists() and sweep.poll() is None:
            time.sleep(0.01)
        sweep.send_signal(signal.SIGTERM)
        text = sweep.communicate(timeout=300)[1]
        self.assertEqual(sweep.returncode, 75, text)
        self.assertIn("Go on with the same command", text)
        self.assertEqual([row["status"] for row in self.rows(folder)], ["stopped"])
        self.assertIn("a checkpoint is saved", (folder / "001.out").read_text(encoding="utf-8"))
        self.tandem(*words)
        self.assertEqual([(row["status"], row["step"]) for row in self.rows(folder)], [("done", "400")] * 2)
        self.assertIn("resumed from step", (folder / "001.out").read_text(encoding="utf-8"))

    def test_a_wrong_key_is_found_before_the_first_run(self):
        folder = self.folder / "wrong"
        done = self.tandem("sweep", self.job("wrong.yaml"), "--grid", "optimizer.lr=[1e-3, -1]", "--sweep-dir", folder, status=2)
        self.assertIn("optimizer.lr", done.stderr)
        self.assertFalse(folder.exists())

    def test_a_plan_is_a_job(self):
        job = self.folder / "planned.yaml"
        done = self.tandem("plan", self.folder / "left.h5", self.folder / "right.h5", "--memory", "1GiB", "--output", job)
        self.assertIn("2 cases", done.stdout)
        self.tandem("config", "check", job)
        text = job.read_text(encoding="utf-8")
        self.assertEqual(len(LABELS.findall(text)), 10)
        self.assertIn("split: {folds: 2, fold: 0}", text)
        self.tandem("plan", self.folder / "left.h5", "--output", job, status=2)  # exists

    def test_weights_of_another_run(self):
        first = self.folder / "first"
        job = self.job("init.yaml", compute="fp32", iterations=2)
        self.tandem("train", job, "--run-dir", first, "--no-progress")
        done = self.tandem("train", job, "--run-dir", self.folder / "same", "--init-from", first, "--no-progress", "train.iterations=1")
        self.assertRegex(done.stderr, r"weights of .*step-000000002\.h5: (\d+) of \1 tensors taken")
        wider = self.tandem("train", job, "--run-dir", self.folder / "wider", "--init-from", first, "--no-progress",
                            "train.iterations=1", "model.features=[4, 8, 16]", "patch.size=[16, 16, 16]")
        self.assertIn("not in the checkpoint, left as initialised: enc2", wider.stderr)
        strict = self.tandem("train", job, "--run-dir", self.folder / "strict", "--init-from", first, "--no-progress", "train.iterations=1",
                             "model.features=[4, 8, 16]", "patch.size=[16, 16, 16]", "model.init_strict=true", status=4)
        self.assertIn("model.init_strict: false", strict.stderr)


if __name__ == "__main__":
    main()
