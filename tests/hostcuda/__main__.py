"""Builds the kit, rehearses the tests and runs them: what `make test-cupy` does.

python -m tests.hostcuda [options of pytest, as in -k softmax]
"""

from __future__ import annotations

import subprocess
import sys

from tests.hostcuda import build

NONE_CHOSEN = 5  # pytest's status
TESTS = ["tests/hostcuda", "tests/conformance/test_cupy.py"]


def main(options: list[str]) -> int:
    """The exit status."""
    if build.main():
        return 1
    pytest = [sys.executable, "-m", "pytest", "-p", "tests.hostcuda.plugin", *TESTS, *options]
    print("noting and compiling the kernels that the tests need ...", flush=True)
    ignored = [f"--ignore=tests/hostcuda/{name}.py" for name in ("test_dry", "test_nvrtc")]  # they launch nothing
    rehearsal = subprocess.run([*pytest, "--rehearse", "-q", "-p", "no:cacheprovider", *ignored], check=False)
    if rehearsal.returncode not in (0, NONE_CHOSEN):
        return rehearsal.returncode
    return subprocess.run([*pytest, "-n", "2"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
