"""`Recorded[B]`: a backend that computes with the inner backend and records each operation in a `Recording`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, final

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.call_origin import format_lines, lines_of, user_stack
from burnpy.backend.decorators.decorator import Decorator
from burnpy.backend.decorators.mixed import Mixed
from burnpy.backend.devices import Itself
from burnpy.backend.dtypes import kind_of
from burnpy.backend.entries import Operation
from burnpy.backend.errors import DeviceError, EscapedError, RecordingError
from burnpy.backend.operations.programs import Formula, not_updated
from burnpy.backend.plans.recording import DefaultGenerator, Node, Recording, Ref, Traced, same_call
from burnpy.backend.primitives import Bool, DType, Float, Int, Shape, Value
from burnpy.typevars import I

if TYPE_CHECKING:
    from burnpy.backend.plans.blocks import Block


Decomposes: TypeAlias = Callable[[Operation, tuple[Any, ...]], Callable[..., Any] | None]
"""Returns what is recorded in place of an operation with these arguments, such as its default; None for itself."""

VALUE_DEPENDENT = frozenset(("nonzero",))
"""The operations whose results have shapes that depend on values."""

COMPOSED = frozenset(("mean_cross_entropy", "mean_cross_entropy_backward"))
"""The operations that are recorded as those of their defaults, which plans compute together with others."""


@final
class Recorded(Decorator[I], Generic[I]):
    """A backend that records the operations of the inner backend ``I`` while they are computed.

    It goes inside `Autodiff`, so that a recording has the operations of backward passes like any others. Reading a
    value raises an error, as a step that depends on it would be wrong for other values. So are checks of values,
    such as those of indices, operations of the recording that are repeated with it. Each recording has a device of its
    own, which `close` ends.

    >>> from burnpy.tensor.tensor_base import new_tensor
    >>> device = Recorded.unregistered(NumPy())
    >>> x = new_tensor(Tensor, device, device.input(Tensor[NumPy].from_data([1.0, 2.0])._primitive))
    >>> _ = (x * 2.0).sum()
    >>> device.recording.nodes
    [%1 = mul(%0, 2.0), %2 = sum(%1, (0,), False)]
    """

    word = "records"
    records = True
    discrete: Any = Itself()

    def __init__(self, inner: I | type[I], decomposes: Decomposes | None = None) -> None:
        super().__init__(inner)
        del self.discrete  # a reference to itself, which would keep the recording until garbage is collected
        self.decomposes = decomposes
        """None if each operation is recorded as itself."""
        self.eager_checks, self.sizes_vary = False, decomposes is not None
        self.operand_dtype = None
        self.recording = Recording()
        self.stands_for = self.inner
        self.generators: dict[int, Any] = {}
        """The recorded values of NumPy generators among the arguments, by id."""
        self.defaults: list[DefaultGenerator] = []
        """The default generators of the devices that the recording stands for, from which it may draw."""
        self.drawn: dict[int, tuple[np.random.Generator, Any]] = {}
        """The generators that were drawn from, with their states before that."""
        self.draws: list[tuple[Node, Any]] = []
        """The calls that drew, with their results."""
        self._again: list[tuple[Node, Any]] = []  # those whose results the next equal calls have, the first one last
        self.outer: Any = None
        """The device in whose recording this one is a loop's body or a branch."""
        self.inside: dict[Any, Any] = {}
        """The devices of this recording or body, by those outside for which they stand."""
        self.recorder: Recorded[I] | None = None
        """The branch that records the operations on this device at present; None if it does so itself."""
        self.captures: list[Traced] = []
        """The primitives of the outer recording that this one uses, which are inputs of it."""
        self.captured: list[Traced] = []
        """The primitives of this recording that stand for those of `captures`, in their order."""
        self._known: dict[int, Ref] = {}
        self.numbers: Any = None
        """The device of 0-d tensors that take the place of Python numbers, which combine with tensors of all devices of
        the recording. It is of the same recording."""

    def with_numbers(self) -> Recorded[I]:
        """Make the device of `numbers`, and return it."""
        other: Any = object.__new__(Recorded)
        vars(other).update(vars(self))
        other.holds_numbers = True
        self.numbers = other
        return other  # type: ignore[no-any-return]  # of this class

    def input(self, value: Value) -> Traced:
        """Return a primitive of the inner device as an input of the recording."""
        ref = self.recording.given(value)
        self.recording.inputs.append(ref)
        return Traced(value, ref, self.recording)

    @property
    def name(self) -> str:
        """The inner device's name: users know of no other device."""
        return self.inner.name

    def body(self) -> Recorded[I]:
        """Return a device that records a loop's body or a branch, for `nested`. It draws from the same generators."""
        device: Recorded[I] = type(self).unregistered(self.inner, self.decomposes)
        device.stands_for, device.outer = self, self
        device.defaults, device.drawn = self.defaults, self.drawn
        return device

    @contextmanager
    def branch(self) -> Generator[None, None, None]:
        """Return a context manager in whose block this body records the operations of the devices outside as well.

        So a branch computes what it makes of captured values alone, and only if it is chosen.
        """
        outside = []
        device = self.outer
        while device is not None:
            outside.append((device, device.recorder))
            device.recorder = self
            device = device.outer
        try:
            yield
        finally:
            for device, before in outside:
                device.recorder = before

    def computes(self, x: Traced) -> bool:
        """Return whether a primitive is one of this recording, or of the branch that records for it at present."""
        return x.recording is self.recording or (self.recorder is not None and x.recording is self.recorder.recording)

    def capture(self, x: Traced) -> Traced:
        """Return a primitive of an outer recording as an input of this one."""
        if self.computes(x):
            return x
        if self.outer is None:
            raise EscapedError(
                "a recorded function got a tensor from inside of another one that has returned; return it from there"
            )
        if x.recording is not self.outer.recording:
            x = self.outer.capture(x)
        for known, own in zip(self.captures, self.captured, strict=True):
            if known.ref is x.ref:
                return own
        own = Traced(x.value, self.recording.new(x.shape, x.dtype), self.recording)
        if x.ref.number in x.recording.orders:
            self.recording.orders[own.ref.number] = x.recording.orders[x.ref.number]
        self.recording.inputs.append(own.ref)
        self.captures.append(x)
        self.captured.append(own)
        return own

    def close(self) -> None:
        """End the recording. Primitives that are kept beyond it cannot be computed with."""
        self.recording.closed = True
        self.inside = {}  # which has this device
        if self.numbers is not None:
            self.numbers.inside = {}
        self._known.clear()
        self.draws.clear()

    @contextmanager
    def drawn_again(self, draws: Sequence[tuple[Node, Any]]) -> Generator[None, None, None]:
        """Return a context manager in whose block calls that draw have the results of these, in order.

        So a section that is computed again in a backward pass uses the numbers that it drew first.
        """
        before, self._again = self._again, [*draws[::-1]]
        try:
            yield
        finally:
            self._again = before

    def undraw(self) -> None:
        """Set the generators that were drawn from back to their states before the recording."""
        for generator, state in self.drawn.values():
            generator.bit_generator.state = state

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call the inner backend and record the call."""
        if op.name in COMPOSED:
            return op.function(self, *args)
        if self.decomposes is not None and (composed := self.decomposes(op, args)) is not None:
            return composed(self, *args)
        if op.name == "to_numpy":
            self._refuse_read()
        if op.name in VALUE_DEPENDENT:
            raise RecordingError(
                f"{op.name}() gives a result whose shape depends on values, which a recorded computation cannot have; "
                f"compute with a mask instead, as with x.where(mask, 0.0){self._place()}"
            )
        return self._noted(op.name, f, args, effect=op.name == "bounded")  # which is a check as well

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Float]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Bool | None = None,
    ) -> tuple[list[Float], ...]:
        """Record a formula of lists as one call, which leaves the lists as they are.

        It is computed in replays alone: until then, an update's results are the values before it, so that recording
        takes no memory for a second model and state.
        """
        if self.decomposes is not None:
            return Backend.foreach(self, formula, lists, numbers, flags, owned, skipped)
        args = (formula, tuple([[*column] for column in lists]), numbers, flags, False, skipped)
        return self._noted("foreach", partial(not_updated, self.inner), args)  # type: ignore[no-any-return]  # of the operation

    def fuses(self, xs: Sequence[Float]) -> bool:
        """Ask the inner backend for an array of one element beside others, which the kernels of plans do not take.

        Otherwise the operations of the formula are recorded, and a plan fuses them with those around.
        """
        if self.decomposes is not None or len({x.shape for x in xs}) == 1:
            return False
        return self.inner.fuses([self._value(x) for x in xs])

    def bounded_and_counted(
        self, index: Int, low: int, high: int, error: Callable[[int], Exception], ignored: int
    ) -> tuple[Int, Bool]:
        """Record the check and the mask as one call."""
        return self._as_one("bounded_and_counted", (index, low, high, error, ignored), True)  # type: ignore[no-any-return]  # as declared

    def bounded_from_end(self, index: Int, size: int, error: Callable[[int], Exception]) -> Int:
        """Record the check, and the sum where an index is negative, as one call."""
        return self._as_one("bounded_from_end", (index, size, error), True)

    def statistics_update(
        self, count: Int, averages: Sequence[Float], totals: Sequence[Float], share: float
    ) -> tuple[Int, list[Float]]:
        """Record both updates as one call."""
        return self._as_one("statistics_update", (count, [*averages], [*totals], share))  # type: ignore[no-any-return]  # as declared

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        """Record the product."""
        return self._noted("product_in_float32", lambda op, args: self.inner.product_in_float32(op, args), (op, args))

    def defer_check(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> None:
        """Record the check, which is done in each replay."""
        check = (lambda values, error: None) if self._samples() else self.inner.defer_check
        self._noted("defer_check", check, (tuple(values), error), effect=True)

    def on_host(self, formula: Callable[..., tuple[float, ...]], numbers: tuple[Any, ...]) -> tuple[Float, ...]:
        """Record a formula of numbers."""
        return self._noted("on_host", self.inner.on_host, (formula, numbers))  # type: ignore[no-any-return]  # as declared

    def nested(self, block: Block, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Record a loop or branch as one node."""
        run = (lambda block, values: self._of_shapes(block.shapes())) if self._samples() else self.inner.nested
        return self._noted("nested", run, (block, tuple(values)), block.effect)  # type: ignore[no-any-return]  # as declared

    def _samples(self) -> bool:
        """Return whether operations are recorded in a loop's body or a branch, which may never run for these values."""
        return self.outer is not None or self.recorder is not None

    def _of_shapes(self, shapes: Sequence[tuple[Shape, DType]]) -> tuple[Value, ...]:
        return tuple([_harmless(self.inner, shape, dtype) for shape, dtype in shapes])

    def transfer_from(self, x: Value, source: Any) -> Value:
        """Refuse a value of another device, unless it comes from outside of the recording."""
        if source is self or source is self.numbers:
            return x
        return self._constant(self.inner.transfer_from(self._value(x), source))

    def product_operand(self, x: Float, op: Operation | None = None, args: tuple[Any, ...] = ()) -> Float:
        """Return x: decorators that round operands go around this one."""
        return x

    def storage_of(self, x: Value) -> Any:
        """Return the identity and size of the memory of x on the inner device."""
        return self.inner.storage_of(self._value(x))

    def fingerprint(self, x: Value) -> None:
        """Return None: values cannot be compared while they are recorded."""

    def _as_one(self, name: str, args: tuple[Any, ...], effect: bool = False) -> Any:
        """Record a call of a method as one node, or the operations that it is composed of."""
        if self.decomposes is not None:
            return getattr(Backend, name)(self, *args)
        return self._noted(name, getattr(self.inner, name), args, effect)

    def _noted(self, name: str, f: Callable[..., Any], args: tuple[Any, ...], effect: bool = False) -> Any:
        """Return the results of a call that is added to the recording."""
        if self.recorder is not None:
            return self.recorder._noted(name, f, args, effect)
        if self.recording.closed:
            raise EscapedError(
                f"{name}() got a tensor made in a recorded function, which has returned since; "
                "return the tensor from the function"
            )
        refs: list[Any] = []
        values: list[Any] = []
        for x in args:
            value, ref = self._split(x)
            values.append(value)
            refs.append(ref)
            effect = effect or x.__class__ is np.random.Generator
        node = Node(name, tuple(refs), None, effect, user_stack(1))
        drawing = effect and node.draws
        if drawing and self._again and same_call(self._again[-1][0], node):
            self.draws.append(self._again.pop())
            return self.draws[-1][1]
        traced = self._wrapped(f(*values) if self.outer is None else self._sample(f, values))
        node.results = self._split(traced)[1]
        self.recording.nodes.append(node)
        if drawing:
            self.draws.append((node, traced))
        return traced

    def _sample(self, f: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Return results of a call in a loop's body or branch, whose shapes and dtypes alone count. It may never run
        for these values, so an error that other values do not raise is left to the replays."""
        try:
            return f(*values)
        except Exception as error:
            for number in (0, 1):  # an index, a divisor
                with suppress(Exception):
                    return f(*self._harmless(values, number))
            raise error

    def _harmless(self, x: Any, number: int) -> Any:
        """Return arguments with other primitives of the same shapes and dtypes."""
        if x.__class__ is tuple or x.__class__ is list:
            return x.__class__([self._harmless(member, number) for member in x])
        return _harmless(self.inner, x.shape, x.dtype, number) if hasattr(x, "shape") and hasattr(x, "dtype") else x

    def _split(self, x: Any) -> tuple[Any, Any]:
        """Return an argument for the inner device, and as it is recorded."""
        kind = x.__class__
        if kind is Traced:
            return x.value, x.ref if x.recording is self.recording else self.capture(x).ref
        if kind is tuple or kind is list:
            pairs = [self._split(member) for member in x]
            return kind([value for value, _ in pairs]), kind([ref for _, ref in pairs])
        if kind is np.random.Generator:
            return x, self._generator(x)
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            traced = self._constant(x)
            return traced.value, traced.ref
        return x, x

    def _value(self, x: Any) -> Any:
        return x.value if x.__class__ is Traced else x

    def _constant(self, value: Any) -> Traced:
        """Return a primitive from outside of the recording as a constant of it."""
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self.recording.given(value)
            self.recording.constants[known.number] = value
        return Traced(value, known, self.recording)

    def _wrapped(self, out: Any) -> Any:
        """Return results with a new value of the recording for each primitive."""
        if out.__class__ is tuple or out.__class__ is list:
            return out.__class__([self._wrapped(member) for member in out])
        if hasattr(out, "shape") and hasattr(out, "dtype"):
            return Traced(out, self.recording.new(out.shape, out.dtype), self.recording)
        return out

    def _generator(self, generator: np.random.Generator) -> Any:
        """Return what a generator is recorded as, and keep its state."""
        known = self.generators.get(id(generator))
        if known is None and self.outer is not None:
            known = self.outer._generator(generator)
            if known.__class__ is Ref:
                known = self.capture(Traced(generator, known, self.outer.recording)).ref
        if known is None:
            known = next((default for default in self.defaults if default.find() is generator), None)
        if known is None:
            raise RecordingError(
                "a recorded function draws from a generator that it closes over; pass the burnpy.Generator as an "
                f"argument, or leave generator= out for the device's own{self._place()}"
            )
        self.drawn.setdefault(id(generator), (generator, generator.bit_generator.state))
        return known

    def _refuse_read(self) -> NoReturn:
        raise RecordingError(
            "a recorded function cannot read a tensor's value (item(), bool(), float(), if, to_numpy(), print), as its "
            "steps would be those of this value for all later ones; choose with burnpy.where(condition, a, b) or "
            f"func.cond, repeat with func.while_loop or func.scan, and return what is to be shown{self._place()}"
        )

    def _place(self) -> str:
        """Return the user's line for a message."""
        lines = format_lines(lines_of(user_stack(1)))
        return f"\n{lines}" if lines else ""


def _harmless(device: Any, shape: Shape, dtype: DType, number: int = 1) -> Any:
    """Return a primitive that few operations refuse: identity matrices, ones, and ints that are ``number``."""
    if kind_of(dtype) in ("float", "complex") and len(shape) > 1:
        return device.expand(device.eye(*shape[-2:], dtype), shape)
    return device.full(shape, number if kind_of(dtype) == "int" else 1, dtype)


class RecordedDevices:
    """The devices of one recording, each made for a device that computes without one.

    Decorators that change what is computed, such as `Mixed`, go around `Recorded`; those that observe, such as
    `Profiled`, stay inside of it, and observe the replays.
    """

    def __init__(self, decomposes: Decomposes | None = None) -> None:
        self.recorder: Any = None  #: the innermost device, `Recorded`
        self._decomposes = decomposes
        self._known: dict[Any, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the devices in whose place others record."""
        return iter(self._known)

    def of(self, device: Any) -> Any:
        """Return the device that records in place of another, the same one at each call.

        Raises:
            DeviceError: it computes on another device than those before.
        """
        known = self._known.get(device)
        if known is None:
            cls, arguments = device.__reduce__()
            if arguments and (device.differentiates or hasattr(device, "planner") or issubclass(cls, Mixed)):
                known = cls.unregistered(self.of(arguments[0]), *arguments[1:])
            elif self.recorder is None:
                known = self.recorder = Recorded.unregistered(device, self._decomposes)
                known.inside = self._known
            else:
                raise DeviceError(
                    f"a recorded function got tensors on {self.recorder.inner} and on {device}; move one with "
                    ".to_device(...) before the call"
                )
            known.stands_for = device
            self._known[device] = known
        return known
