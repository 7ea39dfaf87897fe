"""`verify`: the results of an ONNX file in onnxruntime beside those of its model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.errors import ArgumentError, ExportError, path_shown
from burnpy.backend.extras import needed
from burnpy.func.pytree import flatten
from burnpy.interop.onnx.tracing import inputs_of
from burnpy.tensor.tensor_base import TensorBase


class Difference(NamedTuple):
    """How one output of a file differs from the model's."""

    output: str
    shape: tuple[int, ...]
    largest: float  #: the largest difference; NaN where only one of them is NaN
    relative: float  #: the largest difference, divided by the largest element of the model's output


def verify(path: str | os.PathLike[str], model: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Difference]:
    """Run an exported file in onnxruntime, and return the differences of its outputs from the model's.

    Args:
        path: the file that `export` wrote.
        model: the model that it was written of.
        inputs: a tuple of inputs, as for `export`; dynamic dimensions may have any size.

    Raises:
        ArgumentError: the file has other inputs or outputs than the model, or an output has another shape.
        ExportError: onnxruntime cannot run the file; the message names the node.
        MissingPackageError: onnxruntime is not installed.
    """
    runtime = needed("onnxruntime", "verify()", "onnxruntime", "onnx")
    given = inputs_of(model, inputs)
    settings = runtime.SessionOptions()
    settings.log_severity_level = 4  # errors are raised, too
    session = _run(path, lambda: runtime.InferenceSession(os.fspath(path), settings, ["CPUExecutionProvider"]))
    names = [value.name for value in session.get_inputs()]
    unknown = [name for name in names if name not in given.named]
    if unknown:
        raise ArgumentError(f"verify() got a file with the inputs {names} and a model with {list(given.named)}")
    arrays = {name: given.call.leaves[given.named[name]].to_numpy() for name in names}
    theirs = _run(path, lambda: session.run(None, arrays))
    ours: list[Any] = [leaf for leaf in flatten(model(*inputs), whole=True)[0] if isinstance(leaf, TensorBase)]
    outputs = [value.name for value in session.get_outputs()]
    if len(ours) != len(outputs):
        raise ArgumentError(f"verify() got a file with the outputs {outputs} and a model with {len(ours)}")
    return [_difference(name, x.to_numpy(), y) for name, x, y in zip(outputs, ours, theirs, strict=True)]


def _run(path: str | os.PathLike[str], f: Callable[[], Any]) -> Any:
    """Call a function of onnxruntime.

    Raises:
        ExportError: it refuses the file.
    """
    try:
        return f()
    except Exception as error:  # onnxruntime's have no common class
        text = str(error)
        node = re.search(r"running (\w+) node\. Name:'([^']*)'|Node \(([^)]*)\)", text)
        where = "" if node is None else f" at the node {node[2] or node[3]!r}" + (f" ({node[1]})" if node[1] else "")
        reason = " ".join(text.rpartition("Status Message: ")[2].split())
        raise ExportError(f"verify(): onnxruntime cannot run {path_shown(path)}{where}: {reason}") from error


def _difference(name: str, ours: Any, theirs: Any) -> Difference:
    """Return the differences of one output.

    Raises:
        ArgumentError: the shapes differ.
    """
    if ours.shape != theirs.shape:
        raise ArgumentError(
            f"verify() got output {name!r} of shape {theirs.shape} from the file and {ours.shape} from the model"
        )
    if not ours.size:
        return Difference(name, ours.shape, 0.0, 0.0)
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.where(same, 0.0, np.abs(a - b))))
    scale = float(np.max(np.abs(np.where(np.isfinite(a), a, 0.0))))
    return Difference(name, ours.shape, largest, largest / scale if scale else largest)
