"""The CUDA plug-in: how it is found, when it is refused and with which words, and that no program links CUDA.

Runs a copy of the program in a folder of its own, with a plug-in made here, or with the real one where it is built.
"""
import ctypes
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import unittest

import harness

REAL = pathlib.Path(harness.PROGRAM).parent / "libtandem_cuda.so"
NAME = REAL.name
FAKE_SOURCE = harness.SOURCE / "tests/cli/fake_cuda_plugin.cpp"
NO_DEVICE = "no CUDA device: "
HAS_DRIVER = os.path.exists("/dev/nvidiactl")


def compile_library(output, source, *flags):
    subprocess.run(["g++", "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{harness.SOURCE}", source, "-o", output, *flags],
                   check=True)


class PluginCase(harness.CommandLineTest):
    """A copy of the program where no plug-in lies beside it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        home = cls.folder / "bin"
        home.mkdir()
        cls.program = shutil.copy(harness.PROGRAM, home / "tandem")

    def run_program(self, *words, status=0, plugin=None, program=None, **environment):
        """`plugin`: TANDEM_PLUGIN_PATH. Returns the finished process."""
        clean = {k: v for k, v in os.environ.items() if k not in ("TANDEM_PLUGIN_PATH", "LD_LIBRARY_PATH")}
        if plugin is not None:
            clean["TANDEM_PLUGIN_PATH"] = str(plugin)
        done = subprocess.run([program or self.program, *map(str, words)], capture_output=True, text=True, timeout=300,
                              env={**clean, **environment}, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def doctor(self, **where):
        return json.loads(self.run_program("doctor", "--json", **where).stdout)

    def expect_refused(self, *parts, **where):
        """The CPU for device auto, exit 7 for device cuda, and a doctor that says the same line, which holds `parts`."""
        machine = self.doctor(**where)
        reason = machine["cuda"]["reason"]
        self.assertEqual((machine["device"], machine["cuda"]["usable"]), ("cpu", False))
        self.assertTrue(reason.startswith(NO_DEVICE), reason)
        self.assertNotIn("\n", reason)
        for part in parts:
            self.assertIn(part, reason)
        self.assertIn(f"\ndevice   cpu\ncuda     {reason}\n", self.run_program("doctor", **where).stdout)
        for device in ("cuda", "cuda:1"):
            run = self.folder / "refused"
            error = self.run_program("train", self.job(), f"device={device}", "--run-dir", run, status=7, **where).stderr
            self.assertIn(f"got {device}, expected auto or cpu: {reason}", error)
            self.assertFalse(run.exists())
        self.run_program("train", self.job(), "--dry-run", **where)
        return machine


class PluginTest(PluginCase):
    """With plug-ins made here."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fakes = cls.folder / "fakes"
        cls.fakes.mkdir()
        cls.fake = cls.fakes / NAME
        compile_library(cls.fake, FAKE_SOURCE)

    def test_no_program_links_a_cuda_library(self):
        programs = [p for p in pathlib.Path(harness.PROGRAM).parent.iterdir()
                    if p.is_file() and os.access(p, os.X_OK) and p.suffix != ".so"]
        self.assertIn(pathlib.Path(harness.PROGRAM), programs)
        for program in programs:
            dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
            self.assertTrue(any(name.startswith("libc.so") for name in needed), program)
            for name in needed:
                self.assertNotRegex(name, r"cuda|cudnn|cublas|nvrtc|nvidia|nccl|nvJitLink", program)

    def test_no_plugin(self):
        machine = self.expect_refused("no plug-in: libtandem_cuda.so is neither in TANDEM_PLUGIN_PATH")
        self.assertEqual((machine["cuda"]["plugin"], machine["cuda"]["devices"]), (None, []))

    def test_where_it_is_looked_for(self):
        self.assertEqual(self.doctor(plugin=self.fakes)["cuda"]["plugin"], str(self.fake))
        self.assertEqual(self.doctor(plugin=self.fake)["cuda"]["plugin"], str(self.fake))
        self.assertEqual(self.doctor(LD_LIBRARY_PATH=str(self.fakes))["cuda"]["plugin"], str(self.fake))
        home = self.folder / "another bin"
        home.mkdir()
        beside = shutil.copy(self.fake, home / NAME)
        program = shutil.copy(self.program, home / "tandem")
        link = self.folder / "link"
        link.symlink_to(program)
        for name in (program, link):
            self.assertEqual(self.doctor(program=name, LD_LIBRARY_PATH=str(self.fakes))["cuda"]["plugin"], str(beside))
        self.assertEqual(self.doctor(program=program, plugin=self.fakes)["cuda"]["plugin"], str(self.fake))
        done = self.run_program("doctor", "--json", program=program, plugin=self.folder / "nowhere")
        self.assertEqual(json.loads(done.stdout)["cuda"]["plugin"], str(beside))
        self.assertIn(f"TANDEM_PLUGIN_PATH: {self.folder / 'nowhere'} does not exist", done.stderr)

    def test_files_that_are_no_plugin(self):
        text = self.folder / "text" / NAME
        text.parent.mkdir()
        text.write_text("no shared object, and long enough to have room for the header of one " * 4, encoding="utf-8")
        self.expect_refused(f"the plug-in {text} cannot be loaded: invalid ELF header", plugin=text)
        text.write_bytes(b"")
        self.expect_refused("cannot be loaded: file too short", plugin=text)
        source = self.folder / "other.cpp"
        source.write_text('extern "C" int another_library() { return 1; }\n', encoding="utf-8")
        other = self.folder / "libother.so"
        compile_library(other, source)
        self.expect_refused(f"{other} is no plug-in of Tandem", "tandem_cuda_abi", plugin=other)
        needing = self.folder / "needing.so"
        compile_library(needing, FAKE_SOURCE, "-DFAKE_NEEDS", f"-L{self.folder}", "-lother")
        other.unlink()
        self.expect_refused(f"the plug-in {needing} needs a library that is missing: libother.so:", plugin=needing)

    def test_what_a_plugin_may_answer(self):
        fake = {"plugin": self.fakes}
        self.expect_refused("is of another build: got interface 0000000000000001, expected ", FAKE_ABI="1", **fake)
        self.expect_refused("no CUDA device: two lines, one", FAKE_WHY="two lines,\none\n", **fake)
        old = self.expect_refused("cuDNN 9.14.2 is too old, at least 9.15 is needed", "3-D", FAKE_CUDNN="91402", **fake)
        self.assertEqual(old["cuda"]["devices"][0]["cudnn"], "9.14.2")
        for text in ("no JSON", "{}", '{"name": 1}', "[]"):
            self.expect_refused(f"describes device 0 as '{text}'", FAKE_TEXT=text, **fake)

    def test_a_device_that_is_fine_waits_for_the_backend(self):
        fake = {"plugin": self.fakes}
        for cudnn in ("91500", "91900"):
            machine = self.expect_refused("Fake 1 is there, but the CUDA backend is not complete in this build",
                                          FAKE_CUDNN=cudnn, **fake)
        self.assertEqual(machine["cuda"]["devices"], [
            {"name": "Fake 1", "compute_capability": "9.0", "memory_bytes": 2**34, "multiprocessors": 132, "driver_cuda": "13.1",
             "runtime_cuda": "13.0", "cudnn": "9.19.0", "cublaslt": "13.1.0", "memory_check": "passed"}])
        self.assertIn("\ncuda:0   Fake 1, compute capability 9.0, 132 multiprocessors, 16.0 GiB; CUDA 13.0 (driver 13.1), cuDNN "
                      "9.19.0, cuBLASLt 13.1.0; memory check: passed\n", self.run_program("doctor", **fake).stdout)
        for variables, result in (({"FAKE_CORRUPT": "1"}, "1 MiB came back changed"),
                                  ({"FAKE_CREATE": "out of order"}, "[device] cuda:0: out of order")):
            self.assertEqual(self.doctor(**fake, **variables)["cuda"]["devices"][0]["memory_check"], result)

    def test_the_log_says_why_and_device_cpu_asks_nobody(self):
        mark = self.folder / "asked"
        job, fake = self.job(iterations=1), {"plugin": self.fakes, "FAKE_MARK": str(mark), "FAKE_CUDNN": "90100"}
        run = self.folder / "run on the cpu"
        self.run_program("train", job, "device=cpu", "--run-dir", run, **fake)
        self.assertFalse(mark.exists())
        self.assertNotIn("CUDA", (run / "log.txt").read_text(encoding="utf-8"))
        run = self.folder / "run anywhere"
        self.run_program("train", job, "--run-dir", run, **fake)
        self.assertTrue(mark.exists())
        self.assertIn("no CUDA device: cuDNN 9.1.0 is too old", (run / "log.txt").read_text(encoding="utf-8"))

    def test_words_that_name_no_device(self):
        for word in ("gpu", "cuda:", "cuda:-1", "cuda:x", "cuda1", "cuda:1x", "cuda:99999999999"):
            error = self.run_program("train", self.job(), f'device="{word}"', "--run-dir", self.folder / "none", status=2).stderr
            self.assertIn(f"got '{word}', expected auto, cpu, cuda or cuda:N", error)


class RealPluginTest(PluginCase):
    """The plug-in as it was built."""

    @classmethod
    def setUpClass(cls):
        if not REAL.exists():
            raise unittest.SkipTest("this build has no CUDA plug-in (TANDEM_CUDA)")
        super().setUpClass()

    def test_without_a_driver(self):
        if HAS_DRIVER:
            self.skipTest("this machine has an NVIDIA driver")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.doctor(plugin=REAL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)
        machine = self.expect_refused("there is no NVIDIA driver (libcuda.so.1", plugin=REAL)
        self.assertEqual(machine["cuda"]["plugin"], str(REAL))

    def test_with_a_driver_that_gives_no_device(self):
        driver = self.folder / "driver"
        driver.mkdir()
        compile_library(driver / "libcuda.so.1", harness.SOURCE / "tests/cli/fake_cuda_driver.cpp", "-Wl,-soname,libcuda.so.1")
        for version, error, reason in ((12040, 0, "the NVIDIA driver is too old: it knows CUDA 12.4, the plug-in needs CUDA 13."),
                                       (13000, 100, "the NVIDIA driver shows no device: "),
                                       (13000, 803, "the NVIDIA driver failed: system has unsupported display driver"),
                                       (13000, 0, "the NVIDIA driver failed: ")):
            self.expect_refused(reason, plugin=REAL, LD_LIBRARY_PATH=str(driver), FAKE_DRIVER=str(version), FAKE_INIT=str(error))

    def test_with_a_missing_dependency(self):
        for name in (b"libcudnn.so.9", b"libcublasLt.so.13"):
            broken = self.folder / "broken" / NAME
            broken.parent.mkdir(exist_ok=True)
            content = REAL.read_bytes()
            absent = name[:-5].replace(b"cu", b"xx") + name[-5:]
            self.assertEqual(content.count(b"\0" + name + b"\0"), 1)
            broken.write_bytes(content.replace(b"\0" + name + b"\0", b"\0" + absent + b"\0"))
            self.expect_refused(f"the plug-in {broken} needs a library that is missing: {absent.decode()}: cannot open",
                                plugin=broken)

    def test_it_shows_its_five_functions_alone_and_links_no_driver(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", REAL], capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(line.split()[-1] for line in symbols.splitlines()),
                         ["tandem_cuda_abi", "tandem_cuda_create", "tandem_cuda_describe", "tandem_cuda_destroy",
                          "tandem_cuda_probe"])
        dynamic = subprocess.run(["readelf", "-d", REAL], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(dynamic, r"NEEDED.*libcuda(rt)?\.so")

    def test_its_functions_take_any_buffer(self):
        if HAS_DRIVER:
            self.skipTest("this machine has an NVIDIA driver")
        done = subprocess.run([sys.executable, __file__, "call", REAL], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "fine\n"), done.stderr)


def call_functions(path):
    """In a process of its own: every function of the plug-in, without a driver."""
    library = ctypes.CDLL(path)
    library.tandem_cuda_describe.restype = ctypes.c_bool
    library.tandem_cuda_create.restype = ctypes.c_void_p
    for size in (0, 1, 2, 10, 512):
        for text in (ctypes.create_string_buffer(b"#" * 600), None):
            for answer, none in ((library.tandem_cuda_probe(text, size), 0), (library.tandem_cuda_describe(0, text, size), False),
                                 (library.tandem_cuda_describe(-1, text, size), False),
                                 (library.tandem_cuda_create(7, text, size), None)):
                assert answer == none, (size, answer)
            if text is not None:
                assert text.raw[size:600] == b"#" * (600 - size), size
                assert size == 0 or (text.value == b"there is no NVIDIA driver (libcuda.so.1 cannot be used)"[:size - 1]), text.value
    library.tandem_cuda_destroy(None)
    print("fine")


if __name__ == "__main__":
    if sys.argv[1:2] == ["call"]:
        call_functions(sys.argv[2])
    else:
        harness.main()
