"""Models of `burnpy.models` on the real CuPy: folders, logits and generated tokens as on NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import IntTensor, models
from burnpy.backend import CuPy
from tests.hostcuda import simulator
from tests.models import small

simulator.require()


@pytest.mark.parametrize("name", ["gpt2", "gemma3"])
def test_generated_tokens_are_those_of_numpy(name: str, tmp_path: Path) -> None:
    plain: Any = small.DECODERS[name]()
    plain.save_pretrained(tmp_path)
    model = plain.__class__.from_pretrained(tmp_path, device=CuPy)
    tokens = [[3, 1, 4], [7]]
    expected = plain(IntTensor.from_data(tokens[:1], device=plain.device)).to_numpy()
    found = model(IntTensor[CuPy].from_data(tokens[:1])).to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    steps = list(models.generate(plain, tokens, max_new=4))
    assert list(models.generate(model, tokens, max_new=4)) == steps
    beams = models.beam_search(plain, tokens[0], max_new=3, beams=2)
    assert [beam.tokens for beam in models.beam_search(model, tokens[0], max_new=3, beams=2)] == [
        b.tokens for b in beams
    ]
