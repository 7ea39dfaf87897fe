"""`Forward[B]`: a backend for forward-mode differentiation, which computes a tangent with each value."""

from __future__ import annotations

from typing import Any, Generic, final

from burnpy.autodiff.autodiff import MethodAtFirstUse
from burnpy.autodiff.forward_methods import Dual, forward_method
from burnpy.autodiff.recording import current_mode
from burnpy.backend.backend import Backend
from burnpy.backend.devices import Subscriptable, device_of
from burnpy.backend.primitives import Float, Int, Key, Value
from burnpy.backend.schema import declarations
from burnpy.typevars import I_co


@final
class Forward(Subscriptable, Backend, Generic[I_co]):
    """A backend that computes with the inner backend ``I`` and adds forward-mode differentiation in one direction.

    In types it is written ``Forward[NumPy]``; as a device, ``Forward(NumPy())``. Each primitive has a value and a
    tangent, or no tangent if it is constant. No graph is recorded, so that a computation of any length needs at most
    twice its own memory. It nests with `Autodiff` and with itself in any order: ``Forward[Autodiff[NumPy]]`` computes
    tangents that can be differentiated, ``Autodiff[Forward[NumPy]]`` computes gradients with a tangent. Int and bool
    primitives have no tangent and are the inner backend's own. `burnpy.autodiff.make_dual` creates tensors on it;
    `burnpy.func.jvp` does so internally.

    >>> from burnpy.autodiff import make_dual, unpack_dual
    >>> x, t = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> unpack_dual(make_dual(x, t).square()).tangent.tolist()
    [2.0, 0.0]
    """

    differentiates = True

    def __init__(self, inner: I_co | type[I_co]) -> None:
        self.inner: I_co = device_of(inner)
        self.discrete: Backend = self.inner.discrete
        self.in_place_updates = self.inner.in_place_updates
        self.mode = current_mode

    @classmethod
    def canonical(cls, inner: Any) -> tuple[Any, ...]:
        """Return the key of the singleton: the inner device, however it was named."""
        return (device_of(inner),)

    @property
    def name(self) -> str:
        """The name with the inner device's in brackets, such as ``Forward[NumPy]``."""
        return f"Forward[{self.inner.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Forward, (self.inner,)

    def wants_rule_context(self) -> bool:
        """Return whether the inner device needs to know which rule is running."""
        return self.inner.wants_rule_context()

    def lift(self, value: Value) -> Dual:
        """Wrap an inner float primitive as a constant of this backend."""
        return Dual(value)

    def lower(self, x: Dual) -> Value:
        """Return the inner primitive of x, without the tangent."""
        return x.value

    def dual(self, value: Float, tangent: Float) -> Dual:
        """Create a primitive from a value and a tangent of the same shape and dtype."""
        return Dual(value, tangent)

    def require_grad(self, x: Float) -> Dual:
        """Return x with its value as a leaf on every level beneath; the tangent is unchanged."""
        return Dual(self.inner.require_grad(x.value), x.tangent)

    def is_require_grad(self, x: Float) -> bool:
        """Return whether x has a tangent, or is tracked on a level beneath."""
        return x.tangent is not None or self.inner.is_require_grad(x.value)

    def retain_grad(self, x: Float) -> Dual:
        """Return x such that the level beneath retains the gradient of its value."""
        return Dual(self.inner.retain_grad(x.value), x.tangent)

    def accumulate(self, total: Float, grad: Float) -> Dual:
        """Return total + grad, in the memory of ``total``."""
        return self._accumulated("accumulate", total, (), grad)

    def accumulate_slice(self, total: Float, key: Key, grad: Float) -> Dual:
        """Return total with grad added at ``total[key]``, in the memory of ``total``."""
        return self._accumulated("accumulate_slice", total, (key,), grad)

    def accumulate_index(self, total: Float, dim: int, index: Int, grad: Float) -> Dual:
        """Return total with grad's slices added at ``index``, in the memory of ``total``."""
        return self._accumulated("accumulate_index", total, (dim, index), grad)

    def _accumulated(self, operation: str, total: Dual, place: tuple[Any, ...], grad: Dual) -> Dual:
        """Add value and tangent in place. A tangent is overwritten only if an earlier sum allocated it: ``add`` passes
        on the tangent of one argument unchanged if the other is constant, so that it may be shared."""
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
        setattr(Forward, _name, MethodAtFirstUse(_name, forward_method))
