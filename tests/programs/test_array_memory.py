"""Arrays start at cache lines once kernels are used, and their memory is theirs, from first to last."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

from burnpy_numpy.kernels.kernel import kernels_enabled

D: Any = NumPy()
IN_ANOTHER_PROCESS = """
import sys
import numpy as np
from numpy._core.multiarray import get_handler_name as handler
from burnpy.backend import NumPy
before, D = np.ones(3000), NumPy()
assert handler(before) == handler(D.add(before, before)) != "burnpy"
D.{first}
after = D.add(before, before)
assert handler(np.ones(3)) == handler(after) == {name!r}, handler(after)
class Late:
    def __del__(self):
        self.ones(5000).sum()
Late.ones = staticmethod(np.ones)
sys.kept = [Late(), after, np.zeros(3000)]  # freed with the interpreter
"""


@pytest.mark.slowest
@pytest.mark.parametrize(
    ("setting", "name"), [({}, "burnpy"), ({"BURNPY_MALLOPT": "0"}, "default_allocator")], ids=["usual", "left alone"]
)
@pytest.mark.parametrize(
    "first", ['gelu(before, "none")', "matmul(*[np.ones((200, 200))] * 2)"], ids=["gelu", "matmul"]
)
def test_arrays_have_the_handler_until_the_process_ends(setting: dict[str, str], name: str, first: str) -> None:
    program = IN_ANOTHER_PROCESS.format(name=name, first=first)
    environment = {k: v for k, v in os.environ.items() if k != "BURNPY_MALLOPT"} | setting
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not kernels_enabled() or os.environ.get("BURNPY_MALLOPT") == "0", reason="NumPy's own handler")
@pytest.mark.parametrize(
    "make", [np.empty, np.zeros, lambda size: D.add(np.ones(size), 1.0)], ids=["empty", "zeros", "add"]
)
def test_arrays_of_a_kibibyte_and_more_start_at_cache_lines(make: Any) -> None:
    assert [array.ctypes.data % 64 for array in [make(size) for size in (128, 129, 1000, 100_000)]] == [0] * 4


def test_arrays_keep_their_elements_when_they_grow_and_shrink() -> None:
    kernels_enabled()
    x, size = np.arange(3.0), 3
    for to in (127, 128, 5000, 200_000, 1000, 60, 2, 129):
        x.resize(to, refcheck=False)
        size = min(size, to)
        assert x[:size].tolist() == [0.0, 1.0, 2.0][:size]
        assert not x[size:].any()
    assert np.fromiter(iter(range(3000)), np.int64).sum() == 3000 * 2999 // 2


def test_freed_memory_is_used_again() -> None:
    kernels_enabled()
    addresses = {np.empty(size).ctypes.data for _ in range(50) for size in (100, 4000)}
    assert len(addresses) < 20
