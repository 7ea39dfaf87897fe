"""Random keys for ``x[...]``, for tests/tensor/test_random_keys.py and tests/parity/test_random_keys.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Array = np.ndarray[Any, Any]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def shapes_and_keys(
    draw: st.DrawFn, *, backward: bool = True, out_of_range: bool = False
) -> tuple[tuple[int, ...], Any]:
    """A shape, and a key of ints, slices, None, ``...``, arrays of ints and of bools, lists of them, and bools.

    Arrays of ints broadcast with one another; with masks they need not. ``backward`` allows negative steps, and
    ``out_of_range`` ints and arrays that reach beyond the dimension.
    """
    shape = draw(SHAPES)
    common = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    items: list[Any] = []
    dim = 0
    beyond = 1 if out_of_range else 0
    while dim < len(shape) and draw(st.integers(0, 6)):
        size = shape[dim]
        form = draw(st.sampled_from(["int", "slice", "None", "0-d", "mask", "bool", "array", "array"]))
        if form in ("int", "0-d", "array") and not size + beyond:
            form = "slice"
        values = st.integers(-size - beyond, max(size + beyond - 1, -size - beyond))
        if form == "int":
            items.append(draw(values))
        elif form == "0-d":
            items.append(np.array(draw(values)))
        elif form == "slice":
            ends = st.none() | st.integers(-size - 2, size + 2)
            steps = st.sampled_from([None, 1, 2, 3, *((-1, -2) if backward else ())])
            items.append(slice(draw(ends), draw(ends), draw(steps)))
        elif form == "None":
            items.append(None)
        elif form == "bool":
            items.append(draw(st.sampled_from([True, False, np.array(True)])))
        elif form == "mask":
            covered = draw(st.integers(1, len(shape) - dim))
            items.append(draw(hnp.arrays(np.bool_, shape[dim : dim + covered])))
            dim += covered
            continue
        else:
            part = common[draw(st.integers(0, len(common) - 1)) :]
            flat = draw(st.lists(values, min_size=int(np.prod(part)), max_size=int(np.prod(part))))
            array = np.array(flat, np.int64).reshape(part)
            items.append(array.tolist() if array.size and draw(st.booleans()) else array)
        dim += form not in ("None", "bool")
    if draw(st.booleans()):
        items.append(...)
        items += [None] * draw(st.integers(0, 1))
    return shape, items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


def ints_first(key: Any, ndim: int) -> tuple[Any, Any]:
    """Two keys that do one after the other what a key does: the first has its ints, which place no dimensions.

    NumPy counts ints among several indices as indices of their own; PyTorch, and this library, select by them before.
    """
    items = [int(i) if isinstance(i, np.ndarray) and not i.ndim and i.dtype != bool else i for i in _listed(key)]
    used = sum(
        i.ndim if isinstance(i, np.ndarray) and i.dtype == bool else i is not None and not isinstance(i, bool)
        for i in items
        if i is not ...
    )
    first: list[Any] = []
    for item in items:
        if type(item) is int:
            first.append(item)
        elif item is ...:
            first += [slice(None)] * (ndim - used)
        elif isinstance(item, np.ndarray) and item.dtype == bool:
            first += [slice(None)] * item.ndim
        elif item is not None and not isinstance(item, bool):
            first.append(slice(None))
    return tuple(first), tuple(i for i in items if type(i) is not int)


def _listed(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]
