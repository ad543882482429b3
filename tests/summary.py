"""Prints the failed tests' output, the skipped tests with their reasons, and the last line "N passed, N failed".

usage: summary.py JUNIT_FILE LOG_FILE CTEST_STATUS      exit status: 0 when nothing failed
"""
import sys
import xml.etree.ElementTree as ET


def main() -> int:
    junit, log, status = sys.argv[1], sys.argv[2], int(sys.argv[3])
    try:
        cases = list(ET.parse(junit).getroot().iter("testcase"))
    except (OSError, ET.ParseError) as error:
        print(open(log, encoding="utf-8", errors="replace").read())
        print(f"summary: {junit}: {error}")
        print("0 passed, 1 failed")
        return 1
    passed = failed = skipped = 0
    for case in cases:
        state = case.get("status")
        if state == "run":
            passed += 1
            # Parts that a test file of tests/cli left out, as its harness says it.
            for line in (case.findtext("system-out") or "").splitlines():
                if line.startswith("skipped: "):
                    skipped += 1
                    print(f"skipped: {case.get('name')}: {line.removeprefix('skipped: ')}")
        elif state in ("notrun", "disabled") or case.find("skipped") is not None:
            skipped += 1
            reason = [line for line in (case.findtext("system-out") or "").splitlines() if "kip" in line]
            print(f"skipped: {case.get('name')}: {(reason or ['?'])[0].strip()}")
        else:
            failed += 1
            print(f"FAILED: {case.get('name')}\n{case.findtext('system-out') or ''}")
    if status != 0 and failed == 0:
        print(open(log, encoding="utf-8", errors="replace").read()[-4000:])
        failed = 1
    if skipped:
        print(f"{skipped} skipped, with the reasons above")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
