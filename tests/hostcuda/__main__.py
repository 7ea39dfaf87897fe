"""Builds the kit, rehearses the tests and runs them: what `make test-cupy` does.

python -m tests.hostcuda [options of pytest, as in -k softmax]
"""

from __future__ import annotations

import subprocess
import sys

from tests.hostcuda import build

TESTS = ["tests/hostcuda", "tests/conformance/test_cupy.py"]


def main(options: list[str]) -> int:
    """The exit status."""
    if build.main():
        return 1
    pytest = [sys.executable, "-m", "pytest", "-p", "tests.hostcuda.plugin", *TESTS, *options]
    print("noting and compiling the kernels that the tests need ...", flush=True)
    rehearsal = subprocess.run([*pytest, "--rehearse", "-q", "-p", "no:cacheprovider"], check=False)
    if rehearsal.returncode:
        return rehearsal.returncode
    return subprocess.run([*pytest, "-n", "2"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
