"""`Capture`: what a replay of a plan does while it is captured as a CUDA graph, beside launching.

A graph repeats its launches with the arguments that they were captured with. What changes from run to run lies in
*words* of the GPU's memory, which are written before each run: addresses of arrays, seeds of random numbers, numbers
that the host computes, and where late checks note what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np

_uses_graphs: ContextVar[bool] = ContextVar("burnpy_cupy_graphs", default=False)

Inputs: TypeAlias = Sequence[Any]
"""The inputs of a run, and then the arrays made for its outputs."""


class CaptureError(RuntimeError):
    """A replay that cannot be a graph."""


@contextmanager
def graphs(enabled: bool = True) -> Generator[None, None, None]:
    """Within the context, launch plans as CUDA graphs."""
    token = _uses_graphs.set(enabled)
    try:
        yield
    finally:
        _uses_graphs.reset(token)


def uses_graphs() -> bool:
    """Return whether plans launch CUDA graphs in this context."""
    return _uses_graphs.get()


class Capture:
    """A capture of a replay, and its effects besides launches.

    Args:
        words: the words, an array of int64.
        inputs: the inputs of the captured run.
        generators: the random generators that the replay may draw from, each with the function that returns the
            generator in its place in a run.
        numbers: arrays of one number that the host knows, each with the function that returns the number in a run.
    """

    def __init__(
        self,
        words: Any,
        inputs: Inputs,
        generators: Sequence[tuple[Any, Callable[[Inputs], Any]]],
        numbers: Sequence[tuple[Any, Callable[[Inputs], float]]],
    ) -> None:
        self.words, self._inputs, self._generators, self._numbers = words, inputs, generators, [*numbers]
        self.values: list[Callable[[Inputs], int]] = []  #: of the words
        self.checks: list[tuple[list[int], Callable[[list[int]], None]]] = []
        """The late checks: the numbers of the words with their slots, and what adds them to those that are pending."""
        self._own: dict[Hashable, Any] = {}

    def close(self) -> None:
        """Drop what only the captured run needs: arrays that something else refers to are never overwritten."""
        self._inputs, self._generators, self._numbers = (), (), []

    def word(self, value: Callable[[Inputs], int]) -> Any:
        """Return a further word as a 0-d array, given the function that returns its value in a run."""
        if len(self.values) == len(self.words):
            raise CaptureError(f"the plan has more than {len(self.words)} addresses and numbers that change")
        self.values.append(value)
        return self.words[len(self.values) - 1]

    def drawn(self, generator: np.random.Generator, draw: Callable[[Any], int]) -> Any:
        """Return the word of a number that each run draws from the generator in the place of this one."""
        find = next((find for known, find in self._generators if known is generator), lambda _: generator)
        return self.word(lambda inputs: draw(find(inputs)))

    def computed(self, formula: Callable[..., tuple[float, ...]], numbers: Sequence[Any]) -> tuple[Any, ...]:
        """Return the words of the results of a formula, as arrays of float64, which the host computes in each run.

        Raises:
            CaptureError: the host does not know one of the numbers.
        """
        given = [self._number(x) if hasattr(x, "dtype") else x for x in numbers]

        def results(inputs: Inputs) -> tuple[float, ...]:
            return formula(*[x(inputs) if callable(x) else x for x in given])

        return tuple([self._result(results, k) for k in range(len(results(self._inputs)))])

    def _result(self, results: Callable[[Inputs], tuple[float, ...]], k: int) -> Any:
        made = self.word(lambda inputs: _bits(results(inputs)[k])).view("float64")
        self._numbers.append((made, lambda inputs: results(inputs)[k]))
        return made

    def _number(self, x: Any) -> Callable[[Inputs], float]:
        found = next((number for known, number in self._numbers if known is x), None)
        if found is None:
            raise CaptureError("the host reads a number from the GPU, and computes with it")
        return found

    def check(self, slots: Sequence[Any], add: Callable[[list[int]], None]) -> None:
        """Have each run add a late check, given the words with its slots."""
        self.checks.append(([int(x.data.ptr - self.words.data.ptr) // x.itemsize for x in slots], add))

    def own(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what nothing but this graph uses, such as memory or the instance of an inner plan, made once."""
        if key not in self._own:
            self._own[key] = make()
        return self._own[key]


capture: ContextVar[Capture | None] = ContextVar("burnpy_cupy_capture", default=None)
"""The capture of the present replay; None if it is not captured."""


def _bits(value: float) -> int:
    """Return the bits of a float64 as a number."""
    return int(np.float64(value).view(np.uint64))
