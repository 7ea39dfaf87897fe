"""`Function`: an operation with a user-defined derivative, as `torch.autograd.Function`, and its ``apply``.

forward() runs once, on the plain backend under all levels of the arguments' device; where several differentiate, on one
level above that, which follows what it computes from its arguments. Then each level, from the inside
out, wraps the results of the one beneath it: `Autodiff` as results of a node that calls backward(), `Forward` with the
tangents returned by jvp(). backward() and jvp() compute on the level beneath, and are differentiated there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.forward_methods import Dual
from burnpy.autodiff.graph import Leaf, conjugate, from_user, untracked
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.autodiff.recording import new_level
from burnpy.autodiff.tools.batched_rules import BatchedCall, batched_function, differentiated_beneath
from burnpy.autodiff.tools.function_calls import (
    ONCE,
    SAVED_INTERMEDIATE,
    TAKES,
    Context,
    FunctionBase,
    FunctionCall,
    OnceBackward,
    UnknownDerivative,
    differentiable_flags,
    source_of,
)
from burnpy.autodiff.tools.user_code import (
    ForwardReads,
    RuleReads,
    call_user_code,
    is_differentiated,
    map_members,
    positional,
)
from burnpy.autodiff.tools.user_values import (
    TensorSpec,
    devices_of,
    differentiated,
    in_reverse,
    lifted,
    lined_up,
    lowered,
    lowered_tensor,
    parts_of,
    primitives,
    regrouped,
    results_of,
    spec_of,
    spec_of_tensor,
    tensor,
    tensors,
    zero_like,
)
from burnpy.backend.errors import KindError, NotTrackedError
from burnpy.backend.primitives import INEXACT, Float
from burnpy.backend.rules import PartialGrad
from burnpy.tensor.host_data import watching
from burnpy.tensor.levels import UseCount
from burnpy.tensor.tensor_base import TensorBase, new_tensor

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol, TypeVar

    from burnpy.typevars import R

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

    class _WithForward(Protocol[P, R_co]):
        """The type of a class with a static method forward(), from which the type of `Function.apply` follows."""

        @staticmethod
        def forward(ctx: Context, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    class _Apply:
        """The type of `Function.apply`: forward()'s signature without ctx."""

        def __get__(self, instance: object, owner: type[_WithForward[P, R]]) -> Callable[P, R]: ...


_PYTORCH = {
    "setup_context": "let forward(ctx, *args) take ctx, and do there what setup_context() was to do",
    "vjp": "name it backward()",
}
"""Methods that PyTorch calls and that do not exist here, with their replacements."""


class Function(FunctionBase):
    """The base class of operations with a user-defined derivative: define the static methods, then call ``apply``.

    ``forward(ctx, *args)`` computes on plain tensors and returns a tensor or a tuple of tensors; int and bool tensors
    are allowed. ``backward(ctx, *grads)`` takes the gradient of each result and returns the gradient of each argument:
    None for a value that is not a float tensor or has no influence, which then gets no gradient here.
    ``jvp(ctx, *tangents)`` is optional and serves `Forward`: it takes the tangents of the arguments and returns the
    tangents of the results. Tensors must be direct arguments, never inside of lists.

    backward() is differentiable if it computes with saved arguments and results: on ``Autodiff[Autodiff[B]]`` it
    computes on ``Autodiff[B]``. If forward() saves another tensor that it computed from its arguments, or reads
    values by ``to_numpy()`` or ``item()``, a second derivative would lack a part: computing it raises an error. Save
    arguments and results, compute the rest from them in backward(), and read constants from ``x.detach()``.

    Under `burnpy.func.vmap` the methods see one example, as any other function there.

    >>> from typing import TypeVar
    >>> from burnpy.backend import Backend
    >>> B = TypeVar("B", bound=Backend)
    >>> class Exp(Function):
    ...     @staticmethod
    ...     def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx: Context, grad: Tensor[B]) -> Tensor[B]:
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = Tensor[Autodiff[NumPy]].from_data([0.0, 0.0]).require_grad()
    >>> Exp.apply(x).sum().backward()[x].tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        name = type(self).__name__
        raise KindError(f"{name}(...) makes nothing; call {name}.apply(...)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "backward", "jvp"):
            if not isinstance(vars(cls).get(name, staticmethod(cls.forward)), staticmethod):
                raise KindError(f"{cls.__name__}.{name} must be a @staticmethod, with ctx as its first argument")
        for name, instead in _PYTORCH.items():
            if name in vars(cls):
                raise KindError(f"{cls.__name__}.{name}() would never be called; {instead}")
        cls._kind = opaque_class(cls.__name__)

    if TYPE_CHECKING:
        apply = _Apply()
    else:

        @classmethod
        def apply(cls, *args, **kwargs):
            """Run forward() on the arguments and record it as one operation.

            Raises:
                ArgumentError: forward() does not take these arguments, or cannot take them by position.
                KindError: there is no forward(); or tensors are inside of a list, tuple or dict; or forward() returned
                    something other than tensors.
                DeviceError: tensors of several devices.
                NotTrackedError: an argument is tracked, or has a tangent, and there is no backward(), or jvp().
            """
            if not cls.defines("forward"):
                raise KindError(
                    f"{cls.__name__}.apply() was called, and {cls.__name__} defines no forward(); write a static "
                    "method forward(ctx, *args) that returns a tensor, or a tuple of tensors"
                )
            return applied(cls, positional(f"{cls.__name__}.apply", cls.forward, args, kwargs, 1))


def applied(function: type[FunctionBase], args: Sequence[Any], above: int = 0) -> Any:
    """Apply a Function to arguments; returns the results in the form in which forward() returned them.

    forward() runs on the device under all levels, and each level, from the innermost, then records its results.
    ``above`` is the number of levels above that differentiate, where the arguments are those of a batch.
    """
    name = f"{function.__name__}.apply"
    device, arguments = lined_up(name, args)
    levels = [None] if device is None else devices_of(device)
    plain = levels.pop()
    specs = tuple([spec_of(a) for a in arguments])
    values = [primitives(arguments)]  # for each level, the outermost first, and for the plain device
    needs = []
    for level in levels:
        needs.append(differentiated(name, level, specs, values[-1]))
        values.append(lowered(level, specs, values[-1]))
    on_plain = tensors(plain, specs, values[-1])
    needed = needs[0] if len(needs) == 1 else tuple([any(n[k] for n in needs) for k in range(len(specs))])
    above += sum(True in n for n in needs)
    ctx = Context(function.__name__, "forward", needed, plain)
    beneath = differentiated_beneath(plain, on_plain)
    try:
        if beneath:
            ran = _run_on_batch(function, ctx, plain, on_plain, above)
        else:
            ran = _run(function, ctx, plain, on_plain, above > 1)
    finally:
        ctx._close()
    if not levels:
        return ran.returned
    refuses = ran.lost is not None or ((above > 1 or beneath) and hasattr(function.backward, ONCE))
    hidden = [k for k, need in enumerate(needed) if need and refuses]  # inputs that are saved to refuse derivatives
    call = FunctionCall(
        function, ctx.__dict__, ctx._materialize, specs, tuple(map(spec_of_tensor, ran.outs)), ran.differentiable,
        (*map(spec_of, ran.saved), *[specs[k] for k in hidden]), len(hidden), ran.lost,
    )  # fmt: skip
    constants, results = primitives((*ran.saved, *[on_plain[k] for k in hidden])), primitives(ran.outs)
    sources = [*ran.sources, *[(0, k) for k in hidden]]
    for k in range(len(levels) - 1, -1, -1):
        pools = (values[k + 1], results, constants)
        saved = [pools[pool][place] for pool, place in sources]
        results = _RESULTS_ON[type(levels[k])](call, levels[k], needs[k], values[k], results, saved)
        if k:
            constants = lifted(levels[k], call.saved, constants)
    return regrouped(ran.returned, tensors(device, call.outputs, results))


class _Run(NamedTuple):
    """The results and saved tensors of forward(), on the device under all levels or on a level of `vmap` beneath."""

    returned: Any
    outs: tuple[Any, ...]
    saved: tuple[Any, ...]
    sources: list[tuple[int, int]]  #: the location of each saved tensor, see `source_of`
    differentiable: tuple[bool, ...]  #: for each result
    lost: str | None  #: what forward() did that loses second derivatives


def _run(function: type[FunctionBase], ctx: Context, plain: Any, on_plain: tuple[Any, ...], several: bool) -> _Run:
    """Call forward(); if ``several`` levels differentiate, on a level that follows what it computes from floats."""
    who = f"{function.__name__}.forward()"
    device, arguments, watch = plain, on_plain, None
    if several:  # only then are there second derivatives
        device, watch = new_level(Autodiff, plain, "apply"), ForwardReads(ctx)
        device.uses, ctx._device = UseCount(Autodiff, Autodiff), device
        arguments = tuple([_followed(x, device) for x in on_plain])
    with nullcontext() if watch is None else watching(watch):
        returned = call_user_code(who, TAKES["forward"], function.forward, device, ctx, *arguments)
    outs = results_of(who, returned, device)
    saved: tuple[Any, ...] = ctx._saved or ()
    sources = [source_of(s, c, arguments, outs) for c, s in enumerate(saved)]
    differentiable = differentiable_flags(function.__name__, outs, ctx._marked)
    lost = None
    if watch is not None:
        others = [s for s, (pool, _) in zip(saved, sources, strict=True) if pool == 2]
        lost = watch.lost((*arguments, *outs), others)
        if lost is None and any(s is not None and s.kind in INEXACT and is_differentiated(s) for s in others):
            lost = SAVED_INTERMEDIATE

        def under(x: Any) -> Any:
            return lowered_tensor(x, device) if x._device is device else x

        outs = tuple(map(under, outs))
        saved = tuple([s if s is None else under(s) for s in saved])
        ctx.__dict__.update(map_members(TensorBase, under, dict(ctx.__dict__)))
    return _Run(returned, outs, saved, sources, differentiable, lost)


def _followed(x: Any, level: Any) -> Any:
    """Return a tensor as a leaf of a level; a plain value, an int or a bool as it is."""
    if not isinstance(x, TensorBase) or x.kind not in INEXACT:
        return x
    leaf = untracked(x._primitive)
    leaf.node = Leaf(leaf.value)
    return new_tensor(type(x), level, leaf)


def _run_on_batch(
    function: type[FunctionBase], ctx: Context, plain: Any, on_plain: tuple[Any, ...], above: int
) -> _Run:
    """Apply the Function of batches on the device beneath a level of `vmap`, where a level differentiates."""
    call = BatchedCall(plain, on_plain)
    inner = applied(batched_function(function), (call, *call.inner), above)
    outs = call.on_level(inner)
    pools = (on_plain, outs, call.constants_on_level())
    saved = tuple([pools[pool][place] for pool, place in call.saved])
    ctx.__dict__.update(call.context.__dict__)
    ctx._materialize = call.context._materialize
    return _Run(regrouped(call.returned, outs), outs, saved, list(call.saved), call.differentiable, call.lost)


def call_method(
    call: FunctionCall, method: str, needs: tuple[bool, ...], device: Any, incoming: Sequence[Any], saved: Any
) -> list[Any]:
    """Call backward() or jvp() with gradients or tangents on a device and return the checked results, one for each
    argument of the Function, or each of its results."""
    function = call.function
    who = f"{function.__name__}.{method}()"
    ctx = call.context(method, needs, device, saved)
    reads = RuleReads(device)
    try:
        with reads.block:
            returned = call_user_code(who, TAKES[method], getattr(function, method), device, ctx, *incoming)
    finally:
        ctx._close()
    if method == "backward":
        places: Sequence[TensorSpec | None] = call.arguments
        parts = parts_of(who, "gradient", returned, places, device, needed=needs)
    else:
        places = call.outputs
        marked = [not differentiable for differentiable in call.differentiable]
        parts = parts_of(who, "tangent", returned, places, device, marked=marked)
    if (reads.method is None and call.lost is None) or not device.differentiates:
        return parts
    message = f"{function.__name__}.forward() {call.lost}"
    if reads.method is not None:
        message = f"{reads.message(who)}, or decorate backward() with once_differentiable"
    sources = [x for x in (*incoming, *tensors(device, call.saved, saved)) if x is not None]
    return refused(message, device, parts, places, sources)


def _with_node(
    call: FunctionCall,
    level: Any,
    needs: tuple[bool, ...],
    values: Sequence[Any],
    results: Sequence[Any],
    saved: Sequence[Any],
) -> list[Any]:
    """Return the results on an `Autodiff` level, recorded if an argument is tracked."""
    if True not in needs or True not in call.differentiable:
        return lifted(level, call.outputs, results)
    function = call.function
    if not function.defines("backward"):
        raise NotTrackedError(
            f"{function.__name__}.apply() got tracked tensors, and {function.__name__} defines no backward(); "
            "define one, or apply it to x.detach()"
        )
    flags = call.differentiable
    parents = [v.node for v, needed in zip(values, needs, strict=True) if needed]
    floats = [v for v, differentiable in zip(results, flags, strict=True) if differentiable]
    tracked = record_outputs(level, function._kind, floats, parents, function_vjp, (call, needs, *saved))
    if len(tracked) == len(results):
        return tracked
    outs, recorded = lifted(level, call.outputs, results), iter(tracked)
    return [next(recorded) if differentiable else out for out, differentiable in zip(outs, flags, strict=True)]


def function_vjp(
    inner: Any, grads: Sequence[Any], call: FunctionCall, needs: tuple[bool, ...], *saved: Any
) -> tuple[Float, ...]:
    """Call the backward() of a Function and return the gradients of the arguments that need one."""
    remaining = iter(grads)
    own = [conjugate(inner, next(remaining)) if differentiable else None for differentiable in call.differentiable]
    incoming = [_materialized(call, spec, inner, grad) for spec, grad in zip(call.outputs, own, strict=True)]
    if hasattr(call.function.backward, ONCE):
        return from_user(inner, once_vjp(inner, call, needs, incoming, saved))
    parts = call_method(call, "backward", needs, inner, incoming, saved)
    return from_user(inner, [part for part, needed in zip(parts, needs, strict=True) if needed])


def _materialized(call: FunctionCall, spec: TensorSpec | None, device: Any, part: Any) -> Any:
    """Return a gradient or tangent as passed to user code: a missing one as zeros, or None if not materialized."""
    if part is not None and spec is not None:
        return tensor(spec, device, part)
    return zero_like(spec, device) if call.materialize and spec is not None and spec.floats else None


def _with_tangents(
    call: FunctionCall,
    level: Any,
    needs: tuple[bool, ...],
    values: Sequence[Any],
    results: Sequence[Any],
    saved: Sequence[Any],
) -> list[Any]:
    """Return the results on a `Forward` level, with the tangents of jvp() if an argument has one."""
    outs = lifted(level, call.outputs, results)
    if not any(needs) or not any(call.differentiable):
        return outs
    function, inner = call.function, level.inner
    if not function.defines("jvp"):
        raise NotTrackedError(
            f"{function.__name__}.apply() was differentiated in forward mode, and {function.__name__} has no "
            "jvp(); define jvp(ctx, *tangents), a static method that returns the tangent of each result"
            f"{in_reverse(level)}"
        )
    tangents = [
        _materialized(call, spec, inner, v.tangent if needed else None)
        for spec, v, needed in zip(call.arguments, values, needs, strict=True)
    ]
    parts = call_method(call, "jvp", needs, inner, tangents, saved)
    return [out if part is None else Dual(out.value, part) for out, part in zip(outs, parts, strict=True)]


def once_vjp(
    inner: Any, call: FunctionCall, needs: tuple[bool, ...], grads: Sequence[Any], saved: Sequence[Any]
) -> tuple[Float, ...]:
    """Call a once-differentiable backward() and return its gradients on ``inner``, whose derivative is refused."""
    missing: list[Any] = []
    outs = applied(OnceBackward, (call_method, call, needs, missing, *grads, *tensors(inner, call.saved, saved)))
    return tuple(part or out for part, out in zip(missing, primitives(outs), strict=True))


def refused(
    message: str, device: Any, parts: Sequence[Any], places: Sequence[TensorSpec | None], sources: Sequence[Any]
) -> list[Any]:
    """Return the results of user code such that differentiating them raises an error.

    Args:
        message: the error message.
        device: the device of the results and sources.
        parts: the primitives of the results; None and absent parts are unchanged.
        places: the class, shape and dtype of each.
        sources: tensors on which the results may depend.
    """
    present = [k for k, part in enumerate(parts) if part is not None and not isinstance(part, PartialGrad)]
    results = [tensor(spec, device, parts[k]) for k in present if (spec := places[k]) is not None]
    outs: list[Any] = list(parts)
    if results:
        refusing = applied(UnknownDerivative, (message, len(results), *results, *sources))
        for k, part in zip(present, primitives(refusing), strict=True):
            outs[k] = part
    return outs


def refused_tensors(message: str, tensors: Sequence[TensorBase[Any]], sources: Sequence[Any]) -> tuple[Any, ...]:
    """Return tensors of one device such that the derivative of the floats among them by ``sources`` is refused."""
    places = [spec if (spec := spec_of_tensor(x)).floats else None for x in tensors]
    parts = [x._primitive if spec else None for x, spec in zip(tensors, places, strict=True)]
    if not any(places):
        return tuple(tensors)
    refusing = refused(message, tensors[0].device, parts, places, sources)
    return tuple([x if part is None else x._like(part) for x, part in zip(tensors, refusing, strict=True)])


_RESULTS_ON: dict[type, Callable[..., list[Any]]] = {Autodiff: _with_node, Forward: _with_tangents}
