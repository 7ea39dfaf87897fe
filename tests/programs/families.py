"""Every family of kernels, for a target of choice: run, and compared with references, or only written and compiled.

A process has one target, so the tests start one for each::

    BURNPY_TARGET=avx2 python -m tests.programs.families run
    python -m tests.programs.families emulate
    python -m tests.programs.families compile aarch64-unknown-linux-gnu baseline

It prints the names of the kernels. "emulate" is AArch64, whose code an emulator runs; "run products" is the kernel of
products alone. On Linux, a read beyond the end of an array ends the process. What is only compiled cannot be loaded:
NumPy computes then.
"""

from __future__ import annotations

import inspect
import itertools
import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from llvmlite import binding

import burnpy_numpy.kernels
from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of, float32
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import check_values
from burnpy_numpy import convolution as numpy_convolution
from burnpy_numpy.kernels import kernel, programs
from burnpy_numpy.kernels.compiler import llvm, target
from burnpy_numpy.kernels.compiler.entry import ARRAY_TYPE, ENTRIES, SERVE, SHARE, SYMBOLS, Call
from burnpy_numpy.kernels.convolution import conv2d
from burnpy_numpy.kernels.products import products
from burnpy_numpy.kernels.products.quantized import integer_windows
from tests.conformance.suites import LARGE
from tests.interrupting import LONG
from tests.programs.object_files import undefined

D: Any = NumPy()
LOADING: tuple[Any, ...] = (kernel, programs)
"""The modules that load kernels by a name of their own."""


CONVERSIONS = {"rounded", "widened"}
"""The templates for targets with instructions for float16 alone."""


def templates(to: target.Target) -> set[str]:
    """The names of a target's templates: public functions of the modules of kernels that write a text for a dtype."""
    found: set[str] = set()
    for module in pkgutil.iter_modules(burnpy_numpy.kernels.__path__, "burnpy_numpy.kernels."):
        for name, function in inspect.getmembers(import_module(module.name), inspect.isfunction):
            given = [*function.__annotations__]
            is_public = function.__module__ == module.name and name[0] != "_"
            if is_public and given[:1] in (["dtype"], ["kind"]) and function.__annotations__["return"] == "str":
                found.add(name)
    return found if to.fuses else found - CONVERSIONS


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.9, 1.1, shape).astype(np.float32)


def whole(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(0, 9, shape).astype(np.float32)


def largest_differences(x: Any, y: Any) -> Any:
    return np.abs(x[:, None] - y).max(-1)


LARGER: list[tuple[str, tuple[Any, ...]]] = [
    ("scatter_add", (drawn(40, 30), 0, np.random.default_rng(0).integers(0, 40, (50, 30)), drawn(50, 30))),
    ("prod", (drawn(40, 77), (1,), False)),
    ("matmul", (drawn(3, 5, 21, 1), drawn(3, 5, 1, 37))),
    (
        "cdist_backward",
        (drawn(60, 50), whole(60, 6), whole(50, 6), largest_differences(whole(60, 6), whole(50, 6)), np.inf),
    ),
    ("cast", (drawn(40, 77), np.dtype("float16"))),
    ("cast", (drawn(40, 77).astype("float16"), float32)),
    ("linear", (drawn(64, 48), drawn(48, 33), drawn(33))),
    ("matmul_tn", (drawn(210, 77), drawn(210, 90))),
    ("conv2d", (drawn(2, 40, 7, 6), drawn(33, 40, 3, 3), (1, 1), (1, 1), (1, 1), 1)),
    ("conv2d", (drawn(9, 64, 4, 4), drawn(64, 64, 3, 3), (2, 2), (1, 1), (1, 1), 1)),
    ("conv2d_input", (drawn(2, 8, 5, 5), drawn(8, 12, 3, 3), (2, 12, 10, 9), (2, 2), (1, 1), (1, 1), 1)),
    ("conv2d_weight", (drawn(3, 33, 7, 6), drawn(3, 70, 7, 6), (33, 70, 3, 3), (1, 1), (1, 1), (1, 1), 1)),
    ("conv2d", (drawn(2, 8, 9, 5), drawn(8, 1, 3, 3), (2, 2), (1, 1), (1, 1), 8)),
    ("conv2d_weight", (drawn(2, 8, 3, 3), drawn(2, 8, 5, 5), (8, 1, 3, 3), (2, 2), (1, 1), (1, 1), 8)),
    ("avg_pool2d", (drawn(2, 8, 17, 21), (3, 3), (2, 2), (1, 1), False, True, None)),
    ("avg_pool2d", (drawn(2, 8, 18, 22), (2, 2), (2, 2), (0, 0), False, True, None)),
    ("avg_pool2d_backward", (drawn(2, 8, 9, 11), (2, 8, 17, 21), (3, 3), (2, 2), (1, 1), True, None)),
    ("frame_spectra", (whole(3000) / 9, drawn(96) / 96, 8, "backward")),
    ("max_pool2d_indices", (drawn(2, 8, 17, 21), (3, 3), (2, 2), (1, 1), (1, 1), False)),
    ("reshape", (drawn(3, 61, 47).transpose(0, 2, 1), (3 * 61 * 47,))),
    ("pad_ends", (drawn(2, 8, 17, 21), ((0, 0), (0, 0), (1, 2), (3, 1)), "reflect")),
    ("avg_pool2d_backward", (drawn(2, 8, 9, 11), (2, 8, 18, 22), (2, 2), (2, 2), (0, 0), True, None)),
]
"""Calls that run kernels which no example of the conformance suite is large enough for."""


def check_all(pointwise: int = 1) -> None:
    """Call operations with all examples of the conformance suite in float32, and with more.

    Args:
        pointwise: every so many-th pointwise operation is called. One emitter writes the programs of them all.
    """
    conv2d.MIN_PRODUCTS = numpy_convolution._TINY_WORK = 1
    numpy_convolution.FEW_PRODUCTS = 0, 0
    names = [name for name, row in ROWS.items() if row.operation.elementwise and (pointwise == 1 or name not in LARGE)]
    called = {*names[::pointwise], *(name for name, row in ROWS.items() if not row.operation.elementwise)}
    for name, row in ROWS.items():
        if name in called and "float" in row.kinds:
            for example in row.examples:
                check_values(D, "plain", row, example, float32, LAYOUTS[0], False)
    for name, args in LARGER:
        exact = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype == np.float32 else a for a in args]
        found, wanted = getattr(D, name)(*args), ROWS[name].reference(*exact)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=name)
    x = drawn(2, 8, 17, 21)
    windows = (3, 3), (2, 2), (1, 1), (1, 1)
    out = D.max_pool2d(x, *windows, False)
    wanted = ROWS["max_pool2d_backward"].reference(out, x, out, *windows)
    np.testing.assert_allclose(D.max_pool2d_backward(out, x, out, *windows), wanted, rtol=1e-5)


def chosen(triple: str, name: str) -> target.Target:
    """Return a target of a processor that has all features."""
    return target.target_of(name, target.Target(triple, "generic", "", 0, 0), dict.fromkeys(target._V4, True))


def compile_only(to: target.Target) -> None:
    """Have kernels written for a target and verified by LLVM, and the first of each family compiled; none runs."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target.target_of = lambda *args: to  # every module asks for the target through it
    assert target.target() is to
    system = next(each for each in ("linux", "darwin", "windows") if each in to.triple).replace("windows", "win32")
    known = {*llvm.functions_of_c(system), *SYMBOLS, ARRAY_TYPE}

    def compiled(name: str, key: str, write: Callable[[], str], call: Call | None = None) -> None:
        if name not in seen:
            unknown = undefined(llvm.compile_text(write())) - known
            assert not unknown, f"{name} calls {unknown}, which ends a process that loads it on {system}"
        else:
            binding.parse_assembly(write()).verify()
        seen.add(name)

    seen: set[str] = set()
    for module in LOADING:
        module.loaded = compiled
    compiled("entries", ENTRIES, lambda: ENTRIES)
    compiled("share", SHARE, lambda: SHARE)
    compiled("serve", SERVE, lambda: SERVE)
    check_all()
    print(*sorted(seen))


def check_products() -> None:
    """Multiply matrices of ints, and of whole numbers, whose products are exact, in all layouts and stored dtypes."""
    products.serves = lambda *sizes: True
    products._WORTH_WIDENING = 1
    rng, fuses = np.random.default_rng(0), target.target().fuses
    names, multiplied_by = ["float32", "float64"], products.multiplied_by
    names += ["float16", "bfloat16", "words of bfloat16"] * fuses
    for each in names:
        name = each.removeprefix("words of ")
        products.multiplied_by = (lambda stored: "numbers") if each == name else multiplied_by
        for m, k, n in [(1, 1, 1), (5, 3, 33), (13, 19, 15), (12, 401, 32), (100, 50, 49)]:
            x, y, bias = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n), (n,)))
            wide, stored = np.float64 if name == "float64" else np.float32, dtype_of(name)
            for a in (x.astype(stored), x.T.astype(stored).T):
                for b in (y.astype(stored), y.T.astype(stored).T):
                    out = np.empty((m, n), wide)
                    found = products.product_of(a, b)
                    assert isinstance(found, products.Product)
                    found.run(a, b, out, bias.astype(wide))
                    np.testing.assert_array_equal(out, x @ y + bias, err_msg=f"{name} {m} {k} {n}")
                    rounded = products.product_of(a, b, result=stored)
                    assert isinstance(rounded, products.Product)
                    out = np.empty((m, n), rounded.result)
                    rounded.run(a, b, out)
                    np.testing.assert_array_equal(out, (x @ y).astype(out.dtype), err_msg=f"{name} {m} {k} {n}")
                    out, total = np.empty((m, n), wide), np.empty(n, wide)
                    found.run_with_sum(a, b, out, total)
                    np.testing.assert_array_equal([*out, total], [*(x @ y), y.sum(0)], err_msg=f"{name} {m} {k} {n}")
    ways = (lambda stored: "pairs"), multiplied_by
    for way, (m, k, n) in itertools.product(ways[: 2 * fuses], [(1, 1, 1), (5, 3, 33), (100, 1030, 49)]):
        products.multiplied_by = way
        left, right = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((m, k), (k, n)))
        for a, b in itertools.product((left, left.view(np.int8)), (right, right.view(np.int8).T.copy().T)):
            out = np.empty((m, n), np.int32)
            found = products.product_of(a, b)
            assert isinstance(found, products.Product)
            found.run(a, b, out)
            np.testing.assert_array_equal(out, np.matmul(a, b, dtype=np.int32), err_msg=f"{a.dtype} {b.dtype} {m} {k}")
    for columns, groups in [(1, 1), (15, 1), (48, 3), (401, 1)] * fuses:
        for ints, parts, one in (("int8", 1, 1), ("uint8", 2, 0x99)):
            weight = np.full((37, columns), one, ints)
            for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
                x, scale, out = (np.ones(shape, dtype) for shape in ((9, columns * parts), (37, groups), (9, 37)))
                quantized = products.quantized_product_of(x, weight, scale)
                assert quantized is not None
                quantized.run(x, weight, out, arrays=scale)
                np.testing.assert_array_equal(out, columns * parts)
    for size, taps, steps, pad in [
        ((5, 6), (3, 3), (1, 1), 1),
        ((9, 21), (3, 2), (2, 2), 0),
        ((4, 33), (1, 3), (1, 3), 2),
    ]:
        pixels, around = rng.integers(0, 256, (2, 3, *size)).astype(np.uint8), np.full((), 7, np.uint8)
        windows = integer_windows(pixels.shape, taps, steps, (pad, pad), (pad, pad), (1, 1))
        assert windows is not None
        spread = np.pad(pixels, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=7)
        every = np.lib.stride_tricks.sliding_window_view(spread, taps, (2, 3))[:, :, :: steps[0], :: steps[1]]
        found = windows.run(pixels, around)
        np.testing.assert_array_equal(found, every.transpose(0, 1, 4, 5, 2, 3).reshape(found.shape))


def run(only: str = "") -> None:
    """Have kernels run for the target of the environment, and check their results.

    Args:
        only: "products" for these alone.
    """
    real, seen = kernel.loaded, set[str]()

    def noted(name: str, *given: Any) -> Any:
        seen.add(name)
        return real(name, *given)

    for module in LOADING:
        module.loaded = noted
    if sys.platform.startswith("linux"):
        from tests.programs.guarded_memory import guard_arrays

        guard_arrays()
    if only != "products":
        check_all(1 if LONG else 4)
    check_products()
    assert kernel.failure() is None
    print(*sorted(seen))
    sys.stdout.flush()


if __name__ == "__main__":
    _, how, *given = sys.argv
    if how == "compile":
        compile_only(chosen(*given))
    else:
        if how == "emulate":
            from tests.programs.emulation import emulate

            emulate()
        run(*given)
