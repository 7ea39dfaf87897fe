"""Builds the kit and runs the tests: what `make test-cupy` does.

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
    return subprocess.run([*pytest, "-n", "2", "--dist", "worksteal"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
