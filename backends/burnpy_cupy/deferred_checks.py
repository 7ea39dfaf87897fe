"""Errors that the GPU detects: raised at the next synchronization, with the user's line that caused them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.call_origin import Stack, format_lines, lines_of, user_stack
from burnpy_cupy.cuda_graphs import capture
from burnpy_cupy.kernels.elementwise_kernel import Elementwise

_MOST_PENDING = 1024
"""The maximum number of pending checks. A GPU's queue holds no more launches, so the first are done by then."""
_SLOTS = 4 * _MOST_PENDING
"""The number of slots. They are used in turn; a slot has been read long before it is used again."""
Slot = tuple[int, int, int]
"""The contents of a slot: a value to report, the smallest index below the bounds, and the largest above them."""
_UNTOUCHED: Slot = (0, (1 << 63) - 1, -(1 << 63))


_BOUNDS = "int64 index, int64 low, int64 high, int64 ignored, int64 slot"
_BOUNDED = """counts = index != ignored;
if (counts && index < low) atomicMin(&memory[slot + 1], index);
if (counts && index > high) atomicMax(&memory[slot + 2], index);
inside = !counts || index < low ? low : index > high ? high : index"""
CHECKS = {
    "burnpy_note": Elementwise(
        "T value, int64 slot", "raw int64 memory", "memory[slot] = static_cast<long long>(value)"
    ),
    "burnpy_bounded": Elementwise(_BOUNDS, "int64 inside, raw int64 memory", f"bool {_BOUNDED}"),
    "burnpy_bounded_and_counted": Elementwise(_BOUNDS, "int64 inside, bool counts, raw int64 memory", _BOUNDED),
}
"""The kernels that note a value, and the least and the greatest of indices."""


class Check(NamedTuple):
    """A pending check: the slots that the GPU writes to, and the function that turns their contents into an error."""

    slots: list[int]
    error: Callable[[list[Slot]], Exception | None]  #: a function of the slots' contents
    stack: Stack  #: the stack of the user's line
    stream: Any  #: the stream that its kernels are on, if the default one may not wait for that


class LateErrors:
    """The pending checks of one device, from all threads; a thread that synchronizes gets the error of the first.

    All checks write to one array on the GPU, so that reading a thousand of them takes one copy and no launch. The array
    is made and read on CUDA's default stream, which waits for the checks of all streams but non-blocking ones.

    Args:
        name: the device's name.
        call: a function that calls another on the default stream of the device's GPU.
        unordered: returns the stream that work goes to, if the default one may not wait for it; else None.
        xp: the module cupy.
    """

    def __init__(self, name: str, call: Callable[..., Any], unordered: Callable[[], Any], xp: Any) -> None:
        self._name, self._call, self._unordered, self._xp = name, call, unordered, xp
        self._waiting: deque[Check] = deque()
        self._next = itertools.count()
        self._memory: Any = None
        self._making = Lock()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def memory(self) -> Any:
        """The array on the GPU with the numbers of each `Slot`, allocated on first access."""
        if self._memory is None:
            with self._making:
                if self._memory is None:
                    memory = self._call(self._xp.array, np.tile(np.array(_UNTOUCHED), _SLOTS))
                    if self._unordered() is not None:
                        self._xp.cuda.Stream.null.synchronize()
                    self._memory = memory
        return self._memory

    def slot(self) -> Any:
        """Return the position in `memory` of the next slot's first number, of three; on the GPU within a capture."""
        state = capture.get()
        return self._next_slot() if state is None else state.word(self._next_slot)

    def _next_slot(self, _: Any = None) -> int:
        return len(_UNTOUCHED) * (next(self._next) % _SLOTS)

    def add(self, slots: Sequence[Any], error: Callable[[list[Slot]], Exception | None]) -> None:
        """Add a pending check; if there are `_MOST_PENDING`, evaluate them. A captured one is added in each run."""
        state = capture.get()
        if state is not None:
            state.check(slots, lambda taken: self.add(taken, error))
            return
        self._waiting.append(Check([*slots], error, user_stack(1), self._unordered()))
        if len(self._waiting) >= _MOST_PENDING:
            self.answer()

    def answer(self) -> None:
        """Evaluate the pending checks in order: raise the first error, and remove that check and those before it."""
        checks: list[Check] = []
        while self._waiting:
            try:
                checks.append(self._waiting.popleft())
            except IndexError:  # another thread took the last
                break
        for stream in {check.stream.ptr: check.stream for check in checks if check.stream is not None}.values():
            stream.synchronize()
        contents = self._read([slot for check in checks for slot in check.slots]) if checks else {}
        for k, check in enumerate(checks):
            error = check.error([contents[slot] for slot in check.slots])
            if error is not None:
                self._call(self._clear, check.slots)
                self._waiting.extendleft(reversed(checks[k + 1 :]))  # the next synchronization evaluates the rest
                raise self._located(error, check.stack)

    def _read(self, slots: list[int]) -> dict[int, Slot]:
        """Read the contents of slots, which waits for the GPU."""
        first, stop = min(slots), max(slots) + 3
        numbers = self._call(self.memory[first:stop].get).tolist()
        return {slot: tuple(numbers[slot - first : slot - first + 3]) for slot in slots}

    def _clear(self, slots: list[int]) -> None:
        untouched = self._xp.array(np.array(_UNTOUCHED))
        for slot in slots:
            self.memory[slot : slot + 3] = untouched

    def _located(self, error: Exception, stack: Stack) -> Exception:
        """Return the same error with a message that also says why it comes late and which line caused it."""
        where = f". The call was:\n{format_lines(lines_of(stack))}" if stack else ""
        return type(error)(
            f"{error}. {self._name} computes asynchronously and reports errors late; on Checked[CuPy] the operation "
            f"itself raises them{where}"
        )
