"""`Backend`: the contract between tensors and whatever computes."""

from __future__ import annotations

import math
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import result_type
from burnpy.backend.operations.activation import Activation
from burnpy.backend.operations.attention import Attention
from burnpy.backend.operations.convolution import Convolution
from burnpy.backend.operations.creation import Creation
from burnpy.backend.operations.dense import Dense
from burnpy.backend.operations.indexing import Indexing
from burnpy.backend.operations.normalization import Normalization
from burnpy.backend.operations.optimizer import Optimizer
from burnpy.backend.operations.pointwise import Arithmetic, Comparison, Unary
from burnpy.backend.operations.pooling import Pooling
from burnpy.backend.operations.random import Random
from burnpy.backend.operations.reduction import Reduction
from burnpy.backend.operations.shape import Shaping
from burnpy.backend.primitives import Float, Int, Value
from burnpy.backend.schema import Algebra, derived

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from burnpy.backend.entries import Operation
    from burnpy.backend.fingerprint import Fingerprint


class Backend(
    Creation,
    Arithmetic,
    Comparison,
    Unary,
    Activation,
    Reduction,
    Shaping,
    Indexing,
    Random,
    Convolution,
    Dense,
    Pooling,
    Normalization,
    Attention,
    Optimizer,
):
    """Where tensors live and who computes on them.

    A subclass names a backend in types; an instance is a device, of which there is one for each set of arguments.
    A subclass must write every required operation (`burnpy.backend.schema.required`) and may override any derived
    one. Operations take and return primitives, the backend's own arrays, and know nothing of tensors. They are given
    normalised arguments: dims non-negative, indices in range, shapes checked.
    """

    eager_checks: bool = True
    """Whether tensors look at values that must be checked, such as indices, before they use them. A device that would
    have to be waited for sets it to False, and writes `defer_check`."""

    def __init__(self) -> None:
        self.discrete: Backend = self

    @property
    def name(self) -> str:
        """How the device is shown: ``NumPy``, ``CuPy(1)``, ``Autodiff[NumPy]``."""
        return type(self).__name__

    @classmethod
    def device(cls) -> Self:
        """The backend's default device: ``NumPy.device()``, ``Autodiff[NumPy].device()``."""
        return cls()

    def promote(self, x: Value, y: Value) -> tuple[Value, Value]:
        """x and y in their common dtype (`burnpy.backend.dtypes.result_type`), for a binary operation."""
        dtype = result_type(x, y)
        return (x if x.dtype == dtype else self.cast(x, dtype)), (y if y.dtype == dtype else self.cast(y, dtype))

    @derived(Algebra.NONDIFFERENTIABLE)
    def detach(self, x: Value) -> Value:
        """The same values with no history; on a plain backend x itself."""
        return x

    def require_grad(self, x: Float) -> Float:
        """x as a leaf of a graph; on a plain backend, which records none, x itself."""
        return x

    def is_require_grad(self, x: Float) -> bool:
        """Whether operations on x are recorded."""
        return False

    def retain_grad(self, x: Float) -> Float:
        """x such that `Gradients` keeps its gradient though it is no leaf; on a plain backend x itself."""
        return x

    def transfer_from(self, x: Value, source: Backend) -> Value:
        """A primitive of ``source``, a device that wraps no other, as one of this device; x itself if that is the same.

        By way of the CPU, where a backend knows no shorter one. Neither primitive is changed afterwards.
        """
        return x if source is self else self.adopt_numpy(source.to_numpy(x))

    def synchronize(self) -> None:
        """Wait until everything asked of the device is done, and raise the first error of `defer_check`."""

    def defer_check(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> None:
        """Raise ``error(*values)``, unless it is None, once the values are known.

        On a device that is not waited for that is when the next `to_numpy` or `synchronize` waits for it anyway; here
        it is at once.

        Args:
            values: 0-d primitives of ints or truth values; ``error`` is given them as Python ints.
            error: what is wrong with them. It keeps no primitives alive.
        """
        found = error(*[int(self.to_numpy(value)) for value in values])
        if found is not None:
            raise found

    def bounded(self, index: Int, low: int, high: int, error: Callable[[int], Exception]) -> Int:
        """``index``, of int64, put within ``low`` … ``high``; ``error`` of one beyond is raised as by `defer_check`."""
        dims = tuple(range(len(index.shape)))
        self.defer_check(
            (self.amin(index, dims, False), self.amax(index, dims, False)),
            lambda least, most: out_of_bounds(least, most, low, high, error),
        )
        return self.minimum(self.maximum(index, low), high)

    def wants_rule_context(self) -> bool:
        """Whether `Autodiff` should say, in `burnpy.backend.op_context`, which rule it is in; asked once a
        backward pass."""
        return False

    def storage_of(self, x: Value) -> tuple[Hashable, int]:
        """What holds the elements of x, and its size in bytes: equal for primitives that share it, as views do."""
        return id(x), math.prod(x.shape) * x.dtype.itemsize

    def fingerprint(self, x: Value) -> Fingerprint | None:
        """A few elements of x, by which another run is seen to compute the same; None where the device would have to
        be waited for."""
        if not self.eager_checks:
            return None
        from burnpy.backend.fingerprint import Fingerprint, places

        return Fingerprint(self.to_numpy(self.slice(x, places(x.shape))).tobytes(), x.dtype)

    def timestamp(self) -> Any:
        """Now, in the device's own time: for a device that works on its own, when it gets there."""
        return perf_counter_ns()

    def duration(self, start: Any, stop: Any) -> float:
        """The nanoseconds from one `timestamp` to a later one, for which an asynchronous device is waited for."""
        return float(stop - start)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return self.name


def out_of_bounds(least: int, most: int, low: int, high: int, error: Callable[[int], Exception]) -> Exception | None:
    """What `Backend.bounded` raises where the values are from ``least`` to ``most``; None where they are in bounds."""
    return error(most if most > high else least) if most > high or least < low else None


def operations() -> Mapping[str, Operation]:
    """The schema: every operation by name, in the order of declaration.

    >>> operations()["exp"].required
    True
    """
    from burnpy.backend.entries import operation
    from burnpy.backend.schema import declarations

    return {name: operation(function) for name, function in declarations(Backend).items()}
