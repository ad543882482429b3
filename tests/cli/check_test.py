"""What `tandem config check` finds in a job file is all that `train` would refuse by it: one list, by line; and settings without effect."""
import re
import textwrap

from harness import CommandLineTest, main

DATA = "data: {train: [left.h5], labels: {background: 0, hip: [77, 78], spine: 80}, other_labels: background}\n"
REFUSED = {  # what is added to a sound job: what the text must say
    "device: cuda:1": "'device': got cuda:1, expected auto or cpu: no CUDA device: ",
    "device: gpu": "'device': got 'gpu', expected auto, cpu, cuda or cuda:N",
    "patch: {size: [8, 9, 8]}": "'patch.size': got [8, 9, 8], expected multiples of [2, 2, 2]",
    "patch: {size: [2, 2, 2]}": "one voxel at the coarsest stage",
    "patch: {class_weights: {liver: 2}}": "'patch.class_weights': got 'liver', expected foreground classes of data.labels: hip, spine",
    "precision: {fp32_layers: [hed0]}": "'precision.fp32_layers[0]': got 'hed0', expected the name of a layer or parameter",
    "precision: {low_layers: [enc0.norm1]}": "'precision.low_layers[0]': got 'enc0.norm1', expected the name of a conv or linear layer",
    "optimizer: {groups: [{match: '*.bias'}, {match: heads}]}": "'optimizer.groups[1].match': got 'heads', expected the name of",
    "loss: {ce: {class_weights: [1, 2]}}": "'loss.ce.class_weights': got 2 values, expected 3",
    "loss: {name: bce, bce: {pos_weight: [1, 2]}}": "'loss.bce.pos_weight': got 2 values, expected 3",
    "loss: {name: mse}\ndata: {ignore_label: 9}": "'loss.name': got mse with data.ignore_label",
    "data: {regions: {bone: [77, 80]}, region_values: [5]}\nloss: {name: dice_bce}": "'data.region_values': got 5, expected a value of data.labels",
    "data: {train: []}": "'data.train': got no files, expected at least one case to train on",
    "model: {init_rename: [x]}": "'model.init_rename[0]': got 'x', expected FROM=TO",
}
WITHOUT_EFFECT = {  # likewise
    "select: {metric: dice}": "'select.metric': has no effect: there is no validation; give data.validation or data.split",
    "select: {mode: min}": "'select.mode': has no effect: no metric is watched; set select.metric",
    "checkpoint: {keep_best: 3}": "'checkpoint.keep_best': has no effect",
    "validate: {every: 5}": "'validate.every': has no effect: there is no validation",
    "validate: {nsd_mm: 3}": "'validate.nsd_mm': has no effect: nsd is not computed; add nsd to validate.metrics",
    "validate: {mirror_tta: true}": "'validate.mirror_tta': has no effect: true means the axes of augment.mirror, which names none",
    "predict: {mirror_tta: true}": "'predict.mirror_tta': has no effect: true means the axes of augment.mirror, which names none",
    "schedule: {warmup: 50}": "'schedule.warmup': got 50 steps in a run of 30: the learning rate never reaches optimizer.lr",
    "schedule: {name: step}": "'schedule.every': got 1000 steps in a run of 30: the learning rate never falls",
    "schedule: {name: multistep, milestones: [10, 30]}": "'schedule.milestones': got 30, which a run of 30 steps does not reach",
    "schedule: {name: plateau}\nselect: {metric: dice}\nvalidate: {every: 10}\ndata: {split: {folds: 2}}":
        "'schedule.patience': got 10, but 2 validations before the end of the run: the learning rate never falls",
    "train: {early_stop: {patience: 3}}\nselect: {metric: dice}\nvalidate: {every: 10}\ndata: {split: {folds: 2}}":
        "'train.early_stop.patience': got 3, but 2 validations before the end of the run: it is never stopped early",
    "precision: {compute: fp16, loss_scale: {mode: off}}": "'precision.loss_scale.mode': got off with precision.compute: fp16",
    "precision: {compute: fp16, check_finite: false}": "'precision.check_finite': has no effect",
    "precision: {compute: fp32, loss_scale: {init: 1024}}": "'precision.loss_scale.init': has no effect: there is no loss scale",
    "precision: {compute: fp16, loss_scale: {mode: static, growth_interval: 5}}":
        "'precision.loss_scale.growth_interval': has no effect: a static loss scale does not move",
    "precision: {compute: fp32, fp32_layers: [head0]}": "'precision.fp32_layers': has no effect: with precision.compute: fp32 every layer",
    "precision: {compute: fp32, on_repeat_overflow: demote}": "'precision.on_repeat_overflow': has no effect",
    "precision: {compute: fp32, on_weight_overflow: fp32_layer}": "'precision.on_weight_overflow': has no effect",
    "data: {split: {fold: 1}}": "'data.split.fold': has no effect: there are no folds",
    "data: {split: {group: _}}": "'data.split.group': has no effect",
    "augment: {probability: {rotate: 0.5}}": "'augment.probability.rotate': has no effect: the change is off; set augment.rotate_deg",
    "model: {init_strict: true}": "'model.init_strict': has no effect: no weights are read; set model.init_from",
    "model: {init_rename: [a=b]}": "'model.init_rename': has no effect: no weights are read; set model.init_from",
    "model: {deep_supervision: true}": "'model.deep_supervision': has no effect: a coarser output with a weight above 0 needs 4",
    "patch: {foreground: 0, class_first: false}": "'patch.class_first': has no effect: no patch is centred on a foreground voxel",
    "patch: {foreground: 0, class_weights: {hip: 2}}": "'patch.class_weights': has no effect",
    "patch: {sampling: grid, slack: 0.5}": "'patch.slack': has no effect: all patches stay; set patch.min_foreground",
}
QUIET = (  # what would be one of them, but for one more key
    "precision: {compute: fp16, loss_scale: {growth_interval: 100000}}", "precision: {compute: auto, loss_scale: {init: 1024}}",
    "augment: {mirror: [z]}\npredict: {mirror_tta: true}", "validate: {mirror_tta: [z]}", "augment: {rotate_deg: 5, probability: {rotate: 0.5}}",
    "schedule: {warmup: 30}", "schedule: {name: multistep, milestones: [10, 29]}", "data: {split: {folds: 2, fold: 1, group: _}}\nselect: {metric: dice}",
    "model: {deep_supervision: true, features: [2, 2, 2, 2], norm: batch}", "optimizer: {ema: {decay: 0.9}}")
BASE = "train: {iterations: 30, batch_size: 2}\n"
SMALL = {"model": "{features: [2, 2]}", "patch": "{size: [8, 8, 8]}"}


class CheckTest(CommandLineTest):
    def written(self, added, name="checked.yaml"):
        """`added` in a file of its own that inherits a sound job, so that each line of it is the file's."""
        base = self.folder / "sound.yaml"
        base.write_text(DATA + BASE + "".join(f"{key}: {value}\n" for key, value in SMALL.items()), encoding="utf-8")
        path = self.folder / name
        path.write_text("inherit: [sound.yaml]\n" + added + "\n", encoding="utf-8")
        return path

    def test_what_train_refuses_check_refuses(self):
        for added, text in REFUSED.items():
            job, status = self.written(added), 7 if added == "device: cuda:1" else 2
            checked = self.tandem("config", "check", job, status=status).stderr
            for flags in ((), ("--dry-run",)):
                trained = self.tandem("train", job, "--run-dir", self.folder / "never", *flags, status=status).stderr
                self.assertEqual(trained, checked, added)
            self.assertIn(text, checked)
            self.assertRegex(checked, r"--> .*checked.yaml:\d+:\d+", added)
        self.assertFalse((self.folder / "never").exists())
        for whole, text in ((DATA + "model: {name: sample_cnn}\n", "'model.name': got sample_cnn, expected a model that labels the voxels"),
                            ("data: {format: nnunet, train: [a, b]}\n",
                             "'data.train': got 2 entries with data.format: nnunet, expected one folder\n  --> ")):
            job = self.folder / "whole.yaml"
            job.write_text(whole + BASE, encoding="utf-8")
            self.assertIn(text, self.tandem("config", "check", job, status=2).stderr)

    def test_all_comes_together_by_line(self):
        job = self.folder / "many.yaml"
        job.write_text(textwrap.dedent("""\
            patch: {size: [8, 9, 8]}
            optimizer:
              lr: -1
              groups:
                - {match: '*.bias'}
                - {match: heads}
            data: {train: [left.h5], labels: {background: 0, hip: 77}}
            loss: {ce: {class_weights: [1, 2, 3]}}
            model: {features: [2, 2]}
            train: {iterations: 10, epochs: 2, batchsize: 3}
            device: cuda
            precision: {fp32_layers: [head0, tail]}
            """), encoding="utf-8")
        text = self.tandem("config", "check", job, "seed=-1", "validate.every=x", status=2).stderr
        places = re.findall(r"error: (?:unknown key )?'([^']*)'[^\n]*\n  --> (?:.*many\.yaml:(\S+)|command line)", text)
        self.assertEqual(places, [
            ("patch.size", "1:9"), ("optimizer.lr", "3:7"), ("optimizer.groups[1].match", "6:8"), ("loss.ce.class_weights", "8:13"),
            ("train.iterations", "10:9"), ("train.batchsize", "10:36"), ("device", "11:1"), ("precision.fp32_layers[1]", "12:34"),
            ("seed", ""), ("validate.every", "")], text)
        self.assertIn("10 errors, nothing was run", text)

    def test_a_value_that_is_wrong_is_told_once(self):
        for added, count in (("train: {iterations: ten}", 1), ("model: {features: [2, x]}\npatch: {size: [9, 9, 9]}", 1),
                             ("data: {labels: {background: 0, hip: a}}\nloss: {ce: {class_weights: [1]}}", 1),
                             ("model: {strides: [[1, 1, 1]]}\nprecision: {fp32_layers: [none]}", 1), ("model: 5\ndevice: cuda", 2)):
            text = self.tandem("config", "check", self.written(added), status=2).stderr
            self.assertEqual(text.count("error: "), count, text)

    def test_settings_without_effect_are_named(self):
        for added, text in WITHOUT_EFFECT.items():
            job = self.written(added)
            done = self.tandem("config", "check", job)
            self.assertIn(text, done.stderr)
            self.assertRegex(done.stderr, r"warning: '[^\n]*\n  --> .*checked.yaml:\d+:\d+", added)
            self.assertIn("checked.yaml: no errors, 1 warning\n", done.stdout)
        for added in QUIET:
            done = self.tandem("config", "check", self.written(added))
            self.assertEqual((done.stderr, done.stdout.count("warning")), ("", 0), added)

    def test_warnings_come_by_line_and_in_train_too(self):
        job = self.written("predict: {mirror_tta: true}\nschedule: {warmup: 40}\nselect: {metric: dice}")
        checked = self.tandem("config", "check", job, "checkpoint.every=9").stderr
        self.assertEqual(re.findall(r"warning: '([^']*)'", checked), ["predict.mirror_tta", "schedule.warmup", "select.metric"])
        for flags in (("--dry-run",), ("--run-dir", self.folder / "warned", "train.iterations=1", "schedule.warmup=2")):
            text = self.tandem("train", job, *flags).stderr
            self.assertEqual(text.count("warning: '"), 3, text)
        self.assertIn("'predict.mirror_tta': has no effect", (self.folder / "warned" / "log.txt").read_text(encoding="utf-8"))

    def test_an_override_that_makes_keys_void_is_silent(self):
        job = self.written("precision: {compute: fp16, fp32_layers: [head0], loss_scale: {init: 1024}}")
        self.assertEqual(self.tandem("config", "check", job, "precision.compute=fp32").stderr, "")

    def test_each_point_of_a_sweep_is_checked(self):
        folder = self.folder / "wrong sweep"
        done = self.tandem("sweep", self.written(""), "--grid", "patch.size=[[8, 8, 8], [9, 8, 8], [8, 8, 7]]", "--sweep-dir", folder,
                           status=2)
        self.assertNotIn("run 001", done.stderr)
        self.assertIn("[sweep] run 002: patch.size=[9, 8, 8]\n'patch.size': got [9, 8, 8], expected multiples", done.stderr)
        self.assertIn("error: [sweep] run 003: patch.size=[8, 8, 7]\n", done.stderr)
        self.assertIn("2 of 3 runs cannot start, none was started", done.stderr)
        self.assertFalse(folder.exists())

    def test_a_sweep_may_give_what_the_job_lacks(self):
        job = self.folder / "no length.yaml"
        job.write_text(DATA + "precision: {compute: fp32}\n" + "".join(f"{key}: {value}\n" for key, value in SMALL.items()),
                       encoding="utf-8")
        words = ("sweep", job, "--grid", "train.iterations=[1, 2]", "--sweep-dir", self.folder / "lengths")
        self.assertIn("001: train.iterations=1: done\n", self.tandem(*words).stdout)
        self.assertEqual(self.tandem(*words).stdout.count("done before"), 2)

    def test_a_dataset_json_is_what_plan_reads(self):
        folder = self.folder / "Dataset001_Small"
        for part, name in (("imagesTr", "a_0000.nii.gz"), ("labelsTr", "a.nii.gz")):
            (folder / part).mkdir(parents=True)
            source = "phantom.nii.gz" if part == "imagesTr" else "phantom labels.nii.gz"
            (folder / part / name).write_bytes((self.folder / source).read_bytes())
        labels = ", ".join(f'"organ{value}": {value}' for value in range(77, 90))
        (folder / "dataset.json").write_text(f'{{"channel_names": {{"0": "CT"}}, "labels": {{"background": 0, {labels}}}, '
                                             '"numTraining": 1, "file_ending": ".nii.gz"}', encoding="utf-8")
        done = self.tandem("init", folder, "--output", self.folder / "from_init.yaml")
        self.assertIn(f"dataset.json names classes and channels: `tandem plan {folder}` takes them from there", done.stdout)
        for command in ("init", "plan"):
            text = self.tandem(command, folder / "dataset.json", "--output", self.folder / "never.yaml", status=2).stderr
            self.assertIn(f"[{command}] {folder / 'dataset.json'}: got nnU-Net's dataset.json, expected its folder", text)
            self.assertIn(f"Use `tandem plan {folder}`", text)
        self.assertFalse((self.folder / "never.yaml").exists())
        self.tandem("plan", folder, "--memory", "1GiB", "--output", self.folder / "from_plan.yaml")
        for name in ("from_init.yaml", "from_plan.yaml"):
            self.assertIn("no errors\n", self.tandem("config", "check", self.folder / name).stdout)


if __name__ == "__main__":
    main()
