"""`burnpy.data` is loaded when it is asked for, and loads nothing that only some need."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(program: str) -> set[str]:
    code = f"import sys\n{program}\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.slow
def test_it_is_loaded_when_asked_for() -> None:
    assert "burnpy.data" not in loaded("import burnpy")
    assert "burnpy.data" in loaded("import burnpy; burnpy.data.Loader")


def test_what_only_some_need_is_loaded_later() -> None:
    found = loaded("import burnpy.data, burnpy.data.sources, burnpy.data.transforms")
    assert not found & {
        "PIL",
        "pyarrow",
        "datasets",
        "torch",
        "multiprocessing.connection",
        "burnpy.nn",
        "burnpy.optim",
    }
