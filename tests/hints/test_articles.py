"""Messages have the article that belongs to a name: an IntTensor, a Tensor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError, a
from burnpy.nn import Linear
from burnpy.optim import Adam
from burnpy.testing.conformance import every_case
from tests.rows import every_row

pytestmark = pytest.mark.slow

ROOT = Path(burnpy.__file__).parent
AN_INT: Any = IntTensor[NumPy].ones((2, 2))
X: Any = Tensor[NumPy].ones((2, 2))
MODEL = Linear(2, 1, device=Autodiff[NumPy])
functions: Any = burnpy


def test_names_of_classes_get_their_article_from_one_place() -> None:
    """Whoever writes ``a {type(x).__name__}`` has not thought of IntTensor; it is ``{a(type(x).__name__)}``."""
    with every_case() as case:
        for path in sorted(ROOT.rglob("*.py")):
            with case(path.relative_to(ROOT)):
                if "testing" not in path.parts:  # whose messages are for who writes a backend
                    assert (
                        re.findall(
                            r"(?<![\w{])[aA]n? \{(?:type\(\w+\)|\w+\.kind)\.__name__\}",
                            path.read_text(encoding="utf-8"),
                        )
                        == []
                    )


@every_row(
    "mistake",
    [
        lambda: burnpy.nn.Buffer(AN_INT),
        lambda: burnpy.nn.functional.linear(AN_INT, AN_INT),
        lambda: X.to_dtype(np.ones(3)),
        lambda: X[IntTensor[Autodiff[NumPy]].zeros((1,))],
        lambda: functions.optim.Adam().step(0.1, AN_INT, AN_INT),
        lambda: functions.optim.GradientsParams.from_grads(AN_INT, MODEL),
        lambda: functions.optim.clip_by_norm(AN_INT, 1.0),
        lambda: Adam().step(AN_INT, MODEL, AN_INT),
        lambda: functions.IntTensor[NumPy].from_data(X.to_numpy()),
        lambda: functions.nn.CrossEntropyLoss()(AN_INT, AN_INT),
        lambda: functions.nn.Sequential(AN_INT),
        lambda: MODEL.load_record(AN_INT),
        lambda: functions.Tensor[Autodiff[NumPy]].from_inner(AN_INT),
    ],
)
def test_what_is_said_has_the_right_article(mistake: Any) -> None:
    with pytest.raises((BurnpyError, TypeError)) as caught:
        mistake()
    said = str(caught.value)
    assert not re.search(r"\b(a (?:IntTensor|ndarray|int\b|Adam)|an Tensor)", said), said
    assert "]()" not in said


def test_articles() -> None:
    assert [a(name) for name in ("IntTensor", "Tensor", "ndarray", "int", "uint8", "Optimizer")] == [
        *("an IntTensor", "a Tensor", "an ndarray", "an int", "a uint8", "an Optimizer")
    ]
