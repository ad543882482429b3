"""A run that is killed or stopped at any moment goes on to the same bits."""
import random
import re
import shutil
import signal
import time

import harness


class KillTest(harness.CommandLineTest):
    def wait_until_beyond(self, step, run, process):
        """Until a later step is logged (a checkpoint is saved every 5), or the process has ended."""
        metrics = run / "metrics.jsonl"
        while process.poll() is None:
            steps = re.findall(r'"kind": "step", "step": (\d+)', metrics.read_text(encoding="utf-8")) if metrics.exists() else []
            if steps and int(steps[-1]) > step:
                return
            time.sleep(0.002)

    def test_twenty_random_kills_end_in_the_same_bits(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        draw = random.Random(seed)
        job = self.job(iterations=240, every=5)
        job.write_text(job.read_text(encoding="utf-8").replace("verify: false", "verify: true").replace(
            "train: {", "train: {iterations_per_epoch: 40, ").replace(
            "{compute: fp16}", "{compute: fp16, loss_scale: {init: 16777216, growth_interval: 4}}"), encoding="utf-8")
        whole, killed = self.folder / "whole", self.folder / "killed"
        started = time.monotonic()
        self.tandem("train", job, "--run-dir", whole, "--no-progress")
        duration = time.monotonic() - started
        self.assertGreater(len({line["scale"] for line in self.metrics(whole) if line["kind"] == "step"}), 2,
                           "the scale moves, so that a resumed scaler is put to the test")
        kills, advances, newest = 0, 0, 0
        while kills < 20:
            workers = draw.choice([0, 1, 2])
            process = self.start("train", job, "--run-dir", killed, "--resume", "auto", "--no-progress",
                                 f"data.workers={workers}")
            # Most kills come after new steps, the others at the start or wherever.
            if draw.random() < 0.75:
                self.wait_until_beyond(newest + 5, killed, process)
            time.sleep(draw.uniform(0, duration / 8))
            if process.poll() is not None:  # it ended before it could be killed: compare, and begin anew
                self.assertEqual(process.returncode, 0, process.communicate()[1])
                self.assertIn("identical", self.tandem("ckpt", "diff", whole, killed).stdout)
                shutil.rmtree(killed)
                newest = 0
                continue
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            steps = [int(p.stem.split("-")[1]) for p in killed.glob("step-*.h5")]
            advances += max(steps, default=0) > newest
            newest = max(steps, default=0)
        self.assertGreaterEqual(advances, 6, "kills that came after a new checkpoint")
        self.tandem("train", job, "--run-dir", killed, "--resume", "auto", "--no-progress")
        done = self.tandem("ckpt", "diff", whole, killed)
        self.assertIn("identical", done.stdout)
        steps = [line["step"] for line in self.metrics(killed) if line["kind"] == "step"]
        self.assertEqual(steps, list(range(1, 241)), "each step once, in order")
        self.assertEqual([p.name for p in killed.glob(".tmp-*")], [])
        print(f"{kills} kills")

    def test_sigterm_saves_and_exits_75(self):
        job = self.job("term.yaml", iterations=100000, every=100000)
        run = self.folder / "term"
        process = self.start("train", job, "--run-dir", run, "--no-progress")
        self.wait_for_steps(run, 3)
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("stopped by SIGTERM", text)
        self.assertIn("step", self.tandem("ckpt", "verify", run).stdout)
        more = self.metrics(run)[-1]["step"] + 3
        self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress", f"train.iterations={more}")

    def test_ctrl_c_saves_and_the_run_goes_on_to_the_same_bits(self):
        job = self.job("int.yaml", iterations=400, every=1000)
        whole, stopped = self.folder / "int whole", self.folder / "int stopped"
        self.tandem("train", job, "--run-dir", whole, "--no-progress")
        process = self.start("train", job, "--run-dir", stopped, "--no-progress")
        self.wait_for_steps(stopped, 10)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, text)
        self.tandem("train", job, "--run-dir", stopped, "--resume", "auto", "--no-progress")
        self.assertIn("identical", self.tandem("ckpt", "diff", whole, stopped).stdout)

    def wait_for_steps(self, run, count):
        metrics = run / "metrics.jsonl"
        for _ in range(3000):
            if metrics.exists() and metrics.read_text(encoding="utf-8").count("\n") >= count:
                return
            time.sleep(0.02)
        self.fail("the run did not start")


if __name__ == "__main__":
    harness.main()
