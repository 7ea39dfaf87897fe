"""`Forward[B]`: a backend that carries a tangent beside each value: forward mode, out of the same rules."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, final

from burnpy.autodiff.autodiff import CompiledAtFirstUse
from burnpy.autodiff.forward.codegen import Dual, compiled
from burnpy.autodiff.modes import current_mode
from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.primitives import Float, Int, Key, Value
from burnpy.backend.schema import declarations

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


@final
class Forward(Subscriptable, Backend, Generic[I]):
    """A backend that differentiates along one direction while the inner backend ``I`` computes.

    In types it is written ``Forward[NumPy]``; as a device, ``Forward(NumPy())``. Each primitive has a value and a
    tangent, or no tangent where it is constant. It records nothing, so that a computation of any length needs no more
    memory than twice its own. It nests with `Autodiff` and with itself either way: ``Forward[Autodiff[NumPy]]`` pushes
    tangents that can be differentiated, ``Autodiff[Forward[NumPy]]`` gives gradients with a tangent. Ints and bools
    have no tangent and are the inner backend's own. `burnpy.autodiff.make_dual` makes tensors on it; `burnpy.func.jvp`
    does so by itself.

    >>> from burnpy import Tensor
    >>> from burnpy.autodiff import make_dual, unpack_dual
    >>> from burnpy.backend import NumPy
    >>> x, t = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> unpack_dual(make_dual(x, t).square()).tangent.tolist()
    [2.0, 0.0]
    """

    def __init__(self, inner: I | type[I]) -> None:
        self.inner: I = device_of(inner)
        self.discrete: Backend = self.inner.discrete
        self.level = 0  #: which modes silence it: see `burnpy.autodiff.modes`
        self.mode = current_mode

    @classmethod
    def canonical(cls, inner: Any) -> tuple[Any, ...]:
        """By the inner device, however it was named."""
        return (device_of(inner),)

    @property
    def name(self) -> str:
        """``Forward[NumPy]``."""
        return f"Forward[{self.inner.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Forward, (self.inner,)

    def synchronize(self) -> None:
        """Wait for the inner device."""
        self.inner.synchronize()

    def wants_rule_context(self) -> bool:
        """Whether the inner device wants to be told which rule is at work."""
        return self.inner.wants_rule_context()

    def lift(self, value: Value) -> Dual:
        """An inner float primitive as a constant of this backend."""
        return Dual(value)

    def lower(self, x: Dual) -> Value:
        """The inner primitive, without the tangent."""
        return x.value

    def dual(self, value: Float, tangent: Float) -> Dual:
        """A primitive with a tangent of the same shape and dtype."""
        return Dual(value, tangent)

    def require_grad(self, x: Float) -> Dual:
        """x with its value as a leaf of every level beneath; the tangent stays."""
        return Dual(self.inner.require_grad(x.value), x.tangent)

    def is_require_grad(self, x: Float) -> bool:
        """Whether x has a tangent, or operations on it are recorded beneath."""
        return x.tangent is not None or self.inner.is_require_grad(x.value)

    def retain_grad(self, x: Float) -> Dual:
        """x with the gradient of its value kept beneath."""
        return Dual(self.inner.retain_grad(x.value), x.tangent)

    def accumulate(self, total: Float, grad: Float) -> Dual:
        """total + grad, in the memory of ``total``."""
        return self._accumulated("accumulate", total, (), grad)

    def accumulate_slice(self, total: Float, key: Key, grad: Float) -> Dual:
        """total with grad added at ``total[key]``, in the memory of ``total``."""
        return self._accumulated("accumulate_slice", total, (key,), grad)

    def accumulate_index(self, total: Float, dim: int, index: Int, grad: Float) -> Dual:
        """total with grad's slices added at ``index``, in the memory of ``total``."""
        return self._accumulated("accumulate_index", total, (dim, index), grad)

    def _accumulated(self, operation: str, total: Dual, place: tuple[Any, ...], grad: Dual) -> Dual:
        """The value and the tangent, each added in place; a tangent only where an earlier sum allocated it, as
        ``add`` gives the tangent of one argument on where the other is constant."""
        i: Any = self.inner
        accumulate = getattr(i, operation)
        shape, dtype = total.shape, total.dtype
        out = Dual(accumulate(total.value, *place, grad.value))
        part, mode = grad.tangent, self.mode()
        if mode is not None and mode.silences(self.level):
            return out
        if part is None:
            out.tangent = total.tangent
            out.owned = getattr(total, "owned", False)
            return out
        own: Any = total.tangent
        if own is None:
            own = i.full(shape, 0.0, dtype)
        elif not getattr(total, "owned", False):
            own = i.add(own, 0.0)
        out.tangent = accumulate(own, *place, part)
        out.owned = True
        return out


for _name in declarations(Backend):
    if _name not in vars(Forward):
        setattr(Forward, _name, CompiledAtFirstUse(_name, compiled))
