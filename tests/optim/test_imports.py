"""`import burnpy` stays cheap."""

from __future__ import annotations

import subprocess
import sys


def test_importing_burnpy_does_not_import_optimizers() -> None:
    code = "import sys, burnpy; print([name for name in sys.modules if name.startswith(('burnpy.optim', 'burnpy.nn'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
