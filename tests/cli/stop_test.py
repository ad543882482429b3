"""Signals at any moment, resuming from any place, and the memory and the numbers of a run that goes on for long."""
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness


# A stop takes one step (or window, or case that is read) and this, which is some fifty times what it takes here.
BOUND_S = 20 if harness.is_sanitized() else 2


class StopTest(harness.CommandLineTest):
    def stop(self, process, longest_step_s=0.0):
        """SIGTERM; what the process says until its end, which comes within the bound."""
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - started, BOUND_S + longest_step_s, text)
        return text

    def test_a_stop_is_seen_while_cases_are_read(self):
        folder = self.folder / "many"
        folder.mkdir()
        for i in range(1500):
            shutil.copyfile(self.folder / "left.h5", folder / f"{i}.h5")
        job = self.job("many.yaml", iterations=4, every=2)
        run = self.folder / "many run"
        many = f"['{folder}/*.h5']"
        for words in ((f"data.train={many}",), (f"data.train={many}", "data.normalize=[{channel: 0, kind: ct}]"),
                      (f"data.validation={many}",)):
            process = self.start("train", job, "--run-dir", run, "--no-progress", *words)
            while process.poll() is None and not self.catches_sigterm(process.pid):
                time.sleep(0.001)
            text = self.stop(process)
            self.assertEqual(process.returncode, 75, text)
            self.assertIn("no step was taken", text)
            self.assertFalse(run.exists(), "nothing was begun")

    @staticmethod
    def catches_sigterm(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status.read(), re.M)
        return caught is not None and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1 == 1

    def test_a_stop_is_seen_between_the_windows_of_a_validation(self):
        job = self.job("windows.yaml", iterations=2, every=2)
        run = self.folder / "windows"
        # Some 14,000 windows.
        process = self.start("train", job, "--run-dir", run, "--no-progress", "validate.every=1", "validate.overlap=0.87",
                             "patch.size=[4, 4, 4]")
        metrics = run / "metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and '"kind": "step"' in metrics.read_text(encoding="utf-8")):
            time.sleep(0.001)
        time.sleep(0.1)
        text = self.stop(process)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("after step 1 of 2; a checkpoint is saved", text)
        self.assertFalse([line for line in self.metrics(run) if line["kind"] == "val"], "it was in the validation")
        self.assertIn(" 0 damaged", self.tandem("ckpt", "verify", run).stdout)

    def test_twenty_sigterms_at_random_moments(self):
        """In steps, validations, saves and start-up; some are sent twice. Each leaves a checkpoint, and all together the same bits."""
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        draw = random.Random(seed)
        job = self.job("term.yaml", iterations=120, every=4)
        words = ("--no-progress", "validate.every=5", "checkpoint.verify=true")
        whole, stopped = self.folder / "term whole", self.folder / "term stopped"
        started = time.monotonic()
        self.tandem("train", job, "--run-dir", whole, *words)
        duration = time.monotonic() - started
        longest = max(line["step_ms"] for line in self.metrics(whole) if line["kind"] == "step") / 1000
        saved, slowest = 0, 0.0
        for i in range(20):
            process = self.start("train", job, "--run-dir", stopped, "--resume", "auto", *words,
                                 f"data.workers={draw.choice([0, 1, 2])}")
            time.sleep(draw.uniform(0, duration / 6))
            sent = time.monotonic()
            process.send_signal(signal.SIGTERM)
            if i % 3 == 0:
                time.sleep(draw.uniform(0, 0.01))
                process.send_signal(signal.SIGTERM)
            _, text = process.communicate(timeout=60)
            slowest = max(slowest, time.monotonic() - sent)
            # Before its handlers are there the process simply ends: nothing was begun.
            self.assertIn(process.returncode, (75, 0, -signal.SIGTERM), text)
            if process.returncode == 75:
                saved += "a checkpoint is saved" in text
                self.assertRegex(text, "stopped by SIGTERM .* a checkpoint is saved|no step was taken")
                if list(stopped.glob("step-*.h5")):
                    self.tandem("ckpt", "verify", stopped)
            self.assertEqual([p.name for p in stopped.glob(".tmp-*")], [])
        print(f"slowest stop {slowest:.2f} s")
        self.assertLess(slowest, BOUND_S + longest)
        self.assertGreaterEqual(saved, 5, "signals that came after the start")
        self.tandem("train", job, "--run-dir", stopped, "--resume", "auto", *words)
        self.assertIn("identical", self.tandem("ckpt", "diff", whole, stopped).stdout)
        for kind, steps in (("step", list(range(1, 121))), ("val", list(range(5, 121, 5)))):
            self.assertEqual([line["step"] for line in self.metrics(stopped) if line["kind"] == kind], steps)

    def test_a_scheduler_that_sends_term_and_later_kill(self):
        """As SLURM does: the run is out before the grace time is over, and the requeued job goes on."""
        job = self.job("slurm.yaml", iterations=40, every=1000)
        whole, queued = self.folder / "slurm whole", self.folder / "slurm queued"
        self.tandem("train", job, "--run-dir", whole, "--no-progress")
        codes, metrics = [], queued / "metrics.jsonl"
        while not codes or codes[-1] == 75:
            def steps():
                return metrics.read_text(encoding="utf-8").count('"step_ms"') if metrics.exists() else 0
            before = steps()
            process = self.start("train", job, "--run-dir", queued, "--resume", "auto", "--no-progress")
            while process.poll() is None and steps() == before:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                self.fail("still running 30 s after SIGTERM")
            codes.append(process.returncode)
            self.assertLess(len(codes), 70)
        self.assertGreater(len(codes), 2)
        self.assertEqual(set(codes) - {75, 0}, set())
        self.assertIn("identical", self.tandem("ckpt", "diff", whole, queued).stdout)

    def test_resuming_anywhere_gives_the_same_bits(self):
        """{mid-epoch, epoch's end, after a validation} x {FP16 with scaling, FP32} x {workers, accumulation}."""
        for compute in ("fp16", "fp32"):
            for workers, accumulate in ((0, 4), (2, 1)):
                name = f"grid {compute} {workers} {accumulate}"
                job = self.job(name + ".yaml", compute=compute, iterations=9, every=1)
                words = ("--no-progress", "train.iterations_per_epoch=4", "validate.every=6", "checkpoint.keep_last=100",
                         f"train.accumulate={accumulate}", f"data.workers={workers}")
                whole = self.folder / name
                self.tandem("train", job, "--run-dir", whole, *words)
                for place, step in (("mid-epoch", 3), ("epoch", 4), ("validated", 6)):
                    resumed = self.folder / f"{name} {place}"
                    self.tandem("train", job, "--run-dir", resumed, "--resume", whole / f"step-{step:09d}.h5", *words)
                    with self.subTest(compute=compute, workers=workers, accumulate=accumulate, place=place):
                        self.assertIn("identical", self.tandem("ckpt", "diff", whole, resumed).stdout)
                        steps = [line["step"] for line in self.metrics(resumed) if line["kind"] == "step"]
                        self.assertEqual(steps, list(range(step + 1, 10)))

    def test_two_threads_give_the_same_bits_each_time(self):
        runs = [self.folder / f"threads {i}" for i in range(2)]
        for workers, run in enumerate(runs):
            self.tandem("train", self.job("threads.yaml", iterations=5, every=5, threads=2), "--run-dir", run, "--no-progress",
                        f"data.workers={workers}")
        self.assertIn("identical", self.tandem("ckpt", "diff", *runs).stdout)

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "no /proc")
    def test_two_thousand_steps_take_no_more_memory(self):
        job = self.job("long.yaml", iterations=2000, every=50)
        run = self.folder / "long"
        process = self.start("train", job, "--run-dir", run, "--no-progress", "model.features=[2, 4]", "patch.size=[4, 4, 4]",
                             "train.batch_size=1", "data.workers=1")
        pages = {}  # step -> resident pages
        metrics = run / "metrics.jsonl"
        while process.poll() is None:
            time.sleep(0.02)
            try:
                step = metrics.read_bytes().count(b"\n")
                with open(f"/proc/{process.pid}/statm", encoding="ascii") as statm:
                    pages[step] = int(statm.read().split()[1])
            except (OSError, IndexError):
                pass
        self.assertEqual(process.returncode, 0, process.communicate()[1])
        process.communicate()
        # A save takes and gives back some MiB: the greatest of many samples is compared.
        early = [n for step, n in pages.items() if 500 <= step < 1000]
        late = [n for step, n in pages.items() if 1500 <= step < 1990]
        self.assertGreater(min(len(early), len(late)), 2, "samples")
        growth = (max(late) - max(early)) * os.sysconf("SC_PAGESIZE") / 1000
        print(f"{growth:.0f} bytes a step")
        # Sanitizers keep freed memory: there only a gross leak shows.
        self.assertLess(growth, 65536 if harness.is_sanitized() else 1024)


if __name__ == "__main__":
    harness.main()
