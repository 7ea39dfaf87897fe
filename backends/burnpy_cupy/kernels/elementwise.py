"""`ElementwiseKernel`: a kernel each of whose threads computes an element, as a `cupy.ElementwiseKernel`.

A declaration has parameters, ``raw T image, int32 rows, int64 index``, and code. Those of the arrays that are not
``raw`` are broadcast, and stand for the element ``i`` in the code; ``raw`` ones are indexed by it, ``image[i]`` or
``image[at]`` with ``ptrdiff_t at[] = {n, c, h, w}``. ``_at`` is the place of the element in all dimensions. A letter
stands for the dtype of the first array that has it. Arrays are read where they lie, whatever their strides.

What a launch needs depends on the layouts of its arrays alone. It is found once for each, as is the source.
"""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import HALVES, dtype_of, int32, int64
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.kernels.launch import Launch, launcher

INDEX = "typedef int index_t;\n"
"""A part of the preamble of kernels that count elements with ``int32`` arguments, as division is faster in 32 bits."""

C_NAMES = {
    "float32": "float",
    "float64": "double",
    "complex64": "complex<float>",
    "complex128": "complex<double>",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}
"""CUDA's names of dtypes, where they differ."""

_LONG_INDEX = "typedef long long index_t;\n"

_THREADS = 128
_MANY = 1 << 31
"""The number of elements from which on they are counted in 64 bits."""
_LAYOUTS = 1024
"""The most layouts for which a kernel keeps its launches."""

_VIEW = """
template <typename E, int N, bool WHOLE> struct burnpy_view {
  E* data;
  const long long* sizes;
  const long long* steps;
  __device__ ptrdiff_t size() const {
    ptrdiff_t count = 1;
    #pragma unroll
    for (int d = 0; d < N; d++) count *= sizes[d];
    return count;
  }
  template <typename P> __device__ E& operator[](const P (&at)[N ? N : 1]) const {
    ptrdiff_t where = 0;
    #pragma unroll
    for (int d = 0; d < N; d++) where += at[d] * steps[d];
    return data[where];
  }
  __device__ E& operator[](ptrdiff_t i) const {
    if (WHOLE) return data[i];
    ptrdiff_t where = 0;
    #pragma unroll
    for (int d = N - 1; d > 0; d--) where += i % sizes[d] * steps[d], i /= sizes[d];
    return data[N ? where + i * steps[0] : 0];
  }
};
"""


class Elementwise(NamedTuple):
    """The declaration of a kernel."""

    inputs: str
    outputs: str
    code: str
    preamble: str = ""
    exact: bool = False  #: whether products and sums are rounded one by one, as operations round them


def in_order_of(xp: Any, x: Any, shape: Shape, dtype: DType) -> Any:
    """Allocate an array, of as many dimensions as x has, whose dimensions lie in memory in the order of those."""
    if x._c_contiguous:
        return xp.ndarray(shape, dtype)
    order, back = _order(x.strides, x.itemsize)
    return xp.ndarray([shape[d] for d in order], dtype).transpose(back)


@lru_cache(1024)
def _order(strides: Shape, itemsize: int) -> tuple[list[int], list[int]]:
    """Return the dimensions in the order of memory, and the permutation that undoes it."""
    last = len(strides) - 1
    order = sorted(range(len(strides)), key=lambda d: (d == last and strides[d] == itemsize, -abs(strides[d])))
    return order, [order.index(d) for d in range(len(strides))]


class _Parameter(NamedTuple):
    raw: bool
    kind: str  #: a letter or the name of a dtype
    name: str
    result: bool


class _Layout(NamedTuple):
    """The launch for arrays of known layouts."""

    launch: Launch | None  #: given addresses, and numbers; None if there are no elements
    missing: tuple[tuple[Shape, DType], ...]  #: the results that are to be allocated


class ElementwiseKernel:
    """A kernel for CuPy arrays.

    Args:
        xp: the module cupy.
        name: the kernel's name.
        declared: its parameters and code.
    """

    def __init__(self, xp: Any, name: str, declared: Elementwise) -> None:
        self._xp, self._name, self._declared = xp, name, declared
        self._parameters = [*_parsed(declared.inputs, result=False), *_parsed(declared.outputs, result=True)]
        self._results = [each.result for each in self._parameters].count(True)
        self._kernels: dict[str, Any] = {}  # cupy.RawKernel by its source
        self._layouts: dict[tuple[Any, ...], _Layout] = {}

    def __call__(self, *args: Any, size: int | None = None) -> Any:
        """Launch the kernel on the current GPU, and return its result, or a tuple of several.

        Args:
            args: the arguments in the order of the parameters. Results that are missing are allocated. A tuple of
                numbers stands for several parameters, and is part of the layout: it seldom changes.
            size: the number of elements, if no array is broadcast.
        """
        array, key, given, numbers = self._xp.ndarray, list[Any]((size,)), [], []
        for x in args:
            if type(x) is array:
                key += (x.shape, x.dtype) if x._c_contiguous else (x.shape, x.dtype, x.strides)
                given.append(x.data.ptr)
            elif type(x) is tuple:
                key.append(x)
            else:
                key.append(None)
                numbers.append(x)
        found = tuple(key)
        layout = self._layouts.get(found)
        if layout is None:
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[found] = self._laid_out(args, size)
        results = args[len(args) - self._results + len(layout.missing) :]
        for shape, dtype in layout.missing:
            x = array(shape, dtype)
            given.append(x.data.ptr)
            results += (x,)
        if layout.launch is not None:
            layout.launch(*given, *numbers)
        return results[0] if len(results) == 1 else results

    def _laid_out(self, args: tuple[Any, ...], size: int | None) -> _Layout:
        """Return the launch for the layouts of arguments."""
        xp, parameters, flat, fixed = self._xp, self._parameters, list[Any](), list[_Parameter]()
        for x in args:
            several = x if type(x) is tuple else (x,)
            if several is x:
                fixed += parameters[len(flat) : len(flat) + len(x)]
            flat += several
        given = dict(zip(parameters, flat, strict=False))
        arrays = {p: x for p, x in given.items() if isinstance(x, xp.ndarray)}
        types = {p.kind: x.dtype for p, x in reversed(arrays.items()) if p.kind.isupper()}
        dtypes = {p: types[p.kind] if p.kind.isupper() else dtype_of(p.kind) for p in parameters}
        assert all(x.dtype is dtypes[p] for p, x in arrays.items()), f"{self._name}() got other dtypes"
        shape: Shape = (
            np.broadcast_shapes(*[x.shape for p, x in arrays.items() if not p.raw]) if size is None else (size,)
        )
        count = math.prod(shape)
        missing = tuple([(shape, dtypes[p]) for p in parameters[len(flat) :]])
        if not count:
            return _Layout(None, missing)
        views = {p: _View.of(x, None if p.raw else shape) for p, x in arrays.items()}
        views |= {p: _View.of_whole(shape) for p in parameters[len(flat) :]}
        many = max([count, *[x.size for x in arrays.values()]]) >= _MANY
        changing = [p for p in given if p not in arrays and p not in fixed]
        name, declared, numbers = self._name, self._declared, {p: dtypes[p] for p in (*changing, *fixed)}
        if many:
            name += "_many"
            declared = declared._replace(preamble=declared.preamble.replace(INDEX, _LONG_INDEX))
            numbers = {p: int64 if dtype is int32 else dtype for p, dtype in numbers.items()}
        text = _text(name, declared, views, {p: dtypes[p] for p in views}, numbers, types, len(shape))
        kernel = self._kernels.get(text)
        if kernel is None:
            kernel = self._kernels[text] = xp.RawKernel(text, name, ("--fmad=false",) if declared.exact else ())
        kinds = {p: {"f": "d", "u": "Q"}.get(dtype.kind, "q") for p, dtype in numbers.items()}
        layout = [count, *shape, *[n for view in views.values() for n in (*view.sizes, *view.steps)]]
        format_of_rest = "".join([kinds[p] for p in fixed]) + f"{len(layout)}q"
        rest = struct.pack(f"={format_of_rest}", *[given[p] for p in fixed], *layout)
        format_of_given = f"{len(views)}Q" + "".join([kinds[p] for p in changing])
        grid = min(-(-count // _THREADS), (1 << 31) - 1), 1
        return _Layout(launcher(xp, kernel, grid, (_THREADS, 1), format_of_given, rest), missing)


class _View(NamedTuple):
    """How the elements of an array lie."""

    sizes: Shape
    steps: Shape  #: in elements
    whole: bool  #: whether the element ``i`` is the one at ``i`` in memory
    raw: bool

    @classmethod
    def of(cls, x: Any, shape: Shape | None) -> _View:
        """Return the view of an array that is broadcast to a shape, unless it is None."""
        steps = tuple([step // x.itemsize for step in x.strides])
        if shape is None:
            return cls(x.shape, steps, x._c_contiguous, raw=True)
        if x._c_contiguous and x.size == math.prod(shape):
            return cls.of_whole(shape)
        missing = len(shape) - x.ndim
        spread = [0 if n == 1 else step for n, step in zip(x.shape, steps, strict=True)]
        return cls(shape, (*(0,) * missing, *spread), whole=False, raw=False)

    @classmethod
    def of_whole(cls, shape: Shape) -> _View:
        """Return the view of a contiguous array whose elements are those that are computed."""
        return cls((), (), whole=True, raw=False)


def _parsed(text: str, *, result: bool) -> list[_Parameter]:
    """Return the parameters of a declaration: each is ``kind name``, perhaps after ``raw``."""
    words = [each.split() for each in text.split(",")]
    return [_Parameter(len(each) == 3, each[-2], each[-1], result) for each in words]


def _text(
    name: str,
    declared: Elementwise,
    views: dict[_Parameter, _View],
    dtypes: dict[_Parameter, DType],
    numbers: dict[_Parameter, DType],
    types: dict[str, DType],
    dims: int,
) -> str:
    """Return the source of a kernel."""
    c = {p: C_NAMES.get(dtype.name, dtype.name) for p, dtype in (dtypes | numbers).items()}
    const = {p: "" if p.result else "const " for p in views}
    parameters = [f"{const[p]}{c[p]}* _{p.name}" for p in views]
    parameters += [f"const {c[p]} {p.name}" for p in numbers] + ["const burnpy_layout _layout"]
    fields, outside, inside = ["long long count", f"long long shape[{max(dims, 1)}]"], list[str](), list[str]()
    if dims == 0:
        fields.pop()
    for p, view in views.items():
        if view.whole and not view.raw:
            inside.append(f"{const[p]}{c[p]}& {p.name} = _{p.name}[i];")
            continue
        n, whole, view_name = len(view.sizes), str(view.whole).lower(), p.name if view.raw else f"_{p.name}_"
        fields += [f"long long {p.name}_sizes[{n}], {p.name}_steps[{n}]"] if n else []
        where = f"_layout.{p.name}_sizes, _layout.{p.name}_steps" if n else "nullptr, nullptr"
        outside.append(f"const burnpy_view<{const[p]}{c[p]}, {n}, {whole}> {view_name} = {{_{p.name}, {where}}};")
        if not view.raw:
            inside.append(f"{const[p]}{c[p]}& {p.name} = {view_name}[_at];")
    if any("[_at]" in line for line in inside) or re.search(r"\b_at\b", declared.code):
        place = [f"ptrdiff_t _at[{max(dims, 1)}] = {{0}};", "ptrdiff_t _rest = i;"]
        place += [f"_at[{d}] = _rest % _layout.shape[{d}]; _rest /= _layout.shape[{d}];" for d in reversed(range(dims))]
        inside = [*place, *inside]
    lines = [
        *[f"typedef {C_NAMES.get(dtype.name, dtype.name)} {letter};\n" for letter, dtype in sorted(types.items())],
        declared.preamble,
        _VIEW,
        f"struct burnpy_layout {{ {'; '.join(fields)}; }};\n",
        f'extern "C" __global__ __launch_bounds__({_THREADS}) void {name}({", ".join(parameters)}) {{\n',
        *[f"  {line}\n" for line in outside],
        "  CUPY_FOR(i, _layout.count) {\n",
        *[f"    {line}\n" for line in inside],
        f"    {declared.code};\n  }}\n}}\n",
    ]
    return with_headers("".join(lines))


def with_headers(source: str) -> str:
    """Return a source with the headers of CuPy that it needs; NVRTC takes 25 ms for those of 16-bit floats."""
    names = ("carray", *[name for name in (*HALVES, "complex") if re.search(rf"\b{name}\b", source)])
    return "".join([*[f"#include <cupy/{name}.cuh>\n" for name in names], source])
