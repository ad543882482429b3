"""What the command-line tests share: a small phantom job in a folder whose path has spaces, and ways to run `tandem`.

Each test file is run by CTest as `python3 FILE`; TANDEM_PROGRAM names the program under test.
"""
import array
import gzip
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["TANDEM_PROGRAM"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
JOB = """\
name: small
seed: 7
threads: {threads}
precision: {{compute: {compute}}}
data:
  train: [left.h5]
  validation: [right.h5]
  labels: {{background: 0, hip: [77, 78], gluteus_maximus: [80, 81], gluteus_medius: [82, 83], iliopsoas: [88, 89], autochthon: [86, 87]}}
  normalize: [{{channel: 0, kind: zscore, clip: [-1000, 1000]}}]
augment: {{mirror: [y], noise_std: 0.05, brightness: [0.9, 1.1]}}
model: {{name: unet3d, features: [4, 8]}}
patch: {{size: [8, 8, 8], foreground: 0.75}}
optimizer: {{name: adamw, lr: 2.0e-3, weight_decay: 1.0e-2}}
schedule: {{name: poly, warmup: 5}}
train: {{batch_size: 2, iterations: {iterations}, clip_norm: 12}}
validate: {{every: 1000000}}
checkpoint: {{every: {every}, keep_last: 2, verify: false}}
log: {{every: 1}}
"""


class CommandLineTest(unittest.TestCase):
    """A temporary folder with left.h5, right.h5 and job.yaml."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem test "))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        image, label = cls.folder / "phantom.nii.gz", cls.folder / "phantom labels.nii.gz"
        cls.tandem("data", "synth", image, "--label", label, "--size", 32)
        cls.tandem("data", "convert", image, "--label", label, "--region", "x=0:16", "--output", cls.folder / "left.h5")
        cls.tandem("data", "convert", image, "--label", label, "--region", "x=16:32", "--flip", "x", "--output",
                   cls.folder / "right.h5")

    @classmethod
    def tandem(cls, *words, status=0, environment=None):
        """Runs to the end; returns the finished process. `status` is the exit code that must come."""
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300,
                              env={**os.environ, **(environment or {})}, check=False)
        if done.returncode != status:
            raise AssertionError(f"{words}: exit {done.returncode}, expected {status}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *words):
        return subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def job(self, name="job.yaml", compute="fp16", iterations=30, every=5, threads=1):
        path = self.folder / name
        path.write_text(JOB.format(compute=compute, iterations=iterations, every=every, threads=threads), encoding="utf-8")
        return path

    def metrics(self, run):
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def python_with(package):
    """The Python of ./setup.sh --tests, where it has `package`; else the test is skipped, or fails where CI=true."""
    folder = SOURCE / ".deps/python"
    if (folder / "bin/python").exists() and list(folder.glob(f"lib/*/site-packages/{package}")):
        return folder / "bin/python"
    missing = f"no {package} in .deps/python: run ./setup.sh --tests"
    if os.environ.get("CI") == "true":
        raise AssertionError(missing)
    raise unittest.SkipTest(missing)


def nifti(path):
    """Sizes and values of a .nii.gz file of int16, int32, uint8, float32 or uint16, little-endian."""
    data = gzip.decompress(path.read_bytes())
    rank, *sizes = struct.unpack_from("<8h", data, 40)
    code = {2: "B", 4: "h", 8: "i", 16: "f", 512: "H"}[struct.unpack_from("<h", data, 70)[0]]
    offset = int(struct.unpack_from("<f", data, 108)[0])
    return tuple(sizes[:rank]), array.array(code, data[offset:])


def is_sanitized():
    return b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()


def main():
    # A test program that is itself run with signals ignored would pass that on to its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result = unittest.main(argv=[sys.argv[0], "-v"], exit=False).result
    for test, reason in result.skipped:
        print(f"skipped: {test.id()}: {reason}", flush=True)
    sys.exit(0 if result.wasSuccessful() else 1)
