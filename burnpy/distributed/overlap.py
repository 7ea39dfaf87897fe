"""Sums of buckets that begin while the backward pass is still computing gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burnpy.optim.grads_params import GradientsParams

if TYPE_CHECKING:
    from burnpy.autodiff.graph import Leaf
    from burnpy.distributed.wires import Wire
    from burnpy.optim.layout import Layout
    from burnpy.tensor.tensor import Tensor


class Overlap:
    """The sums of the buckets of one backward pass.

    A bucket is written when the last of its gradients is complete. Its sum starts then, or after the sums of all
    earlier buckets: the layout gives the order, which is the same on all ranks whatever the order of their graphs.

    Args:
        wire: the transport of the buckets.
        layout: the layout that all ranks expect the gradients to have.
        scale: the factor of this rank's gradients.
        idents: the ids of parameters by their leaves.
    """

    def __init__(self, wire: Wire, layout: Layout[Any], scale: float, idents: Mapping[Leaf, str]) -> None:
        self.layout = layout
        self.requests: list[Any] = []
        """The requests of the buckets whose sums have started, from the first on."""
        self._wire, self._scale, self._idents = wire, scale, idents
        self._bucket = {entry.ident: place.bucket for entry, place in zip(layout.entries, layout.places, strict=True)}
        self._awaited = [len(row) for row in layout.by_bucket]
        self._ready: list[dict[str, Tensor[Any]]] = [{} for _ in layout.buckets]

    def __call__(self, leaf: Tensor[Any], gradient: Tensor[Any]) -> None:
        """Take a gradient that is complete: see `burnpy.Tensor.backward`."""
        ident = self._idents.get(leaf._primitive.node)
        bucket = None if ident is None else self._bucket.get(ident)
        if ident is None or bucket is None:  # of another model, or a gradient that no rank had before
            return
        self._ready[bucket][ident] = gradient
        self._awaited[bucket] -= 1
        while len(self.requests) < len(self._awaited) and not self._awaited[len(self.requests)]:
            self._start(self._held(len(self.requests)))
        if self.requests:
            self._wire.progress(self.requests[-1])

    def _held(self, bucket: int) -> GradientsParams[Any]:
        """The gradients of a bucket."""
        values, self._ready[bucket] = self._ready[bucket], {}
        return GradientsParams(self.layout.device, values, paths=self.layout.paths)

    def _start(self, grads: GradientsParams[Any] | None) -> None:
        self.requests.append(self._wire.begin(self.layout, len(self.requests), grads, self._scale))

    def flush(self, grads: GradientsParams[Any] | None) -> None:
        """Start the sums of all other buckets, with zeros where there is no gradient."""
        while len(self.requests) < len(self._awaited):
            self._start(grads)
        self._ready.clear()

    def abandon(self) -> None:
        """Give up, after an error: the sums that have begun keep their memory."""
        self._wire.abandon(self.requests)

    def wait(self) -> list[Tensor[Any]]:
        """Return the sums of all buckets."""
        return [self._wire.wait(self.layout, request) for request in self.requests]
