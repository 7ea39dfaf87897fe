"""`Balanced[B]`: a strategy inside `Autodiff`: cheap operations are computed again instead of keeping their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, final

from burnpy.autodiff.graph import Pull, Relay, kept_of, mapped
from burnpy.autodiff.modes import Mode, current_mode
from burnpy.autodiff.saving.recipes import Computed, Source
from burnpy.backend.backend import Backend
from burnpy.backend.decorators.generic import Decorator, complete
from burnpy.backend.entries import Operation, operation
from burnpy.backend.primitives import Float, Value
from burnpy.backend.schema import Algebra, declarations

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend

VIEWS = frozenset({"reshape", "permute", "expand", "slice", "mT", "flip"})
"""Operations of which the result holds its argument's memory as a rule, so that a recipe costs nothing more."""
_CHEAP = frozenset({"cast", "to_float", "tril", "triu", "where"})
_CONSUMING = frozenset({"accumulate", "accumulate_slice", "accumulate_index"})


@final
class Balanced(Decorator[I], Generic[I]):
    """A backend on whose results `Autodiff` keeps less: ``Autodiff[Balanced[NumPy]]``.

    Results of pointwise, elementwise and structural operations that a backward pass wants are not kept where they
    can be computed again from what is kept anyway; matrix products and reductions are. A deep network of linear layers
    and activation functions holds about half, for the time of its activation functions. Values and derivatives are the
    same, to the last bit. More must come from `checkpoint`, which goes together with this.

    ``inner()`` of such a tensor, and its gradients, are on ``NumPy``. By itself, outside of `Autodiff`, it computes as
    its inner backend does.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[Autodiff[Balanced[NumPy]]].from_data([1.0, 2.0]).require_grad()
    >>> x.grad((x * x).exp().sum().backward()).device, x.inner().device
    (NumPy, NumPy)
    """

    word: ClassVar[str] = "replaces what is kept of"
    smallest: ClassVar[int] = 4096
    """Arrays of fewer bytes are kept as they are."""

    def __init__(self, inner: I | type[I]) -> None:
        super().__init__(inner)
        self.discrete = self.inner.discrete
        self.planner: Planner = Planner.unregistered(self.inner)


class Planner(Backend):
    """What computes for an `Autodiff` of `Balanced`: as the inner backend does, with a recipe beside each array."""

    def __init__(self, inner: Backend) -> None:
        super().__init__()
        self.inner: Any = inner
        self.discrete = inner.discrete
        self.eager_checks = inner.eager_checks

    @property
    def name(self) -> str:
        """As the user knows it."""
        return f"Balanced[{self.inner.name}]"

    def lift(self, value: Value) -> Computed:
        """An array as a primitive of this device."""
        return Computed(value)

    def lower(self, x: Any) -> Value:
        """The array of a primitive; arrays themselves are taken everywhere."""
        return _value(x)

    def mode(self) -> Mode:
        """The mode of an `Autodiff` on this, or around one: `settle` sees each node first."""
        mode = current_mode()
        return _ALONE if mode is None else mode._replace(observers=(settle, *mode.observers))

    def detach(self, x: Any) -> Any:
        """x itself."""
        return x

    def require_grad(self, x: Any) -> Any:
        """x, whose array the graph will hold as a leaf's."""
        if x.__class__ is Computed:
            x.origin().pinned = True
        return x


def planned(op: Operation) -> Callable[..., Any]:
    """The method of `Planner` for one operation."""
    name, count = op.name, len(op.arguments)
    floats = len(op.results) == 1 and op.float_results[0]
    elementwise = op.elementwise and op.algebra in (Algebra.LINEAR, Algebra.BILINEAR, Algebra.NONDIFFERENTIABLE)
    cheap = elementwise or op.algebra in (Algebra.POINTWISE, Algebra.STRUCTURAL) or name in _CHEAP
    cheap = cheap and floats and name not in _CONSUMING
    view = name in VIEWS

    def method(self: Planner, *args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != count:
            args = complete(op, args, keywords)
        apply = getattr(self.inner, name)
        out = apply(*[_value(a) for a in args])
        if not floats:
            if len(op.results) == 1:
                return out
            return tuple([Computed(r) if is_float else r for r, is_float in zip(out, op.float_results, strict=True)])
        made = Computed(out)
        if cheap:
            size = out.dtype.itemsize
            for n in out.shape:
                size *= n
            if size >= Balanced.smallest:
                made.source = Source.recipe(out, apply, tuple([_origin(a) for a in args]), view)
        return made

    method.__name__, method.__doc__ = name, op.function.__doc__
    method.__qualname__ = f"Planner.{name}"
    return method


def _value(a: Any) -> Any:
    if a.__class__ is Computed:
        return a.value
    return [_value(m) for m in a] if a.__class__ is list else a


def _origin(a: Any) -> Any:
    if a.__class__ is Computed:
        return a.origin()
    return [_origin(m) for m in a] if a.__class__ is list else a


def settle(device: Any, node: Any) -> None:
    """The observer that decides of each array that a node keeps whether to keep its recipe."""
    nodes = [node]
    while nodes:
        part = nodes.pop()
        part.s0, part.k0 = _settled(part.s0, kept_of(part.k0))
        if part.p1 is not None:
            part.s1, part.k1 = _settled(part.s1, kept_of(part.k1))
        nodes += [parent for parent in (part.p0, part.p1) if parent.__class__ is Relay]


def _settled(pull: Pull, kept: tuple[Any, ...]) -> tuple[Pull, tuple[Any, ...]]:
    found: list[Source] = []

    def source(x: Any) -> Any:
        if x.__class__ is not Computed:
            return x
        origin: Source = x.kept()
        found.append(origin)
        return origin

    new = tuple([mapped(source, x) for x in kept])
    return (partial(_with_arrays, pull), new) if found else (pull, kept)


def _with_arrays(pull: Pull, inner: Any, grad: Float, *kept: Any) -> Any:
    """A pull that is given arrays; or, on levels above, primitives that know their recipe again."""
    return pull(inner, grad, *[x.read() if x.__class__ is Source else mapped(_again, x) for x in kept])


def _again(x: Any) -> Any:
    return Computed(x.read(), x) if x.__class__ is Source else x


_ALONE = Mode(observers=(settle,))


for _name in declarations(Backend):
    if _name != "detach":
        setattr(Planner, _name, planned(operation(getattr(Backend, _name))))
