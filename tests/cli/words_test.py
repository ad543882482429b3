"""What a newcomer stumbles over: hints, names of results, folders that are made, several inputs, and stops by Ctrl-C."""
import json
import re
import shutil
import signal
import time

import harness

RESULTS = ("evaluation.json", "evaluation.csv")


class WordsTest(harness.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "run"
        done = cls.tandem("train", cls.job(cls, compute="fp32", iterations=2, every=1), "--run-dir", cls.run_folder, "--no-progress")
        cls.trained = done.stderr

    def test_counts_have_their_singular(self):
        log = (self.run_folder / "log.txt").read_text(encoding="utf-8")
        summary = self.tandem("summary", self.job(), "train.batch_size=1").stdout
        plan = self.tandem("predict", self.run_folder, "--input", self.folder / "left.h5", "--dry-run", "patch.size=[32, 32, 32]",
                           "predict.mirror_tta=false")
        for text in (self.trained, log, summary, plan.stdout):
            self.assertNotRegex(text, r"\b1 [a-z ]*(cases|steps|threads|samples|windows|passes|channels|voxels)\b")
            self.assertNotIn("(s)", text)
        self.assertIn("1 training case, 6 classes; 2 steps of batch 2", self.trained)
        self.assertIn("(z, y, x), 6 classes, 1 window of [32, 32, 32], 1 forward pass each", plan.stdout)

    def test_the_log_names_each_level_once(self):
        run = self.folder / "levels"
        self.tandem("train", self.job(iterations=1), "--run-dir", run, "--no-progress")
        again = self.tandem("train", self.job(iterations=2), "--run-dir", run, "--resume", "auto", "--no-progress", "seed=8")
        self.assertIn("\nwarning: resume: seed: 8 here, 7 in the checkpoint", "\n" + again.stderr)
        log = (run / "log.txt").read_text(encoding="utf-8")
        self.assertRegex(log, r"Z warning resume: seed: 8 here")
        self.assertNotRegex(log, r"(warning|error):? \1")

    def test_a_run_without_loss_scale_says_so(self):
        self.assertRegex(self.trained, r"\nloss scale off\n")
        scores = json.loads(self.tandem("eval", self.run_folder, "--json").stdout)
        self.assertEqual(scores["loss_scale_history"], "off")

    def test_resume_auto_says_that_it_starts_anew(self):
        run = self.folder / "from nothing"
        job = self.job(iterations=1, every=1)
        first = self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress")
        self.assertIn(f"[run] {run}: --resume auto: got no checkpoint there: the run starts anew", first.stderr)
        again = self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress", "train.iterations=2")
        self.assertNotIn("anew", again.stderr)
        self.assertIn("resumed from step 1 of 2", again.stderr)

    def test_scores_of_other_cases_leave_the_runs_own_alone(self):
        run = self.folder / "scored"
        shutil.copytree(self.run_folder, run)
        self.tandem("eval", run)
        own = [(run / name).read_bytes() for name in RESULTS]
        left, right = self.folder / "left.h5", self.folder / "right.h5"
        other = self.tandem("eval", run, "--input", left)
        self.assertIn(f"written to {run}/evaluation-left.json and .csv", other.stdout)
        self.tandem("eval", run, f"data.validation=['{left}']")
        both = self.tandem("eval", run, "--input", left, right, "--json")
        self.assertIn(f"written to {run}/evaluation-left-and-1-more.json and .csv", both.stderr)
        self.assertEqual(len(json.loads(both.stdout)["cases"]), 2)
        self.assertEqual([(run / name).read_bytes() for name in RESULTS], own)

    def test_the_rows_of_summary_add_up(self):
        job = self.job()
        deep = ["model.features=[2, 4, 8]", "patch.size=[16, 16, 16]"]
        words = [["model.name=unet3d", *deep], ["model.name=unet3d", *deep, "model.deep_supervision=true"],
                 ["model.name=unet3d", *deep, "model.norm=batch", "model.dropout=0.5", "precision.compute=fp32"]]
        for overrides in words:
            text = self.tandem("summary", job, *overrides).stdout
            rows, total = text.split("\nparameters ")
            # module, op, output, then the parameters where the row has some.
            counts = [int(n) for n in re.findall(r"(?:\]|by this job) +(\d+)(?= |$)", rows, re.MULTILINE)]
            self.assertEqual(sum(counts), int(total.split()[0]), f"{overrides}\n{text}")
            self.assertIn("from the system", text)
        self.assertRegex(self.tandem("summary", job, *words[0]).stdout, r"head1 +not used +by this job +\d+")
        self.assertRegex(self.tandem("summary", job, *words[1]).stdout, r"head1 +conv .*in training only")
        self.assertIn("does not label the voxels", self.tandem("summary", job, "model.name=sample_cnn", status=2).stderr)

    def test_ckpt_says_what_it_looked_for(self):
        nothing, file = self.folder / "nothing", self.folder / "job.yaml"
        nothing.mkdir()
        self.job()
        for command in ("ls", "verify"):
            empty = self.tandem("ckpt", command, nothing, status=4)
            self.assertIn(f"{nothing}: got an empty folder, expected a run folder. Name the folder that", empty.stderr)
            above = self.tandem("ckpt", command, self.folder, status=4)
            self.assertRegex(above.stderr, r"got a folder of \d+ entries \(.*without step-\*\.h5 .* Name a run in it, such as .*\.")
        self.assertIn("got a file, expected a run folder. One file: `tandem ckpt verify", self.tandem("ckpt", "ls", file, status=4).stderr)
        self.assertIn("It cannot be repaired", self.tandem("ckpt", "verify", file, status=4).stderr)
        self.assertIn("got no such file or folder", self.tandem("ckpt", "verify", self.folder / "none", status=4).stderr)
        unsaved = self.folder / "unsaved"
        unsaved.mkdir()
        (unsaved / "run.lock").write_text("")
        self.assertIn("the run saved none yet", self.tandem("ckpt", "ls", unsaved).stdout)
        self.assertIn("The run saved none yet", self.tandem("ckpt", "verify", unsaved, status=4).stderr)

    def test_ckpt_says_what_to_do_about_damage(self):
        run = self.folder / "damaged"
        shutil.copytree(self.run_folder, run)
        newest = run / "step-000000002.h5"
        newest.write_bytes(newest.read_bytes()[:100])
        listed = self.tandem("ckpt", "ls", run).stdout
        self.assertIn("latest; damaged: torn: got 100 bytes, expected a header of 512\n", listed)
        verified = self.tandem("ckpt", "verify", run, status=4).stdout
        self.assertIn(f"{newest}: damaged: torn: got 100 bytes", verified)
        self.assertIn("1 intact, 1 damaged", verified)
        for text in (listed, verified):
            self.assertIn("--resume auto goes on from step 1", text)
            self.assertFalse([line for line in text.splitlines() if line.count(str(newest)) > 1])
        (run / "step-000000001.h5").unlink()
        self.assertIn("can be used: train anew", self.tandem("ckpt", "verify", run, status=4).stdout)

    def test_folders_of_outputs_are_made(self):
        left, new = self.folder / "left.h5", self.folder / "new folders"
        image = self.folder / "phantom.nii.gz"
        for words, file in (
                (("predict", self.run_folder, "--input", left, "--output", new / "a/b/p.nii.gz"), "a/b/p.nii.gz"),
                (("predict", self.run_folder, "--input", left, "--output", f"{new}/c/d/"), "c/d/left.nii.gz"),
                (("eval", self.run_folder, "--output", new / "e/f/scores"), "e/f/scores.csv"),
                (("report", self.run_folder, "--output", new / "g/h/report.html"), "g/h/report.html"),
                (("init", left, "--output", new / "i/j/job.yaml"), "i/j/job.yaml"),
                (("plan", left, "--output", new / "k/l/job.yaml"), "k/l/job.yaml"),
                (("data", "synth", new / "m/n/p.h5", "--size", 16), "m/n/p.h5"),
                (("data", "synth", new / "o/i.nii", "--label", new / "q/l.nii", "--size", 16), "q/l.nii"),
                (("data", "convert", image, "--output", new / "r/s/c.h5"), "r/s/c.h5")):
            self.tandem(*words)
            self.assertTrue((new / file).exists(), file)
            if "plan" not in words and "init" not in words:  # data of a job keep their own places
                blocked = [str(word).replace(f"{new}/", f"{left}/") for word in words]
                wrong = self.tandem(*blocked, status=6).stderr
                self.assertIn(": the folder cannot be made: ", wrong)

    def test_several_inputs(self):
        left, right = self.folder / "left.h5", self.folder / "right.h5"
        for name, words in (("words", (left, right)), ("twice", (left, "--input", right)), ("glob", (self.folder / "*.h5",))):
            output = self.folder / name
            self.tandem("predict", self.run_folder, "--input", *words, "--output", f"{output}/", "predict.overlap=0.25")
            self.assertEqual(sorted(p.name for p in output.iterdir()), ["left.nii.gz", "right.nii.gz"])
        cases = self.folder / "several"
        cases.mkdir()
        for file in (left, right):
            shutil.copy(file, cases)
        self.tandem("predict", self.run_folder, "--input", cases, "--output", f"{self.folder / 'of folder'}/")
        self.assertEqual(len(list((self.folder / "of folder").iterdir())), 2)
        wrong = self.tandem("predict", self.run_folder, "--input", left, self.folder / "none.h5", "--output", "x/", status=3)
        self.assertIn("none.h5: got no such file", wrong.stderr)
        lone = self.tandem("predict", self.run_folder, "--input", left, right, "--output", self.folder / "one.nii.gz", status=2)
        self.assertIn("End its name with '/'", lone.stderr)

    def test_data_without_labels_say_how_to_get_them(self):
        folder = self.folder / "unlabelled"
        folder.mkdir()
        image = folder / "a.nii.gz"
        shutil.copy(self.folder / "phantom.nii.gz", image)
        converted = self.tandem("data", "convert", image, "--output", folder / "a.h5").stdout
        self.assertIn("labels: none: enough to predict, not to train; --label FILE adds them", converted)
        self.assertIn("1 case without labels, such as", self.tandem("data", "check", image).stdout)
        labelled = self.tandem("data", "check", self.folder / "left.h5").stdout
        self.assertNotIn("without labels", labelled)
        job = self.job()
        hints = {image: "a_label.nii.gz or a_seg.nii.gz", folder / "a.h5": "tandem data convert IMAGE --label LABELS"}
        for file, hint in hints.items():
            words = (f"data.train=['{file}']", f"data.format={'nifti' if file == image else 'hdf5'}", "data.validation=[]")
            for done in (self.tandem("data", "check", job, *words, status=3).stdout,
                         self.tandem("train", job, *words, "--run-dir", self.folder / "none", status=3).stderr,
                         self.tandem("eval", self.run_folder, "--input", file, status=3).stderr,
                         self.tandem("init", file, "--output", self.folder / "no.yaml", status=3).stderr):
                self.assertIn(hint, done)
                self.assertIn("labels", done)
        # What the hint says is true.
        shutil.copy(self.folder / "phantom labels.nii.gz", folder / "a_label.nii.gz")
        self.tandem("data", "check", job, f"data.train=['{image}']", "data.format=nifti", "data.validation=[]")

    def stopped(self, words, ready=lambda: True):
        """The end of a command that gets SIGINT once it listens to it and `ready()`."""
        process = self.start(*words)
        for _ in range(6000):
            try:
                with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                    caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status.read()).group(1), 16)
            except OSError:
                caught = 0
            if (caught & (1 << (signal.SIGINT - 1)) and ready()) or process.poll() is not None:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def test_ctrl_c_in_predict_says_what_is_written(self):
        output = self.folder / "stopped"
        slow = ("predict.overlap=0.8", "predict.batch_size=1")
        words = ("predict", self.run_folder, "--input", self.folder / "left.h5", self.folder / "right.h5", "--output", f"{output}/")
        code, _, err = self.stopped((*words, *slow))
        self.assertEqual(code, 75, err)
        self.assertIn("stopping after this window; Ctrl-C again stops at once", err)
        self.assertIn(f"[predict] stopped by SIGINT: 0 of 2 predictions written, {output}/left.nii.gz not. Run it again.", err)
        self.assertEqual(list(output.iterdir()), [])
        code, out, err = self.stopped((*words, *slow), lambda: (output / "left.nii.gz").exists())
        self.assertEqual(code, 75, err)
        self.assertIn(f"1 of 2 predictions written, {output}/right.nii.gz not", err)
        self.assertIn("left.nii.gz", out)
        self.assertEqual([p.name for p in output.iterdir()], ["left.nii.gz"])

    def test_ctrl_c_in_eval_says_that_nothing_is_written(self):
        output = self.folder / "stopped scores"
        code, _, err = self.stopped(("eval", self.run_folder, "--output", output, "validate.overlap=0.8"))
        self.assertEqual(code, 75, err)
        self.assertIn("[eval] stopped by SIGINT after 0 of 1 case; nothing is written. Run it again", err)
        self.assertEqual(list(self.folder.glob("stopped scores*")), [])


if __name__ == "__main__":
    harness.main()
