"""Detection of NaN and infinity in primitives, with the operations of their backend."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, final

from burnpy.backend.call_origin import format_lines, lines_of, op_context
from burnpy.backend.decorators.decorator import Decorator
from burnpy.backend.dtypes import kind_of
from burnpy.backend.entries import Operation
from burnpy.backend.errors import ArgumentError, NonFiniteError
from burnpy.backend.primitives import Bool, Float
from burnpy.typevars import I

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The NaN or infinite elements of a primitive."""

    what: str  #: "NaN" or "infinity"
    index: tuple[int, ...]  #: the index of the first
    count: int  #: the number of such elements

    def __str__(self) -> str:
        where = f" at index {self.index}" if self.index else ""
        return f"{self.what}{where}" + (f", the first of {self.count}" if self.count > 1 else "")


def is_float(x: Any) -> bool:
    """Return whether x is a float primitive."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and kind_of(x.dtype) == "float"


def beneath_levels(b: Any, x: Any) -> tuple[Any, Any]:
    """Return the device and the primitive beneath all levels of a primitive's device."""
    while b.differentiates:
        b, x = b.inner, getattr(x, "value", x)
    return b, x


def non_finite_in(b: Backend, x: Float, nan: bool, inf: bool) -> NonFinite | None:
    """Return the NaN elements of x if ``nan`` and there are any, else the infinite ones if ``inf``, else None. This
    synchronizes the device. Of a batch, which `vmap` computes, elements of all examples are looked at, and an index
    begins with the example's number."""
    b, x = beneath_levels(b, x)
    if nan and inf and not _any(b, b.discrete.bitwise_not(b.isfinite(x))):
        return None
    if nan and (nans := _first(b, b.isnan(x), "NaN")):
        return nans
    return _first(b, b.isinf(x), "infinity") if inf else None


def _any(b: Backend, bad: Bool) -> bool:
    d = b.discrete
    return bool(d.to_numpy(d.any(bad, tuple(range(len(bad.shape))), False)))


def _first(b: Backend, bad: Bool, what: str) -> NonFinite | None:
    if not _any(b, bad):
        return None
    places = b.discrete.to_numpy(b.discrete.nonzero(bad))
    return NonFinite(what, tuple(map(int, places[0])), len(places))


_allowed: ContextVar[frozenset[str]] = ContextVar("burnpy_allowed", default=frozenset())


@final
class Checked(Decorator[I], Generic[I]):
    """A backend that checks every result of the inner backend ``I`` for NaN, in forward and backward passes.

    An operation that returns NaN raises an error that names it, its arguments' shapes, the first NaN and whether the
    arguments were finite; input data that contain NaN are refused too. Infinity, which attention masks and ``log(0)``
    create on purpose, is checked only with ``check_inf=True``. Intended NaN is permitted within `allow`. An index out
    of range raises at once, also on an asynchronous device.

    It goes inside `Autodiff`: ``Autodiff[Checked[NumPy]]`` also checks each operation within a rule, whereas
    `burnpy.autodiff.detect_anomaly` checks only what each rule returns. Every operation is synchronized, so this is for
    debugging, not for training.

    Args:
        inner: the backend that computes.
        check_inf: whether infinity is an error too. ``Checked(NumPy, True)`` is a device of its own.

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
        self.in_place_updates = False  # an error about a result is raised after the operation

    @property
    def name(self) -> str:
        """``Checked[NumPy]``; with infinities checked, ``Checked[NumPy, inf]``."""
        return f"Checked[{self.inner.name}{', inf' if self.check_inf else ''}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Checked, (self.inner, self.check_inf)

    def wants_rule_context(self) -> bool:
        """Return True: error messages name the rule in which the operation ran."""
        return True

    @staticmethod
    @contextmanager
    def allow(*what: Literal["nan", "inf"]) -> Generator[None, None, None]:
        """Return a context manager, or function decorator, in which "nan" or "inf", by default both, raise no error.

        They are allowed within the block only: a later operation that returns NaN because its argument is NaN raises.

        Raises:
            ArgumentError: ``what`` contains anything but "nan" and "inf".

        >>> with Checked.allow("nan"):
        ...     Tensor.from_data([float("nan")], device=Checked[NumPy]).isnan().tolist()
        [True]
        """
        wrong = [name for name in what if name not in ("nan", "inf")]
        if wrong:
            raise ArgumentError(f'Checked.allow() got {wrong[0]!r}; expected "nan" or "inf", or no argument for both')
        token = _allowed.set(_allowed.get() | frozenset(what or ("nan", "inf")))
        try:
            yield
        finally:
            _allowed.reset(token)

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call the inner backend and check its results.

        Raises:
            NonFiniteError: a result contains NaN, or infinity if that is checked.
        """
        out = f(*args)
        if not self.inner.eager_checks:
            self.inner.synchronize()  # else its deferred error would be raised by a later operation
        if op.results[0] is None:
            return out
        allowed = _allowed.get()
        nan, inf = "nan" not in allowed, self.check_inf and "inf" not in allowed
        results = () if not (nan or inf) else out if out.__class__ is tuple else (out,)
        for k, result in enumerate(results):
            which = f"result {k}" if len(results) > 1 else "a result"
            for x in result if op.lists else (result,):
                if is_float(x):
                    self._check(op, args, which, x, nan, inf)
        return out

    def _check(self, op: Operation, args: tuple[Any, ...], which: str, result: Any, nan: bool, inf: bool) -> None:
        bad = non_finite_in(self.inner, result, nan, inf)
        if bad is None:
            return
        consumed = op.consumed(args)
        arguments = [
            line
            for a, value in zip(op.arguments, args, strict=True)
            for line in self._described(op, a.name, value, a.name in consumed)
        ]
        at = op_context.get()
        rule = (
            f" in the backward of {at.rule}" if at.rule else " in a backward pass" if at.direction == "backward" else ""
        )
        origin = f"\nThe forward pass recorded {at.rule} here:\n{format_lines(lines_of(at.stack))}" if at.stack else ""
        raise NonFiniteError(
            f"{op.name}() on {self}{rule} gave {bad} in {which} of shape {result.shape} and dtype {result.dtype}"
            f"{'; ' if arguments else ''}{', '.join(arguments)}. If this is meant, compute it in: "
            f'with Checked.allow("{"nan" if bad.what == "NaN" else "inf"}"):{origin}'
        )

    def _described(self, op: Operation, name: str, value: Any, consumed: bool) -> list[str]:
        """Describe the shape, dtype and finiteness of an argument, or of each member of a sequence."""
        if isinstance(value, (list, tuple)):
            members = enumerate(value)
            return [line for k, m in members for line in self._described(op, f"{name}[{k}]", m, consumed)]
        if isinstance(value, (bool, int, float)):
            return [f"{name}={value}"]
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return []
        described = f"{name} of shape {value.shape}, dtype {value.dtype}"
        if consumed:
            return [f"{described} may have been overwritten"]
        if op.name in ("from_numpy", "adopt_numpy"):
            return [f"{described} brought it along"]
        if not is_float(value):
            return [described]
        bad = non_finite_in(self.inner, value, True, True)
        return [f"{described} is finite" if bad is None else f"{described} held {bad} already"]
