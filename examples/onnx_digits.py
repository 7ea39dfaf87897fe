"""A model goes to ONNX and comes back: ``python examples/onnx_digits.py``; it needs onnx and onnxruntime.

A small network learns to read half of the handwritten digits of scikit-learn, is written as an ONNX file, runs in
onnxruntime, is loaded from the file, and learns to read the other half.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import burnpy
import digits_report
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.interop import onnx
from burnpy.nn import BatchNorm, Conv2d, Flatten, Linear, MaxPool2d, Relu, Sequential
from burnpy.optim import Adam, GradientsParams
from extras import imported, require

Train = Autodiff[NumPy]


def learn(model: Any, x: Tensor[Autodiff[NumPy]], y: IntTensor[Autodiff[NumPy]], steps: int) -> Any:
    """Return the model after some steps of Adam on batches of 128 images."""
    optim = Adam()
    rng = np.random.default_rng(0)
    for _ in range(steps):
        rows = IntTensor.from_data(rng.integers(0, len(x), 128), device=Train)
        loss = burnpy.cross_entropy(model(x[rows]), y[rows])
        model = optim.step(3e-3, model, GradientsParams.from_grads(loss.backward(), model))
    return model


def main(steps: int = 60) -> None:
    """Train, write, run elsewhere, read and train again."""
    burnpy.manual_seed(0)
    require("onnx", extra="onnx")
    require("onnxruntime", extra="")
    images, labels = digits_report.load_digits()
    x, y = Tensor.from_data(images, device=Train), IntTensor.from_data(labels, device=Train)
    low = np.flatnonzero(labels < 5)

    model = Sequential(
        Conv2d(1, 16, 3, padding=1, device=Train),
        BatchNorm(16, device=Train),
        Relu(),
        MaxPool2d(2),
        Flatten(),
        Linear(256, 10, device=Train),
    )
    rows = IntTensor.from_data(low, device=Train)
    model = learn(model, x[rows], y[rows], steps)

    path = Path(tempfile.mkdtemp()) / "digits.onnx"
    onnx.export(model.valid(), (x[:1].inner(),), path, dynamic={"x": {0: "batch"}}, outputs=("logits",))
    session: Any = imported("onnxruntime", extra="onnx").InferenceSession(path)
    (logits,) = session.run(None, {session.get_inputs()[0].name: images})
    print(f"{path.name}: {path.stat().st_size:,} bytes")
    print(f"onnxruntime reads {np.mean(logits.argmax(1)[low] == labels[low]):.0%} of the digits 0 to 4 as they are")
    print(f"and {np.mean(logits.argmax(1) == labels):.0%} of all")

    loaded = learn(onnx.load(path, Train), x, y, 2 * steps)
    found = loaded.valid()(x.inner()).argmax(dim=1).to_numpy()
    print(f"after it was loaded and trained further, the model reads {np.mean(found == labels):.0%} of all")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
