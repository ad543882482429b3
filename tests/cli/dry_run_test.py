"""`tandem train --dry-run`: it takes two real steps, says what the job would do, and leaves no trace anywhere."""
from harness import CommandLineTest, main


class DryRunTest(CommandLineTest):
    def files(self):
        return sorted(str(path) for path in self.folder.rglob("*"))

    def dry(self, *words, **options):
        return self.tandem("train", self.job("dry.yaml", compute="fp32"), "--dry-run", *words, **options)

    def test_it_says_what_would_happen(self):
        self.job("dry.yaml", compute="fp32")
        before = self.files()
        text = self.dry("--run-dir", self.folder / "dry").stderr
        self.assertRegex(text, r"dry run: a step took \d+ ms, .* loss [\d.]+, then [\d.]+; events good, good")
        self.assertIn("peak tensor memory", text)
        self.assertRegex(text, r"reuse [\d.]+ MiB are taken from the system")
        self.assertIn("trains: 30 steps, at this speed", text)
        self.assertIn("validates: 1 case every 1000000 steps", text)
        self.assertRegex(text, r"saves: every 5 steps and at the end, 0\.\d MiB each, into .*dry")
        self.assertIn("nothing was written", text)
        self.assertEqual(self.files(), before)

    def test_cases_for_the_disk_cache_are_not_prepared(self):
        self.job("dry.yaml", compute="fp32")
        before = self.files()
        for spacing in ("keep", "[3, 3, 2]"):  # read box by box; prepared as a whole
            text = self.dry("data.cache=disk", f"data.spacing={spacing}").stderr
            self.assertIn("1 case of 1 would be read from the disk cache", text)
        self.assertEqual(self.files(), before)

    def test_it_finds_what_the_run_would_stumble_over(self):
        done = self.dry("data.validation=[none.h5]", status=3)
        self.assertIn("no such file", done.stderr)
        missing = self.dry("--init-from", self.folder / "none", status=4)
        self.assertIn("none", missing.stderr)


if __name__ == "__main__":
    main()
