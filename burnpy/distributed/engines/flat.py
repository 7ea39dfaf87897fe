"""Gradients that workers send back: in a few flat buckets, as one array is sent far faster than many."""

from __future__ import annotations

from typing import Any, NamedTuple

from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.layout import Layout, entries_of
from burnpy.tensor.tensor import Tensor


class Flat(NamedTuple):
    """Gradients in buckets."""

    buckets: tuple[Tensor[Any], ...]
    digest: bytes  #: of the layout
    layout: Layout[Any] | None  #: the layout, if this process has not sent it before


_sent: dict[bytes, Layout[Any]] = {}
"""The layouts that this process has sent, by their digests; the latest is the last."""


def flattened(value: Any) -> Any:
    """Return gradients in buckets, and other values as they are."""
    if not isinstance(value, GradientsParams):
        return value
    layout = next(reversed(_sent.values()), None)
    if layout is None or layout.entries != entries_of(value) or layout.paths != value._paths:
        layout = Layout.of(value)
    known = _sent.pop(layout.digest, None) is not None
    _sent[layout.digest] = layout
    return Flat(layout.on(value.device).flatten(value), layout.digest, None if known else layout)


class Layouts:
    """The layouts that workers have sent, which every answer is shown to, in the order of each worker's answers."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout[Any]] = {}

    def opened(self, value: Any) -> Any:
        """Return the gradients in buckets, and other values as they are."""
        if not isinstance(value, Flat):
            return value
        layout = self._known[value.digest] if value.layout is None else value.layout
        self._known[value.digest] = layout
        return layout.on(value.buckets[0].device if value.buckets else layout.device).unflatten(value.buckets)
