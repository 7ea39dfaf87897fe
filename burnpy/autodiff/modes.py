"""Modes: switch recording off and on for a block of code, in its own thread and coroutine.

Prefer `Tensor.inner` and ``model.valid()``: on the inner backend nothing can be recorded, and the type checker knows
it. Modes are for code that must stay on the tracked backend. The mode is stored in one `ContextVar`, read once for each
recorded operation. It silences the levels that existed when it was entered, so that a derivative taken inside of
``no_grad`` by `burnpy.func`, on a new level, is still computed.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextvars import ContextVar, Token
from typing import Any, Self, TypeAlias, cast, overload

import numpy as np

from burnpy.autodiff.recording import DEFAULT_MODE, Mode, current_mode, next_level, set_mode
from burnpy.backend.errors import KindError
from burnpy.typevars import F


def is_grad_enabled() -> bool:
    """Return whether operations on tracked tensors are recorded here.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """
    mode = current_mode()
    return mode is None or mode.recording


def is_inference_mode_enabled() -> bool:
    """Return whether `inference_mode` is active here."""
    mode = current_mode()
    return mode is not None and mode.inference


def _changed(recording: bool, inference: bool | None = None) -> Mode:
    """Return the current mode with changed flags, which apply to all levels that exist now."""
    mode = current_mode() or DEFAULT_MODE
    new_inference = mode.inference if inference is None else inference
    return Mode(recording, new_inference, 0 if recording else next_level(), *mode[3:])


class ModeSwitch(ABC):
    """A context manager and decorator that sets the mode and restores the previous one, also after an exception.

    As a decorator it takes functions, generator functions (the mode is set while the generator runs, not while it is
    suspended), coroutine functions and asynchronous generator functions.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered: ContextVar[_Entered] = ContextVar(name)  # each context restores its own mode

    @abstractmethod
    def _mode(self) -> Mode:
        """Return the mode to set."""

    @abstractmethod
    def _copy(self) -> Self:
        """Return an unused switch with the same settings."""

    def _outside(self) -> Mode | None:
        """Return the mode to restore at the end of the block that is being entered."""
        return current_mode()

    def __enter__(self) -> None:
        entered = _Entered(self._outside())
        entered.token = self._entered.set(entered)
        set_mode(self._mode())

    def __exit__(self, *exception: object) -> None:
        entered = self._entered.get()
        self._entered.reset(entered.token)
        set_mode(entered.before)

    def __call__(self, function: F) -> F:
        """Decorate ``function`` to run in this mode."""
        decorated: Any = function
        if not callable(decorated) or inspect.isclass(decorated):
            raise KindError(f"{self._name} decorates functions and methods, not {decorated!r:.80}")
        wrap = next((wrap for is_kind, wrap in _WRAPPERS if is_kind(function)), _plain)
        return cast(F, functools.wraps(function)(wrap(self._copy, decorated)))


class ModeSetting(ModeSwitch):
    """A switch that sets the mode when it is created; the end of its block restores the mode before that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._first = current_mode()
        set_mode(self._mode())

    def _outside(self) -> Mode | None:
        return self._first

    def __call__(self, function: F) -> F:
        """Decorate ``function`` to run in this mode, and restore the mode outside of it."""
        set_mode(self._first)
        return super().__call__(function)


class _Entered:
    """An active entry into a switch: the mode to restore, and the token that removes the entry from the context."""

    __slots__ = ("before", "token")

    token: Token[_Entered]

    def __init__(self, before: Mode | None) -> None:
        self.before = before


Make: TypeAlias = Callable[[], ModeSwitch]
"""A function that makes the switch of a call, or of a step of a generator."""


def _plain(make: Make, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the mode set during each call."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        with make():
            return function(*args, **kwargs)

    return plain


def _coroutine(make: Make, function: Callable[..., Any]) -> Callable[..., Any]:
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with make():
            return await function(*args, **kwargs)

    return coroutine


def _generator(make: Make, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the generator function with the mode set during each step only."""

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        running = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, running)
        while True:
            with make():
                try:
                    item = step()
                except StopIteration as stop:
                    return stop.value
            try:
                sent = yield item
                step = functools.partial(running.send, sent)
            except GeneratorExit:
                with make():
                    running.close()
                raise
            except BaseException as error:  # thrown in by the caller; the generator gets it
                step = functools.partial(running.throw, error)

    return generator


def _asynchronous_generator(make: Make, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the asynchronous generator function with the mode set during each step only."""

    async def generator(*args: Any, **kwargs: Any) -> Any:
        running = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(anext, running)
        try:
            while True:
                with make():
                    try:
                        item = await step()
                    except StopAsyncIteration:
                        return
                try:
                    sent = yield item
                    step = functools.partial(running.asend, sent)
                except GeneratorExit:
                    raise
                except BaseException as error:  # thrown in by the caller; the generator gets it
                    step = functools.partial(running.athrow, error)
        finally:
            with make():
                await running.aclose()

    return generator


_WRAPPERS: tuple[tuple[Callable[[Any], bool], Callable[..., Any]], ...] = (
    (inspect.isgeneratorfunction, _generator),
    (inspect.isasyncgenfunction, _asynchronous_generator),
    (inspect.iscoroutinefunction, _coroutine),
)
"""The kinds of functions that a switch decorates otherwise than plain ones."""


class RecordingSwitch(ModeSwitch):
    """The switch returned by `no_grad`, `enable_grad` and `inference_mode`: turns recording on or off."""

    def __init__(self, name: str, recording: bool, inference: bool | None = None) -> None:
        super().__init__(name)
        self._recording, self._inference = recording, inference

    def _copy(self) -> Self:
        return type(self)(self._name, self._recording, self._inference)

    def _mode(self) -> Mode:
        return _changed(self._recording, self._inference)


@overload
def no_grad() -> RecordingSwitch: ...
@overload
def no_grad(function: F, /) -> F: ...
def no_grad(function: Any = None, /) -> Any:
    """Disable recording, so that results are untracked: a context manager, and a decorator with or without ``()``.

    >>> x = Tensor[Autodiff[NumPy]].ones((2,)).require_grad()
    >>> with no_grad():
    ...     (x * 2).is_require_grad()
    False
    """
    return _around(RecordingSwitch("no_grad", False), function)


@overload
def enable_grad() -> RecordingSwitch: ...
@overload
def enable_grad(function: F, /) -> F: ...
def enable_grad(function: Any = None, /) -> Any:
    """Enable recording inside of `no_grad` or `inference_mode`: a context manager and decorator."""
    return _around(RecordingSwitch("enable_grad", True, inference=False), function)


@overload
def inference_mode(mode: bool = True) -> RecordingSwitch: ...
@overload
def inference_mode(mode: F) -> F: ...
def inference_mode(mode: Any = True) -> Any:
    """Disable recording, as `no_grad` does; provided for code ported from PyTorch.

    In PyTorch it also skips the bookkeeping for in-place changes; here nothing changes in place, and results are
    ordinary tensors.

    Args:
        mode: False enables recording, as `enable_grad` does.

    Raises:
        KindError: ``mode`` is neither a flag nor a function.
    """
    on = callable(mode) or flag("inference_mode(mode)", mode)
    return _around(RecordingSwitch("inference_mode", not on, inference=on), mode if callable(mode) else None)


def flag(call: str, value: Any) -> bool:
    """Return ``value`` as a bool after checking that it is one; ``call`` names the argument in the error message."""
    if not isinstance(value, (bool, np.bool_)):
        raise KindError(f"{call} takes True or False, not {value!r:.80}")
    return bool(value)


def _around(switch: RecordingSwitch, function: Any) -> Any:
    """Return the switch, or the decorated function if the decorator was written without parentheses."""
    return switch if function is None else switch(function)


class set_grad_enabled(ModeSetting):  # noqa: N801  # PyTorch's name; it is used like a function
    """Turn recording on or off by a flag: as a function at once, as a context manager until the end of the block.

    Raises:
        KindError: ``mode`` is not a bool.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self._on = flag("set_grad_enabled(mode)", mode)
        super().__init__("set_grad_enabled")

    def _copy(self) -> Self:
        return type(self)(self._on)

    def _mode(self) -> Mode:
        return _changed(recording=self._on)
