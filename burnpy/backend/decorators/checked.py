"""`Checked[B]`: a backend that refuses NaN, and infinity where asked, the moment that an operation makes them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Literal, TypeVar, final

from burnpy.backend.backend import Backend
from burnpy.backend.decorators.decorator import Decorator
from burnpy.backend.decorators.finite import found_in, is_float
from burnpy.backend.entries import Operation
from burnpy.backend.errors import ArgumentError, NonFiniteError
from burnpy.backend.op_context import op_context
from burnpy.backend.source_lines import format_lines, lines_of

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend

_allowed: ContextVar[frozenset[str]] = ContextVar("burnpy_allowed", default=frozenset())
_CONSUMING = ("accumulate", "accumulate_slice", "accumulate_index")
"""Operations that may have written their result over their first argument by the time that it could be shown."""


@final
class Checked(Decorator[I], Generic[I]):
    """A backend that looks at every result of the inner backend ``I``, in forward and backward passes.

    An operation that gives NaN is an error that names it, its arguments' shapes, the first bad element and whether the
    arguments were finite; data that hold NaN are refused where they come in. Infinity, which attention masks and
    ``log(0)`` make on purpose, is looked for only with ``check_inf=True``. NaN on purpose has its way out in `allow`.
    An index out of range is an error at once, also on a device that would report it later.

    It goes inside `Autodiff`: ``Autodiff[Checked[NumPy]]`` checks what rules compute too, step by step, where
    `burnpy.autodiff.detect_anomaly` checks what each rule returns. Every operation is waited for, so this is for
    finding mistakes, not for training.

    Args:
        inner: the backend that computes.
        check_inf: whether infinity is an error too. ``Checked(NumPy, True)`` is a device of its own.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor.from_data([4.0, -1.0], device=Checked[NumPy])
    >>> x.sqrt()
    Traceback (most recent call last):
        ...
    burnpy.backend.errors.NonFiniteError: sqrt() on Checked[NumPy] gave NaN at index (1,) in a result of shape (2,) and
    dtype float32; x of shape (2,), dtype float32 is finite. If this is meant, compute it in: with Checked.allow("nan"):
    """

    word = "checks"

    def __init__(self, inner: I | type[I], check_inf: bool = False) -> None:
        super().__init__(inner)
        self.check_inf = check_inf
        self.eager_checks = True

    @property
    def name(self) -> str:
        """``Checked[NumPy]``; with infinities checked, ``Checked[NumPy, inf]``."""
        return f"Checked[{self.inner.name}{', inf' if self.check_inf else ''}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Checked, (self.inner, self.check_inf)

    def wants_rule_context(self) -> bool:
        """True: errors say in which rule they came up."""
        return True

    @staticmethod
    @contextmanager
    def allow(*what: Literal["nan", "inf"]) -> Generator[None, None, None]:
        """A block, or as a decorator a function, in which NaN or infinity, without arguments both, are no errors.

        They stay allowed in the block only: an operation outside of it that is given NaN, and so gives NaN, is refused.

        Raises:
            ArgumentError: ``what`` is neither.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> with Checked.allow("nan"):
        ...     Tensor.from_data([float("nan")], device=Checked[NumPy]).isnan().tolist()
        [True]
        """
        wrong = [name for name in what if name not in ("nan", "inf")]
        if wrong:
            raise ArgumentError(
                f'Checked.allow() was asked for {wrong[0]!r}; it takes "nan" and "inf", and nothing for both'
            )
        token = _allowed.set(_allowed.get() | frozenset(what or ("nan", "inf")))
        try:
            yield
        finally:
            _allowed.reset(token)

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What the inner backend gives, looked at.

        Raises:
            NonFiniteError: it holds NaN, or infinity where that is checked.
        """
        out = f(*args)
        if not self.inner.eager_checks:
            self.inner.synchronize()  # or what it found would be raised later, by another operation
        if op.results[0] is not None:
            allowed = _allowed.get()
            nan, inf = "nan" not in allowed, self.check_inf and "inf" not in allowed
            if nan or inf:
                for k, result in enumerate(out if len(op.results) > 1 else (out,)):
                    if is_float(result):
                        self._check(op, args, k, result, nan, inf)
        return out

    def _check(self, op: Operation, args: tuple[Any, ...], k: int, result: Any, nan: bool, inf: bool) -> None:
        found = found_in(self.inner, result, nan, inf)
        if found is None:
            return
        which = f"result {k}" if len(op.results) > 1 else "a result"
        given = [
            line for a, value in zip(op.arguments, args, strict=True) for line in self._described(op, a.name, value)
        ]
        at = op_context.get()
        rule = (
            f" in the backward of {at.rule}" if at.rule else " in a backward pass" if at.direction == "backward" else ""
        )
        origin = f"\nThe forward pass recorded {at.rule} here:\n{format_lines(lines_of(at.stack))}" if at.stack else ""
        raise NonFiniteError(
            f"{op.name}() on {self}{rule} gave {found} in {which} of shape {result.shape} and dtype {result.dtype}"
            f"{'; ' if given else ''}{', '.join(given)}. If this is meant, compute it in: "
            f'with Checked.allow("{"nan" if found.what == "NaN" else "inf"}"):{origin}'
        )

    def _described(self, op: Operation, name: str, value: Any) -> list[str]:
        """Shape, dtype and finiteness of an argument; for the members of a sequence, each."""
        if isinstance(value, (list, tuple)):
            return [line for k, member in enumerate(value) for line in self._described(op, f"{name}[{k}]", member)]
        if isinstance(value, (bool, int, float)):
            return [f"{name}={value}"]
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return []
        described = f"{name} of shape {value.shape}, dtype {value.dtype}"
        if op.name in _CONSUMING and name == "total":
            return [f"{described} may have been overwritten"]
        if op.name in ("from_numpy", "adopt_numpy"):
            return [f"{described} brought it along"]
        if not is_float(value):
            return [described]
        held = found_in(self.inner, value, True, True)
        return [f"{described} is finite" if held is None else f"{described} held {held} already"]
