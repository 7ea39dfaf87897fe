"""`Autodiff[B]`: a backend that wraps a backend and records the operations on tracked tensors.

The methods of operations are not written here: `burnpy.autodiff.codegen` generates each at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, overload

from burnpy.autodiff.engine import propagate
from burnpy.autodiff.graph import Leaf, Node, Retained, Tracked, leaf_of, new_node, untracked
from burnpy.autodiff.recording import current_mode, propagate_intercepted
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import Subscriptable, device_of
from burnpy.backend.errors import NotTrackedError
from burnpy.backend.operations.programs import Formula
from burnpy.backend.primitives import Float, Int, Value
from burnpy.backend.rules import identity
from burnpy.backend.schema import declarations
from burnpy.typevars import I_co

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from burnpy.autodiff.engine import Ready, Sums
    from burnpy.backend.entries import Operation

J = TypeVar("J", bound=Backend)


@final
class Autodiff(Subscriptable, Backend, Generic[I_co]):
    """A backend that computes with the inner backend ``I`` and adds reverse-mode differentiation.

    In types it is written ``Autodiff[NumPy]``; as a device, ``Autodiff(NumPy())``. It nests: gradients computed on
    ``Autodiff[Autodiff[NumPy]]`` are tensors on ``Autodiff[NumPy]`` and can be differentiated again. Int and bool
    primitives carry no gradient and are the inner backend's own.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> x.grad((x * x).sum().backward()).tolist()
    [2.0, 4.0]
    """

    differentiates = True

    def __init__(self, inner: I_co | type[I_co]) -> None:
        self.wraps: Backend = device_of(inner)  #: the argument of the constructor, with a `Strategy`
        planner = self.wraps.planner if isinstance(self.wraps, Strategy) else None
        self.inner: I_co = planner.inner if planner else device_of(inner)  #: the device of gradients and ``x.inner()``
        self.computing: Any = planner or self.inner  #: the device whose operations recorded operations call
        self.discrete: Backend = self.inner.discrete
        self.in_place_updates = self.inner.in_place_updates
        self.mode = getattr(self.computing, "mode", current_mode)
        if self.computing.operand_dtype is not None:  # it rounds the operands of products
            for name, method in _rounded_products(self).items():
                setattr(self, name, method)

    @classmethod
    def canonical(cls, inner: Any) -> tuple[Any, ...]:
        """Return the key of the singleton: the inner device, however it was named."""
        return (device_of(inner),)

    @property
    def name(self) -> str:
        """The name with the inner device's in brackets, such as ``Autodiff[NumPy]``."""
        return f"Autodiff[{self.wraps.name}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return Autodiff, (self.wraps,)

    @overload  # type: ignore[override]  # no other backend has it
    def gradient_device(self: Autodiff[Strategy[J]]) -> J: ...
    @overload
    def gradient_device(self: Autodiff[J]) -> J: ...
    def gradient_device(self: Autodiff[Any]) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        """Return the device of gradients, which is `inner`; type checkers look through a `Strategy` only here."""
        return self.inner

    def lift(self, value: Value) -> Tracked:
        """Wrap an inner float primitive as an untracked primitive of this backend."""
        return untracked(value if self.computing is self.inner else self.computing.lift(value))

    def lower(self, x: Tracked) -> Value:
        """Return the inner primitive of x, without the graph."""
        return x.value if self.computing is self.inner else self.computing.lower(x.value)

    def statistics_update(
        self, count: Int, averages: Sequence[Float], totals: Sequence[Float], share: float
    ) -> tuple[Int, list[Float]]:
        """Update running statistics, which have no gradient, with the inner device."""
        old, parts = [x.value for x in averages], [x.value for x in totals]
        counted, new = self.computing.statistics_update(count, old, parts, share)
        return counted, [untracked(x) for x in new]

    def require_grad(self, x: Float) -> Float:
        """Return x as a leaf, on every level of the device; x itself if it is a leaf already.

        Raises:
            NotTrackedError: x was computed from tracked tensors and cannot become a leaf.
        """
        if x.node is not None:
            if x.node.target.__class__ is Leaf:
                return x
            raise NotTrackedError(
                f"require_grad() makes leaves, and this tensor of shape {x.shape} was computed by {x.node.operation} "
                "from tracked ones; use retain_grad() to keep its gradient, or detach() first to start a new graph"
            )
        return leaf_of(self.computing.require_grad(x.value))

    def is_require_grad(self, x: Float) -> bool:
        """Return whether x is tracked on any level of the device."""
        return x.node is not None or self.computing.is_require_grad(x.value)

    def retain_grad(self, x: Float) -> Float:
        """Return x such that `Gradients` has its gradient although it is not a leaf.

        Raises:
            NotTrackedError: x is not tracked.
        """
        if x.node is None:
            raise NotTrackedError(
                f"retain_grad() got a tensor of shape {x.shape} that is not tracked; "
                "call require_grad() on the tensors it is computed from"
            )
        if x.node.leaf is not None:
            return x
        out = untracked(x.value)
        leaf = Leaf(x.value)
        node = new_node(Retained, [(x.node.beneath, identity, ()), (leaf, identity, ())])
        node.kept_leaf = leaf  # type: ignore[attr-defined]  # new_node returns a node of the class passed to it
        out.node = x.node.over(node)
        return out

    def gradients(
        self,
        roots: Iterable[tuple[Tracked, Float]],
        *,
        retain_graph: bool,
        targets: Collection[Node | Leaf] | None = None,
        unused: Callable[[Collection[Node | Leaf]], None] | None = None,
        ready: Ready | None = None,
        sums: Sums | None = None,
    ) -> dict[Any, Float]:
        """Compute the gradients of the leaves that ``roots`` depend on, or of ``targets``.

        ``roots`` are pairs of a tracked primitive and the gradient to start from. ``unused`` is called with the targets
        that no root depends on, and may raise; ``ready`` with each leaf and its gradient when that is complete.
        ``sums`` returns the sums of earlier passes to which the gradients are added: see `propagate`.
        """
        seeds: list[tuple[Node | Leaf, Float]] = [(root.node, seed) for root, seed in roots if root.node is not None]
        mode = self.mode()
        interceptors = () if mode is None else mode.interceptors
        if not interceptors and not self.inner.wants_rule_context():
            return propagate(
                self.inner, seeds, retain_graph=retain_graph, targets=targets, unused=unused, ready=ready, sums=sums
            )
        return propagate_intercepted(
            self.inner,
            seeds,
            retain_graph=retain_graph,
            targets=targets,
            unused=unused,
            interceptors=interceptors,
            ready=ready,
            sums=sums,
        )

    def fused(self, formula: Formula, xs: Sequence[Tracked], numbers: tuple[float, ...] = ()) -> tuple[Tracked, ...]:
        """Compute a formula and record it as one operation; with a `Strategy`, or without fusion, each of its own."""
        if self.computing is not self.inner or not self.inner.fuses([x.value for x in xs]):
            return formula(self, *xs, *numbers)
        from burnpy.autodiff.joint_nodes import record_fused

        return record_fused(self, formula, xs, numbers)

    def first_result(self, name: str, *args: Any) -> Tracked:
        """Compute an operation and record its first result only, in one node; the method records all results."""
        return _method_of_first_result(name)(self, *args)  # type: ignore[no-any-return]  # generated code

    def wants_rule_context(self) -> bool:
        """Return whether the inner device needs to know which rule is running."""
        return self.inner.wants_rule_context()


class Strategy(Backend, Generic[I_co]):
    """A backend around ``I`` that decides what ``Autodiff[Strategy[I]]`` saves, such as `burnpy.autodiff.Balanced`.

    Gradients are tensors on ``I``: `Autodiff.gradient_device` tells type checkers so, and other signatures need not
    mention strategies.
    """

    inner: I_co  # pyright: ignore[reportIncompatibleMethodOverride]  # a property only to allow such declarations
    planner: Any
    """The device that computes recorded operations. Its primitives may know how to compute their arrays again."""


class MethodAtFirstUse:
    """A descriptor that makes a method by ``make(name)`` at its first use, and then gives its place to the method."""

    def __init__(self, name: str, make: Callable[[str], Callable[..., Any]]) -> None:
        self.name, self.make = name, make

    def __get__(self, instance: object, owner: type) -> Any:
        method: Any = self.make(self.name)
        setattr(owner, self.name, method)
        return method if instance is None else method.__get__(instance, owner)


@cache
def _method_of_first_result(name: str) -> Callable[..., Any]:
    from burnpy.autodiff.codegen import generated

    return generated(name, first=True)


def autodiff_method(name: str) -> Callable[..., Any]:
    """Return the generated method of `Autodiff` for one operation."""
    from burnpy.autodiff.codegen import generated

    return generated(name)


for _name in declarations(Backend):
    setattr(Autodiff, _name, MethodAtFirstUse(_name, autodiff_method))


def _rounded_products(device: Any) -> dict[str, Callable[..., Any]]:
    """Return the products for a device that rounds operands to 16 bits, such as `Mixed`, by name. A product rounds its
    operands before it is recorded, and so saves them for its vjps in half the memory. The graph keeps the shapes and
    dtypes of the tensors, so that gradients have the tensors' dtypes."""
    return {op.name: _rounded_product(device, op) for op in _products()}


@cache
def _products() -> tuple[Operation, ...]:
    """Return the products of the schema; once, as `burnpy.func` makes a device for each derivative."""
    return tuple(op for op in operations().values() if op.product)


def _rounded_product(device: Any, op: Operation) -> Callable[..., Any]:
    positions = [k for k, a in enumerate(op.arguments) if a.name in op.product]
    rounded = device.computing.product_operand

    def method(*args: Any) -> Any:
        narrowed = list(args)
        for k in positions:
            x = args[k]
            if x.__class__ is Tracked:
                narrowed[k] = operand = Tracked()
                operand.value, operand.node = rounded(x.value, op, args), x.node
                operand.meta = x.meta or x.measured()
        return getattr(type(device), op.name)(device, *narrowed)

    return method
