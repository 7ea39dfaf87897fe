"""Files of PyTorch and scikit-learn, written in an environment of their own, give the same numbers here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.interop import onnx

pytestmark = [pytest.mark.long, pytest.mark.heavy("onnx")]

PACKAGES = ("torch==2.13.0", "onnxscript", "scikit-learn", "skl2onnx", "onnxruntime")


def test_they_give_the_same_numbers(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python, written = tmp_path / "venv" / "bin" / "python", tmp_path / "files"
    written.mkdir()
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    subprocess.run([python, Path(__file__).parent / "foreign_files.py", written], check=True)
    files = sorted(written.glob("*.onnx"))
    assert len(files) == 29
    for file in files:
        with np.load(file.with_suffix(".npz")) as expected:
            results = onnx.load(file, NumPy)(Tensor.from_data(expected["x"], device=NumPy))
            for k, result in enumerate(results if isinstance(results, tuple) else (results,)):
                np.testing.assert_allclose(
                    result.to_numpy(), expected[f"y{k}"], rtol=1e-4, atol=1e-5, err_msg=file.name
                )
