"""Checks of streams, memory and exchange that need a GPU: ``python -m tests.hostcuda.gpu_checks [CHECK]``.

Each check is a function that raises an AssertionError, and they run in turn. ``--rehearse`` runs them on the CPU, with
fewer steps, where they show only that they run.
"""

from __future__ import annotations

import argparse
import gc
import sys
import threading
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of, float32
from burnpy.data import ArrayDataset, Loader, collate
from burnpy.errors import IndexRangeError, OutOfMemoryError
from burnpy.nn import Embedding, Gru, Linear, Lstm, Rnn, Sequential, TransformerEncoderLayer
from burnpy.optim import Adam, GradientsParams, clip_by_global_norm
from burnpy_cupy import epilogues as lt
from burnpy_cupy.kernels.random import _drawn

STEPS = 10_000


def flat_memory(steps: int) -> None:
    """The used memory after many steps is that after a few, in float32 and with `Mixed`."""
    gc.collect()  # else memory of earlier work would be freed meanwhile
    device: Any
    for device in (Autodiff[CuPy], Autodiff[Mixed[CuPy]]):
        rng = np.random.default_rng(0)
        x = Tensor.from_data(rng.standard_normal((64, 32)).astype(np.float32), device=device)
        y = IntTensor.from_data(rng.integers(0, 10, 64), device=device)
        model, optim = Linear(32, 10, device=device), Adam()
        used: list[int] = []
        for step in range(steps):
            loss = burnpy.cross_entropy(model(x), y)
            model = optim.step(1e-3, model, loss.backward())
            if step in (steps // 10, steps - 1):
                CuPy().synchronize()
                used.append(CuPy().memory().used)
        print(f"{device}: {used[0]:,} bytes after {steps // 10} steps, {used[1]:,} after {steps}")
        assert used[0] == used[1]


def reused_thread(steps: int) -> None:
    """Threads that begin where others ended run compiled functions: launches, products and inner products."""
    rng = np.random.default_rng(0)
    x = Tensor.from_data(rng.standard_normal((64, 64)).astype(np.float32), device=CuPy)
    functions: list[Any] = [lambda x: (x.exp() * 2.0 + x).tanh(), lambda x: (x @ x).sin() @ x + x.sum()]
    for function in functions:
        planned, found, want = burnpy.compiled(function), list[Any](), function(x).to_numpy()

        def work(planned: Any = planned, found: list[Any] = found) -> None:
            found.extend([planned(x).to_numpy() for _ in range(3)])

        for _ in range(6):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            del thread
            gc.collect()
        assert len(found) == 18, "a thread raised an error"
        for each in found:
            np.testing.assert_allclose(each, want, rtol=1e-4, atol=1e-4)


def graphs(steps: int) -> None:
    """A compiled step of a transformer as a CUDA graph, products, sorting and dropout in it, has the losses of single
    launches, for batches in turn."""
    rng = np.random.default_rng(0)
    data, labels = rng.integers(0, 50, (3, 8, 16)), rng.integers(0, 10, (3, 8 * 16))
    optim = Adam()

    def step(model: Any, state: Any, lr: float, x: Any, y: Any) -> Any:
        loss = burnpy.cross_entropy(model(x).flatten(0, 1), y)
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 1.0)
        return (*optim.pure_step(lr, model, grads, state), loss.detach())

    device: Any
    for device in (Autodiff[CuPy], Autodiff[Mixed[CuPy]]):
        batches = [
            [IntTensor.from_data(each, device=device) for each in pair] for pair in zip(data, labels, strict=True)
        ]
        losses: list[list[float]] = []
        for enabled in (False, True):
            burnpy.manual_seed(0)
            planned: Any = burnpy.compiled(step, donate=("model", "state"))
            layer = TransformerEncoderLayer(32, 4, feedforward=64, dropout=0.1, device=device)
            model = Sequential(Embedding(50, 32, device=device), layer, Linear(32, 10, device=device))
            carried: list[Any] = [model, optim.init(model)]
            losses.append([])
            with CuPy.graphs(enabled), warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # a refusal to capture
                for k in range(min(steps // 2, 200)):
                    *carried, loss = planned(*carried, 0.01 / (k + 1), *batches[k % 3])
                    losses[-1].append(loss.item())
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def draws(steps: int) -> None:
    """Random numbers are those of Philox's authors, for the seed and the position 0."""
    drawn = _drawn(CuPy(), 0, 0, (4,), float32, 0, 0).get()
    assert [int(x) for x in drawn * 2.0**24] == [0x6627E8, 0xE169C5, 0xBC57AC, 0x9B00DB]


def streams(steps: int) -> None:
    """Threads on streams of their own compute what one thread does, while all of them free and allocate memory."""
    size = 1 << (8 if steps < STEPS else 20)

    def work(seed: int) -> list[float]:
        x = Tensor.from_data(np.full(size, 1.0 + seed, np.float32), device=CuPy)
        for _ in range(50):
            y = x * 2.0
            x = (y + x) / 3.0
            del y
        return [float(number) for number in np.unique(x.to_numpy())]  # one, unless memory was mixed up

    alone = [work(seed) for seed in range(4)]
    found: dict[int, list[float]] = {}

    def in_stream(seed: int) -> None:
        if seed == 0:  # one on the default stream
            found[seed] = work(seed)
            return
        with CuPy().stream():
            found[seed] = work(seed)

    for _ in range(max(steps // 1000, 1)):
        threads = [threading.Thread(target=in_stream, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[seed] for seed in range(4)] == alone


def order(steps: int) -> None:
    """Large arrays computed in a stream are complete outside of it, and those queued before are complete inside."""
    size = 1 << (8 if steps < STEPS else 26)
    for _ in range(max(steps // 1000, 1)):
        x = Tensor[CuPy].ones((size,))
        for _ in range(4):
            x = x + 1.0
        with CuPy().stream():
            y = x * 2.0
        assert (y - 10.0).abs().sum().item() == 0.0


def loading(steps: int) -> None:
    """Batches that a loader copies beside the work on others are whole, whatever memory they are given."""
    width = 1 << (6 if steps < STEPS else 20)
    array = np.arange(16, dtype=np.float32).reshape(16, 1).repeat(width, axis=1)
    loader = Loader(ArrayDataset(x=array), collate(device=CuPy), batch_size=2, workers=2)
    for epoch in range(max(steps // 1000, 1)):
        sums = []
        for batch in loader.epoch(epoch):
            x = batch.x
            for _ in range(8):
                x = x + 1.0
            sums.append(x.mean(dim=1))
        found = [value for part in sums for value in part.tolist()]
        assert found == [float(8 + k) for k in range(16)], found


def late_checks(steps: int) -> None:
    """An index out of range on another stream is told at the next wait."""
    x = Tensor[CuPy].arange(3.0)
    with CuPy().stream():
        x[IntTensor[CuPy].from_data([7])]
    try:
        x.tolist()
    except IndexRangeError as error:
        assert "index 7" in str(error)  # noqa: PT017  # pytest may be missing
    else:
        raise AssertionError("an index out of range is not told")


def full_memory(steps: int) -> None:
    """An allocation that is too large raises an error that names it, and the device goes on."""
    size = CuPy().memory().total
    if steps < STEPS:  # the kit's memory is the machine's
        return
    try:
        Tensor[CuPy].zeros((size // 2,))
    except OutOfMemoryError as error:
        assert "cannot allocate" in str(error)  # noqa: PT017  # pytest may be missing
    else:
        raise AssertionError("twice the GPU's memory was allocated")
    assert Tensor[CuPy].ones((3,)).sum().item() == 3.0


def dlpack(steps: int) -> None:
    """Tensors go to PyTorch and JAX and back on the GPU, where these have CUDA; CuPy's arrays always do."""
    x = Tensor[CuPy].arange(6.0).reshape(2, 3)
    with CuPy().stream():
        y = x * 2.0
        assert import_module("cupy").from_dlpack(y).tolist() == y.tolist()
    try:
        torch: Any = import_module("torch")
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("PyTorch is left out, as it is not installed or has no CUDA")
    else:
        theirs = torch.from_dlpack(y)
        assert theirs.is_cuda
        theirs += 1
        assert y.tolist() == (x * 2.0).tolist()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            assert Tensor.from_dlpack(theirs * 3, device=CuPy).tolist() == ((x * 2.0 + 1.0) * 3.0).tolist()
            assert torch.from_dlpack(y).tolist() == y.tolist()
    try:
        jax: Any = import_module("jax")
    except ImportError:
        print("JAX is left out, as it is not installed")
        return
    if jax.default_backend() != "gpu":
        print("JAX is left out, as it has no CUDA")
        return
    array = jax.dlpack.from_dlpack(y)
    assert Tensor.from_dlpack(array + 1, device=CuPy).tolist() == (y + 1.0).tolist()


def tiles(steps: int) -> None:
    """Attention in several tiles, and linear layers, are those of float64 in every dtype, and the same in every run."""
    exact = {"float64": 1e-12, "float32": 1e-5, "tf32": 4e-3, "float16": 4e-3, "bfloat16": 3e-2}
    length = 40 if steps < STEPS else 1000
    b, rng = CuPy(), np.random.default_rng(0)
    for name, close in exact.items():
        dtype = dtype_of(name.replace("tf", "float"))
        host: list[Any] = [rng.standard_normal((2, length, 64)).astype(dtype) for _ in range(4)]
        wide: list[Any] = [x.astype(np.float64) for x in host]
        bias = host[0][0, 0, :32]
        for offset in (None, 0):
            found: list[list[Any]] = []
            with CuPy.tf32(name == "tf32"):
                for _ in range(2):
                    grad, q, k, v = (b.from_numpy(x) for x in host)
                    out, total = b.attention(q, k, v, None, offset, 0.125)
                    parts = b.attention_backward(grad, q, k, v, out, total, None, offset, 0.125)
                    layer = b.linear(q, b.mT(v[0, :32]), b.from_numpy(bias))
                    found.append([b.to_numpy(x).astype(np.float64) for x in (out, *parts, layer)])
            grad, q, k, v = wide
            out, total = NumPy().attention(q, k, v, None, offset, 0.125)
            parts = NumPy().attention_backward(grad, q, k, v, out, total, None, offset, 0.125)
            expected = (out, *parts, q @ v[0, :32].T + bias.astype(np.float64))
            errors = [np.abs(x - y).max() / np.abs(y).max() for x, y in zip(found[0], expected, strict=True)]
            print(f"{name}, offset {offset}: errors {', '.join(f'{error:.0e}' for error in errors)}")
            np.testing.assert_allclose(errors, 0.0, atol=close)
            for x, y in zip(*found, strict=True):
                np.testing.assert_array_equal(x, y)


def convolutions(steps: int) -> None:
    """Convolution and its gradients are those of float64 in every dtype, and the same in every run."""
    exact = {"float64": 1e-12, "float32": 1e-5, "tf32": 4e-3, "float16": 4e-3, "bfloat16": 3e-2}
    size, b, rng = 4 if steps < STEPS else 28, CuPy(), np.random.default_rng(0)
    cases: list[tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = [
        ((2, 70, size, size), (70, 70, 3, 3), 1, 1, 1),
        ((2, 70, size + 1, size + 1), (33, 70, 3, 3), 2, 1, 1),
        ((2, 70, 7, 7), (130, 70, 1, 1), 1, 0, 1),
        ((16, 64, size, size), (64, 64, 3, 3), 1, 1, 1),
        ((2, 3, 2 * size, 2 * size), (64, 3, 7, 7), 2, 3, 1),
        ((2, 64, size, size), (64, 32, 3, 3), 1, 1, 2),
        ((2, 64, size, size), (64, 1, 3, 3), 1, 1, 64),
    ]
    few = {name: exact[name] for name in ("float32", "bfloat16")}
    for n, (shape, weights, stride, padding, groups) in enumerate(cases):
        where = (stride, stride), (padding, padding), (1, 1), groups
        wide: list[Any] = [rng.standard_normal(each) for each in (shape, weights, weights[:1])]
        wide.append(rng.standard_normal(NumPy().conv2d(wide[0], wide[1], *where).shape))
        for name, close in (few if n and steps < STEPS else exact).items():
            dtype, found = dtype_of(name.replace("tf", "float")), list[list[Any]]()
            given = [x.astype(dtype) for x in wide]
            with CuPy.tf32(name == "tf32"):
                for _ in range(2):
                    x, weight, bias, g = (b.from_numpy(each) for each in given)
                    results = (
                        b.conv2d_bias(x, weight, bias, *where),
                        b.conv2d_input(g, weight, shape, *where),
                        b.conv2d_weight(g, x, weights, *where),
                    )
                    found.append([b.to_numpy(each).astype(np.float64) for each in results])
            x, weight, bias, g = (each.astype(np.float64) for each in given)
            expected = (
                NumPy().conv2d_bias(x, weight, bias, *where),
                NumPy().conv2d_input(g, weight, shape, *where),
                NumPy().conv2d_weight(g, x, weights, *where),
            )
            errors = [np.abs(x - y).max() / np.abs(y).max() for x, y in zip(found[0], expected, strict=True)]
            print(f"{name}, {weights}: errors {', '.join(f'{error:.0e}' for error in errors)}", flush=True)
            np.testing.assert_allclose(errors, 0.0, atol=close)
            for x, y in zip(*found, strict=True):
                np.testing.assert_array_equal(x, y)


def recurrent_layers(steps: int) -> None:
    """Recurrent layers, whose blocks wait for each other, have NumPy's values and gradients, the same in every run."""
    sequences, length, size = (2, 5, 8) if steps < STEPS else (32, 100, 512)
    data = np.random.default_rng(0).standard_normal((sequences, length, size)).astype(np.float32)
    for layer in (Lstm, Gru, Rnn):
        burnpy.manual_seed(0)
        model = layer(size, size, device=Autodiff[NumPy])
        found: list[list[Any]] = []
        for device in (Autodiff[NumPy], Autodiff[CuPy], Autodiff[CuPy]):
            moved = model.to_device(device)
            x = Tensor.from_data(data, device=device).require_grad()
            out = moved(x)[0]
            grads = out.square().mean().backward()
            results = [out, grads[x], *GradientsParams.from_grads(grads, moved).values()]
            found.append([each.to_numpy().astype(np.float64) for each in results])
        errors = [np.abs(x - y).max() / np.abs(x).max() for x, y in zip(*found[:2], strict=True)]
        print(f"{layer.__name__}: errors {', '.join(f'{error:.0e}' for error in errors)}")
        np.testing.assert_allclose(errors, 0.0, atol=1e-4)
        for x, y in zip(*found[1:], strict=True):
            np.testing.assert_array_equal(x, y)


def shared_memory(steps: int) -> None:
    """Small calls of the kernels whose threads share memory, for compute-sanitizer."""
    rng = np.random.default_rng(0)
    b: Any = CuPy()
    for dtype in map(dtype_of, ("float32", "bfloat16")):
        x = b.from_numpy(rng.standard_normal((3, 300)).astype(dtype))
        (
            b.softmax(x, 1),
            b.sum(x, (0,), False),
            b.sum(x, (1,), False),
            b.argmax(x, 1, False),
            b.logsumexp(x, (1,), False),
        )
        heads = [b.from_numpy(rng.standard_normal((2, 70, 32)).astype(dtype)) for _ in range(4)]
        results = b.attention(*heads[1:], None, 0, 0.2)
        b.attention_backward(*heads, *results, None, 0, 0.2)
        image, weight = (b.from_numpy(rng.standard_normal(n).astype(dtype)) for n in ((2, 36, 5, 5), (36, 36, 3, 3)))
        where = (1, 1), (1, 1), (1, 1), 1
        out = b.conv2d(image, weight, *where)
        b.conv2d_input(out, weight, image.shape, *where), b.conv2d_weight(out, image, weight.shape, *where)
        scale = b.full((36, 1, 1), 1.0, dtype)
        _, mean, var = b.normalize(image, scale, scale, (0, 2, 3), 1e-5)
        b.normalize_backward(out, image, scale, mean, var, (0, 2, 3), 1e-5)
    b.total_norm([b.full((5000,), 1.0, float32)], 2)
    b.synchronize()


def large_arrays(steps: int) -> None:
    """Arrays of more than 2³¹ elements are computed, summed, gathered, turned and joined to their last element."""
    rows, columns = (64, 33) if steps < STEPS else ((1 << 16) + 8, 1 << 15)
    row = Tensor.from_data(np.arange(columns, dtype=np.float32) % 7, device=CuPy).to_dtype("bfloat16")
    x = (row + Tensor[CuPy].zeros((rows, 1)).to_dtype("bfloat16")).at[-1].set(9.0)
    last = slice(-3, None)
    assert x.numel() > 1 << 31 or steps < STEPS
    total = float((np.arange(columns) % 7).sum())
    for result, of_row, of_last in (
        ((x * 2.0 + 1.0)[last, -1], 2.0 * ((columns - 1) % 7) + 1.0, 19.0),
        (x.to_dtype("float32")[last].sum(1), total, 9.0 * columns),
        (x.sum(1, dtype="float32")[last], total, 9.0 * columns),
        (x.amax(1)[last], 6.0, 9.0),
        (x.mT.relu()[-1, last], (columns - 1) % 7, 9.0),
        (
            x.index_select(0, IntTensor.from_data([rows - 3, rows - 2, rows - 1], device=CuPy))[:, -1],
            (columns - 1) % 7,
            9.0,
        ),
        (x.softmax(1)[last].sum(1), 1.0, 1.0),
        (burnpy.cat([x[:1], x])[last, -1], (columns - 1) % 7, 9.0),
        (burnpy.where(x > 8.0, x, x)[last, -1], (columns - 1) % 7, 9.0),
    ):
        found = result.to_dtype("float32").to_numpy()
        np.testing.assert_allclose(found, [of_row, of_row, of_last], rtol=1e-2)  # as for sums of bfloat16
    np.testing.assert_allclose(x.sum(dtype="float32").item(), total * (rows - 1) + 9.0 * columns, rtol=1e-5)


def epilogues(steps: int) -> None:
    """Linear layers and their gradients have NumPy's values; and which of them cuBLASLt computes in one launch."""
    device: Any = CuPy()
    rng = np.random.default_rng(0)
    shapes = (96, 64), (64, 48), (48,), (96, 48)
    for name, out in (("float32", "float32"), ("float64", "float64"), ("float16", "float16"), ("bfloat16", "float32")):
        dtype, wide = dtype_of(name), dtype_of(out)
        xs = [rng.standard_normal(shape).astype(np.float32).astype(dtype) for shape in shapes]
        x, weight, bias, grad = (device.from_numpy(a) for a in xs)
        bias = device.cast(bias, wide)
        layer = device._call(lt.biased_product, device.xp, x, weight, bias, wide)
        both = device._call(lt.product_and_sum, device.xp, device.mT(x), grad, wide)
        single = [what for what, result in (("bias", layer), ("sum", both)) if result is not None]
        print(f"{name} to {out}: in one launch {' and '.join(single) or 'neither'}")
        found = [device._linear_as(x, weight, bias, wide), *device._linear_backward_as(grad, x, wide)]
        x, weight, bias, grad = (a.astype(np.float64) for a in xs)
        for got, want in zip(found, (x @ weight + bias, x.T @ grad, grad.sum(0)), strict=True):
            close = 1e-5 if wide.itemsize > 2 else 1e-2
            np.testing.assert_allclose(device.to_numpy(got).astype(np.float64), want, rtol=close, atol=close * 10)


def scatters(steps: int) -> None:
    """The kernels that write to places by index, for compute-sanitizer."""
    rng = np.random.default_rng(0)
    x = Tensor.from_data(rng.standard_normal((300, 7)).astype(np.float32), device=Autodiff[CuPy]).require_grad()
    index = IntTensor.from_data(rng.integers(0, 300, 5000), device=Autodiff[CuPy])
    rows = x.index_select(0, index)
    total = rows.square().sum() + x.at[index].add(rows).sum() + x.at[index].max(rows).sum()
    grads = total.backward()
    assert np.isfinite(grads[x].to_numpy()).all()


CHECKS: dict[str, Callable[[int], None]] = {
    check.__name__: check
    for check in (
        reused_thread,
        flat_memory,
        graphs,
        draws,
        streams,
        order,
        loading,
        late_checks,
        full_memory,
        large_arrays,
        dlpack,
        tiles,
        convolutions,
        recurrent_layers,
        shared_memory,
        epilogues,
        scatters,
    )
}


def main(arguments: list[str]) -> None:
    """Run one check, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostcuda.gpu_checks")
    parser.add_argument("check", nargs="?", choices=CHECKS)
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with few steps")
    options = parser.parse_args(arguments)
    if options.rehearse:
        from tests.hostcuda import simulator

        simulator.load()
    for name in [options.check] if options.check else CHECKS:
        print(f"{name}: {(CHECKS[name].__doc__ or '').splitlines()[0]}", flush=True)
        CHECKS[name](100 if options.rehearse else STEPS)


if __name__ == "__main__":
    main(sys.argv[1:])
