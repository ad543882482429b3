"""What a run does at the limits of its number format: causes in metrics.jsonl, floor policies, demotion, headroom."""
import harness

OVERFLOWING = ["precision.loss_scale.min=65536", "precision.loss_scale.max_skips_at_min=3", "loss.ce.weight=1e6"]


class PrecisionTest(harness.CommandLineTest):
    def lines(self, run, kind):
        return [line for line in self.metrics(run) if line["kind"] == kind]

    def test_an_overflow_names_its_cause(self):
        run = self.folder / "overflow"
        done = self.tandem("train", self.job(iterations=10), "--run-dir", run, "--no-progress", *OVERFLOWING, status=5)
        self.assertIn("first not finite: backward, op segmentation_loss, input gradient at [", done.stderr)
        self.assertIn("last steps: 1 overflow at 65536, 2 overflow at 65536, 3 overflow at 65536", done.stderr)
        steps = self.lines(run, "step")
        self.assertEqual([line["event"] for line in steps], ["overflow"] * 3)
        for line in steps:
            cause = line["cause"]
            self.assertEqual((cause["pass"], cause["op"], cause["tensor"]), ("backward", "segmentation_loss", "input gradient"))
            self.assertGreater(cause["magnitude"], 65504)
            self.assertEqual(len(cause["index"]), 5)
            self.assertEqual(len(cause["samples"]), 1)
        self.assertIn("  1. a scale that may fall further:    precision.loss_scale.min: 1\n", done.stderr)
        self.assertNotIn("fp32_layers", done.stderr)

    def test_fallback_goes_on_and_resumes_to_the_same_bits(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        words = [*OVERFLOWING, "precision.loss_scale.at_floor=fallback_fp32", "schedule.name=constant"]
        job = self.job("fallback.yaml", iterations=9, every=3)
        done = self.tandem("train", job, "--run-dir", whole, "--no-progress", *words)
        self.assertIn("step 3: gradients overflow at the smallest loss scale: the job computes in FP32 from here on",
                      done.stderr)
        self.assertEqual([line["event"] for line in self.lines(whole, "step")], ["overflow"] * 3 + ["good"] * 6)
        self.assertIn("precision", [line["event"] for line in self.lines(whole, "event")])
        # Stopped after the fallback, resumed with the job file that still says fp16.
        self.tandem("train", job, "--run-dir", parts, "--no-progress", *words, "train.iterations=6")
        self.tandem("train", job, "--run-dir", parts, "--no-progress", "--resume", "auto", *words)
        self.tandem("ckpt", "diff", whole, parts)

    def test_demotion_moves_the_layer_that_overflows_to_fp32(self):
        run = self.folder / "demoted"
        # Updates of 1000 per step: FP16 activations overflow at once, FP32's do not.
        self.tandem("train", self.job(iterations=8), "--run-dir", run, "--no-progress", "optimizer.lr=1000",
                    "schedule.name=constant", "precision.on_repeat_overflow=demote")
        causes = [line["cause"] for line in self.lines(run, "step") if "cause" in line]
        self.assertEqual({(c["pass"], c["layer"]) for c in causes[:5]}, {("forward", "enc0.conv2")})
        changes = [line["text"] for line in self.lines(run, "event") if line["event"] == "precision"]
        self.assertIn("enc0.conv2 computes in FP32", changes[0])
        self.assertIn("enc0.conv2", (run / "config.resolved.yaml").read_text(encoding="utf-8"))

    def test_a_head_of_deep_supervision_that_overflows_goes_to_fp32_alone(self):
        run = self.folder / "head"
        # Updates of 30,000 per step in head1, next to none elsewhere: the weights fit into FP16, the logits do not.
        self.tandem("train", self.job("head.yaml", iterations=40), "--run-dir", run, "--no-progress", "schedule.name=constant",
                    "model.features=[4, 8, 8, 8]", "model.strides=[[1, 1, 1], [2, 2, 2], [2, 2, 2], [1, 1, 1]]",
                    "model.deep_supervision=true", "optimizer.lr=30", "optimizer.weight_decay=0",
                    "optimizer.groups=[{match: '*', lr_factor: 1.0e-6}, {match: 'head1*', lr_factor: 1000}]",
                    "precision.on_repeat_overflow=demote", "precision.loss_scale.max_nonfinite_loss=1")
        steps = self.lines(run, "step")
        forward = [line for line in steps if line["event"] == "forward"]
        self.assertEqual([line["cause"]["layer"] for line in forward], ["head1"], "once, then FP32 holds the logits")
        changes = [line["text"] for line in self.lines(run, "event") if line["event"] == "precision"]
        self.assertEqual(changes, ["head1 computes in FP32 from here on"])
        after = [line for line in steps if line["step"] > forward[0]["step"]]
        self.assertGreater(len(after), 20)
        self.assertTrue(all(line["loss"] is not None for line in after), "the loss stays finite")
        self.assertGreater([line["event"] for line in after].count("good"), 5)
        self.assertIn("fp32_layers:", (run / "config.resolved.yaml").read_text(encoding="utf-8"))

    def test_headroom_grows_without_an_overflow(self):
        skips = {}
        for mode in ("dynamic", "headroom"):
            run = self.folder / mode
            self.tandem("train", self.job(f"{mode}.yaml", iterations=60), "--run-dir", run, "--no-progress",
                        f"precision.loss_scale.mode={mode}", "precision.loss_scale.growth_interval=4")
            events = [line["event"] for line in self.lines(run, "step")]
            skips[mode] = events.count("overflow")
            self.assertEqual(len(events), 60)
        self.assertEqual(skips["headroom"], 0)
        self.assertGreater(skips["dynamic"], 0)

    def test_impossible_thread_counts_are_refused(self):
        done = self.tandem("train", self.job(iterations=1), "--run-dir", self.folder / "threads", "threads=4096", status=2)
        self.assertIn("[threads] got 4096, expected at most", done.stderr)

    def test_control_characters_of_names_do_not_reach_the_terminal(self):
        done = self.tandem("train", self.folder / "no\x1b[31mfile.yaml", status=2)
        self.assertNotIn("\x1b", done.stderr)
        self.assertIn("no\\x1b[31mfile.yaml", done.stderr)


if __name__ == "__main__":
    harness.main()
