"""`Mixed[B]`: a backend that multiplies matrices in 16 bits and computes everything else in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, final
from weakref import ref

from burnpy.backend.backend import Backend, operations
from burnpy.backend.decorators.decorator import Decorator
from burnpy.backend.dtypes import HALVES, dtype_of, float32, kind_of
from burnpy.backend.entries import Operation
from burnpy.backend.errors import DTypeError
from burnpy.backend.primitives import Bool, DType, Float, Int, Shape
from burnpy.typevars import I

if TYPE_CHECKING:
    from burnpy.backend.operations.programs import Formula


@final
class Mixed(Decorator[I], Generic[I]):
    """A backend for mixed precision: products of float32 have 16-bit operands, and accumulate and return float32.

    Products are matrix products, convolutions, linear layers and attention, in forward and backward passes. All else is
    computed in float32: softmax, norms, losses, optimizers. No dtype that a program sees changes, so that a model
    trains with `Autodiff[Mixed[CuPy]]` as it does with `Autodiff[CuPy]`. `Autodiff` saves the 16-bit operands for the
    backward pass, in half the memory. A weight that is used several times is rounded once.

    bfloat16 has the range of float32, and 8 bits of precision. float16 has 11 bits and overflows at 65,504: scale the
    loss by `burnpy.optim.GradScaler`. float64 is computed as it is, and so are products of 16-bit tensors.

    A backend multiplies 16-bit matrices in its `product_in_float32`. CuPy gives them to cuBLAS, which multiplies them
    in 16 bits and accumulates in float32. NumPy's kernel of matrix products converts 16-bit operands as it reads them,
    and multiplies in float32, which gives the numbers and the memory of mixed precision at the speed of float32. On
    Linux it multiplies bfloat16 by AMX, where the processor has that: large matrices and convolutions of many channels
    take half of the time or less.

    Within the rules of decompositions and other operations that are no products, matrices are multiplied in float32.

    Args:
        inner: the backend that computes.
        dtype: "bfloat16", which on NumPy needs the package ``ml_dtypes``, or "float16".

    Raises:
        DTypeError: the dtype is neither.

    >>> x = Tensor[Mixed[NumPy]].from_data([[1.0, 1.0009765625]])
    >>> (x @ x.mT).item(), x.square().sum().item()
    (2.0, 2.0019540786743164)
    >>> (x @ x.mT).dtype
    dtype('float32')
    >>> half = Tensor.from_data([[1.0, 1.0009765625]], device=Mixed(NumPy, "float16"))
    >>> (half @ half.mT).item()
    2.0019540786743164
    """

    word = "rounds operands of"

    def __init__(self, inner: I | type[I], dtype: str | DType = "bfloat16") -> None:
        super().__init__(inner)
        self._dtype = self.operand_dtype = dtype_of(dtype, "float")
        self._operands: dict[int, _Source] = {}  # by the id of a float32 primitive
        self._of_float32: dict[int, _Source] = {}  # by the id of an operand that was rounded from float32
        self._drop_source, self._drop_operand = partial(_drop, self._operands), partial(_drop, self._of_float32)

    @classmethod
    def canonical(cls, inner: Any, *options: Any) -> tuple[Any, ...]:
        """Replace the inner backend by its device, and the dtype by its canonical form."""
        device, *rest = super().canonical(inner, *options)
        dtype = dtype_of(rest[0] if rest else "bfloat16", "float")
        if dtype.name not in HALVES:
            raise DTypeError(f"Mixed() got the dtype {dtype}; expected {' or '.join(map(repr, HALVES))}")
        return (device, dtype)

    @property
    def name(self) -> str:
        """``Mixed[NumPy]``; with float16, ``Mixed[NumPy, float16]``."""
        dtype = self._dtype.name
        return f"Mixed[{self.inner.name}{'' if dtype == 'bfloat16' else f', {dtype}'}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Mixed, (self.inner, self._dtype.name)

    @property
    def full_precision(self) -> Backend:
        """The inner device, whose products of float32 are in float32."""
        return self.inner.full_precision

    def seed(self, shape: Shape, dtype: DType) -> Float:
        """Ask the inner backend, which may keep it."""
        return self.inner.seed(shape, dtype)

    def replayed(
        self, make: Callable[[], Callable[..., list[Any]]], defaults: Sequence[Callable[[], Any]]
    ) -> Callable[..., list[Any]]:
        """Ask the inner backend, which may launch it as a whole."""
        return self.inner.replayed(make, defaults)

    def bounded_and_counted(
        self, index: Int, low: int, high: int, error: Callable[[int], Exception], ignored: int
    ) -> tuple[Int, Bool]:
        """As the inner backend computes it, perhaps at once."""
        return self.inner.bounded_and_counted(index, low, high, error, ignored)

    def bounded_from_end(self, index: Int, size: int, error: Callable[[int], Exception]) -> Int:
        """Return what the inner backend computes by one call."""
        return self.inner.bounded_from_end(index, size, error)

    def statistics_update(
        self, count: Int, averages: Sequence[Float], totals: Sequence[Float], share: float
    ) -> tuple[Int, list[Float]]:
        """As the inner backend computes it, perhaps at once."""
        return self.inner.statistics_update(count, averages, totals, share)

    def product_operand(self, x: Float, op: Operation | None = None, args: tuple[Any, ...] = ()) -> Float:
        """Return x in 16 bits if it is float32; rounded once for as long as x exists unchanged."""
        if x.dtype is not float32:
            return x
        known = self._rounded(x)
        if known is not None:
            return known
        (rounded,) = self.inner.rounded_operands((x,), self._dtype, op, args)
        self._remember(x, rounded)
        return rounded

    def _rounded(self, x: Float) -> Float | None:
        """Return x in 16 bits if it was rounded before."""
        known = self._operands.get(id(x))
        return known.rounded if known is not None and known() is x else None

    def _remember(self, x: Float, rounded: Float) -> None:
        """Keep x in 16 bits for as long as x exists."""
        source, operand = _Source(x, self._drop_source), _Source(rounded, self._drop_operand)
        source.key, source.rounded = id(x), rounded
        operand.key = id(rounded)
        self._operands[source.key], self._of_float32[operand.key] = source, operand

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Float]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Bool | None = None,
    ) -> tuple[list[Float], ...]:
        """As the inner backend computes it. The new values of weights are rounded with it, not one by one later."""
        weights = tuple([k for k, x in enumerate(lists[0]) if self._rounded(x) is not None])
        if not weights or self.stands_for is not None:
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        if skipped is None:
            for x in chain(*lists[2:]):  # whose memory may be overwritten
                self._operands.pop(id(x), None)
            given = (formula, lists, numbers, flags, owned)
            results, rounded = self.inner.foreach_and_cast(*given, weights, self._dtype)
        else:
            results = super().foreach(formula, lists, numbers, flags, owned, skipped)
            rounded = self.inner.foreach_cast([results[0][k] for k in weights], self._dtype)
        for k, x in zip(weights, rounded, strict=True):
            self._remember(results[0][k], x)
        return results

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call the inner backend, with 16-bit operands if ``op`` is a product of float32."""
        if op.consumes:
            self._forget(op, args)
        if op.view is not None:
            return self._viewed(f, *args)
        operands = self._rounded_operands(op, args) if op.product else None
        return f(*args) if operands is None else self.inner.product_in_float32(op, operands)

    def _rounded_operands(self, op: Operation, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of a product with its operands in 16 bits; those that are new are rounded together. None
        if the floats are not of float32 or rounded from it, or if one is of another dtype."""
        operands, new, is_of_float32 = [*args], dict[int, list[int]](), False  # by id, the positions of new ones
        for k, is_operand in _floats(op.name, op.product):
            x = args[k]
            if x is None:
                continue
            if x.dtype is float32:
                is_of_float32 = True
                if is_operand:
                    rounded = self._rounded(x)
                    operands[k] = rounded
                    if rounded is None:
                        new.setdefault(id(x), []).append(k)
            elif id(x) in self._of_float32:
                is_of_float32 = True
            elif x.dtype.itemsize > 4 or kind_of(x.dtype) != "float":
                return None
        if not is_of_float32:
            return None
        if new:
            xs = [args[positions[0]] for positions in new.values()]
            for positions, rounded in zip(
                new.values(), self.inner.rounded_operands(xs, self._dtype, op, args), strict=True
            ):
                self._remember(args[positions[0]], rounded)
                for k in positions:
                    operands[k] = rounded
        return tuple(operands)

    def _viewed(self, f: Callable[..., Any], x: Float, *rest: Any) -> Any:
        """Return a view of x. If x was rounded before, so is the view, by the same view of x in 16 bits."""
        view, rounded = f(x, *rest), self._rounded(x)
        if rounded is not None and view is not x:
            self._remember(view, f(rounded, *rest))
        return view

    def _forget(self, op: Operation, args: tuple[Any, ...]) -> None:
        """Drop the rounded copies of the arguments whose memory the operation may overwrite."""
        for a, x in zip(op.arguments, args, strict=True):
            if a.name in op.consumes:
                for member in x if a.sequence else (x,):
                    self._operands.pop(id(member), None)


class _Source(ref[Any]):
    """A primitive that was rounded, with its operand, or an operand; held in a table by the id ``key``. It takes one
    object for the garbage collector to go through, as a callback of its own would take several."""

    __slots__ = ("key", "rounded")

    key: int
    rounded: Float


def _drop(table: dict[int, _Source], dead: _Source) -> None:
    """Drop a primitive that is gone from its table."""
    table.pop(dead.key, None)


@cache
def _floats(name: str, operands: tuple[str, ...]) -> tuple[tuple[int, bool], ...]:
    """Return the positions of the float arguments of a product, and whether each is an operand."""
    arguments = operations()[name].arguments
    return tuple([(k, a.name in operands) for k, a in enumerate(arguments) if a.floats])


def _passed(name: str) -> Callable[..., Any]:
    """Return the method of an operation that `Mixed` leaves to the inner backend."""

    def method(self: Mixed[Any], *args: Any, **keywords: Any) -> Any:
        return getattr(self.inner, name)(*args, **keywords)

    return wraps(getattr(Decorator, name))(method)


for _name, _op in operations().items():
    if not (_op.consumes or _op.view or _op.product or _name in vars(Mixed)):
        setattr(Mixed, _name, _passed(_name))
