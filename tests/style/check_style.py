#!/usr/bin/env python3
"""Checks the rules of style that a machine can check, over the sources of a tree.

usage: check_style.py [ROOT]      exit status: 0 when nothing is found; else one line per finding: path:line: rule: what

Rules: length of files and functions, number of parameters, the first comment of a header,
the direction of includes, where device code, the environment and standard output may be used, no TODO.
"""
import pathlib
import re
import sys

# What may go beyond a rule, and why: (path, rule) -> reason.
ALLOWED = {
    ("core/base/host_device.h", "device-code"): "the macro itself; core/base's Philox is scalar maths for devices too",
    ("tests/style/check_style.py", "todo"): "names the words it looks for",
    ("tests/style/check_style_test.py", "todo"): "writes files that break the rules",
    ("core/backends/cpu/conv.cpp", "parameters"): "the operands of a convolution and its geometry",
    ("core/backends/cpu/conv_staging.cpp", "parameters"): "packed rows, their size, and where they go",
    ("core/backends/cpu/loops/loss.cpp", "parameters"): "one class of a block: the operands of its inner loop",
    ("core/config/fields.cpp", "parameters"): "the parts of a field; a struct of them would be the Field it makes",
    ("data/hdf5_attribute.cpp", "parameters"): "what H5Acreate takes",
    ("tests/config/emit_test.cpp", "function-length"): "one table of texts",
    ("tests/config/options_test.cpp", "function-length"): "one table of error texts",
    ("tests/config/yaml_test.cpp", "function-length"): "one table of error texts",
}

LIBRARY = ("core", "layers", "optim", "data", "deploy", "train")
FOLDERS = LIBRARY + ("apps", "tests", "bench")
MAX_HEADER, MAX_SOURCE, MAX_FUNCTION, MAX_PARAMETERS = 200, 400, 60, 5

# Each folder may include itself and the folders that its row names: apps -> train -> {optim, data, deploy} -> layers ->
# ops, params -> autograd -> backends -> tensor -> base; kernels and config see only base.
TENSOR = ("core/tensor", "core/base")
BACKENDS = ("core/backends", "core/kernels") + TENSOR
AUTOGRAD = ("core/autograd",) + BACKENDS
LAYERS = ("layers", "core/ops", "core/params", "core/config") + AUTOGRAD
MAY_INCLUDE = {
    "core/base": (),
    "core/kernels": ("core/base",),
    "core/config": ("core/base",),
    "core/tensor": ("core/base",),
    "core/backends": ("core/kernels",) + TENSOR,
    "core/autograd": BACKENDS,
    "core/ops": AUTOGRAD,
    "core/params": ("core/config",) + AUTOGRAD,
    "layers": LAYERS,
    "optim": LAYERS,
    "data": LAYERS,
    "deploy": LAYERS,
    "train": ("optim", "data", "deploy") + LAYERS,
    "apps": ("train", "optim", "data", "deploy") + LAYERS,
}
ENVIRONMENT = ("apps", "core/base", "core/backends", "tests", "bench")


def home_of(path):
    """The row of MAY_INCLUDE that `path` belongs to, or None."""
    parts = path.split("/")
    for home in ("/".join(parts[:2]), parts[0]):
        if home in MAY_INCLUDE:
            return home
    return None


def without_comments(line):
    """The line's code: string literals emptied, a // comment removed."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return line.split("//", 1)[0]


def functions(lines):
    """(first line, lines, signature) of every function body, found by the indentation that clang-format gives: at the
    margin, and at two blanks inside a class."""
    for indent in ("", "  "):
        start, body, in_class = None, False, False
        for number, line in enumerate(lines, 1):
            code = without_comments(line).rstrip()
            if re.match(r"(class|struct)\b.*[^;]$", code):
                in_class = True
            elif code == "};":
                in_class = False
            if indent and not in_class:
                continue
            at_level = code.startswith(indent) and re.match(r"[A-Za-z~]", code[len(indent):])
            if start is None and at_level and not re.match(r"\s*(namespace|public|private|protected)\b", code):
                start, body = number, False
            if start is None:
                continue
            body = body or code.endswith("{")
            if not body and code.endswith((";", "}")):
                start = None
            elif body and code.rstrip(";") == indent + "}":
                signature = " ".join(without_comments(l).strip() for l in lines[start - 1:number]).split("{", 1)[0]
                if "(" in signature and not re.search(r"\b(class|struct|enum|union)\b|(?<!operator)=", signature):
                    yield start, number - start + 1, signature
                start = None


def parameter_count(signature):
    """Parameters of the first parenthesised list of a signature."""
    depth, count, some = 0, 0, False
    for character in signature[signature.index("("):]:
        if character in "(<[{":
            depth += 1
        elif character in ")>]}":
            depth -= 1
            if depth == 0:
                break
        elif character == "," and depth == 1:
            count += 1
        if depth >= 1 and not character.isspace() and character != "(":
            some = True
    return count + 1 if some else 0


def check_lengths(path, lines):
    limit = MAX_HEADER if path.endswith(".h") else MAX_SOURCE
    if len(lines) > limit:
        yield 1, "file-length", f"{len(lines)} lines, at most {limit}"
    for start, length, signature in functions(lines):
        if length > MAX_FUNCTION:
            yield start, "function-length", f"{length} lines, at most {MAX_FUNCTION}"
        if not path.startswith("tests/") and parameter_count(signature) > MAX_PARAMETERS:
            yield start, "parameters", f"{parameter_count(signature)}, at most {MAX_PARAMETERS}"


def check_header(path, lines):
    if not lines or not lines[0].startswith("//"):
        yield 1, "first-comment", "a file begins with a comment that says what lives here and what does not"
    if path.endswith(".h") and "#pragma once" not in lines:
        yield 1, "pragma-once", "missing"


def check_includes(path, lines):
    home = home_of(path)
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#include "([^"]+)"', line)
        if not match:
            continue
        target = match.group(1)
        if target.startswith("."):
            yield number, "include-path", f"{target}: relative, expected a path from the root"
        other = home_of(target)
        if home and other and other != home and other not in MAY_INCLUDE[home]:
            yield number, "include-direction", f"{home} may not include {other}"


def check_words(path, lines):
    library = path.startswith(tuple(folder + "/" for folder in LIBRARY))
    for number, line in enumerate(lines, 1):
        code = without_comments(line)
        if re.search(r"__(device|global|host)__", code) and not path.startswith(("core/kernels/", "core/backends/cuda/")):
            yield number, "device-code", "only in core/kernels (TD_HD) and the CUDA plug-in"
        if library and re.search(r"\bstd::(cout|cerr)\b|\b(printf|puts)\s*\(", code):
            yield number, "output", "the library writes through core/base/log"
        if re.search(r"\bgetenv\b", code) and not path.startswith(tuple(f + "/" for f in ENVIRONMENT)):
            yield number, "environment", "read only in apps, core/base and core/backends"
        if path.endswith(".h") and re.search(r"\busing namespace\b", code):
            yield number, "using-namespace", "not in a header"
        if re.search(r"\b(TODO|FIXME)\b", line):
            yield number, "todo", "say it in an issue"


def check_build(path, lines):
    for number, line in enumerate(lines, 1):
        if re.search(r"-march=native|-ffast-math|-Ofast", line.split("#", 1)[0]):
            yield number, "build-flags", "results must not depend on the build machine"


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".py"):
                yield path
    yield from (p for p in [root / "CMakeLists.txt", *root.glob("*/**/CMakeLists.txt"), *root.glob("core/**/*.cmake")]
                if p.exists() and not p.relative_to(root).parts[0].startswith(("build", ".")))


def check_file(path, text, used):
    """Findings of one file; the exceptions that it needed are added to `used`."""
    lines = text.splitlines()
    if path.endswith(("CMakeLists.txt", ".cmake")):
        checks = (check_build,)
    elif path.endswith(".py"):
        checks = (lambda p, l: (f for f in check_lengths(p, l) if f[1] == "file-length"),
                  lambda p, l: (f for f in check_words(p, l) if f[1] == "todo"))
    else:
        checks = (check_lengths, check_header, check_includes, check_words)
    for check in checks:
        for number, rule, what in check(path, lines):
            if (path, rule) in ALLOWED:
                used.add((path, rule))
            else:
                yield f"{path}:{number}: {rule}: {what}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    count, findings, used = 0, [], set()
    for path in sources(root):
        count += 1
        findings += check_file(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"), used)
    if len(sys.argv) == 1:
        for path, rule in ALLOWED.keys() - used:
            print(f"note: {path} needs no exception from {rule} any more")
    print("\n".join(findings + [f"{count} files, {len(findings)} findings"]))
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
