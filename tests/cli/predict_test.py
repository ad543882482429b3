"""eval and predict: files, ensembles, probabilities, clean-up, folders, and what they take."""
import array
import csv
import json
import pathlib
import subprocess

import harness

NAMES = ["hip", "gluteus_maximus", "gluteus_medius", "iliopsoas", "autochthon"]


class PredictTest(harness.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = []
        for seed in (1, 2):
            run = cls.folder / f"fold {seed}"
            cls.tandem("train", cls.job(cls, iterations=12, every=12), "--run-dir", run, "--no-progress", f"seed={seed}")
            cls.runs.append(run)
        cls.image = cls.folder / "phantom.nii.gz"

    def predict(self, *words, output="out.nii.gz", status=0):
        return self.tandem("predict", self.runs[0], "--input", self.image, "--output", self.folder / output, *words,
                           status=status)

    def test_eval_writes_what_it_prints(self):
        metrics = "validate.metrics=[dice, hd95, nsd]"
        printed = self.tandem("eval", self.runs[0], "--json", metrics, "validate.nsd_mm=3").stdout
        self.assertEqual(printed, (self.runs[0] / "evaluation.json").read_text(encoding="utf-8"))
        scores = json.loads(printed)
        self.assertEqual(scores["metrics"], ["dice", "iou", "hd95", "nsd"])
        self.assertEqual(scores["nsd_mm"], 3)
        self.assertEqual(list(scores["hd95"]), NAMES)
        for name in NAMES:
            self.assertGreaterEqual(scores["hd95"][name], 0)
            self.assertTrue(0 <= scores["nsd"][name] <= 1)
        with open(self.runs[0] / "evaluation.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([r["class"] for r in rows if r["kind"] == "case"], NAMES)
        case = scores["cases"][0]
        for row in rows:
            if row["kind"] == "case":
                self.assertEqual(float(row["dice"]), case["dice"][row["class"]])
                self.assertEqual(int(row["true_positive"]), case["true_positive"][row["class"]])
        self.assertEqual(float(rows[-1]["dice"]), scores["mean_dice"])

        table = self.tandem("eval", self.runs[0], "--output", self.folder / "elsewhere", "validate.metrics=[assd]").stdout
        self.assertIn("assd/mm", table)
        self.assertTrue((self.folder / "elsewhere.json").exists() and (self.folder / "elsewhere.csv").exists())
        wrong = self.tandem("eval", self.runs[0], "validate.metrics=[dicee]", status=2)
        self.assertIn("got 'dicee', expected dice, iou, hd", wrong.stderr)

    def test_outputs_are_checked_before_anything_is_computed(self):
        self.assertIn("expected a name that ends in", self.predict(output="out.png", status=2).stderr)
        same = self.tandem("predict", self.runs[0], "--input", self.folder / "left.h5", "--output", self.folder / "left.h5",
                           "--overwrite", status=2)
        self.assertIn("is input and output", same.stderr)

    def test_a_folder_takes_many_and_is_scored_without_the_model(self):
        output = self.folder / "predictions"
        self.tandem("predict", self.runs[0], "--input", self.image, "--input", self.folder / "right.h5", "--output",
                    f"{output}/")
        self.assertEqual(sorted(p.name for p in output.iterdir()), ["phantom.nii.gz", "right.nii.gz"])
        references = self.folder / "references"
        references.mkdir()
        (references / "phantom.nii.gz").write_bytes((self.folder / "phantom labels.nii.gz").read_bytes())
        done = self.tandem("eval", self.runs[0], "--predictions", output, "--labels", references, "--json")
        scores = json.loads(done.stdout)
        self.assertEqual(list(scores["dice"]), NAMES)
        self.assertEqual(scores["predictions"], str(output))
        self.assertTrue((output / "evaluation.csv").exists())
        itself = json.loads(self.tandem("eval", "--predictions", references, "--labels", references, "--json", "--output",
                                        self.folder / "itself").stdout)
        self.assertEqual(itself["mean_dice"], 1)
        self.assertEqual(itself["mean_hd"], 0)
        lone = self.tandem("eval", "--predictions", output, status=2)
        self.assertIn("expected --predictions DIR and --labels DIR", lone.stderr)

    def test_an_ensemble_is_not_its_first_member_and_members_must_fit(self):
        self.predict(output="one.nii.gz")
        self.predict("predict.ensemble=[]", output="again.nii.gz")
        both = f"predict.ensemble=['{self.runs[0]}', '{self.runs[1]}']"
        self.predict(both, output="both.nii.gz")
        one, again, two = ((self.folder / f"{n}.nii.gz").read_bytes() for n in ("one", "again", "both"))
        self.assertEqual(one, again)
        self.assertNotEqual(one, two)
        other = self.folder / "other patch"
        self.tandem("train", self.job(iterations=1, every=1), "--run-dir", other, "--no-progress", "patch.size=[16, 8, 8]")
        wrong = self.predict(f"predict.ensemble=['{other}']", output="wrong.nii.gz", status=2)
        self.assertIn("patch.size", wrong.stderr)
        self.assertFalse((self.folder / "wrong.nii.gz").exists())

    def test_folds_are_averaged_by_their_probabilities(self):
        folds = []
        for fold in (0, 1):
            run = self.folder / f"cross {fold}"
            words = (f"data.train=['{self.folder}/left.h5', '{self.folder}/right.h5']", "data.validation=[]", f"data.split={{folds: 2, fold: {fold}}}")
            self.tandem("train", self.job(iterations=12, every=12), "--run-dir", run, "--no-progress", *words)
            folds.append(run)
        cases = [json.loads(self.tandem("eval", run, "--json").stdout)["cases"][0]["file"] for run in folds]
        self.assertEqual(sorted(pathlib.Path(c).name for c in cases), ["left.h5", "right.h5"])  # each has one of the two

        def predict(run, name, *words):
            self.tandem("predict", run, "--input", self.image, "--output", self.folder / name, "predict.mirror_tta=false", *words)
            return harness.nifti(self.folder / name)
        values = [predict(run, f"cross {i} p.nii.gz", "predict.save=probabilities")[1] for i, run in enumerate(folds)]
        both = f"predict.ensemble=['{folds[0]}', '{folds[1]}']"
        averaged = predict(folds[0], "cross p.nii.gz", both, "predict.save=probabilities")[1]
        (self.folder / "cross labels").mkdir()
        labels = predict(folds[0], "cross labels/phantom.nii.gz", both)[1]
        voxels, classes = 32 ** 3, 1 + len(NAMES)
        self.assertEqual(len(averaged), voxels * classes)
        decided, unlike = 0, 0
        for i in range(voxels):
            one, two = values[0][i::voxels], values[1][i::voxels]
            mean = [(a + b) / 2 for a, b in zip(one, two)]
            self.assertLess(max(abs(a - b) for a, b in zip(mean, averaged[i::voxels])), 2e-6)
            largest = max(range(classes), key=mean.__getitem__)
            if mean[largest] - sorted(mean)[-2] < 1e-5:  # rounding may decide
                continue
            decided += 1
            unlike += any(max(range(classes), key=p.__getitem__) != largest for p in (one, two))
            self.assertEqual(labels[i], largest)  # classes of several values: their index
        self.assertGreater(decided, voxels // 2)
        self.assertGreater(unlike, 0)  # neither fold alone has these labels

        references = self.folder / "cross references"
        references.mkdir()
        (references / "phantom.nii.gz").write_bytes((self.folder / "phantom labels.nii.gz").read_bytes())
        truth = harness.nifti(references / "phantom.nii.gz")[1]
        scores = json.loads(self.tandem("eval", folds[0], "--predictions", self.folder / "cross labels", "--labels", references,
                                        "--json").stdout)
        members = {"hip": (77, 78), "gluteus_maximus": (80, 81), "gluteus_medius": (82, 83), "iliopsoas": (88, 89),
                   "autochthon": (86, 87)}
        for c, (name, group) in enumerate(members.items(), start=1):
            predicted, expected = [v == c for v in labels], [v in group for v in truth]
            hits = sum(p and e for p, e in zip(predicted, expected))
            self.assertAlmostEqual(scores["dice"][name], 2 * hits / (sum(predicted) + sum(expected)), places=6)

    def test_dry_run_says_what_it_takes_and_writes_nothing(self):
        done = self.tandem("predict", self.runs[0], "--input", self.image, "--dry-run", "predict.mirror_tta=[z, x]")
        self.assertIn("343 windows of [8, 8, 8], 4 forward passes each", done.stdout)
        self.assertIn("sums and result", done.stdout)

    def test_clean_up_is_learnt_and_applied(self):
        missing = self.predict("predict.postprocess=auto", output="auto.nii.gz", status=2)
        self.assertIn("--learn-postprocess", missing.stderr)
        self.tandem("eval", self.runs[0], "--learn-postprocess")
        learnt = json.loads((self.runs[0] / "postprocess.json").read_text(encoding="utf-8"))
        self.assertEqual(list(learnt["classes"]), NAMES)
        self.predict("predict.postprocess=auto", output="auto.nii.gz")
        kept = self.predict("predict.postprocess=keep_largest", output="largest.nii.gz")
        self.assertIn("removed", kept.stdout)

    def test_probabilities_and_hdf5(self):
        for name in ("p.h5", "p.nii.gz"):
            self.predict("predict.save=probabilities", output=name)
        self.predict(output="labels.h5")
        shape, values = harness.nifti(self.folder / "p.nii.gz")
        self.assertEqual(shape, (32, 32, 32, 1 + len(NAMES)))
        self.assertTrue(all(0 <= value <= 1 for value in values))
        # HDF5 (C, Z, Y, X) in C order is NIfTI's (X, Y, Z, C) in Fortran order: the same numbers one after the other.
        script = ("import array, h5py, sys\n"
                  "p, l = (h5py.File(n)['predictions'] for n in sys.argv[1:3])\n"
                  "print(p.shape, p.dtype, l.shape, l.dtype, [n.decode() for n in p.attrs['class_names']] == "
                  "[n.decode() for n in l.attrs['class_names']])\n"
                  "open(sys.argv[3], 'wb').write(p[...].tobytes())\n")
        raw = self.folder / "p.raw"
        read = subprocess.run([harness.python_with("h5py"), "-c", script, self.folder / "p.h5",
                               self.folder / "labels.h5", raw], capture_output=True, text=True, check=True).stdout
        self.assertEqual(read.strip(), f"({1 + len(NAMES)}, 32, 32, 32) float32 (32, 32, 32) uint16 True")
        self.assertEqual(array.array("f", raw.read_bytes()), values)

    def test_probabilities_sum_to_one_and_the_largest_is_the_label(self):
        self.predict("predict.save=probabilities", output="values.nii.gz")
        self.predict(output="values labels.nii.gz")
        shape, probabilities = harness.nifti(self.folder / "values.nii.gz")
        grid, labels = harness.nifti(self.folder / "values labels.nii.gz")
        voxels = 32 ** 3
        self.assertEqual((shape, grid), ((32, 32, 32, 1 + len(NAMES)), (32, 32, 32)))
        known = {0: 0, 1: 77, 2: 80, 3: 82, 4: 88, 5: 86}  # the first stored value of each class
        for i in range(voxels):
            values = probabilities[i::voxels]
            self.assertAlmostEqual(sum(values), 1, delta=1e-3)
            largest = max(range(len(values)), key=values.__getitem__)
            if values[largest] - sorted(values)[-2] > 1e-3:  # else rounding may decide
                self.assertIn(labels[i], (largest, known[largest]))


if __name__ == "__main__":
    harness.main()
