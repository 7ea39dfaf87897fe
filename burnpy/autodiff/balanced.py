"""`Balanced[B]`: a strategy with which `Autodiff` saves recipes in place of arrays that are cheap to recompute.

`Planner` gives each result a recipe (`burnpy.autodiff.recipes`) with its cost; the observer `settle` decides, when a
node is recorded, which of its arrays are saved and which recipes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar, Generic, TypeAlias, final

from burnpy.autodiff.autodiff import Strategy
from burnpy.autodiff.graph import saved_tuple, with_relays
from burnpy.autodiff.recipes import ArraySource, Computed
from burnpy.autodiff.recording import Mode, current_mode
from burnpy.backend.backend import Backend
from burnpy.backend.decorators.decorator import Decorator, complete
from burnpy.backend.entries import Operation, operation
from burnpy.backend.primitives import Float, Shape, Value
from burnpy.backend.rules import Vjp
from burnpy.backend.schema import Algebra, declarations
from burnpy.typevars import I_co

PASS = 16
"""The cost of a FLOP outside of a product, or of moving an element.

Costs are in floating point operations (FLOPs) of a matrix product. A float32 matrix product takes about 10 ps for each
of its FLOPs on one core of a CPU of 2024. Other operations are limited by memory: each of their FLOPs, as
`burnpy.backend.schema.Flops` counts them, takes about as long as this many of a product, and so does an element that is
only moved. On a GPU both are faster by about the same factor.
"""

Cost: TypeAlias = Callable[[Sequence[Any], Shape], int]
"""``(arguments, shape) -> cost``: the cost of a call with these arguments and the shape of its (first) result."""


def cost_of(op: Operation) -> Cost | None:
    """Return the cost function of an operation; None if its results must be saved. Results must be saved if a second
    call would not return them again, as for random numbers; if the arguments may have been overwritten; and if they are
    constants, which have no gradient."""
    constant = op.algebra is Algebra.NONDIFFERENTIABLE and not op.elementwise
    if not any(op.float_results) or op.draws or op.consumes or constant:
        return None
    if op.view is not None:
        return lambda args, shape: 0
    counts = op.counts
    if isinstance(counts, int):
        rate = PASS * max(counts, 1)
        return lambda args, shape: rate * prod(shape)
    formula, positions = counts, op.flops_positions

    def flops(args: Sequence[Any], shape: Shape) -> int:
        return formula(*[shape if k is None else args[k].shape for k in positions])

    return flops if op.product else lambda args, shape: PASS * max(flops(args, shape), prod(shape))


@final
class Balanced(Decorator[I_co], Strategy[I_co], Generic[I_co]):
    """A backend with which `Autodiff` saves less memory for the backward pass: ``Autodiff[Balanced[NumPy]]``.

    An array is not saved if it can be recomputed from other saved arrays at little cost per byte: results of activation
    functions, normalizations, softmax, masks, views, and matrix products with a short inner dimension, such as
    attention scores. Of longer products, one in sixteen is recomputed, evenly spread. A deep network of linear layers
    and activation functions needs less than half the memory, for the time of its activation functions and a sixteenth
    of its products. Values and derivatives are identical, since the same operations run on the same arrays. To save
    more, combine it with `checkpoint`.

    ``inner()`` of such a tensor, and its gradients, are on ``NumPy``. Outside of `Autodiff` it computes exactly as its
    inner backend.

    >>> x = Tensor[Autodiff[Balanced[NumPy]]].from_data([1.0, 2.0]).require_grad()
    >>> x.grad((x * x).exp().sum().backward()).device, x.inner().device
    (NumPy, NumPy)
    """

    word: ClassVar[str] = "replaces what is kept of"
    smallest: ClassVar[int] = 4096
    """Arrays of fewer bytes are always saved."""

    def __init__(self, inner: I_co | type[I_co]) -> None:
        super().__init__(inner)
        self.discrete = self.inner.discrete
        self.planner: Planner = Planner.unregistered(self.inner)


class Planner(Backend):
    """The backend that computes for ``Autodiff[Balanced]``: as the inner backend, with a recipe for each array."""

    def __init__(self, inner: Backend) -> None:
        super().__init__()
        self.inner: Any = inner
        self.discrete = inner.discrete
        self.eager_checks = inner.eager_checks
        self.in_place_updates = inner.in_place_updates

    @property
    def name(self) -> str:
        """The name of the `Balanced` device, which is the one that users know."""
        return f"Balanced[{self.inner.name}]"

    def lift(self, value: Value) -> Computed:
        """Wrap an array as a primitive of this device."""
        return Computed(value)

    def lower(self, x: Any) -> Value:
        """Return the array of a primitive; plain arrays are returned unchanged."""
        return _value(x)

    def mode(self) -> Mode:
        """Return the mode of an `Autodiff` on this device: the current one, with `settle` as the first observer."""
        mode = current_mode()
        return _ALONE if mode is None else mode._replace(observers=(settle, *mode.observers))

    def detach(self, x: Any) -> Any:
        """Return x."""
        return x

    def require_grad(self, x: Any) -> Any:
        """Return x, marking its array as kept alive by the graph, as the value of a leaf."""
        if x.__class__ is Computed:
            x.origin().hold()
        return x


def planned(op: Operation) -> Callable[..., Any]:
    """Create the method of `Planner` for one operation."""
    name, count = op.name, len(op.arguments)
    floats, lists, cost, view = op.float_results, op.lists, cost_of(op), op.view is not None

    def planning(self: Planner, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        apply = getattr(self.inner, name)
        values: list[Any] = []
        computed: list[Computed] = []
        for a in args:
            if a.__class__ is Computed:
                values.append(a.value)
                computed.append(a)
            elif a.__class__ is list:
                values.append([_value(member) for member in a])
                computed += [member for member in a if member.__class__ is Computed]
            else:
                values.append(a)
        out = apply(*values)
        if lists:  # of an optimizer's update, from which nothing is computed again
            columns = [[Computed(x, None, 0) for x in column] for column in (out if len(floats) > 1 else (out,))]
            return tuple(columns) if len(floats) > 1 else columns[0]
        own_cost = None if cost is None else cost(values, (out if len(floats) == 1 else out[0]).shape)
        if len(floats) == 1:
            return _computed(out, apply, args, computed, own_cost, view) if floats[0] else out
        return tuple(
            [
                _computed(x, partial(_select, apply, k), args, computed, own_cost, view) if is_float else x
                for k, (x, is_float) in enumerate(zip(out, floats, strict=True))
            ]
        )

    planning.__name__, planning.__doc__ = name, op.function.__doc__
    planning.__qualname__ = f"Planner.{name}"
    return planning


def _computed(
    out: Any, apply: Callable[..., Any], args: Sequence[Any], computed: Sequence[Computed], cost: int | None, view: bool
) -> Computed:
    """Return a float result of ``apply``, with its recipe if it may be computed again.

    Args:
        out: the array.
        apply: the operation of the inner device.
        args: its arguments.
        computed: the primitives of this device among them.
        cost: the work of the operation; None if it is never done again.
        view: whether the result may share the memory of an argument.
    """
    work = 0
    for a in computed:  # `max` with a default takes longer
        if a.work > work:
            work = a.work
    if cost is None:
        return Computed(out, None, work)
    work += cost
    nbytes = prod(out.shape) * out.dtype.itemsize
    if nbytes < Balanced.smallest:
        return Computed(out, None, work)
    parts = [a.source or _origin(a) for a in computed]
    sources = tuple([_origin(a) if a.__class__ is Computed or a.__class__ is list else a for a in args])
    recipe = ArraySource(out, nbytes, work, apply, sources, parts, cost, view)
    return Computed(out, recipe if recipe.small() else None, work)


def _select(apply: Callable[..., Any], k: int, *args: Any) -> Any:
    """Call an operation with several results and return the k-th."""
    return apply(*args)[k]


def _value(a: Any) -> Any:
    if a.__class__ is Computed:
        return a.value
    return [_value(m) for m in a] if a.__class__ is list else a


def _origin(a: Any) -> Any:
    if a.__class__ is Computed:
        source = a.source
        if source is None:
            source = a.origin()
            if source.nbytes < Balanced.smallest:  # saving it costs little, and recipes that need it stay possible
                source.hold()
        return source
    return [_origin(m) for m in a] if a.__class__ is list else a


def settle(device: Any, node: Any) -> None:
    """Observe a recorded node: decide for each of its saved arrays whether to save its recipe instead."""
    for part in with_relays(node):
        part.vjp0, part.saved0 = _settled(part.vjp0, part.saved0)
        if part.parent1 is not None:
            part.vjp1, part.saved1 = _settled(part.vjp1, part.saved1)


def _settled(vjp: Vjp, kept: Any) -> tuple[Vjp, tuple[Any, ...]]:
    new: list[Any] = []
    deferred = False
    for x in saved_tuple(kept):
        if x.__class__ is Computed:
            x = x.kept()
            deferred = deferred or x.__class__ is ArraySource
        elif hasattr(x, "mapped"):
            x = x.mapped(_kept)
            deferred = True
        new.append(x)
    return (partial(_with_arrays, vjp) if deferred else vjp), tuple(new)


def _kept(x: Any) -> Any:
    return x.kept() if x.__class__ is Computed else x


def _with_arrays(vjp: Vjp, inner: Any, grad: Float, *kept: Any) -> Any:
    """Call a vjp with its saved values as arrays; or, on outer levels, as primitives with their recipe."""
    return vjp(
        inner,
        grad,
        *[x.read() if x.__class__ is ArraySource else x.mapped(_again) if hasattr(x, "mapped") else x for x in kept],
    )


def _again(x: Any) -> Any:
    if x.__class__ is ArraySource:
        return Computed(x.read(), x, x.work)
    return x if x.__class__ is Computed else Computed(x)


_ALONE = Mode(observers=(settle,))


for _name in declarations(Backend):
    if _name != "detach":
        setattr(Planner, _name, planned(operation(getattr(Backend, _name))))
