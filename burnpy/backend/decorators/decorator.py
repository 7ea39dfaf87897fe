"""`Decorator`: a backend whose primitives are the inner backend's own and whose every operation passes one place.

A subclass writes `Decorator.around`, which is given the operation's entry in the schema, the inner backend's method
and the arguments, and returns the results. It writes no operation: they are made from the schema, derived ones too, so
that the inner backend's own softmax is one call here as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.entries import EMPTY, Operation, operation
from burnpy.backend.errors import DeviceError
from burnpy.backend.primitives import Int, Value
from burnpy.backend.schema import declarations

if TYPE_CHECKING:
    from burnpy.backend.fingerprint import Fingerprint

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Decorator(Subscriptable, Backend, Generic[I]):
    """A backend around a plain backend, or around another decorator of this kind; `Autodiff` goes around it.

    Args:
        inner: the backend that computes, as a class, an alias or a device.

    Raises:
        DeviceError: the inner backend differentiates: the decorator belongs inside of it.
    """

    word: ClassVar[str]  #: what it does, for the message that refuses a wrong order

    def __init__(self, inner: I | type[I]) -> None:
        super().__init__()
        self.inner: I = device_of(inner)
        self.eager_checks = self.inner.eager_checks

    @classmethod
    def canonical(cls, inner: Any, *options: Any) -> tuple[Any, ...]:
        """By the inner device, however it was named."""
        found: Any = device_of(inner)
        if hasattr(found, "lower"):
            name, outer = cls.__name__, type(found).__name__
            raise DeviceError(
                f"{name}[{found.name}] cannot be: {name} {cls.word} the operations of the device that computes, and so "
                f"goes inside {outer}; write {outer}[{name}[{found.inner.name}]]"
            )
        return (found, *options)

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """What ``f(*args)``, the inner backend's ``op``, gives. The arguments are complete, in the schema's order."""
        return f(*args)

    @property
    def name(self) -> str:
        """``Checked[NumPy]``."""
        return f"{type(self).__name__}[{self.inner.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner,)

    def wants_rule_context(self) -> bool:
        """Whether the inner device wants to be told."""
        return self.inner.wants_rule_context()

    def synchronize(self) -> None:
        """Wait for the inner device."""
        self.inner.synchronize()

    def transfer_from(self, x: Value, source: Backend) -> Value:
        """As the inner device takes it; `around` sees it pass."""
        return self.detach(self.inner.transfer_from(x, source))

    def defer_check(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> None:
        """Let the inner device raise it."""
        self.inner.defer_check(values, error)

    def bounded(self, index: Int, low: int, high: int, error: Callable[[int], Exception]) -> Int:
        """As the inner device does it; `around` sees it pass."""
        return self.detach(self.inner.bounded(index, low, high, error))

    def storage_of(self, x: Value) -> tuple[Hashable, int]:
        """The inner device's."""
        return self.inner.storage_of(x)

    def fingerprint(self, x: Value) -> Fingerprint | None:
        """The inner device's."""
        return self.inner.fingerprint(x)

    def timestamp(self) -> Any:
        """The inner device's."""
        return self.inner.timestamp()

    def duration(self, start: Any, stop: Any) -> float:
        """The inner device's."""
        return self.inner.duration(start, stop)


def passing(op: Operation) -> Callable[..., Any]:
    """The method of `Decorator` for one operation."""
    name, count = op.name, len(op.arguments)

    def method(self: Decorator[Any], *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        return self.around(op, getattr(self.inner, name), args)

    method.__name__ = name
    method.__qualname__ = f"Decorator.{name}"
    method.__doc__ = op.function.__doc__
    method.__wrapped__ = op.function  # type: ignore[attr-defined]  # by which `inspect` shows the signature
    return method


def complete(op: Operation, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call, in the schema's order.

    Raises:
        TypeError: an argument is missing, or there is one too many.
    """
    given = dict(zip((a.name for a in op.arguments), args, strict=False))
    found = {a.name: a.default for a in op.arguments} | given | keywords
    lacking = [name for name, value in found.items() if value is EMPTY]
    if lacking or len(found) != len(op.arguments) or len(given) != len(args) or given.keys() & keywords.keys():
        wanted = ", ".join(a.name for a in op.arguments)
        raise TypeError(f"{op.name}({wanted}) was called with {len(args)} arguments and the keywords {list(keywords)}")
    return tuple(found.values())


for _name in declarations(Backend):
    setattr(Decorator, _name, passing(operation(getattr(Backend, _name))))
