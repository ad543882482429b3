"""init, config schema, completion, ckpt prune and train --overfit, as their users call them."""
import json
import shutil
import subprocess

import harness


class CommandsTest(harness.CommandLineTest):
    def test_init_writes_a_job_that_runs(self):
        cases = self.folder / "cases"
        cases.mkdir()
        for name in ("a", "b", "c"):
            shutil.copy(self.folder / "left.h5", cases / f"{name}.h5")
        job = self.folder / "new job.yaml"
        done = self.tandem("init", cases, "--output", job, "--name", "new")
        self.assertIn("2 training and 1 validation cases", done.stdout)
        text = job.read_text(encoding="utf-8")
        self.assertIn("cases/a.h5", text)
        self.assertNotIn(str(self.folder), text)
        self.assertIn("label_77: 77", text)
        self.assertIn("clip: [-1000, 1000]", text)
        self.assertIn("size: [32, 32, 16]", text)
        self.tandem("config", "check", job)
        self.tandem("train", job, "--dry-run", "--run-dir", self.folder / "none")
        self.assertIn("exists", self.tandem("init", cases, "--output", job, status=2).stderr)
        self.assertIn("without labels", self.tandem("init", self.folder / "phantom.nii.gz", "--output", self.folder / "x.yaml",
                                                    status=3).stderr)
        self.assertFalse((self.folder / "x.yaml").exists())

    def test_the_schema_knows_every_key(self):
        schema = json.loads(self.tandem("config", "schema").stdout)
        lines = (harness.SOURCE / "docs/config.md").read_text(encoding="utf-8").splitlines()
        keys = [line.split("`")[1] for line in lines if line.startswith("| `")]
        self.assertGreater(len(keys), 80)
        for key in keys:
            node = schema
            for name in key.split("."):
                node = next((part for part in node.get("allOf", []) + node.get("anyOf", []) if "properties" in part), node)
                node = node["properties"][name.removesuffix("[]")]
                if name.endswith("[]"):
                    node = node["items"]
        self.assertEqual(schema["properties"]["seed"],
                         {"description": "Seed of weights, patches and augmentation", "type": "integer", "minimum": 0,
                          "maximum": 2**53, "default": 1234})
        clip = schema["properties"]["train"]["allOf"][0]["properties"]["clip_norm"]
        self.assertEqual((clip["type"], clip["exclusiveMinimum"], clip["default"]), (["number", "null"], 0, None))

    def test_bash_completes_commands_and_flags(self):
        script = self.tandem("completion", "bash").stdout

        def complete(*words):
            line = f"""{script}
COMP_WORDS=({' '.join(words)} "$1"); COMP_CWORD={len(words)}; _tandem; echo "${{COMPREPLY[@]}}" """
            return lambda prefix: subprocess.run(["bash", "-c", line, "bash", prefix], capture_output=True, text=True,
                                                 check=True).stdout.split()

        self.assertEqual(complete("tandem")("tr"), ["train"])
        self.assertEqual(complete("tandem", "ckpt")("pr"), ["prune"])
        self.assertEqual(complete("tandem", "ckpt", "prune")("--dr"), ["--dry-run"])
        self.assertIn("--overfit", complete("tandem", "train", "job.yaml")("--"))
        self.assertEqual(complete("tandem", "train")("conf"), [])
        for shell in ("zsh", "fish"):
            self.assertIn("overfit", self.tandem("completion", shell).stdout)
        self.assertIn("expected bash, zsh or fish", self.tandem("completion", "csh", status=2).stderr)

    def test_prune_keeps_what_is_needed(self):
        run = self.folder / "prune"
        self.tandem("train", self.job(iterations=8, every=2), "--run-dir", run, "--no-progress", "checkpoint.keep_last=9")
        names = sorted(p.name for p in run.glob("step-*.h5"))
        self.assertEqual(len(names), 4)
        done = self.tandem("ckpt", "prune", run, "--keep-last", 2, "--dry-run")
        self.assertIn("2 checkpoints", done.stdout)
        self.assertEqual(sorted(p.name for p in run.glob("step-*.h5")), names)
        (run / names[3]).write_bytes((run / names[3]).read_bytes()[:-1])  # the newest is torn: it neither counts nor goes
        self.tandem("ckpt", "prune", run, "--keep-last", 1)
        self.assertEqual(sorted(p.name for p in run.glob("step-*.h5")), names[2:])
        (run / names[2]).unlink()
        self.assertIn("no intact checkpoint", self.tandem("ckpt", "prune", run, status=4).stderr)
        self.assertTrue((run / names[3]).exists())

    def test_overfit_learns_a_patch_by_heart(self):
        run = self.folder / "overfit"
        job = self.job(iterations=1500, every=10000, compute="fp32")
        done = self.tandem("train", job, "--run-dir", run, "--no-progress", "--overfit", 1, "train.batch_size=1",
                           "optimizer.lr=2e-2")
        self.assertIn(": the model learns them", done.stderr)
        self.assertIn("name: small-overfit", (run / "config.resolved.yaml").read_text(encoding="utf-8"))
        self.assertIn("expected one of them", self.tandem("train", job, "--overfit", 1, "--resume", "auto", status=2).stderr)


if __name__ == "__main__":
    harness.main()
