"""The ONNX example learns in two places, and reads most digits after the second."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.heavy("onnx", "onnxruntime")]


def test_onnx_digits(example: Callable[..., str]) -> None:
    known, everything, after = map(int, re.findall(r"(\d+)%", example("onnx_digits", 30)))
    assert known > 95
    assert everything < 60
    assert after > 90
