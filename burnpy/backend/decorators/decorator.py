"""`Decorator`: a backend that forwards every operation to an inner backend through one method, `Decorator.around`.

A subclass overrides `Decorator.around`, which receives the operation's entry in the schema, the inner backend's method
and the arguments, and returns the results. It defines no operations: they are generated from the schema, derived ones
too, so that a softmax that the inner backend implements is a single call. So is a formula of lists, such as an
optimizer's update: `formula_operation` makes its entry. The primitives are the inner backend's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import Subscriptable, device_of
from burnpy.backend.entries import EMPTY, Argument, Operation, operation
from burnpy.backend.errors import DeviceError
from burnpy.backend.functions import signature
from burnpy.backend.operations.programs import Formula
from burnpy.backend.primitives import Bool, Float, Shape, Value
from burnpy.backend.schema import Algebra, declarations
from burnpy.typevars import I_co

if TYPE_CHECKING:
    from burnpy.backend.backend import Fingerprint


@lru_cache(256)
def formula_operation(
    formula: Formula, lists: int, numbers: tuple[bool, ...], flags: tuple[bool, ...], gated: bool
) -> Operation:
    """Return the entry of `Backend.foreach` of a formula.

    Its arguments are the lists and the numbers, by the names that they have in the formula; ``owned``; and ``skipped``
    if there is one. Its ``function`` computes them on a backend, and returns a tuple of lists.

    Args:
        formula: a formula of lists.
        lists: how many there are.
        numbers: for each number, whether it is a primitive.
        flags: further arguments of the formula, which are part of the operation.
        gated: whether the call may be skipped.
    """
    count = lists + len(numbers)

    def function(b: Any, *args: Any) -> tuple[list[Float], ...]:
        columns, values, rest = args[:lists], args[lists:count], args[count:]
        return b.foreach(formula, columns, values, flags, *rest)  # type: ignore[no-any-return]  # as declared

    function.__name__, function.__doc__ = getattr(formula, "__name__", "foreach"), formula.__doc__
    names = [name for name, p in signature(formula).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    names = [names[k] if k < len(names) else f"argument{k}" for k in range(count)]
    arguments = [
        *[Argument(name, "Float", sequence=True, scalar=False) for name in names[:lists]],
        *[
            Argument(name, "Float" if primitive else None, sequence=False, scalar=primitive)
            for name, primitive in zip(names[lists:], numbers, strict=True)
        ],
        Argument("owned", None, sequence=False, scalar=False),
        *[Argument("skipped", "Bool", sequence=False, scalar=False)] * gated,
    ]
    return Operation(
        function.__name__,
        tuple(arguments),
        ("Float",),
        Algebra.GENERAL,
        required=False,
        function=function,
        like=None,
        view=None,
        consumes=tuple(names[2:lists]),
        indexed=None,
        counts=_flops(formula, lists, len(numbers), flags),
        product=(),
    )


def _flops(formula: Formula, lists: int, numbers: int, flags: tuple[bool, ...]) -> Callable[..., int]:
    """Return the formula of the FLOPs: the sum over its operations; 0 if it is not a program."""

    @lru_cache(1)
    def of_an_element() -> int:
        from burnpy.backend.programs.program import ELEMENTWISE, ProgramError
        from burnpy.backend.programs.trace import formula_program

        known = operations()
        try:
            steps = formula_program(formula, "float32", lists, numbers, flags).instructions
        except ProgramError:
            return 0
        return sum([known[step.op].flops((), ()) for step in steps if step.op in ELEMENTWISE])

    def flops(out: Shape) -> int:
        return of_an_element() * prod(out)

    return flops


class Decorator(Subscriptable, Backend, Generic[I_co]):
    """A backend around a plain backend, or around another decorator of this kind; `Autodiff` goes around it.

    A subclass writes `around` and `word`. If `around` may raise an error after the inner backend has computed, it sets
    ``in_place_updates`` to False as well.

    Args:
        inner: the backend that computes, as a class, an alias or a device.

    Raises:
        DeviceError: the inner backend differentiates; the decorator belongs inside of it.

    >>> class Echo(Decorator[I_co], Generic[I_co]):
    ...     word = "prints"
    ...
    ...     def around(self, op, f, args):
    ...         print(op.name)
    ...         return f(*args)
    >>> x = Tensor[Echo[NumPy]].from_data([1.0, 2.0])
    from_numpy
    >>> (x + x).sum().item()
    add
    sum
    to_numpy
    6.0
    """

    word: ClassVar[str]  #: a verb for its effect on operations, used in the message on wrong nesting

    def __init__(self, inner: I_co | type[I_co]) -> None:
        super().__init__()
        self.inner: I_co = device_of(inner)
        self.eager_checks = self.inner.eager_checks
        self.in_place_updates = self.inner.in_place_updates
        self.operand_dtype = self.inner.operand_dtype

    @classmethod
    def canonical(cls, inner: Any, *options: Any) -> tuple[Any, ...]:
        """Replace the inner backend by its device."""
        device: Any = device_of(inner)
        if device.differentiates:
            name, outer = cls.__name__, type(device).__name__
            raise DeviceError(
                f"{name}[{device.name}] cannot be: {name} {cls.word} the operations of the device that computes, and "
                f"so goes inside {outer}; write {outer}[{name}[{device.inner.name}]]"
            )
        return (device, *options)

    def fused(self, formula: Formula, xs: Sequence[Float], numbers: tuple[float, ...] = ()) -> tuple[Float, ...]:
        """As the inner backend computes it, by the operation `run`, which passes `around`."""
        if not self.fuses(xs):
            return formula(self, *xs, *numbers)
        from burnpy.backend.programs.trace import run_formula

        return run_formula(self, formula, xs, numbers)

    def fuses(self, xs: Sequence[Float]) -> bool:
        """Ask the inner backend."""
        return self.inner.fuses(xs)

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Float]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Bool | None = None,
    ) -> tuple[list[Float], ...]:
        """As the inner backend computes it, by one operation of the formula's name, which passes `around`."""
        primitives = tuple([hasattr(number, "dtype") for number in numbers])
        op = formula_operation(formula, len(lists), primitives, flags, skipped is not None)
        args = (*lists, *numbers, owned, *([] if skipped is None else [skipped]))
        return self.around(op, partial(op.function, self.inner), args)  # type: ignore[no-any-return]  # of the operation

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return ``f(*args)``, the inner backend's ``op``. The arguments are complete, in the schema's order."""
        return f(*args)

    @property
    def name(self) -> str:
        """The device's name in messages: ``Checked[NumPy]``."""
        return f"{type(self).__name__}[{self.inner.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner,)

    @property
    def full_precision(self) -> Backend:
        """This decorator around the inner device's `full_precision`."""
        inner = self.inner.full_precision
        if inner is self.inner:
            return self
        device: Any = object.__new__(type(self))
        for name, value in {**vars(self), "inner": inner, "operand_dtype": inner.operand_dtype}.items():
            setattr(device, name, value)
        return device  # type: ignore[no-any-return]  # of this class

    def product_operand(self, x: Float, op: Operation | None = None, args: tuple[Any, ...] = ()) -> Float:
        """Return an operand as the inner device uses it."""
        return self.inner.product_operand(x, op, args)

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        """Pass the inner device's product through `around`."""
        return self.around(op, lambda *args: self.inner.product_in_float32(op, args), args)

    def wants_rule_context(self) -> bool:
        """Return whether the inner device requests the rule context."""
        return self.inner.wants_rule_context()

    def transfer_from(self, x: Value, source: Backend) -> Value:
        """Transfer x to the inner device; the detach passes it through `around`."""
        return self.detach(self.inner.transfer_from(x, source))

    def defer_check(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> None:
        """Defer the check on the inner device."""
        self.inner.defer_check(values, error)

    def on_host(self, formula: Callable[..., tuple[float, ...]], numbers: tuple[Any, ...]) -> tuple[Float, ...]:
        """Compute the formula on the inner device."""
        return self.inner.on_host(formula, numbers)

    def storage_of(self, x: Value) -> tuple[Hashable, int]:
        """Return the identity and size of the memory of x on the inner device."""
        return self.inner.storage_of(x)

    def fingerprint(self, x: Value) -> Fingerprint | None:
        """Return the inner device's fingerprint of x."""
        return self.inner.fingerprint(x)


def passing(op: Operation) -> Callable[..., Any]:
    """Return the method of `Decorator` that forwards one operation."""
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
    """Return all arguments of a call, defaults included, in the schema's order."""
    positional = dict(zip((a.name for a in op.arguments), args, strict=False))
    values = {a.name: a.default for a in op.arguments} | positional | keywords
    absent = [name for name, value in values.items() if value is EMPTY]
    repeated = positional.keys() & keywords.keys()
    if absent or repeated or len(values) != len(op.arguments) or len(positional) != len(args):
        parameters = ", ".join(a.name for a in op.arguments)
        raise TypeError(
            f"{op.name}({parameters}) was called with {len(args)} arguments and the keywords {list(keywords)}"
        )
    return tuple(values.values())


for _name in declarations(Backend):
    setattr(Decorator, _name, passing(operation(getattr(Backend, _name))))
