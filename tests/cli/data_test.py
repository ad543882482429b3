"""Data as a researcher has them: an nnU-Net folder, another voxel size, every augmentation, a disk cache."""
import gzip
import json
import struct

import harness

LABELS = {"background": 0, "hip_left": 77, "hip_right": 78, "maximus_left": 80, "maximus_right": 81, "medius_left": 82,
          "medius_right": 83, "iliopsoas_left": 88, "iliopsoas_right": 89, "autochthon_left": 86, "autochthon_right": 87}
JOB = """\
name: nnunet
threads: 1
precision: {compute: fp32}
data: {format: nnunet, train: [Dataset001_Phantom], spacing: [4, 3, 3.5], split: {ratios: [0.5, 0.5]}}
augment: {mirror: [z], rotate_deg: 30, scale: [0.7, 1.4], elastic: [1, 4], noise_std: 0.1, blur_sigma: [0.5, 1],
          brightness: [0.75, 1.25], contrast: [0.75, 1.25], gamma: [0.7, 1.5], low_resolution: [0.5, 1],
          probability: {rotate: 0.7, scale: 0.7, elastic: 0.5, blur: 0.5, contrast: 0.5, gamma: 0.5, low_resolution: 0.5}}
model: {name: unet3d, features: [4, 8]}
patch: {size: [8, 8, 8]}
train: {batch_size: 2, iterations: 4}
validate: {every: 4}
checkpoint: {every: 4}
"""


def voxels(path):
    """Sizes x, y, z of a NIfTI-1 file."""
    with gzip.open(path) as file:
        return struct.unpack_from("<3h", file.read(48), 42)


class DataTest(harness.CommandLineTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dataset = cls.folder / "Dataset001_Phantom"
        for name in ("imagesTr", "labelsTr"):
            (dataset / name).mkdir(parents=True)
        for seed in (1, 2):
            cls.tandem("data", "synth", dataset / f"imagesTr/case{seed}_0000.nii.gz", "--label",
                       dataset / f"labelsTr/case{seed}.nii.gz", "--size", 20, "--seed", seed)
        (dataset / "dataset.json").write_text(json.dumps({"channel_names": {"0": "CT"}, "labels": LABELS, "numTraining": 2,
                                                          "file_ending": ".nii.gz"}))
        cls.nnunet = cls.folder / "nnunet.yaml"
        cls.nnunet.write_text(JOB)

    def test_an_nnunet_folder_from_check_to_prediction(self):
        self.tandem("data", "check", self.nnunet)
        run = self.folder / "nnunet run"
        self.tandem("train", self.nnunet, "--run-dir", run, "--no-progress")
        resolved = (run / "config.resolved.yaml").read_text()
        self.assertIn("hip_left: 77", resolved)
        self.assertRegex(resolved, r"kind: ct, clip: \[[-0-9.]+, [-0-9.]+\], mean: [-0-9.]+, std: [0-9.]+}")
        # Neither dataset.json nor the training set is needed any more for a prediction.
        (self.folder / "Dataset001_Phantom").rename(self.folder / "moved")
        image, output = self.folder / "moved/imagesTr/case2_0000.nii.gz", self.folder / "case2.nii.gz"
        self.tandem("predict", run, "--input", image, "--output", output)
        self.assertEqual(voxels(output), voxels(image))
        (self.folder / "moved").rename(self.folder / "Dataset001_Phantom")
        scores = json.loads(self.tandem("eval", run, "--json").stdout)
        self.assertEqual(list(scores["dice"]), list(LABELS)[1:])
        self.assertEqual(len(scores["cases"]), 1)

    def test_channels_and_regions_of_an_nnunet_folder(self):
        """Two channels per case, and labels that are sets of values, one in another."""
        dataset = self.folder / "Dataset002_Regions"
        for name in ("imagesTr", "labelsTr"):
            (dataset / name).mkdir(parents=True)
        for case in (1, 2):
            for channel in (0, 1):
                self.tandem("data", "synth", dataset / f"imagesTr/case{case}_000{channel}.nii.gz", "--label",
                            dataset / f"labelsTr/case{case}.nii.gz", "--size", 20, "--seed", case, "--overwrite")
        (dataset / "dataset.json").write_text(json.dumps({
            "channel_names": {"0": "CT", "1": "zscore"}, "numTraining": 2, "file_ending": ".nii.gz",
            "labels": {"background": 0, "muscle": [80, 81, 82, 83, 86, 87, 88, 89], "gluteus": [80, 81, 82, 83], "hip": [77, 78]},
            "regions_class_order": [86, 80, 77]}))
        job, run = self.folder / "regions.yaml", self.folder / "regions run"
        job.write_text(JOB.replace("Dataset001_Phantom", "Dataset002_Regions") + "loss: {name: dice_bce}\n")
        self.tandem("data", "check", job)
        self.tandem("train", job, "--run-dir", run, "--no-progress")
        scores = json.loads(self.tandem("eval", run, "--json").stdout)
        self.assertEqual(list(scores["dice"]), ["muscle", "gluteus", "hip"])
        image, output = dataset / "imagesTr/case2_0000.nii.gz", self.folder / "regions"
        self.tandem("predict", run, "--input", dataset / "imagesTr", "--output", f"{output}/")
        self.assertEqual(sorted(path.name for path in output.iterdir()), ["case1.nii.gz", "case2.nii.gz"])
        self.assertEqual(voxels(output / "case2.nii.gz"), voxels(image))
        # Probabilities have a channel per region; a voxel has the last region above one half.
        self.tandem("predict", run, "--input", dataset / "imagesTr", "--output", f"{self.folder / 'values'}/",
                    "predict.save=probabilities")
        shape, values = harness.nifti(self.folder / "values/case2.nii.gz")
        grid, labels = harness.nifti(output / "case2.nii.gz")
        self.assertEqual((grid, shape), ((20, 20, 20), (20, 20, 20, 3)))
        for i, label in enumerate(labels):
            above = [r for r in range(3) if values[i + r * 8000] > 0.5]
            if all(abs(values[i + r * 8000] - 0.5) > 1e-4 for r in range(3)):  # else rounding may decide
                self.assertEqual(label, (86, 80, 77)[above[-1]] if above else 0)
        self.tandem("eval", run, "--learn-postprocess")
        learnt = json.loads((run / "postprocess.json").read_text())
        self.assertAlmostEqual(learnt["mean_dice_before"], scores["mean_dice"], delta=1e-12)

    def test_workers_and_caches_give_one_result(self):
        first = self.folder / "one"
        self.tandem("train", self.nnunet, "--run-dir", first, "--no-progress", "data.workers=0")
        for name, override in (("workers", "data.workers=3"), ("disk", "data.cache=disk"), ("full", "data.cache_bytes=1000")):
            run = self.folder / name
            self.tandem("train", self.nnunet, "--run-dir", run, "--no-progress", override)
            self.tandem("ckpt", "diff", first, run)
        self.assertEqual(len(list((self.folder / "Dataset001_Phantom/.tandem-cache").glob("*.bricks"))), 1)


if __name__ == "__main__":
    harness.main()
