#!/usr/bin/env python3
"""Shows that check_style.py finds each kind of break, in trees of one small file, and passes the tree that has none."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).with_name("check_style.py")
HEAD = "// What lives here.\n"


def findings(path, text):
    """The rules that the checker names for a tree with one file."""
    with tempfile.TemporaryDirectory(prefix="tandem style ") as folder:
        file = pathlib.Path(folder, path)
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, CHECKER, folder], capture_output=True, text=True, check=False)
    rules = [line.split(": ")[1] for line in done.stdout.splitlines()[:-1]]
    assert done.returncode == (1 if rules else 0), done.stdout + done.stderr
    return rules


class CheckStyle(unittest.TestCase):
    def expect(self, rule, path, text):
        self.assertEqual(findings(path, text), [rule] if rule else [])

    def test_clean(self):
        body = "namespace tandem {\n\nint f(int a, int b) {\n  return a + b;\n}\n\n}  // namespace tandem\n"
        self.expect(None, "core/ops/x.cpp", HEAD + '#include "core/autograd/tape.h"\n' + body)
        self.expect(None, "core/ops/x.h", HEAD + "#pragma once\n")

    def test_file_length(self):
        self.expect(None, "core/ops/x.h", HEAD + "#pragma once\n" + "\n" * 198)
        self.expect("file-length", "core/ops/x.h", HEAD + "#pragma once\n" + "\n" * 199)
        self.expect("file-length", "core/ops/x.cpp", HEAD + "\n" * 400)

    def test_function_length(self):
        def function(lines, margin=""):
            return margin + "int f(int a) {\n" + (margin + "  a += 1;\n") * lines + margin + "}\n"
        self.expect(None, "core/ops/x.cpp", HEAD + "namespace tandem {\n\n" + function(58) + "\n}\n")
        self.expect("function-length", "core/ops/x.cpp", HEAD + "namespace tandem {\n\n" + function(59) + "\n}\n")
        self.expect("function-length", "core/ops/x.cpp", HEAD + "class X {\n public:\n" + function(59, "  ") + "};\n")

    def test_parameters(self):
        self.expect(None, "core/ops/x.cpp", HEAD + "int f(int a, std::map<int, int> b, int c, int d, int e) {\n  x();\n}\n")
        self.expect("parameters", "core/ops/x.cpp", HEAD + "int f(int a, int b, int c,\n      int d, int e, int g) {\n  x();\n}\n")

    def test_first_comment_and_pragma(self):
        self.expect("first-comment", "core/ops/x.cpp", "int x;\n")
        self.expect("pragma-once", "core/ops/x.h", HEAD)

    def test_include_direction(self):
        for path, target in [("core/tensor/x.cpp", "core/backends/backend.h"), ("core/kernels/x.h", "core/tensor/dtype.h"),
                             ("core/config/x.cpp", "core/tensor/dtype.h"), ("layers/x.cpp", "optim/optimizer.h"),
                             ("optim/x.cpp", "train/trainer.h"), ("core/ops/x.cpp", "core/params/parameter.h")]:
            pragma = "#pragma once\n" if path.endswith(".h") else ""
            self.expect("include-direction", path, HEAD + pragma + f'#include "{target}"\n')
        self.expect("include-path", "core/ops/x.cpp", HEAD + '#include "../tensor/tensor.h"\n')

    def test_words(self):
        self.expect("device-code", "core/ops/x.cpp", HEAD + "__device__ int x;\n")
        self.expect("output", "train/x.cpp", HEAD + "void f() { std::cout << 1; }\n")
        self.expect(None, "apps/x.cpp", HEAD + "void f() { std::cout << 1; }\n")
        self.expect("environment", "train/x.cpp", HEAD + 'auto x = std::getenv("X");\n')
        self.expect("using-namespace", "core/ops/x.h", HEAD + "#pragma once\nusing namespace std;\n")
        self.expect("todo", "core/ops/x.cpp", HEAD + "// TODO later\n")
        self.expect(None, "core/ops/x.cpp", HEAD + "// std::cout and getenv in a comment\n")

    def test_build_flags(self):
        self.expect("build-flags", "core/backends/cpu/isa.cmake", "add_compile_options(-march=native)\n")
        self.expect(None, "core/backends/cpu/isa.cmake", "# never -march=native\n")


if __name__ == "__main__":
    unittest.main()
