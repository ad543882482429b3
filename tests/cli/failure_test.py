"""What goes wrong around a run: folders, data, memory, locale, a second trainer, a death at any call."""
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

import harness

SIZE = 12


class FailureTest(harness.CommandLineTest):
    def nifti(self, name, value_of, code="f", size=SIZE):
        """A NIfTI-1 file of a cube: value_of(x, y, z) in 32-bit floats (f) or integers (i)."""
        header = bytearray(352)
        struct.pack_into("<i", header, 0, 348)
        struct.pack_into("<8h", header, 40, 3, size, size, size, 1, 1, 1, 1)
        struct.pack_into("<2h", header, 70, {"f": 16, "i": 8}[code], 32)
        struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 0, 0, 0, 0)
        struct.pack_into("<2f", header, 108, 352, 1)
        struct.pack_into("<2h", header, 252, 0, 1)
        struct.pack_into("<12f", header, 280, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0)
        header[344:348] = b"n+1\0"
        values = [value_of(x, y, z) for z in range(size) for y in range(size) for x in range(size)]
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(header) + struct.pack(f"<{size**3}{code}", *values))
        return path

    def case(self, name, image=None, label=None, image_code="f", label_code="i"):
        """A case NAME.nii with NAME_label.nii: a gradient with a bright cube of class 1; `image` and `label` replace voxels."""
        def bright(x, y, z):
            return 3 <= x < 8 and 3 <= y < 8 and 3 <= z < 8
        self.nifti(f"{name}.nii", lambda x, y, z: (image or {}).get((x, y, z), x + 10.0 * bright(x, y, z)), image_code)
        self.nifti(f"{name}_label.nii", lambda x, y, z: (label or {}).get((x, y, z), int(bright(x, y, z))), label_code)
        return f"{name}.nii"

    def nifti_job(self, cases, name="nifti.yaml", extra=""):
        path = self.folder / name
        path.write_text(f"data: {{format: nifti, train: [{', '.join(cases)}], labels: {{background: 0, cube: 1}}}}\n"
                        "model: {name: unet3d, features: [4, 8]}\npatch: {size: [8, 8, 8]}\nthreads: 1\n"
                        "precision: {compute: fp16}\ntrain: {iterations: 10, batch_size: 2}\n"
                        f"checkpoint: {{every: 5}}\n{extra}", encoding="utf-8")
        return path

    def test_bad_voxels_are_named_with_their_file(self):
        nan, inf = float("nan"), float("inf")
        # The voxel (x, y, z) = (2, 5, 7) is [7, 5, 2] in messages.
        at = (2, 5, 7)
        cases = [
            ("nan", {"image": {at: nan}}, 3, "[7, 5, 2]"),
            ("infinite", {"image": {at: inf}}, 3, "[7, 5, 2]"),
            ("minus_infinite", {"image": {at: -inf}}, 3, "[7, 5, 2]"),
            ("unnamed_label", {"label": {at: 9}}, 3, "[7, 5, 2]"),
            ("negative_label", {"label": {at: -5}}, 3, "[7, 5, 2]"),
            ("fraction_as_label", {"label": {at: 1.5}, "label_code": "f"}, 3, "1.5"),
            ("nan_as_label", {"label": {at: nan}, "label_code": "f"}, 3, "nan"),
        ]
        for name, what, status, needle in cases:
            run = self.folder / f"run {name}"
            job = self.nifti_job([self.case("sound"), self.case(name, **what)])
            done = self.tandem("train", job, "--run-dir", run, "--no-progress", status=status)
            with self.subTest(name):
                self.assertRegex(done.stderr, rf"{name}(_label)?\.nii")
                self.assertIn(needle, done.stderr.lower())
                self.assertFalse(list(run.glob("step-*.h5")), "nothing was trained")

    def test_an_image_that_the_first_convolution_cannot_hold_names_that_layer_and_both_remedies_help(self):
        run = self.folder / "loud"
        image = {(x, y, z): 5e4 + 1e3 * x for x in range(SIZE) for y in range(SIZE) for z in range(SIZE)}
        job = self.nifti_job([self.case("loud", image=image)], "loud.yaml", "augment: {mirror: []}\n")
        raw = "data.normalize=[{channel: 0, kind: none}]"
        done = self.tandem("train", job, "--run-dir", run, "--no-progress", raw, status=5)
        self.assertRegex(done.stderr, r"first not finite: forward, layer enc0\.conv1, op conv, output at \[[01](, \d+){4}\] = -?inf "
                         r"\(\|x\| = \d\S*e\+\d\d without 16-bit rounding\), sample loud\S* from ")
        self.assertRegex(done.stderr, r"1\. the layer that overflows in FP32: +precision\.fp32_layers: \[\"enc0\.conv1\"\]\n"
                         r"  2\. images without extreme values: +data\.normalize: \[\{channel: 0, kind: zscore\}\]\n")
        for i, words in enumerate(([raw, "precision.fp32_layers=[enc0.conv1]"], ["data.normalize=[{channel: 0, kind: zscore}]"])):
            cured = self.folder / f"loud cured {i}"
            self.tandem("train", job, "--run-dir", cured, "--no-progress", *words)
            self.assertNotIn("forward", [line["event"] for line in self.metrics(cured) if line["kind"] == "step"])

    def test_the_third_failed_save_in_a_row_ends_the_run_with_exit_6(self):
        run = self.folder / "no room"
        job = self.job("no room.yaml", iterations=20, every=1)
        words = ("log.tensorboard=false", "log.report=false")
        self.tandem("train", job, "--run-dir", run, "--no-progress", *words, "train.iterations=1")
        size = (run / "step-000000001.h5").stat().st_size
        done = subprocess.run([harness.PROGRAM, "train", job, "--run-dir", run, "--resume", "auto", "--no-progress", *words],
                              capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2)))
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(re.findall(r"The next try is in 1 steps \((\d) of 3\)", done.stderr), ["1", "2"])
        self.assertIn("Last good checkpoint: step 1.", done.stderr)
        self.assertEqual([p.name for p in sorted(run.glob("step-*.h5"))], ["step-000000001.h5"])
        self.tandem("train", job, "--run-dir", run, "--resume", "auto", "--no-progress", *words, "train.iterations=5")

    def test_values_beyond_fp16_end_with_exit_5_and_keep_the_last_good_state(self):
        run = self.folder / "beyond"
        plain = "augment: {mirror: []}\n"
        job = self.nifti_job([self.case("swapped")], "beyond.yaml", plain)
        raw = "data.normalize=[{channel: 0, kind: none}]"
        self.tandem("train", job, "--run-dir", run, "--no-progress", raw)
        self.case("swapped", image={(x, y, z): 1e30 for x in range(SIZE) for y in range(SIZE) for z in range(SIZE)})
        done = self.tandem("train", job, "--run-dir", run, "--no-progress", "--resume", "auto", "train.iterations=60", raw, status=5)
        self.assertRegex(done.stderr, r"first not finite: forward, the input image, op cast, output at \[[01](, \d+){4}\] = inf "
                         r"\(\|x\| = \d(\.\d+)?e\+\d\d without 16-bit rounding\), sample swapped\S* from ")
        self.assertRegex(done.stderr, r"\n  1\. images without extreme values: +data\.normalize: \[\{channel: 0, kind: zscore\}\]\n")
        self.assertNotIn("fp32_layers", done.stderr, "no layer can hold what the image has lost")
        self.assertIn("step-000000010.h5", [p.name for p in run.glob("step-*.h5")])
        self.tandem("ckpt", "verify", run / "step-000000010.h5")

    def test_fourteen_bad_files_are_all_listed(self):
        folder = self.folder / "fourteen"
        folder.mkdir()
        names = []

        def add(name, **what):
            names.append("fourteen/" + name)
            self.case(names[-1], **what)
            return self.folder / (names[-1] + ".nii"), self.folder / (names[-1] + "_label.nii")

        image, _ = add("cut")
        image.write_bytes(image.read_bytes()[:-1000])
        image, _ = add("empty")
        image.write_bytes(b"")
        image, _ = add("text")
        image.write_text("this is no image\n" * 50, encoding="utf-8")
        image, _ = add("short_header")
        image.write_bytes(image.read_bytes()[:200])
        image, _ = add("huge_claim")
        header = bytearray(image.read_bytes())
        struct.pack_into("<8h", header, 40, 3, 32767, 32767, 32767, 1, 1, 1, 1)
        image.write_bytes(header)
        image, _ = add("unknown_type")
        header = bytearray(image.read_bytes())
        struct.pack_into("<2h", header, 70, 4711, 32)
        image.write_bytes(header)
        image, _ = add("folder_instead")
        image.unlink()
        image.mkdir()
        image, _ = add("dangling_link")
        image.unlink()
        image.symlink_to(folder / "nowhere.nii")
        _, label = add("no_label")
        label.unlink()
        _, label = add("other_grid")
        self.nifti("fourteen/other_grid_label.nii", lambda x, y, z: 1, "i", SIZE + 1)
        _, label = add("cut_label")
        label.write_bytes(label.read_bytes()[:-8])
        add("voxel_nan", image={(1, 2, 3): float("nan")})
        add("unnamed_label", label={(1, 2, 3): 7})
        _, label = add("empty_label")
        label.write_bytes(b"")
        self.assertEqual(len(names), 14)

        job = self.nifti_job([f"{name}.nii" for name in names] + [self.case("fourteen/sound")], "fourteen.yaml")
        done = self.tandem("data", "check", job, status=3)
        for name in names:
            self.assertIn(pathlib.Path(name).name, done.stdout + done.stderr)
        done = self.tandem("train", job, "--run-dir", self.folder / "run fourteen", "--no-progress", status=3)
        self.assertIn("fourteen/", done.stderr)
        self.assertFalse((self.folder / "run fourteen").exists())

    def test_folders_that_cannot_hold_a_run(self):
        job = self.job(iterations=2)
        base = self.folder / "folders"
        base.mkdir()
        (base / "file").write_text("kept", encoding="utf-8")
        (base / "loop").symlink_to(base / "loop")
        (base / "dangling").symlink_to(base / "nowhere" / "deep")
        foreign = base / "foreign"
        foreign.mkdir()
        (foreign / "thesis.txt").write_text("kept", encoding="utf-8")
        cases = [
            (base / "file", 6, "cannot be made"),
            (base / "file" / "below", 6, "cannot be made"),
            (base / "loop", 6, "cannot be made"),
            (base / "dangling", 6, "cannot be made"),
            (base / ("n" * 300), 6, "cannot be made"),
            ("/sys/tandem run", 6, "cannot be made"),
            (foreign, 2, "thesis.txt"),
            ("", 2, "--run-dir"),
        ]
        for folder, status, needle in cases:
            done = self.tandem("train", job, "--run-dir", folder, "--no-progress", status=status)
            with self.subTest(folder=str(folder)):
                self.assertIn(needle, done.stderr)
                self.assertIn("--run-dir", done.stderr, "what to change")
        self.assertEqual((base / "file").read_text(encoding="utf-8"), "kept")
        self.assertEqual([p.name for p in foreign.iterdir()], ["thesis.txt"])

    def test_a_second_trainer_is_refused_and_the_first_goes_on(self):
        job = self.job("two.yaml", iterations=100000, every=100000)
        run = self.folder / "two"
        first = self.start("train", job, "--run-dir", run, "--no-progress")
        metrics = run / "metrics.jsonl"
        for _ in range(3000):
            if metrics.exists() and metrics.stat().st_size > 0:
                break
            time.sleep(0.02)
        for words in ((), ("--resume", "auto"), ("--overwrite",)):
            done = self.tandem("train", job, "--run-dir", run, "--no-progress", *words, status=2)
            self.assertIn(f"pid {first.pid}", done.stderr)
        self.assertIsNone(first.poll())
        first.send_signal(signal.SIGTERM)
        _, text = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 75, text)
        steps = [line["step"] for line in self.metrics(run) if line["kind"] == "step"]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_a_patch_that_cannot_fit_is_refused_before_anything_is_allocated(self):
        job = self.job("huge.yaml")
        for command in (("train", job, "--run-dir", self.folder / "huge", "--no-progress"), ("summary", job)):
            done = self.tandem(*command, "patch.size=[1024, 1024, 1024]", status=6)
            self.assertRegex(done.stderr, r"\[memory\] a step of batch 2 x \[1024, 1024, 1024\]: got about [0-9.]+ [GT]iB")
            self.assertRegex(done.stderr, r"Set patch\.size=\[\d+, \d+, \d+\] \(about [0-9.]+ [MG]iB\)")
        self.assertFalse((self.folder / "huge").exists())
        self.assertIn("a training step of batch 2 takes about", self.tandem("summary", job).stdout)

    def test_the_estimate_is_within_a_quarter_of_what_the_process_takes(self):
        if harness.is_sanitized():
            self.skipTest("sanitizers take memory of their own")
        job = self.job("resident.yaml", compute="fp32")
        size = ("model.features=[16, 32, 64]", "patch.size=[40, 40, 40]")

        def resident(*words):
            process = subprocess.Popen([harness.PROGRAM, "train", job, "--dry-run", *words], stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return usage.ru_maxrss / 1024
        text = self.tandem("summary", job, *size).stdout
        foreseen = float(re.search(r"a training step of batch 2 takes about ([0-9.]+) MiB", text)[1])
        taken = resident(*size) - resident()  # less the program, its libraries and the cases
        print(f"foreseen {foreseen:.0f} MiB, taken {taken:.0f} MiB")
        self.assertGreater(foreseen, taken / 1.25)
        self.assertLess(foreseen, taken * 1.25)

    def test_a_limit_of_the_process_counts_as_memory(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        if harness.is_sanitized():
            self.skipTest("sanitizers map terabytes")
        done = subprocess.run([harness.PROGRAM, "train", self.job("limited.yaml"), "--run-dir", self.folder / "limited",
                               "patch.size=[256, 256, 256]"], capture_output=True, text=True, preexec_fn=limit, check=False)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertRegex(done.stderr, r"at most the [12]\.\d GiB that this process may still take")

    def test_locale_and_time_zone_change_no_number(self):
        locales = self.folder / "locales"
        locales.mkdir()
        environments = [{"TZ": "Pacific/Kiritimati"}, {"TZ": "America/St_Johns"}]
        for name in ("de_DE", "tr_TR"):
            made = shutil.which("localedef") and subprocess.run(
                ["localedef", "-i", name, "-f", "UTF-8", locales / f"{name}.UTF-8"], capture_output=True, check=False)
            if made and (locales / f"{name}.UTF-8").exists():
                # glibc never frees what it reads of LOCPATH.
                sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
                environments.append({"LC_ALL": f"{name}.UTF-8", "LOCPATH": str(locales), "ASAN_OPTIONS": sanitizer.strip(":")})
            else:
                print(f"no locale {name} can be made here: left out")
        job = self.job("locale.yaml", iterations=4, every=2)

        def numbers(run):
            return [{k: v for k, v in line.items() if not k.endswith(("_ms", "seconds"))} for line in self.metrics(run)
                    if line["kind"] != "usage"]  # batches in memory depend on the loader's pace
        plain = self.folder / "locale plain"
        self.tandem("train", job, "--run-dir", plain, "--no-progress")
        for i, environment in enumerate(environments):
            run = self.folder / f"locale {i}"
            self.tandem("train", job, "--run-dir", run, "--no-progress", environment=environment)
            self.assertEqual(numbers(run), numbers(plain))
            self.assertEqual((run / "config.resolved.yaml").read_bytes(), (plain / "config.resolved.yaml").read_bytes())
            self.assertIn("identical", self.tandem("ckpt", "diff", plain, run).stdout)

    def test_a_death_at_any_call_of_the_run_is_made_good(self):
        """The program ends itself in place of the n-th call that changes a file; then it goes on to the same bits."""
        job = self.job("crash.yaml", iterations=6, every=2)
        whole = self.folder / "crash whole"
        words = ("--no-progress", "checkpoint.verify=true")
        self.tandem("train", job, "--run-dir", whole, *words)
        deaths = 0
        for n in (1, 3, 6, 10, 13, 15, 16, 18, 21, 24, 27, 31):
            run = self.folder / f"crash {n}"
            process = subprocess.run([harness.PROGRAM, "train", job, "--run-dir", run, *words], capture_output=True, text=True,
                                     env={**os.environ, "TANDEM_CRASH_AT": str(n)}, check=False)
            self.assertIn(process.returncode, (0, 137), process.stderr)
            deaths += process.returncode == 137
            self.tandem("train", job, "--run-dir", run, "--resume", "auto", *words)
            self.assertIn("identical", self.tandem("ckpt", "diff", whole, run).stdout, n)
            self.assertEqual([line["step"] for line in self.metrics(run) if line["kind"] == "step"], [1, 2, 3, 4, 5, 6], n)
        self.assertGreaterEqual(deaths, 10)


if __name__ == "__main__":
    harness.main()
