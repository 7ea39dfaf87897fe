"""Tensors and gradients as text, for `repr`, and as HTML and pictures, for notebooks.

A part of a large tensor is read: the elements at its edges, and every few of them for a picture. The part is made on
the tensor's device, so that printing a tensor on a GPU moves little.
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from burnpy.backend import html
from burnpy.backend.dtypes import float32
from burnpy.backend.errors import BatchedError
from burnpy.backend.html import FAINT
from burnpy.backend.primitives import INEXACT, Float, Key
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
    return ["tracked"] * (x.kind in INEXACT and x._backend.is_require_grad(x._primitive))


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
        kept = backend.slice(backend.detach(kept) if x.kind in INEXACT else kept, key)
    array: NDArray[Any] = backend.to_numpy(kept)
    return array.astype(float32) if array.dtype.kind == "V" else array


_LEAST_PICTURE, _LARGEST_PICTURE, _MOST_IMAGES = 8, 128, 8
"""The rows and columns from which on there is a picture; the most that one has; the most images of a batch."""
_ENLARGED = 256
"""The width and height in pixels to which a small picture is enlarged; those of a batch to a third."""
_BLUE, _RED, _MISSING = (33, 102, 172), (178, 24, 43), (255, 0, 255)


def sample(shape: tuple[int, ...]) -> tuple[slice, ...] | None:
    """Return the slices of the part that is drawn: of a matrix (H, W), an image (C, H, W) or images (N, C, H, W).

    Images have 1 or 3 channels. The result is None for other shapes, and for fewer than 8 rows or columns.

    >>> sample((300, 100)), sample((2, 2))
    ((slice(None, None, 3), slice(None, None, 3)), None)
    """
    is_image = len(shape) in (3, 4) and shape[-3] in (1, 3)
    if not (is_image or len(shape) == 2) or 0 in shape or min(shape[-2:]) < _LEAST_PICTURE:
        return None
    leading = [slice(None, None, 1), slice(0, min(shape[0], _MOST_IMAGES), 1)][: len(shape) - 2][::-1]
    return (*leading, *[slice(None, None, -(-max(shape[-2:]) // _LARGEST_PICTURE))] * 2)


def picture(array: NDArray[Any], step: int = 1) -> str:
    """Return the HTML of a picture, with the meaning of its colors.

    Floats from 0 to 1, truth values and, in images, ints from 0 to 255 are from black to white, or in images of 3
    channels the intensities of red, green and blue. A matrix with both signs is from blue (negative) over white (0) to
    red. All others are scaled to the range from the smallest to the largest element.

    Args:
        array: the elements of a `sample`.
        step: the step of its slices, for the note below the picture.
    """
    values = array.astype(np.float64)
    finite: NDArray[Any] = np.asarray(np.isfinite(values))
    low, high = (float(f(values[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
    signed = array.ndim == 2 and low < 0 < high
    full = 1.0 if array.dtype.kind not in "iu" else 255.0 if array.ndim > 2 else -1.0
    if signed:
        top = max(-low, high)
        low, high, meaning = -top, top, "blue (negative) to red (positive)"
    else:
        low, high = (0.0, full) if low >= 0 and high <= full else (low, high)
        meaning = "black to white" if array.ndim == 2 or array.shape[-3] == 1 else "of each color"
    share = np.clip((np.where(finite, values, low) - low) / ((high - low) or 1.0), 0, 1)
    images = share if array.ndim > 2 else share[None]
    images = images.reshape(-1, *images.shape[-3:])
    known: NDArray[Any] = np.asarray(finite.reshape(images.shape).all(axis=1))
    pixels = (
        _diverging(images[:, 0]) if signed else np.broadcast_to(np.moveaxis(images, 1, -1) * 255, (*known.shape, 3))
    )
    pixels = np.where(known[..., None], pixels, _MISSING).round().astype(np.uint8)
    notes = [f"{low:.4g} to {high:.4g}, {meaning}", *["magenta where not finite"] * (not finite.all())]
    notes += [f"one of {step} rows and columns"] * (step > 1)
    largest = _ENLARGED if len(pixels) == 1 else _ENLARGED // 3
    drawn = "".join(_image(each, largest) for each in pixels)
    return (
        f'<div style="display:flex;flex-wrap:wrap;gap:4px">{drawn}</div><div style="{FAINT}">{"; ".join(notes)}</div>'
    )


def _diverging(share: NDArray[Any]) -> NDArray[Any]:
    """Return the colors of numbers from 0 (blue) over 0.5 (white) to 1 (red)."""
    distance: NDArray[Any] = np.expand_dims(np.abs(share * 2 - 1), -1)
    colors: NDArray[Any] = 255 + distance * (np.where(share[..., None] < 0.5, _BLUE, _RED) - np.array(255))
    return colors


def _image(pixels: NDArray[np.uint8], largest: int) -> str:
    height, width = pixels.shape[:2]
    scale = max(1, largest // max(height, width))
    source = f"data:image/png;base64,{b64encode(png(pixels)).decode()}"
    size = f'width="{width * scale}" height="{height * scale}"'
    style = "image-rendering:pixelated;max-width:100%"
    return f'<img src="{source}" {size} style="{style}" alt="{height} × {width} elements"/>'


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels of red, green and blue, (H, W, 3), as a PNG file (https://www.w3.org/TR/png-3/)."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with the number of its filter, here none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
