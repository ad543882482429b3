"""What goes wrong around a run: folders, data, memory, locale, a second trainer, a death at any call."""
import os
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

    def test_fourteen_bad_files_and_an_unreadable_one_are_all_listed(self):
        folder = self.folder / "fifteen"
        reasons = {}  # by name of the file: what must be said of it

        def add(name, reason, of="", image=None, **what):
            """A case of its own image that is sound until the caller breaks its image, or with of="_label" its labels."""
            reasons[f"{name}{of}.nii"] = reason
            self.case(f"fifteen/{name}", image={(0, 0, 0): len(reasons), **(image or {})}, **what)
            return folder / f"{name}{of}.nii"

        def patch(path, at, layout, *values):
            header = bytearray(path.read_bytes())
            struct.pack_into(layout, header, at, *values)
            path.write_bytes(header)

        path = add("cut", "got a file of 6264 bytes, expected at least 7264")
        path.write_bytes(path.read_bytes()[:-1000])
        add("empty", "got 0 bytes (the file is truncated), expected 348").write_bytes(b"")
        add("text", "sizeof_hdr: got").write_text("this is no image\n" * 50, encoding="utf-8")
        path = add("short_header", "got 200 bytes (the file is truncated), expected 348")
        path.write_bytes(path.read_bytes()[:200])
        patch(add("huge_claim", "dim: got 32767 x 32767 x 32767"), 40, "<8h", 3, 32767, 32767, 32767, 1, 1, 1, 1)
        patch(add("unknown_type", "datatype: got 4711"), 70, "<2h", 4711, 32)
        path = add("folder_instead", "got a folder without case files")
        path.unlink()
        path.mkdir()
        path = add("dangling_link", "got no such file")
        path.unlink()
        path.symlink_to(folder / "nowhere.nii")
        add("unlabelled", "got no labels")
        (folder / "unlabelled_label.nii").unlink()
        add("other_grid", "shape z, y, x: got [13, 13, 13], expected [12, 12, 12]", "_label")
        self.nifti("fifteen/other_grid_label.nii", lambda x, y, z: 1, "i", SIZE + 1)
        path = add("labels_cut", "got a file of 7256 bytes, expected at least 7264", "_label")
        path.write_bytes(path.read_bytes()[:-8])
        add("labels_empty", "got 0 bytes (the file is truncated), expected 348", "_label").write_bytes(b"")
        add("voxel_nan", "not finite, expected none; the first at [3, 2, 1] (z, y, x): nan", image={(1, 2, 3): float("nan")})
        add("unnamed_value", "got value 7 in 1 voxel, the first at [3, 2, 1] (z, y, x)", "_label", label={(1, 2, 3): 7})
        path = add("labels_unreadable", "cannot be opened: Permission denied", "_label")
        if os.getuid() == 0:  # who may read everything: a folder stands in the place of the file
            reasons["labels_unreadable.nii"] = "got no labels"
            del reasons["labels_unreadable_label.nii"]
            path.unlink()
            path.mkdir()
        else:
            path.chmod(0)
        self.assertEqual(len(reasons), 15)

        names = [name.replace("_label.nii", ".nii") for name in reasons]
        job = self.nifti_job([f"fifteen/{name}" for name in names] + [self.case("fifteen/sound")], "fifteen.yaml")
        done = self.tandem("data", "check", job, status=3)
        lines = done.stdout.splitlines()
        for name, reason in reasons.items():
            # What a file holds is said once: one line, its name, a colon, the reason.
            said = [line for line in lines if f"/{name}: " in line]
            self.assertEqual(len(said), 1, f"{name}: {done.stdout}")
            self.assertTrue(said[0].startswith("error: "), said[0])
            self.assertIn(reason, said[0].split(f"/{name}: ", 1)[1])
        self.assertNotIn("sound", done.stdout)
        self.assertIn("15 cases, 15 errors, 0 warnings", lines)
        done = self.tandem("train", job, "--run-dir", self.folder / "run fifteen", "--no-progress", status=3)
        self.assertIn("fifteen/", done.stderr)
        self.assertFalse((self.folder / "run fifteen").exists())

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

    def test_a_validation_that_cannot_fit_is_refused_before_the_start(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        if harness.is_sanitized():
            self.skipTest("sanitizers map terabytes")
        folder = self.folder / "large validation"
        folder.mkdir()
        for name, source in (("small.nii.gz", "phantom.nii.gz"), ("small_label.nii.gz", "phantom labels.nii.gz")):
            shutil.copy(self.folder / source, folder / name)
        header = bytearray(352)  # 1024^3 voxels of 16 bits in a sparse file, 1 mm
        struct.pack_into("<i", header, 0, 348)
        struct.pack_into("<8h", header, 40, 3, 1024, 1024, 1024, 1, 1, 1, 1)
        struct.pack_into("<2h", header, 70, 4, 16)
        struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 0, 0, 0, 0)
        struct.pack_into("<f", header, 108, 352)
        struct.pack_into("<h", header, 254, 1)
        struct.pack_into("<12f", header, 280, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0)
        header[344:348] = b"n+1\0"
        for name in ("large.nii", "large_label.nii"):
            (folder / name).write_bytes(header)
            os.truncate(folder / name, 352 + 2 * 1024 ** 3)

        def train(run, validation):
            return subprocess.run([harness.PROGRAM, "train", self.job("validated.yaml", iterations=1), "--run-dir", run,
                                   "--no-progress", "data.format=nifti", f"data.train=['{folder}/small.nii.gz']",
                                   f"data.validation={validation}"], capture_output=True, text=True, preexec_fn=limit, check=False)
        run = self.folder / "never started"
        done = train(run, f"['{folder}/small.nii.gz', '{folder}/large.nii']")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertRegex(done.stderr, r"\[memory\] the validation of .*large\.nii \[1024, 1024, 1024\]: got about [0-9.]+ GiB")
        self.assertRegex(done.stderr, r"Leave .*large\.nii out of the validation and score it with `tandem eval`")
        self.assertFalse(run.exists())
        done = train(run, f"['{folder}/small.nii.gz']")
        self.assertEqual(done.returncode, 0, done.stderr)

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
