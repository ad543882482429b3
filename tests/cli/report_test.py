"""metrics.csv, TensorBoard events and report.html of a run: there, remade, cut on resume, and no reason to stop."""
import csv
import html.parser
import json
import re

import harness

VOID = {"meta", "img", "br", "line", "path", "circle"}


class Checker(html.parser.HTMLParser):
    """Balanced tags, and what the page refers to."""

    def __init__(self):
        super().__init__()
        self.open, self.images, self.references = [], 0, []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.images += tag == "img"
        self.references += [value for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open and self.open.pop() == tag, f"</{tag}> closes {self.open}"


class ReportTest(harness.CommandLineTest):
    def check_curves_and_cases(self, page, run):
        """Every chart with its title and a line, and the table of cases against metrics.jsonl."""
        charts = re.findall(r'<figure class="chart"><figcaption>(.*?)</figcaption>(.*?)</figure>', page, re.DOTALL)
        self.assertEqual([title for title, _ in charts],
                         ["Training loss", "Validation Dice", "Learning rate", "Loss scale",
                          "Gradient norm, unscaled, before clipping", "Time of a step"])
        for title, body in charts:
            self.assertRegex(body, r'<path [^>]*d="M[^"]*[LHV]', title)
        table = re.search(r"<h2>Validation cases at step 12</h2>.*?<h3>Dice</h3>.*?(<table>.*?</table>)", page, re.DOTALL)[1]
        rows = [[re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
                for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)]
        dice = [line for line in self.metrics(run) if line["kind"] == "val"][-1]["dice"]
        self.assertEqual(rows[0], ["case", "mean", *dice])
        self.assertEqual(len(rows), 2, "one case")
        self.assertEqual(rows[1][0], "phantom_x16-32_flipx", "the case by its name in right.h5")
        shown = ["–" if value is None else f"{value:.4f}" for value in dice.values()]
        self.assertEqual(rows[1][2:], shown)
        self.assertGreater(len([value for value in shown if value != "–"]), 2)

    def test_a_run_leaves_a_report_that_can_be_made_again(self):
        run = self.folder / "run"
        self.tandem("train", self.job(iterations=12, every=6), "--run-dir", run, "--no-progress", "validate.every=6")
        page = (run / "report.html").read_text(encoding="utf-8")
        checker = Checker()
        checker.feed(page)
        self.assertEqual(checker.open, [])
        self.assertEqual(checker.images, 9)
        self.assertTrue(all(reference.startswith("data:image/png;base64,") for reference in checker.references))
        for text in ("finished: 12 steps", "gluteus_maximus", "Training loss", "F16 on cpu", "Where the time went"):
            self.assertIn(text, page)
        self.check_curves_and_cases(page, run)
        self.assertEqual([p.name for p in (run / "validation").iterdir()], ["step-000000012"])
        self.assertEqual(self.tandem("report", run).stdout, f"{run}/report.html\n")
        self.assertEqual((run / "report.html").read_text(encoding="utf-8"), page)
        other = self.folder / "other.html"
        self.tandem("report", run, "--output", other)
        self.assertEqual(other.read_text(encoding="utf-8"), page)

        with open(run / "metrics.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        lines = [line for line in self.metrics(run) if line["kind"] in ("step", "val")]
        self.assertEqual([(row["kind"], int(row["step"])) for row in rows], [(line["kind"], line["step"]) for line in lines])
        self.assertEqual(float(rows[-1]["dice_hip"]), lines[-1]["dice"]["hip"])
        self.assertEqual(len(list(run.glob("events.out.tfevents.*"))), 1)

    def test_what_follows_from_metrics_can_be_off(self):
        run = self.folder / "plain"
        self.tandem("train", self.job(iterations=2, every=2), "--run-dir", run, "--no-progress", "log.tensorboard=false",
                    "log.report=false")
        names = {p.name for p in run.iterdir()}
        self.assertFalse(names & {"report.html", "validation"})
        self.assertEqual(list(run.glob("events*")), [])
        self.assertIn("metrics.csv", names)

    def test_an_unreadable_line_hides_none_on_resume(self):
        run = self.folder / "damaged"
        job = self.job("damaged.yaml", iterations=6, every=3)
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        metrics = run / "metrics.jsonl"
        lines = metrics.read_text(encoding="utf-8").splitlines()
        lines[2] = lines[2][:20]
        metrics.write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress", "train.iterations=8")
        self.assertIn("got 1 line that cannot be read, passed over", done.stderr)
        steps = [json.loads(line).get("step") for line in metrics.read_text(encoding="utf-8").splitlines()
                 if line.endswith("}") and json.loads(line)["kind"] == "step"]
        self.assertEqual(len(steps), 7)
        self.assertEqual(steps[-3:], [6, 7, 8])
        self.assertIn("resumed at step 6", (run / "report.html").read_text(encoding="utf-8"))

    def test_a_folder_named_metrics_is_one_clear_line(self):
        run = self.folder / "odd"
        job = self.job("odd.yaml", iterations=2, every=2)
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        (run / "metrics.jsonl").unlink()
        (run / "metrics.jsonl").mkdir()
        done = self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress", status=6)
        self.assertIn("metrics.jsonl: got a folder, expected a file or nothing", done.stderr)
        self.assertNotIn("bug", done.stderr)

    def test_report_of_no_run_is_a_usage_error(self):
        self.assertIn("no run folder", self.tandem("report", self.folder, status=2).stderr)


if __name__ == "__main__":
    harness.main()
