"""`ElementwiseKernel`: a kernel that computes the elements of arrays, as a `cupy.ElementwiseKernel`.

A declaration has parameters, ``raw T image, int32 rows, int64 index``, and code. Those of the arrays that are not
``raw`` are broadcast, and stand for the element ``i`` in the code; ``raw`` ones are indexed by it, ``image[i]`` or
``image[at]`` with ``ptrdiff_t at[] = {n, c, h, w}``. ``_at`` is the place of the element in all dimensions. A letter
stands for the dtype of the first array that has it. Arrays are read where they lie, whatever their strides. Code only
writes its results. A ``const`` number is a constant of the source, which is compiled for each of its values.

A thread has several elements, a block's width apart. It reads all of them before it writes any, as the speed of memory
depends on the bytes that are on their way: one float32 element a thread takes 2.4 times as long on an H200. Code that
is long, has ``raw`` results, or loops to other numbers than constants, has one element a thread.

What a launch needs depends on the layouts of its arrays alone. It is found once for each, as is the source. Dimensions
that lie in memory as one are one in the source, in the order of the result's memory.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import DTYPES, HALVES, dtype_of, int32, int64
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.kernels.launch import Lattice, Launch, Matrices, launcher, order_of, transposing
from burnpy_cupy.runtime import allocating, empty

INDEX = "typedef int index_t;\n"
"""A part of the preamble of kernels that count elements with ``int32`` arguments, as division is faster in 32 bits."""

C_NAMES = {name: each.c for name, each in DTYPES.items()}
"""The types of CUDA by their dtypes; 16-bit floats are classes of CuPy's headers."""
REGISTER = C_NAMES | dict.fromkeys(HALVES, "float")
"""The types of computed values by their dtypes: 16-bit floats are computed in float32, and rounded when stored."""

_LONG_INDEX = "typedef long long index_t;\n"

_THREADS = 128
_PER_THREAD = 8
"""The elements of a thread; half as many of 8 bytes."""
_LONG_CODE = 2000
"""The least number of characters of code for which its arithmetic takes longer than the memory."""
_INDEX64 = 1 << 31
"""The least number of elements for which they are counted in 64 bits."""
_MOST_LAYOUTS = 1024
"""The most layouts for which a kernel keeps its launches."""

_VIEW = """
template <typename E, int N, bool WHOLE> struct burnpy_view {
  E* data;
  const long long* sizes;
  const long long* steps;
  __device__ ptrdiff_t size() const {
    ptrdiff_t count = 1;
    for (int d = 0; d < N; d++) count *= sizes[d];
    return count;
  }
  template <typename P> __device__ E& operator[](const P (&at)[N ? N : 1]) const {
    burnpy_step where = 0;
    #pragma unroll
    for (int d = 0; d < N; d++) where += (burnpy_step)at[d] * (burnpy_step)steps[d];
    return data[where];
  }
  __device__ E& operator[](ptrdiff_t i) const {
    if (WHOLE) return data[i];
    burnpy_step where = 0;
    burnpy_index rest = i;
    #pragma unroll
    for (int d = N - 1; d > 0; d--) {
      const burnpy_index size = sizes[d];
      where += (burnpy_step)(rest % size) * (burnpy_step)steps[d], rest /= size;
    }
    return data[N ? where + (burnpy_step)rest * (burnpy_step)steps[0] : 0];
  }
};
__device__ inline unsigned burnpy_high(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
#define BURNPY_FOR(first, width, count) \\
  for (burnpy_index first = blockIdx.x * (burnpy_index)(width) + threadIdx.x; first < (count); \\
       first += gridDim.x * (burnpy_index)(width))
"""


class Elementwise(NamedTuple):
    """The declaration of a kernel."""

    inputs: str
    outputs: str
    code: str
    preamble: str = ""
    exact: bool = False  #: whether products and sums are rounded one by one, as operations round them

    @property
    def is_placed(self) -> bool:
        """True if the code needs the place of the element in all dimensions."""
        return "_at" in _words(self.code)

    @property
    def is_counted(self) -> bool:
        """True if the code needs the number of the element in row-major order."""
        return "i" in _words(self.code)

    @property
    def is_several(self) -> bool:
        """True if a thread computes several elements: short code without loops, or with loops to constants."""
        loops = not _words(self.code).isdisjoint(("for", "while"))
        return len(self.code) < _LONG_CODE and "raw " not in self.outputs and (not loops or "const " in self.inputs)


@lru_cache(1024)
def _words(code: str) -> frozenset[str]:
    """Return the names and keywords in the code of a kernel, which is asked for them with every layout."""
    return frozenset(re.findall(r"\w+", code))


def contiguous(xp: Any, x: Any) -> Any:
    """Return an array, or a copy of it on the current GPU, whose elements lie in row-major order."""
    return x if x._c_contiguous else copied(xp, x)


def copied(xp: Any, x: Any) -> Any:
    """Return a copy in row-major order."""
    out, gpu = empty(xp, x.shape, x.dtype), xp.cuda.runtime.getDevice()
    matrices = Matrices.of(x.shape, x.strides, x.itemsize)
    if matrices is None:
        return _copying(xp, gpu)(x, out)
    transposing(xp, gpu, matrices)(x.data.ptr, out.data.ptr)
    return out


@cache
def _copying(xp: Any, gpu: int) -> ElementwiseKernel:
    """Return the kernel that copies on a GPU, which is current."""
    return ElementwiseKernel(xp, "burnpy_copy", Elementwise("T x", "T y", "y = x"))


def in_order_of(xp: Any, x: Any, shape: Shape, dtype: DType) -> Any:
    """Allocate an array, of as many dimensions as x has, whose dimensions lie in memory in the order of those."""
    order = None if x._c_contiguous else order_of(x.strides, x.itemsize)
    return allocating(xp)(shape, dtype) if order is None else _in_order(allocating(xp), shape, dtype, order)


def _in_order(allocate: Callable[[Shape, DType], Any], shape: Shape, dtype: DType, order: tuple[Shape, Shape]) -> Any:
    """Allocate an array whose dimensions lie in memory in an order."""
    return allocate(tuple([shape[d] for d in order[0]]), dtype).transpose(order[1])


class _Parameter(NamedTuple):
    mark: str  #: "raw", "const", or nothing
    kind: str  #: a letter or the name of a dtype
    name: str
    result: bool

    @property
    def raw(self) -> bool:
        """True for an array that the code indexes."""
        return self.mark == "raw"


class _Layout(NamedTuple):
    """The launch for arrays of known layouts."""

    launch: Launch | None  #: given addresses, and numbers; None if there are no elements
    missing: tuple[tuple[Shape, DType], ...]  #: the results that are to be allocated
    order: tuple[Shape, Shape] | None  #: and the order of their dimensions
    given: int  #: the number of arguments before the results that are given


class ElementwiseKernel:
    """A kernel for CuPy arrays.

    Args:
        xp: the module cupy.
        name: the kernel's name.
        declared: its parameters and code.
    """

    def __init__(self, xp: Any, name: str, declared: Elementwise) -> None:
        self._xp, self._array, self._allocate = xp, xp.ndarray, allocating(xp)
        self._name, self._declared = name, declared
        self._parameters = [*_parsed(declared.inputs, result=False), *_parsed(declared.outputs, result=True)]
        self._results = [each.result for each in self._parameters].count(True)
        self._kernels: dict[str, Any] = {}  # cupy.RawKernel by its source
        self._layouts: dict[tuple[Any, ...], _Layout] = {}

    @property
    def sources(self) -> list[str]:
        """The sources for the layouts of arrays that it was called with."""
        return [*self._kernels]

    def __call__(self, *args: Any, size: int | None = None) -> Any:
        """Launch the kernel on the current GPU, and return its result, or a tuple of several.

        Args:
            args: the arguments in the order of the parameters. Results that are missing are allocated. A tuple of
                numbers stands for several parameters, and is part of the layout: it seldom changes.
            size: the number of elements, if no array is broadcast.
        """
        array, given, numbers = self._array, [], []
        key: list[Any] = [size]
        for x in args:
            if type(x) is array:
                key.append(x.shape)
                key.append(x.dtype)
                if not x._c_contiguous:
                    key.append(x.strides)
                given.append(x.data.ptr)
            elif type(x) is tuple:
                key.append(x)
            else:
                key.append(None)
                numbers.append(x)
        found = tuple(key)
        layout = self._layouts.get(found)
        if layout is None:
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[found] = self._laid_out(args, size)
        launch, missing, order, before = layout
        results, allocate = [*args[before:]], self._allocate
        for shape, dtype in missing:
            x = allocate(shape, dtype) if order is None else _in_order(allocate, shape, dtype, order)
            given.append(x.data.ptr)
            results.append(x)
        if launch is not None:
            launch(*given, *numbers)
        return results[0] if len(results) == 1 else tuple(results)

    def _laid_out(self, args: tuple[Any, ...], size: int | None) -> _Layout:
        """Return the launch for the layouts of arguments."""
        given, tuples = self._given(args)
        arrays = {p: x for p, x in given.items() if isinstance(x, self._array)}
        types = {p.kind: x.dtype for p, x in reversed(arrays.items()) if p.kind.isupper()}
        dtypes = {p: types[p.kind] if p.kind.isupper() else dtype_of(p.kind) for p in self._parameters}
        assert all(x.dtype is dtypes[p] for p, x in arrays.items()), f"{self._name}() got other dtypes"
        operands = {p: x for p, x in arrays.items() if not p.raw}
        shape: Shape = np.broadcast_shapes(*[x.shape for x in operands.values()]) if size is None else (size,)
        allocated = self._parameters[len(given) :]
        placed, launch = self._declared.is_placed, None
        order = None if placed or self._declared.is_counted else _order(operands, shape)
        if math.prod(shape):
            named = {p.name: x for p, x in operands.items()}
            lattice = Lattice.of(named, [p.name for p in allocated], shape, order, merges=not placed)
            launch = self._launch(given, tuples, arrays, dtypes, lattice)
        missing = tuple([(shape, dtypes[p]) for p in allocated])
        return _Layout(launch, missing, order, len(args) - self._results + len(missing))

    def _given(self, args: tuple[Any, ...]) -> tuple[dict[_Parameter, Any], set[_Parameter]]:
        """Return the arguments by their parameters, and the parameters that are given in tuples."""
        flat, tuples = list[Any](), set[_Parameter]()
        for x in args:
            if type(x) is tuple:
                tuples.update(self._parameters[len(flat) : len(flat) + len(x)])
            flat += x if type(x) is tuple else (x,)
        return dict(zip(self._parameters, flat, strict=False)), tuples

    def _launch(
        self,
        given: Mapping[_Parameter, Any],
        tuples: set[_Parameter],
        arrays: Mapping[_Parameter, Any],
        dtypes: Mapping[_Parameter, DType],
        lattice: Lattice,
    ) -> Launch:
        """Return the launch over a lattice: it takes the addresses, and the numbers that are in no tuple."""
        xp, name, declared, count = self._xp, self._name, self._declared, math.prod(lattice.sizes)
        raw = {p: x for p, x in arrays.items() if p.raw}
        constants = {p: x for p, x in given.items() if p in tuples and p.mark == "const"}
        fixed = [p for p in given if p in tuples and p not in constants]
        changing = [p for p in given if p not in arrays and p not in tuples]
        numbers = {p: dtypes[p] for p in (*changing, *fixed)}
        many = max([count, *[_reach(x) for x in arrays.values()]]) >= _INDEX64
        if many:
            name += "_many"
            declared = declared._replace(preamble=declared.preamble.replace(INDEX, _LONG_INDEX))
            numbers = {p: int64 if dtype is int32 else dtype for p, dtype in numbers.items()}
        dense = [p for p in self._parameters if p.name in lattice.steps]
        pointers = [p for p in self._parameters if p in arrays or p in dense]
        each = _PER_THREAD // (2 if any(dtypes[p].itemsize == 8 for p in dense) else 1) if declared.is_several else 1
        views = {p: (x.ndim, bool(x._c_contiguous)) for p, x in raw.items()}
        text = _Source(name, declared, pointers, dtypes, numbers, constants, views, lattice, each, many).text()
        kernel = self._kernels.get(text)
        if kernel is None:
            kernel = self._kernels[text] = xp.RawKernel(text, name, ("--fmad=false",) if declared.exact else ())
        formats = {p: {"f": "d", "u": "Q"}.get(dtype.kind, "q") for p, dtype in numbers.items()}
        layout = [count, *lattice.numbers()]
        for x in raw.values():
            layout += [*x.shape, *[step // x.itemsize for step in x.strides]]
        format_of_rest = "".join([formats[p] for p in fixed]) + f"{len(layout)}q"
        rest = struct.pack(f"={format_of_rest}", *[given[p] for p in fixed], *layout)
        format_of_given = f"{len(pointers)}Q" + "".join([formats[p] for p in changing])
        grid = min(-(-count // (_THREADS * each)), (1 << 31) - 1), 1
        return launcher(xp, kernel, grid, (_THREADS, 1), format_of_given, rest)


def _reach(x: Any) -> int:
    """Return the number of elements of memory from the first of an array to the last."""
    reach: int = 1 + sum([(n - 1) * abs(step) // x.itemsize for n, step in zip(x.shape, x.strides, strict=True)])
    return reach


def _order(operands: Mapping[_Parameter, Any], shape: Shape) -> tuple[Shape, Shape] | None:
    """Return the order in memory in which elements are computed: of the results, or of arrays with their shape. As in
    NumPy, arrays of different orders make row-major results."""
    given = [x for p, x in operands.items() if p.result] or [x for x in operands.values() if x.shape == shape]
    orders = {order_of(x.strides, x.itemsize) for x in given if not x._c_contiguous}
    return orders.pop() if len(orders) == 1 and not any(x._c_contiguous for x in given) else None


def _parsed(text: str, *, result: bool) -> list[_Parameter]:
    """Return the parameters of a declaration: each is ``kind name``, perhaps after a mark."""
    words = [each.split() for each in text.split(",")]
    return [_Parameter(" ".join(each[:-2]), each[-2], each[-1], result) for each in words]


class _Source(NamedTuple):
    name: str
    declared: Elementwise
    pointers: Sequence[_Parameter]  #: the arrays
    dtypes: Mapping[_Parameter, DType]
    numbers: Mapping[_Parameter, DType]
    constants: Mapping[_Parameter, Any]
    views: Mapping[_Parameter, tuple[int, bool]]  #: of raw arrays the number of dimensions, and whether contiguous
    lattice: Lattice
    each: int
    many: bool

    def text(self) -> str:
        c = {p: C_NAMES[t.name] for p, t in (*self.dtypes.items(), *self.numbers.items())}
        letters = {p.kind: C_NAMES[t.name] for p, t in self.dtypes.items() if p.kind.isupper()}
        const = {p: "" if p.result else "const " for p in self.pointers}
        parameters = [f"{const[p]}{c[p]}* _data_{p.name}" for p in self.pointers]
        parameters += [f"const {c[p]} {p.name}" for p in self.numbers] + ["const burnpy_layout _layout"]
        dense = [p for p in self.pointers if p.name in self.lattice.steps]
        inputs, results = [p for p in dense if not p.result], [p for p in dense if p.result]
        lines = [f"  {c[p]} _own_{p.name}[{self.each}];" for p in dense]
        if inputs:
            lines += self._loop(
                self._places(inputs), [f"_own_{p.name}[_k] = _data_{p.name}[{self._where(p)}];" for p in inputs]
            )
        names = [f"{const[p]}{c[p]}& {p.name} = _own_{p.name}[_k];" for p in dense]
        place = ["const ptrdiff_t i = _i;"] * self.declared.is_counted
        if self.declared.is_placed:
            at = [f"(ptrdiff_t){name}" for name in self._coordinate_names()]
            place += [*self._coordinates(), f"ptrdiff_t _at[] = {{{', '.join(at) or '0'}}};"]
        lines += self._loop([*place, *names], [f"{self.declared.code};"])
        if results:
            lines += self._loop(
                self._places(results), [f"_data_{p.name}[{self._where(p)}] = _own_{p.name}[_k];" for p in results]
            )
        views = [
            f"  const burnpy_view<{const[p]}{c[p]}, {n}, {str(whole).lower()}> {p.name} = {{_data_{p.name}, "
            + (f"_layout.{p.name}_sizes, _layout.{p.name}_steps" if n else "nullptr, nullptr")
            + "};"
            for p, (n, whole) in self.views.items()
        ]
        index = "long long" if self.many else "int"
        constants = [f"  const {c[p]} {p.name} = {int(value)};" for p, value in self.constants.items()]
        text = [
            *[f"typedef {name} {letter};" for letter, name in sorted(letters.items())],
            self.declared.preamble,
            f"typedef unsigned {index} burnpy_index;\ntypedef {index} burnpy_step;",
            _VIEW,
            f"struct burnpy_layout {{ {'; '.join(self._members())}; }};",
            f'extern "C" __global__ __launch_bounds__({_THREADS}) void {self.name}({", ".join(parameters)}) {{',
            *constants,
            *views,
            "  const burnpy_index _count = _layout.count, _width = blockDim.x;",
            f"  BURNPY_FOR(_first, {self.each} * _width, _count) {{",
            *lines,
            "  }",
            "}",
            "",
        ]
        return with_headers("\n".join(text))

    def _loop(self, before: Sequence[str], body: Sequence[str]) -> list[str]:
        """Return the loop over the elements of a thread."""
        return [
            "  #pragma unroll",
            f"  for (int _k = 0; _k < {self.each}; _k++) {{",
            "    const burnpy_index _i = _first + _k * _width;",
            "    if (_i < _count) {",
            *[f"      {line}" for line in (*before, *body)],
            "    }",
            "  }",
        ]

    def _places(self, arrays: Sequence[_Parameter]) -> list[str]:
        """Return the coordinates, if an array needs them."""
        return [] if all(self.lattice.is_whole(p.name) for p in arrays) else self._coordinates()

    def _coordinates(self) -> list[str]:
        """Return the division of an element's number by the sizes: by products and shifts, unless it has 64 bits."""
        lines, rest = list[str](), "_i"
        for d in reversed(range(1, len(self.lattice.sizes))):
            quotient = (
                f"{rest} / _layout.sizes[{d}]"
                if self.many
                else f"(burnpy_high({rest}, _layout.factors[{d}]) + {rest}) >> (burnpy_index)_layout.shifts[{d}]"
            )
            lines.append(
                f"const burnpy_index _q{d} = {quotient}, _c{d} = {rest} - _q{d} * (burnpy_index)_layout.sizes[{d}];"
            )
            rest = f"_q{d}"
        return lines

    def _coordinate_names(self) -> list[str]:
        dims = len(self.lattice.sizes)
        first = "_q1" if dims > 1 else "_i"
        return [first if d == 0 else f"_c{d}" for d in range(dims)]

    def _where(self, p: _Parameter) -> str:
        """Return the position of an element of an array."""
        if self.lattice.is_whole(p.name):
            return "_i"
        names = self._coordinate_names()
        steps = [f"(burnpy_step){name} * (burnpy_step)_layout.{p.name}_steps[{d}]" for d, name in enumerate(names)]
        return " + ".join(steps) or "0"

    def _members(self) -> list[str]:
        """Return the members of the last argument, all of 8 bytes."""
        n = len(self.lattice.sizes)
        fields = ["long long count"]
        if n:
            fields += [f"long long sizes[{n}], factors[{n}], shifts[{n}]"]
            fields += [f"long long {name}_steps[{n}]" for name in self.lattice.steps]
        return fields + [f"long long {p.name}_sizes[{m}], {p.name}_steps[{m}]" for p, (m, _) in self.views.items() if m]


def with_headers(source: str) -> str:
    """Return a source with the headers of CuPy that it needs; NVRTC takes 25 ms for those of 16-bit floats."""
    # Most sources do not have a name even within a word, which is far faster to tell.
    named = [name for name in (*HALVES, "complex") if name in source and re.search(rf"\b{name}\b", source)]
    names = ("carray", *named)
    return "".join([*[f"#include <cupy/{name}.cuh>\n" for name in names], source])


def headers_of(dtypes: Iterable[str]) -> str:
    """Return the lines that include CuPy's headers for the 16-bit floats among some dtypes."""
    return "".join([f"#include <cupy/{name}.cuh>\n" for name in sorted({*dtypes} & {*HALVES})])
