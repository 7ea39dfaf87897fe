"""`Backend`: the interface between tensors and the libraries that compute."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from burnpy.backend.dtypes import float32, float64, kind_of, result_type
from burnpy.backend.errors import BackendUnavailableError
from burnpy.backend.operations.activation import Activation
from burnpy.backend.operations.attention import Attention
from burnpy.backend.operations.bessel import Bessel
from burnpy.backend.operations.complex_numbers import ComplexNumbers
from burnpy.backend.operations.convolution import Convolution, VolumeConvolution
from burnpy.backend.operations.decompositions import Decompositions
from burnpy.backend.operations.distances import Distances, Norms
from burnpy.backend.operations.elementary import Binary, Elementary
from burnpy.backend.operations.fourier import Fourier
from burnpy.backend.operations.indexing import Embedding, Indexing
from burnpy.backend.operations.linalg import LinearAlgebra
from burnpy.backend.operations.losses import CtcLoss, Losses
from burnpy.backend.operations.matmul import MatrixProducts, Quantization
from burnpy.backend.operations.normalization import Normalization
from burnpy.backend.operations.ordering import Ordering
from burnpy.backend.operations.pointwise import Arithmetic, Comparison, Integers, Unary
from burnpy.backend.operations.pooling import Pooling
from burnpy.backend.operations.programs import Lists, Programs
from burnpy.backend.operations.random import Dropout, Random
from burnpy.backend.operations.recurrent import Recurrent
from burnpy.backend.operations.reduction import Reduction
from burnpy.backend.operations.resampling import Resampling
from burnpy.backend.operations.scans import Scans
from burnpy.backend.operations.shape import Creation, Padding, Shaping
from burnpy.backend.operations.softmax import Softmax
from burnpy.backend.operations.special import IncompleteBeta, IncompleteGamma, NormalDistribution, SpecialFunctions
from burnpy.backend.primitives import Bool, DType, Float, Int, Key, Shape, Value
from burnpy.backend.rules import SHIFTED
from burnpy.backend.runtime import Runtime
from burnpy.backend.schema import Algebra, derived

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from burnpy.backend.entries import Operation
    from burnpy.backend.plans.blocks import Block

_FINGERPRINT_ELEMENTS = 64


class Fingerprint(NamedTuple):
    """A sample of a primitive's elements, returned by `Backend.fingerprint`."""

    elements: bytes  #: the elements of the primitive that the key `places` selects
    dtype: DType

    def resembles(self, other: Fingerprint) -> bool:
        """Return whether both agree to half of the digits: summation order is ignored, other random numbers differ.

        >>> x, y, z = (np.float32(v) for v in (1.0, 1.0 + 2e-7, 1.1))
        >>> one, near, far = (Fingerprint(v.tobytes(), v.dtype) for v in (x, y, z))
        >>> one.resembles(near), one.resembles(far)
        (True, False)
        """
        if self.dtype != other.dtype or len(self.elements) != len(other.elements):
            return False
        if self.elements == other.elements or kind_of(self.dtype) != "float":
            return self.elements == other.elements
        with np.errstate(all="ignore"):
            a, b = (np.frombuffer(x, self.dtype).astype(np.float64) for x in (self.elements, other.elements))
            digits = 2.0 ** (-4 if self.dtype.itemsize == 2 else -11 if self.dtype.itemsize == 4 else -26)
            largest = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0.0)), initial=0.0)
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= digits * (np.abs(a) + largest)))
        return not differs.any()


@lru_cache(256)
def places(shape: Shape) -> Key:
    """Return the key of up to 64 elements of ``shape``, evenly spaced along each dimension."""
    key: list[slice] = []
    left = _FINGERPRINT_ELEMENTS
    for n in reversed(shape):
        step = max(math.ceil(n / left), 1)
        left = max(left // max(math.ceil(n / step), 1), 1)
        key.insert(0, slice(0, n, step))
    return tuple(key)


class Backend(
    Creation,
    Arithmetic,
    Comparison,
    Unary,
    ComplexNumbers,
    Elementary,
    Binary,
    SpecialFunctions,
    IncompleteBeta,
    IncompleteGamma,
    Bessel,
    NormalDistribution,
    Integers,
    Activation,
    Reduction,
    Softmax,
    Norms,
    Scans,
    Shaping,
    Indexing,
    Ordering,
    Random,
    Convolution,
    VolumeConvolution,
    MatrixProducts,
    Embedding,
    Losses,
    CtcLoss,
    Dropout,
    Quantization,
    Pooling,
    Resampling,
    Normalization,
    Attention,
    Recurrent,
    LinearAlgebra,
    Decompositions,
    Fourier,
    Lists,
    Distances,
    Padding,
    Programs,
    Runtime,
):
    """The abstract base class of backends, which store arrays and compute on them.

    A subclass names a backend in types; an instance is a device, with one instance for each set of arguments.
    A subclass must implement every required operation (`burnpy.backend.schema.required`) and may override any derived
    one. Operations take and return primitives, the backend's own arrays, and do not depend on tensors. Their arguments
    are normalized by the caller: dims are non-negative, indices in range, shapes checked.
    """

    eager_checks: bool = True
    """True if tensors check values, such as indices, before they use them.

    An asynchronous device, which would have to synchronize, sets this to False and implements `defer_check`."""

    in_place_updates: bool = True
    """True if an operation may overwrite an argument if its caller allows it, as for an optimizer's states.

    False on a device that can raise an error after the inner device has computed, as `Checked` does: by then the
    argument would be lost. A backend that wraps another takes the value from it."""

    adds_products: bool = False
    """True if `accumulate_product` adds products of matrices to memory as it multiplies."""

    operand_dtype: DType | None = None
    """The 16-bit dtype to which the device rounds float32 operands of products; None if it does not round."""

    differentiates: ClassVar[bool] = False
    """True if the device computes derivatives, so that its float primitives are its own: those of the inner device
    with a graph or a tangent. True for `Autodiff` and `Forward`, False for the backends that go inside of them."""

    lifts_discrete: ClassVar[bool] = False
    """True if the int and bool primitives of the device are its own, too, as in `burnpy.batching.batched.Batched`.

    A level then lifts and lowers tensors of all kinds.
    """

    level: int = 0
    """The number of the derivative of `burnpy.func` that the device was made for; 0 if for none."""

    stands_for: Backend | None = None
    """The device in whose place this one records the operations of a compiled function; None if it records none."""

    records: ClassVar[bool] = False
    """True for `Recorded`, beneath which nothing of a compiled function may compute."""

    sizes_vary: bool = False
    """True for a device whose recordings stand for other sizes as well: operations that change nothing with these are
    computed too."""

    holds_numbers: bool = False
    """True for the device of the 0-d tensors that stand for Python numbers in a compiled function."""

    entry: Any = None
    """The function that brings values of the device that this one `stands_for` into a loop's or branch's recording."""

    if TYPE_CHECKING:
        gradient_device: None  # a method of `Autodiff`; without this, `__getattr__` would say that all backends have it

    def __init__(self) -> None:
        self.discrete: Backend = self

    @property
    def name(self) -> str:
        """The device's name in messages: ``NumPy``, ``CuPy(1)``, ``Autodiff[NumPy]``."""
        return type(self).__name__

    @property
    def complex_arrays(self) -> bool:
        """True if the device, or the one that it wraps, has arrays of complex64 and complex128."""
        return self.inner is not None and self.inner.complex_arrays

    @classmethod
    def device(cls) -> Self:
        """Return the backend's default device: ``NumPy.device()``, ``Autodiff[NumPy].device()``."""
        return cls()

    @classmethod
    def is_available(cls) -> bool:
        """Return whether the default device can be made: ``CuPy.is_available()`` needs a GPU and its driver."""
        try:
            cls.device()
        except BackendUnavailableError:
            return False
        return True

    def promote(self, *xs: Value) -> tuple[Value, ...]:
        """Cast primitives to their common dtype (`burnpy.backend.dtypes.result_type`), for an elementwise operation."""
        dtype = result_type(*xs)
        return tuple([x if x.dtype == dtype else self.cast(x, dtype) for x in xs])

    def lift(self, value: Value) -> Value:
        """Return a float primitive of the inner device as a constant of this one: itself, unless this device
        `differentiates`."""
        return value

    def lower(self, x: Value) -> Value:
        """Return the inner device's primitive in a float primitive of this one: itself, unless this device
        `differentiates`."""
        return x

    @property
    def full_precision(self) -> Backend:
        """The device whose products of float32 do not round their operands: itself, unless this is `Mixed`."""
        return self

    def product_operand(self, x: Float, op: Operation | None = None, args: tuple[Any, ...] = ()) -> Float:
        """Return an operand of a product as the product uses it, which `Autodiff` then saves: x itself, unless this
        device rounds operands, as `Mixed` does. ``op`` is the product, and ``args`` are its arguments."""
        return x

    def rounded_operands(
        self, xs: Sequence[Float], dtype: DType, op: Operation | None, args: tuple[Any, ...]
    ) -> list[Float]:
        """Return operands of float32 in 16 bits. A backend may give them the order of memory that suits the product.

        Args:
            xs: some operands of a product.
            dtype: float16 or bfloat16.
            op: the product; None if it is not known.
            args: all its arguments, in order.
        """
        return [self.cast(x, dtype) for x in xs] if len(xs) == 1 else self.foreach_cast(xs, dtype)

    def accumulate_product(self, total: Float, x: Float, y: Float) -> Float:
        """Compute total + x @ y, of matrices of one dtype; may reuse the memory of ``total``."""
        return self.accumulate(total, self.matmul(x, y))

    def recurrent_states(self, name: str, *args: Any) -> tuple[Float, ...]:
        """Call `lstm` or `gru`, by its name, and return its results but the gates, which only a backward pass uses."""
        return tuple(getattr(self, name)(*args)[:-1])

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        """Call a product with 16-bit operands; accumulate and return the result in float32.

        The default casts the operands to float32 first, which gives the same numbers. A backend that multiplies 16-bit
        matrices faster overrides it.

        Args:
            op: an operation whose ``op.product`` names the operands.
            args: all its arguments, in order.
        """
        wide = [
            self.cast(x, float32) if a.name in op.product and x.dtype.itemsize == 2 else x
            for a, x in zip(op.arguments, args, strict=True)
        ]
        return getattr(self, op.name)(*wide)

    @derived(Algebra.NONDIFFERENTIABLE, view="x", like="x", batch=SHIFTED)
    def detach(self, x: Value) -> Value:
        """Return x without its graph; on a plain backend, x itself."""
        return x

    def require_grad(self, x: Float) -> Float:
        """Return x as a leaf of a graph; on a plain backend, which records no graph, x itself."""
        return x

    def is_require_grad(self, x: Float) -> bool:
        """Return whether operations on x are recorded."""
        return False

    def retain_grad(self, x: Float) -> Float:
        """Return x, a non-leaf, such that `Gradients` retains its gradient; on a plain backend, x itself."""
        return x

    def transfer_from(self, x: Value, source: Backend) -> Value:
        """Copy a primitive of ``source``, a device that wraps no other, to this device.

        Return x itself if both devices are the same. The default copies by way of the CPU; a backend may copy directly.
        Neither primitive is changed afterwards.
        """
        return x if source is self else self.adopt_numpy(source.to_numpy(x))

    def defer_check(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> None:
        """Raise ``error(*values)``, unless it is None, once the values are computed.

        The default raises at once; an asynchronous device raises at the next `to_numpy` or `synchronize`.

        Args:
            values: 0-d int or bool primitives, which are passed to ``error`` as Python ints.
            error: returns the exception for these values, or None. It must not keep primitives alive.
        """
        exception = error(*[int(self.to_numpy(value)) for value in values])
        if exception is not None:
            raise exception

    def bounded_and_counted(
        self, index: Int, low: int, high: int, error: Callable[[int], Exception], ignored: int
    ) -> tuple[Int, Bool]:
        """Return `bounded` indices, and a mask of those that are not ``ignored``."""
        counted = self.ne(index, ignored)
        return self.bounded(index, low, high, error, ignored), counted

    def bounded_from_end(self, index: Int, size: int, error: Callable[[int], Exception]) -> Int:
        """Return `bounded` indices of a dimension; negative ones count from its end."""
        index = self.bounded(index, -size, size - 1, error, None)
        return self.where(self.lt(index, 0), self.add(index, size), index)

    def statistics_update(
        self, count: Int, averages: Sequence[Float], totals: Sequence[Float], share: float
    ) -> tuple[Int, list[Float]]:
        """Return the `count_update` by the first total, and the `average_update`."""
        return self.count_update(count, totals[0]), self.average_update(averages, totals, share)

    def on_host(self, formula: Callable[..., tuple[float, ...]], numbers: tuple[Any, ...]) -> tuple[Float, ...]:
        """Compute a formula of few numbers in Python, in its arithmetic; return 0-d primitives of float64.

        Args:
            formula: a function of Python numbers that returns a tuple of floats.
            numbers: its arguments, Python numbers or 0-d float or int primitives, whose values are read.
        """
        values = [self.discrete.to_numpy(x).item() if hasattr(x, "dtype") else x for x in numbers]
        return tuple([self.full((), value, float64) for value in formula(*values)])

    def seed(self, shape: Shape, dtype: DType) -> Float:
        """Return 1 in a shape of one element, from which a backward pass starts; nothing writes to its memory."""
        return self.full(shape, 1.0, dtype)

    def host_number(self, value: float) -> Float:
        """Return a Python number as a 0-d primitive of float64: how a plan takes numbers."""
        return self.full((), value, float64)

    def nested(self, block: Block, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the results of a loop or branch of a recording, in memory that nothing else shares.

        Args:
            block: the loop or branch, with the recordings of its bodies.
            values: the values that it takes, in its order.
        """
        return block.run(self, values)

    def first_result(self, name: str, *args: Any) -> Any:
        """Return the first result of an operation that has several, where nobody uses the others."""
        return getattr(self, name)(*args)[0]

    def wants_rule_context(self) -> bool:
        """Return whether `Autodiff` should set the current rule in `burnpy.backend.call_origin`.

        Called once per backward pass.
        """
        return False

    def storage_of(self, x: Value) -> tuple[Hashable, int]:
        """Return the identity of the memory of x and its size in bytes; primitives that share memory, such as views,
        return the same identity."""
        return id(x), math.prod(x.shape) * x.dtype.itemsize

    def fingerprint(self, x: Value) -> Fingerprint | None:
        """Return a sample of x's elements, to check that a recomputation gives the same; None on an asynchronous
        device, which would have to synchronize."""
        if not self.eager_checks:
            return None

        return Fingerprint(self.to_numpy(self.slice(x, places(x.shape))).tobytes(), x.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return self.name


@cache
def operations() -> Mapping[str, Operation]:
    """Return the schema: every operation by name, in the order of declaration."""
    from burnpy.backend.entries import operation
    from burnpy.backend.schema import declarations

    return MappingProxyType({name: operation(function) for name, function in declarations(Backend).items()})
