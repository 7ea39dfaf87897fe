"""Without a package that it needs, an example ends at once with one sentence that names the package and its extra."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.rows import every_row

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@every_row(
    ("name", "module", "package", "extra"),
    [
        ("digits", "matplotlib", "matplotlib", "demo"),
        ("custom_training_loop", "sklearn", "scikit-learn", "demo"),
        ("sunspots", "statsmodels", "statsmodels", "demo"),
        ("onnx_digits", "onnx", "onnx", "onnx"),
        ("onnx_digits", "onnxruntime", "onnxruntime", ""),
    ],
)
def test_a_missing_package_is_said(
    name: str, module: str, package: str, extra: str, example: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(import_module("extras"), "find_spec", lambda root: None if root == module else root)
    with pytest.raises(SystemExit) as error:
        example(name)
    installed = f'".[{extra}]"' if extra else package
    assert error.value.code == f"{name}.py needs {package}; install it with: pip install {installed}"
