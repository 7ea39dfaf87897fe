"""Writes ONNX files as PyTorch and scikit-learn do, with inputs and results: ``python foreign_files.py FOLDER``.

It runs in an environment of its own, with torch, onnxscript, scikit-learn, skl2onnx and onnxruntime.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def of_pytorch(folder: Path) -> None:
    """Write an image classifier and a transformer encoder."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    image = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(128, 3)).eval()
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    for name, model, shape in (("image", image, (2, 1, 8, 8)), ("encoder", encoder, (2, 5, 16))):
        x = torch.randn(shape)
        torch.onnx.export(model, (x,), str(folder / f"{name}.onnx"), dynamo=True, verbose=False, external_data=False)
        np.savez(folder / f"{name}.npz", x=x.numpy(), y0=model(x).detach().numpy())


def of_scikit_learn(folder: Path) -> None:
    """Write pipelines of a preprocessing and a model."""
    import onnxruntime
    from skl2onnx import to_onnx
    from sklearn import decomposition, ensemble, linear_model, neural_network, preprocessing, tree
    from sklearn.datasets import load_iris
    from sklearn.pipeline import make_pipeline

    x, labels = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    models: list[tuple[Any, Any]] = [
        (linear_model.LogisticRegression(max_iter=500), labels),
        (linear_model.LogisticRegression(max_iter=500), labels > 0),
        (neural_network.MLPClassifier(max_iter=300), labels),
        (tree.DecisionTreeClassifier(), labels > 0),
        (ensemble.RandomForestClassifier(10), labels),
        (ensemble.GradientBoostingClassifier(n_estimators=5), labels > 0),
        (linear_model.LinearRegression(), x[:, 0]),
        (ensemble.RandomForestRegressor(5), x[:, 0]),
        (ensemble.GradientBoostingRegressor(n_estimators=5), x[:, 0]),
    ]
    steps = (preprocessing.StandardScaler(), preprocessing.Normalizer(), decomposition.PCA(2))
    for j, step in enumerate(steps):
        for k, (model, target) in enumerate(models):
            pipeline = make_pipeline(step, model).fit(x, target.astype(int) if target.dtype == bool else target)
            options = {"zipmap": False} if hasattr(pipeline, "classes_") else None
            path = folder / f"pipeline{j}{k}.onnx"
            path.write_bytes(to_onnx(pipeline, x[:1], options=options).SerializeToString())
            results = onnxruntime.InferenceSession(path).run(None, {"X": x})
            np.savez(folder / f"{path.stem}.npz", x=x, **{f"y{n}": y for n, y in enumerate(results)})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    of_scikit_learn(Path(sys.argv[1]))
    of_pytorch(Path(sys.argv[1]))
