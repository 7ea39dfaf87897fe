"""`Replay`: one instance of a plan on a GPU, whose memory one stream uses after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Replay:
    """The replay of a plan, in memory of its own.

    Launches only queue work. So when the next replay in the same memory is on another stream, that stream waits for the
    one before, on the GPU.

    Args:
        device: the device, a `CuPy`.
        function: the function that launches.
    """

    def __init__(self, device: Any, function: Callable[..., list[Any]]) -> None:
        self._device, self._function = device, function
        self._stream: Any = None

    def __call__(self, *inputs: Any) -> list[Any]:
        """Compute the outputs for inputs."""
        current = self._device._streams.current()
        if self._stream is None or self._stream.ptr != current.ptr:
            if self._stream is not None:
                self._device._call(self._device._streams.follow, current, self._stream)
            self._stream = current
        return self._function(*inputs)
