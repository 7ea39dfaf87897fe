"""All tests of kernels, for each target whose code this processor executes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from tests.programs.test_targets import executed

pytestmark = [pytest.mark.slow, pytest.mark.long]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["baseline", "avx2", "avx512"])
def test_all_tests_of_kernels_pass_with_a_target(name: str) -> None:
    if executed(name) is None:
        pytest.skip(f"this processor does not execute code for {name}")
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--ignore={__file__}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/programs", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"BURNPY_TARGET": name, "BURNPY_COMPILE": "1"},
    )
    assert done.returncode == 0, done.stdout[-5000:]
