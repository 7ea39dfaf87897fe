"""The example of low-rank adapters learns from a second text, and what it saves is what it learned."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.slowest
@pytest.mark.parametrize(("steps", "less"), [(20, 0.05), pytest.param(300, 0.25, marks=pytest.mark.long)])
def test_adapters_learn_another_text(steps: int, less: float, example: Callable[..., str]) -> None:
    output = example("lora_gpt", "--steps", steps, "--tune", steps, "--length", 5)
    before, ints, after, merged = [float(x) for x in re.findall(r"loss (\d+\.\d+)", output)]
    assert ints == pytest.approx(before, abs=0.02)
    assert after < before - less
    assert merged == pytest.approx(after, abs=0.011)
    assert "tuned 38,664 of 429,921" in output
    assert output.count("|The ") == 2
