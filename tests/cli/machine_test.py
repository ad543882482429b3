"""What a machine does to a run: power cuts, the out-of-memory killer, limits that fall, clocks that jump, threads."""
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import harness

CLOCK = pathlib.Path(harness.PROGRAM).parent / "libjumping_clock.so"


class ControlGroup:
    """A control group for memory below that of this process, where the system allows one."""

    def __init__(self):
        self.path = None
        for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            root = pathlib.Path("/sys/fs/cgroup") / ("memory" if controllers else "")
            path = pathlib.Path(f"{root}/{place}") / f"tandem-test-{os.getpid()}"
            try:
                path.mkdir()
            except OSError:
                continue
            self.limit = path / ("memory.limit_in_bytes" if controllers else "memory.max")
            self.used = path / ("memory.usage_in_bytes" if controllers else "memory.current")
            self.events = path / ("memory.oom_control" if controllers else "memory.events")
            if self.limit.exists():
                self.path = path
                return
            path.rmdir()

    def join(self):
        """In a child: it and its children belong to the group, and it is the one to be killed there."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def leave_only(self, more):
        self.limit.write_text(str(int(self.used.read_text(encoding="ascii")) + more), encoding="ascii")

    def lift(self):
        self.limit.write_text("-1" if self.limit.name == "memory.limit_in_bytes" else "max", encoding="ascii")

    def kills(self):
        return int(re.search(r"^oom_kill (\d+)", self.events.read_text(encoding="ascii"), re.M)[1])

    def remove(self):
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:  # its last process is not gone yet
                time.sleep(0.05)


class LoopDisk:
    """An ext4 file system in a file: a copy of the file is what a disk holds when the power fails."""

    def __init__(self, image, folder):
        self.image, self.folder = image, folder
        folder.mkdir()

    def make(self):
        with open(self.image, "wb") as file:
            file.truncate(160 << 20)
        return self.call("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image)

    def mount(self):
        # Nothing is written for five minutes but what is fsynced.
        return self.call("mount", "-o", "loop,noauto_da_alloc,commit=300", self.image, self.folder)

    def unmount(self):
        self.call("umount", self.folder)

    @staticmethod
    def call(*words):
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        try:
            return subprocess.run([shutil.which(words[0], path=path) or words[0], *map(str, words[1:])], capture_output=True,
                                  check=False).returncode == 0
        except OSError:
            return False


class MachineTest(harness.CommandLineTest):
    def wait_for(self, run, step, process):
        """Until a step beyond `step` is logged: each checkpoint up to `step` is finished then."""
        while process.poll() is None and self.logged(run) <= step:
            time.sleep(0.002)
        self.assertIsNone(process.poll(), "the run ended early")

    def logged(self, run):
        path = run / "metrics.jsonl"
        steps = re.findall(r'"kind": "step", "step": (\d+)', path.read_text(encoding="utf-8")) if path.exists() else []
        return int(steps[-1]) if steps else 0

    @staticmethod
    def halt(process):
        """Stops it, and waits until none of its threads is inside a call to the disk."""
        process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{process.pid}/task")
        for _ in range(10000):
            states = [(task / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] for task in tasks.iterdir()]
            if set(states) == {"T"}:
                return
            time.sleep(0.001)

    def newest(self, run):
        return max((int(p.stem.split("-")[1]) for p in run.glob("step-*.h5")), default=0)

    def expect_rest(self, job, run, whole, *words):
        """The run goes on to its end, to the bits of `whole`, each step once in metrics.jsonl."""
        self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress", *words)
        self.assertIn("identical", self.tandem("ckpt", "diff", whole, run).stdout)
        for folder in (whole, run):
            steps = [line["step"] for line in self.metrics(folder) if line["kind"] == "step"]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_six_power_cuts_lose_no_finished_checkpoint(self):
        """ext4 without its help for careless programs: the image of the disk is copied while the run is halted."""
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        draw = random.Random(seed)
        job = self.job("power.yaml", iterations=120, every=4)
        whole = self.folder / "power whole"
        self.tandem("train", job, "--run-dir", whole, "--no-progress")
        disk = LoopDisk(self.folder / "disk.img", self.folder / "disk")
        if not (disk.make() and disk.mount()):
            self.skipTest("no file system can be made and mounted here")
        self.addCleanup(disk.unmount)
        for cut in range(2 if harness.is_sanitized() else 6):
            run = disk.folder / f"run {cut}"
            process = self.start("train", job, "--run-dir", run, "--no-progress")
            self.wait_for(run, draw.randrange(4, 90), process)
            time.sleep(draw.uniform(0, 0.02))
            copy = LoopDisk(self.folder / f"cut {cut}.img", self.folder / f"cut {cut}")
            try:
                self.halt(process)
                finished = (self.logged(run) - 1) // 4 * 4
                shutil.copyfile(disk.image, copy.image)
            finally:
                process.kill()
                process.communicate()
            self.assertGreater(finished, 0)
            self.assertTrue(copy.mount())
            try:
                left = copy.folder / run.name
                self.assertGreaterEqual(self.newest(left), finished)
                self.assertIn(f"{self.newest(left):09d}.h5: intact", self.tandem("ckpt", "verify", left).stdout)
                self.expect_rest(job, left, whole)
            finally:
                copy.unmount()
                copy.image.unlink()

    def test_a_run_that_the_kernel_kills_for_memory_goes_on(self):
        group = ControlGroup()
        if group.path is None:
            self.skipTest("no control group for memory can be made here")
        self.addCleanup(group.remove)
        job = self.job("killed.yaml", iterations=120, every=4)
        whole, run = self.folder / "killed whole", self.folder / "killed"
        self.tandem("train", job, "--run-dir", whole, "--no-progress")

        def join():
            group.join()
            pathlib.Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        for kill in range(1 if harness.is_sanitized() else 3):
            group.lift()
            process = subprocess.Popen([harness.PROGRAM, "train", job, "--run-dir", run, "--resume", "auto", "--no-progress"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=join)
            self.wait_for(run, self.newest(run) + 5, process)
            before = group.kills()
            group.leave_only(32 << 20)
            # A neighbour takes what is left: the kernel kills the one that its score names.
            neighbour = subprocess.Popen([sys.executable, "-c", "taken = b'x' * (96 << 20); input()"], stdin=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, preexec_fn=group.join)
            try:
                process.communicate(timeout=120)
            finally:
                neighbour.kill()
                neighbour.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
            self.assertGreater(group.kills(), before)
            self.assertIn(" 0 damaged", self.tandem("ckpt", "verify", run).stdout, kill)
        self.expect_rest(job, run, whole)

    def test_a_limit_that_falls_during_the_run_ends_it_cleanly(self):
        """From some moment on the address space may grow by some KiB only: exit 6 in one line, or none was needed."""
        if harness.is_sanitized():
            self.skipTest("sanitizers map terabytes")
        job = self.job("falling.yaml", iterations=60, every=4)
        words = ("validate.every=6", "data.workers=1")
        whole = self.folder / "falling whole"
        self.tandem("train", job, "--run-dir", whole, "--no-progress", *words)
        ended = 0
        for step, more in ((1, 128), (2, 256), (7, 128), (13, 512), (17, 1024), (29, 2048)):
            run = self.folder / f"falling {step}"
            process = self.start("train", job, "--run-dir", run, "--no-progress", *words)
            self.wait_for(run, step, process)
            pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[0])
            most = pages * resource.getpagesize() + (more << 10)
            resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))
            _, text = process.communicate(timeout=120)
            self.assertIn(process.returncode, (0, 6), f"step {step}, {more} KiB: {text}")
            if process.returncode == 6:
                ended += 1
                self.assertRegex(text, "error: .*memory")
            if self.newest(run) > 0:
                self.assertIn(" 0 damaged", self.tandem("ckpt", "verify", run).stdout)
            self.expect_rest(job, run, whole, *words)
        print(f"{ended} of 6 runs ended")
        self.assertGreater(ended, 0)

    def preloadable_clock(self):
        """A copy of CLOCK in a folder whose path LD_PRELOAD can hold: blanks and colons end a name there."""
        self.assertTrue(CLOCK.exists(), "it is built with the tests")
        folder = tempfile.mkdtemp(prefix="tandem-clock-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        return shutil.copy(CLOCK, folder)

    def test_a_clock_that_jumps_disturbs_nothing(self):
        """Forward, back, to and fro, before 1970: bits, times, order of files and of resuming stay as they are."""
        if harness.is_sanitized():
            self.skipTest("a preloaded library comes before the sanitizer's")
        clock = self.preloadable_clock()
        job = self.job("clock.yaml", iterations=6, every=2)
        words = ("--no-progress", "train.max_minutes=60", "validate.every=2", "checkpoint.keep_last=9", "data.workers=1",
                 "data.cache=disk", "data.cache_bytes=1")
        plain = self.folder / "clock plain"
        self.tandem("train", job, "--run-dir", plain, *words)
        days = 86400
        for first, second in (("0,{0}", "{0}"), ("0,-{0}", "-{0}"), ("{0},-{0}", "-{0},{0}"), ("{1}", "-{1}")):
            run = self.folder / f"clock {first}"
            for jumps in (first, second):
                environment = {"LD_PRELOAD": clock, "TEST_CLOCK_JUMPS": jumps.format(400 * days, 25000 * days)}
                self.tandem("train", job, "--run-dir", run, *words, "--resume", "auto", environment=environment)
                events = sorted(run.rglob("events.out.tfevents.*"))
                if jumps == first:
                    earlier = events
                    for step, name in ((2, 4e9), (4, 0)):  # the times of files say nothing
                        os.utime(run / f"step-{step:09d}.h5", (name, name))
                    (run / "step-000000006.h5").unlink()
            self.assertEqual(events[:len(earlier)], earlier, "the newest events come last")
            self.assertEqual(len(events), len(earlier) + 1)
            self.assertIn("resumed from step 4", (run / "log.txt").read_text(encoding="utf-8"))
            lines = self.metrics(run)
            self.assertEqual([line["step"] for line in lines if line["kind"] == "step"], [1, 2, 3, 4, 5, 6])
            times = [(k, v) for line in lines for k, v in line.items()
                     if k.endswith(("_ms", "seconds")) and not isinstance(v, dict)]
            self.assertGreater(len(times), 12)
            for key, value in times:
                self.assertTrue(0 <= value < 600_000, (key, value))
            self.assertIn("identical", self.tandem("ckpt", "diff", plain, run).stdout)

    def test_the_clock_of_these_tests_jumps(self):
        if harness.is_sanitized():
            self.skipTest("a preloaded library comes before the sanitizer's")
        text = "import time; m = time.monotonic(); a = time.time(); b = time.time(); print(b - a, time.monotonic() - m)"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True,
                              env={**os.environ, "LD_PRELOAD": self.preloadable_clock(), "TEST_CLOCK_JUMPS": "1000,3000"})
        jump, steady = map(float, done.stdout.split())
        self.assertAlmostEqual(abs(jump), 2000, delta=100)
        self.assertTrue(0 <= steady < 100)

    def test_one_thread_against_two(self):
        """16-bit compute on own kernels: the same bits, whatever the workers. Elsewhere: nearly, and resuming says so."""
        for compute in ("fp16", "bf16", "fp32"):
            runs = []
            for threads, workers in ((1, 0), (2, 1), (2, 4)):
                runs.append(self.folder / f"{compute} {threads} threads {workers} workers")
                self.tandem("train", self.job(f"{compute}.yaml", compute=compute, iterations=5, every=5, threads=threads),
                            "--run-dir", runs[-1], "--no-progress", f"data.workers={workers}",
                            environment={"TANDEM_ISA": "avx2"})
            self.assertIn("identical", self.tandem("ckpt", "diff", runs[1], runs[2]).stdout)
            if compute != "fp32":
                self.assertIn("identical", self.tandem("ckpt", "diff", runs[0], runs[1]).stdout, compute)
            losses = [[line["loss"] for line in self.metrics(run) if line["kind"] == "step"] for run in runs]
            for a, b in zip(losses[0], losses[1], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4, msg=compute)
            done = self.tandem("train", self.job("more.yaml", compute=compute, iterations=6, threads=2), "--run-dir", runs[0],
                               "--resume", "auto", "--no-progress", environment={"TANDEM_ISA": "avx2"})
            self.assertIn("threads: checkpoint 1, now 2: the result will not have the same bits", done.stderr)


if __name__ == "__main__":
    harness.main()
