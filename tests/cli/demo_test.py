"""demo.sh without a network: the generated phantom, and its end below the required Dice. Its parts that install, build and
fetch are replaced; the job is made tiny. And setup.sh, when all is there.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness

TINY = ("train.iterations=3", "train.batch_size=1", "model.features=[4, 8]", "patch.size=[32, 32, 32]", "validate.every=0",
        "validate.overlap=0", "predict.overlap=0", "predict.mirror_tta=false", "threads=1")


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)


class DemoTest(harness.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.repo = cls.folder / "the repository"
        script(cls.repo / "setup.sh", "exit 0\n")
        script(cls.repo / "tools/fetch_ct.sh", "exit 3\n")  # not reachable
        script(cls.repo / "path/cmake", "exit 0\n")
        (cls.repo / "build/bin").mkdir(parents=True)
        (cls.repo / "build/build.ninja").touch()
        (cls.repo / "build/bin/tandem").symlink_to(harness.PROGRAM)
        (cls.repo / "configs").mkdir()
        shutil.copy(harness.SOURCE / "configs/unet3d_ct.yaml", cls.repo / "configs")

    def demo(self, required=None):
        text = (harness.SOURCE / "demo.sh").read_text(encoding="utf-8")
        if required is not None:
            self.assertEqual(text.count("required_dice=0.85"), 1)
            text = text.replace("required_dice=0.85", f"required_dice={required}")
        demo = self.repo / "demo.sh"
        demo.write_text(text, encoding="utf-8")
        demo.chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.repo / 'path'}:{os.environ['PATH']}"}
        return subprocess.run([demo, *TINY], capture_output=True, text=True, timeout=600, env=environment, check=False,
                              cwd=self.folder)

    def test_the_phantom_stands_in_and_a_low_dice_fails(self):
        done = self.demo()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no network: using a generated phantom instead of the CT", done.stdout)
        self.assertIn("agreement with the drawing of a generated phantom", done.stdout)
        self.assertIn("(required 0.85)", done.stdout)
        self.assertRegex(done.stderr, r"demo: FAILED: mean Dice 0\.\d+ is below 0\.85")
        self.assertNotIn("demo: done", done.stdout)
        self.assertTrue((self.repo / "runs/demo/prediction.nii.gz").exists())

    def test_enough_dice_is_a_success(self):
        done = self.demo(required=0.0)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.endswith("demo: done\n"), done.stdout)
        for line in (r"  hip +(0\.\d{3}|absent)", r"  gluteus_maximus +(0|absent)", r"  gluteus_medius +(0|absent)",
                     r"  iliopsoas +(0|absent)", r"  autochthon +(0|absent)", r"mean Dice +0\.\d{3} +\(required 0\.0\)",
                     r"time +training \d+ s, all \d+ s", r"loss scale +65536; 0 skipped", r"data +phantom, configs/data/",
                     r"run folder +runs/demo/", r"prediction +runs/demo/prediction\.nii\.gz"):
            self.assertRegex(done.stdout, "(?m)^" + line)

    def test_an_unexpected_failure_of_the_download_is_not_replaced_by_the_phantom(self):
        script(self.repo / "tools/fetch_ct.sh", "exit 4\n")
        try:
            done = self.demo()
        finally:
            script(self.repo / "tools/fetch_ct.sh", "exit 3\n")
        self.assertEqual(done.returncode, 4)
        self.assertNotIn("phantom", done.stdout)


class FetchTest(unittest.TestCase):
    """tools/fetch_ct.sh with a pip that does what the test says."""

    def fetch(self, pip):
        with tempfile.TemporaryDirectory(prefix="tandem fetch ") as folder:
            repo = pathlib.Path(folder)
            (repo / "tools").mkdir()
            shutil.copy(harness.SOURCE / "tools/fetch_ct.sh", repo / "tools")
            script(repo / ".deps/fetch/bin/python", f'[ "$1" = -c ] && exit 0\n{pip}\n')
            done = subprocess.run([repo / "tools/fetch_ct.sh", repo / "data"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(sorted(path.name for path in (repo / "data").iterdir()), [], "nothing is left")
            return done.returncode, done.stderr

    def test_an_index_out_of_reach_is_3(self):
        code, text = self.fetch("echo 'Failed to establish a new connection: Connection refused' >&2; exit 1")
        self.assertEqual(code, 3)
        self.assertIn("the package index could not be reached", text)

    def test_a_full_disk_is_4(self):
        code, text = self.fetch("echo 'Connection broken: [Errno 28] No space left on device' >&2; exit 1")
        self.assertEqual(code, 4)
        self.assertIn("No space left", text)

    def test_another_package_is_4(self):
        code, text = self.fetch('while [ "$1" != --dest ]; do shift; done; echo other > "$2/totalsegmentator-2.18.0.tar.gz"')
        self.assertEqual(code, 4)
        self.assertIn("has another digest than expected", text)


class SetupTest(unittest.TestCase):
    def test_a_second_setup_says_and_changes_nothing(self):
        marks = [harness.SOURCE / ".deps" / name / ".requirements" for name in ("onednn", "python")]
        if not all(mark.exists() for mark in marks) or shutil.which("dpkg-query") is None:
            self.skipTest("setup.sh --tests has not made .deps here")
        before = [pathlib.Path(mark).stat().st_mtime_ns for mark in marks]
        done = subprocess.run([harness.SOURCE / "setup.sh", "--tests"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual([pathlib.Path(mark).stat().st_mtime_ns for mark in marks], before)


if __name__ == "__main__":
    harness.main()
