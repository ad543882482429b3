"""What the program says when it is asked for something that it cannot or should not do, and how it answers signals."""
import signal
import struct
import time

import harness


class AnswersTest(harness.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "run"
        cls.tandem("train", cls.job(cls, iterations=4, every=4), "--run-dir", cls.run_folder, "--no-progress")

    def test_keys_of_the_model_belong_to_the_run(self):
        image, output = self.folder / "phantom.nii.gz", self.folder / "refused.nii.gz"
        for words in (("eval", self.run_folder), ("predict", self.run_folder, "--input", image, "--output", output)):
            for override in ("model.features=[4, 16]", "data.labels={background: 0, hip: 77}"):
                text = self.tandem(*words, override, status=2).stderr
                self.assertIn("belongs to the checkpoint's run", text)
                self.assertIn("config.resolved.yaml", text)
                self.assertEqual(text.strip().count("\n"), 0, text)
        self.assertFalse(output.exists())
        self.tandem("eval", self.run_folder, "validate.overlap=0.25")

    def test_a_job_is_no_checkpoint(self):
        job = self.job()
        text = self.tandem("eval", job, status=2).stderr
        self.assertIn("got a job file, expected a run folder or a checkpoint (.h5)", text)
        self.assertIn(f"tandem train {job}", text)

    def test_other_voxel_sizes_than_those_of_training_are_named(self):
        image, fine = self.folder / "plain.nii", self.folder / "fine.nii"
        self.tandem("data", "synth", image, "--label", self.folder / "plain labels.nii", "--size", 32)
        header = bytearray(image.read_bytes())
        struct.pack_into("<3f", header, 80, 1.5, 1.5, 1.5)  # pixdim
        for row in range(3):  # srow: 3 mm become 1.5 mm
            old = struct.unpack_from("<4f", header, 280 + 16 * row)
            struct.pack_into("<4f", header, 280 + 16 * row, *(value / 2 for value in old))
        fine.write_bytes(header)
        output = self.folder / "sized.nii.gz"
        words = ("predict", self.run_folder, "--input", fine, "--output", output, "--overwrite")
        text = self.tandem(*words).stderr
        self.assertIn("voxels of [1.5, 1.5, 1.5] mm (z, y, x), the training cases have [3, 3, 3] mm", text)
        self.assertIn("data.spacing=[3, 3, 3]", text)
        self.assertNotIn("voxels of", self.tandem(*words, "data.spacing=[3, 3, 3]").stderr)
        same = ("predict", self.run_folder, "--input", image, "--output", output, "--overwrite")
        self.assertNotIn("voxels of", self.tandem(*same).stderr)

    def test_a_flip_done_on_purpose_is_no_fault(self):
        done = self.tandem("data", "check", self.folder / "left.h5", self.folder / "right.h5")
        self.assertNotIn("orientation", done.stdout)

    def test_warnings_alone_exit_0(self):
        # Mirroring across the sides that labels name is a warning.
        flat = self.folder / "flat.h5"
        self.tandem("data", "synth", flat, "--size", 8)
        copies = [self.folder / "twice a.h5", self.folder / "twice b.h5"]
        for copy in copies:
            copy.write_bytes(flat.read_bytes())
        done = self.tandem("data", "check", *copies)
        self.assertIn("0 errors", done.stdout)
        self.assertNotIn("0 warnings", done.stdout)
        self.tandem("data", "check", *copies, "--strict", status=3)

    def test_what_is_written_is_counted(self):
        done = self.tandem("data", "synth", self.folder / "counted.h5", "--size", 16)
        line = next(line for line in done.stdout.splitlines() if line.startswith("labels: 0 ("))
        self.assertEqual(sum(int(part.split("(")[1].split()[0]) for part in line.split(",")), 16 ** 3)
        done = self.tandem("data", "convert", self.folder / "phantom.nii.gz", "--label", self.folder / "phantom labels.nii.gz",
                           "--output", self.folder / "converted.h5")
        line = next(line for line in done.stdout.splitlines() if line.startswith("labels: 0 ("))
        self.assertIn("77 (", line)
        self.assertEqual(sum(int(part.split("(")[1].split()[0]) for part in line.split(",")), 32 ** 3)

    def test_all_that_differs_is_listed(self):
        other = self.folder / "other"
        self.tandem("train", self.job(iterations=4, every=4), "--run-dir", other, "--no-progress", "seed=8")
        text = self.tandem("ckpt", "diff", self.run_folder, other, status=4).stdout
        for name in ("model/enc0.conv1.weight", "model/head0.weight"):
            self.assertRegex(text, rf"{name}: \d+ of \d+ values differ by up to ")
        self.assertRegex(text, r"(?m)^\d+ differences$")

    def test_the_log_file_has_what_was_said_before_the_folder(self):
        run = self.folder / "warned"
        job = self.job("warned.yaml", iterations=2, every=2)
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        done = self.tandem("train", job, "--run-dir", run, "--no-progress", "--resume", "auto", "train.iterations=3",
                           "optimizer.lr=1.0e-3")
        self.assertIn("resume: optimizer.lr", done.stderr)
        log = (run / "log.txt").read_text(encoding="utf-8")
        self.assertIn("warning resume: optimizer.lr", log)
        self.assertEqual(log.count("resume: optimizer.lr"), 1)

    def test_a_single_voxel_at_the_bottom_is_refused(self):
        text = self.tandem("train", self.job(), "--run-dir", self.folder / "never", "patch.size=[2, 2, 2]", status=2).stderr
        self.assertIn("one voxel at the coarsest stage", text)
        self.assertIn("model.norm: batch", text)
        self.assertFalse((self.folder / "never").exists())

    def test_ctrl_c_is_answered_at_once_and_twice_ends_at_once(self):
        # A step of seconds: the answer comes in the middle of it.
        process = self.start("train", self.job("long.yaml", compute="fp32"), "--run-dir", self.folder / "long", "--no-progress",
                             "model.features=[64, 128]", "patch.size=[32, 32, 16]", "train.batch_size=16")
        for cleanup in (process.stderr.close, process.stdout.close, process.wait, process.kill):  # the last one first
            self.addCleanup(cleanup)
        said = []

        def wait_for(text):
            for line in process.stderr:
                said.append(line)
                if text in line:
                    return
            self.fail(f"'{text}' never came:\n{''.join(said)}")

        wait_for("run folder")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        wait_for("stopping after this step; Ctrl-C again stops at once")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), 130, "".join(said))


if __name__ == "__main__":
    harness.main()
