"""Tensors as text, for `repr`, and as HTML, for notebooks.

A part of a large tensor is read: the elements at its edges, and every few of them for a picture. The part is made on
the tensor's device, so that printing a tensor on a GPU moves little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from burnpy.backend import html
from burnpy.backend.dtypes import float32
from burnpy.backend.errors import BatchedError
from burnpy.backend.primitives import Float, Key
from burnpy.tensor.display.pictures import picture, sample
from burnpy.tensor.tensor_base import TensorBase

THRESHOLD = 1000
"""The number of elements above which a tensor is summarized, as in PyTorch and NumPy."""
_FIRST, _LAST = 4, 3
"""The elements of a long dim that decide what is printed: three at each edge, and one for the dots between them."""
_MOST_NORMED = 10_000_000
"""The number of elements up to which the norms of gradients are computed to show them."""


def text_of(x: TensorBase[Any]) -> str:
    """Return the repr of a tensor."""
    name = type(x).__name__
    values = _values(x, f"{name}(")
    attributes = [f"shape={x.shape}", f"dtype={x.dtype}", f"device={x.device}", *_tracked(x)]
    separator = ",\n" + " " * (len(name) + 1) if "\n" in values else ", "
    return f"{name}({values}{separator}{', '.join(attributes)})"


def html_of(x: TensorBase[Any]) -> str:
    """Return a tensor as HTML: its shape, dtype and device, its elements, and a picture of a matrix or of images."""
    head = html.headline(type(x).__name__, x.shape, x.dtype, x.device, *_tracked(x))
    values = html.code(_values(x, ""))
    key = sample(x.shape)
    if key is not None:
        with suppress(BatchedError):
            drawn = picture(_read(x, key), key[-1].step)
            values = drawn + html.folded("values", values)
    return html.block(head, values)


def html_of_gradients(grads: Any, named: Mapping[str, Float]) -> str:
    """Return gradients as HTML: a table of their primitives by name, with norms unless these take long to compute.

    Args:
        grads: the gradients, with a device.
        named: their primitives.
    """
    device = grads.device
    rows = [[name, str(x.shape), str(x.dtype)] for name, x in named.items()]
    headers = ["", "shape", "dtype"]
    if sum(math.prod(x.shape) for x in named.values()) <= _MOST_NORMED:
        headers.append("norm")
        for row, x in zip(rows, named.values(), strict=True):
            row.append(f"{device.to_numpy(device.total_norm([x], 2.0)):.4g}")
    return html.block(html.headline(type(grads).__name__, device), html.table(headers, rows, left=3))


def _tracked(x: TensorBase[Any]) -> list[str]:
    return ["tracked"] * (x.kind == "float" and x._backend.is_require_grad(x._primitive))


def _values(x: TensorBase[Any], prefix: str) -> str:
    """Return the elements as text, with dots between the edges of large tensors."""
    summarized = math.prod(x.shape) > THRESHOLD
    try:
        array = _edges(x) if summarized else _read(x)
    except BatchedError:
        return "one for each example"
    threshold = 0 if summarized else THRESHOLD
    return np.array2string(array, separator=", ", prefix=prefix, threshold=threshold, floatmode="maxprec")


def _edges(x: TensorBase[Any]) -> NDArray[Any]:
    """Return the first and last elements of each long dim, and all of the short ones."""
    parts = [[(0, n)] if n <= _FIRST + _LAST else [(0, _FIRST), (n - _LAST, n)] for n in x.shape]
    corners = [_read(x, tuple(slice(*part) for part in corner)) for corner in product(*parts)]
    for dim in reversed(range(x.ndim)):
        count = len(parts[dim])
        corners = [np.concatenate(corners[k : k + count], axis=dim) for k in range(0, len(corners), count)]
    return corners[0]


def _read(x: TensorBase[Any], key: Key = ()) -> NDArray[Any]:
    """Return a part of a tensor on the host, of a dtype that NumPy formats: of bfloat16, it would format objects."""
    backend: Any = x._backend
    kept = x._primitive
    if key:
        kept = backend.slice(backend.detach(kept) if x.kind == "float" else kept, key)
    array: NDArray[Any] = backend.to_numpy(kept)
    return array.astype(float32) if array.dtype.kind == "V" else array
