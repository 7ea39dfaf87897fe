"""The implementation of ``Function.apply``.

forward() runs once, on the plain backend under all levels of the arguments' device. Then each level, from the inside
out, wraps the results of the one beneath it: `Autodiff` as results of a node that calls backward(), `Forward` with the
tangents returned by jvp(). backward() and jvp() compute on the level beneath, and are differentiated there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.custom.arguments import (
    Kept,
    differentiated,
    in_reverse,
    kept_of,
    kept_of_tensor,
    levels_of,
    lifted,
    lined_up,
    lowered,
    primitives,
    tensor,
    tensors,
)
from burnpy.autodiff.custom.context import Context
from burnpy.autodiff.custom.lost_derivatives import Departures, FirstDeparture
from burnpy.autodiff.custom.results import parts_of, regrouped, results_of, zero_like
from burnpy.autodiff.custom.user_code import called
from burnpy.autodiff.forward.codegen import Dual
from burnpy.autodiff.forward.forward import Forward
from burnpy.autodiff.multi_output import record_outputs
from burnpy.backend.errors import ArgumentError, NotTrackedError
from burnpy.backend.primitives import Float
from burnpy.tensor.base import TensorBase
from burnpy.tensor.host_reads import watching

if TYPE_CHECKING:
    from burnpy.autodiff.custom.function import Function

ONCE = "_burnpy_once"
"""The attribute of a backward() that `burnpy.autodiff.once_differentiable` marked."""
TAKES = {
    "forward": "ctx, and then each argument of apply()",
    "backward": "ctx, and then the gradient of each result",
    "jvp": "ctx, and then the tangent of each argument",
}
"""The arguments of the methods of a Function, in words, for error messages."""


class Call:
    """The data of one call of a Function that all levels share. It holds no tensors except those set on ctx."""

    __slots__ = (
        "arguments",
        "attributes",
        "differentiable",
        "function",
        "hidden",
        "lost",
        "materialize",
        "outputs",
        "saved",
    )

    function: type[Function]
    attributes: dict[str, Any]  #: the attributes of ctx
    materialize: bool  #: whether missing gradients and tangents are passed as zeros
    arguments: tuple[Kept | None, ...]
    outputs: tuple[Kept, ...]
    differentiable: tuple[bool, ...]  #: for each output
    saved: tuple[Kept | None, ...]
    hidden: int  #: how many saved tensors, at the end, are not for ctx
    lost: str | None  #: what forward() did that loses second derivatives, for the error message; or None

    def context(self, phase: str, needs: tuple[bool, ...], device: Any, saved: Sequence[Any]) -> Context:
        """Create the ctx of one call of backward() or jvp()."""
        count = len(self.saved) - self.hidden
        ctx = Context(self.function.__name__, phase, needs, device, (device, self.saved[:count], saved[:count]))
        ctx.__dict__ = self.attributes
        return ctx

    def called(
        self, method: str, needs: tuple[bool, ...], device: Any, incoming: Sequence[Any], saved: Any
    ) -> list[Any]:
        """Call backward() or jvp() with gradients or tangents on a device and return the checked results, one for each
        argument of the Function, or each of its results."""
        function = self.function
        who = f"{function.__name__}.{method}()"
        ctx = self.context(method, needs, device, saved)
        departures = Departures(device)
        try:
            with departures.block:
                returned = called(who, TAKES[method], getattr(function, method), device, ctx, *incoming)
        finally:
            ctx._close()
        if method == "backward":
            places: Sequence[Kept | None] = self.arguments
            parts = parts_of(who, "gradient", returned, places, device, needed=needs)
        else:
            places = self.outputs
            marked = [not differentiable for differentiable in self.differentiable]
            parts = parts_of(who, "tangent", returned, places, device, marked=marked)
        if (departures.method is None and self.lost is None) or not device.differentiates:
            return parts
        from burnpy.autodiff.custom.unknown_derivative import refused

        message = f"{function.__name__}.forward() {self.lost}"
        if departures.method is not None:
            message = f"{departures.message(who)}, or decorate backward() with once_differentiable"
        sources = [x for x in (*incoming, *tensors(device, self.saved, saved)) if x is not None]
        return refused(message, device, parts, places, sources)


def applied(function: type[Function], args: Sequence[Any]) -> Any:
    """Apply a Function to arguments; returns the results in the form in which forward() returned them."""
    name = function.__name__
    device, arguments = lined_up(f"{name}.apply", args)
    levels = [None] if device is None else levels_of(device)
    plain = levels.pop()
    kept = tuple([kept_of(a) for a in arguments])
    values = [primitives(arguments)]  # for each level, the outermost first
    needs = []
    for level in levels:
        needs.append(differentiated(f"{name}.apply", level, kept, values[-1]))
        values.append(lowered(level, kept, values[-1]))
    on_plain = tensors(plain, kept, values[-1])
    needed = needs[0] if len(needs) == 1 else tuple([any(n[k] for n in needs) for k in range(len(kept))])
    several = sum(True in n for n in needs) > 1  # levels differentiate: only then are there second derivatives
    ctx = Context(name, "forward", needed, plain)
    watch = FirstDeparture(ctx) if several else None
    try:
        with nullcontext() if watch is None else watching(watch):
            returned = called(f"{name}.forward()", TAKES["forward"], function.forward, plain, ctx, *on_plain)
        outs = results_of(f"{name}.forward()", returned, plain)
        saved: tuple[Any, ...] = ctx._saved or ()
    finally:
        ctx._close()
    if not levels:
        return returned
    call = Call()
    call.function, call.attributes, call.materialize = function, ctx.__dict__, ctx._materialize
    call.arguments, call.saved = kept, tuple([kept_of(s) for s in saved])
    call.outputs = tuple([kept_of_tensor(out) for out in outs])
    call.hidden, call.lost = 0, None
    call.differentiable = _differentiable(name, outs, ctx._marked)
    sources = [_source(s, c, on_plain, outs) for c, s in enumerate(saved)]
    if watch is not None:
        call.lost = watch.lost(
            (*on_plain, *outs), [s for s, (pool, _) in zip(saved, sources, strict=True) if pool == 2]
        )
        if call.lost is not None or hasattr(function.backward, ONCE):
            hidden = [k for k, need in enumerate(needed) if need]  # the inputs by which the derivative is refused
            sources += [(0, k) for k in hidden]
            call.saved += tuple([kept[k] for k in hidden])
            call.hidden = len(hidden)
            saved += tuple([on_plain[k] for k in hidden])
    constants, results = primitives(saved), primitives(outs)
    for k in range(len(levels) - 1, -1, -1):
        pools = (values[k + 1], results, constants)
        own = [pools[pool][place] for pool, place in sources]
        results = _DERIVED[type(levels[k])](call, levels[k], needs[k], values[k], results, own)
        if k:
            constants = lifted(levels[k], call.saved, constants)
    return regrouped(returned, [tensor(like, device, out) for like, out in zip(call.outputs, results, strict=True)])


def _differentiable(name: str, outs: Sequence[TensorBase[Any]], marked: Sequence[TensorBase[Any]]) -> tuple[bool, ...]:
    if not marked:
        return tuple([out.kind == "float" for out in outs])
    for k, x in enumerate(marked):
        if not any(x is out for out in outs):
            raise ArgumentError(
                f"ctx.mark_non_differentiable() of {name} was given, as argument {k}, what forward() does not return"
            )
    return tuple([out.kind == "float" and not any(x is out for x in marked) for out in outs])


def _source(saved: object, c: int, arguments: Sequence[Any], outs: Sequence[Any]) -> tuple[int, int]:
    """Return the location of the c-th saved tensor on every level, by identity: (0, k) for the k-th argument, (1, k)
    for the k-th result, (2, c) for any other tensor, which is a constant."""
    if saved is not None:
        for pool, members in enumerate((arguments, outs)):
            for k, member in enumerate(members):
                if member is saved:
                    return pool, k
    return 2, c


def _recorded(
    call: Call, level: Any, needs: tuple[bool, ...], values: Sequence[Any], results: Sequence[Any], saved: Sequence[Any]
) -> list[Any]:
    """Return the results on an `Autodiff` level, recorded if an argument is tracked."""
    if True not in needs or True not in call.differentiable:
        return lifted(level, call.outputs, results)
    function = call.function
    if not function.defines("backward"):
        raise NotTrackedError(
            f"{function.__name__}.apply() was given tracked tensors, and {function.__name__} defines no backward(); "
            "define one, or apply it to x.detach()"
        )
    flags = call.differentiable
    parents = [v.node for v, needed in zip(values, needs, strict=True) if needed]
    floats = [v for v, differentiable in zip(results, flags, strict=True) if differentiable]
    tracked = record_outputs(level, function._kind, floats, parents, pulled, (call, needs, *saved))
    if len(tracked) == len(results):
        return tracked
    outs, recorded = lifted(level, call.outputs, results), iter(tracked)
    return [next(recorded) if differentiable else out for out, differentiable in zip(outs, flags, strict=True)]


def pulled(inner: Any, grads: Sequence[Any], call: Call, needs: tuple[bool, ...], *saved: Any) -> tuple[Float, ...]:
    """The vjp of a Function's node: calls backward() and returns the gradients of the arguments that need one."""
    remaining = iter(grads)
    own = [next(remaining) if differentiable else None for differentiable in call.differentiable]
    incoming = [_materialized(call, like, inner, grad) for like, grad in zip(call.outputs, own, strict=True)]
    if hasattr(call.function.backward, ONCE):
        from burnpy.autodiff.custom.once_differentiable import pulled_once

        return pulled_once(inner, call, needs, incoming, saved)
    parts = call.called("backward", needs, inner, incoming, saved)
    return tuple(part for part, needed in zip(parts, needs, strict=True) if needed)


def _materialized(call: Call, like: Kept | None, device: Any, part: Any) -> Any:
    """Return a gradient or tangent as passed to user code: a missing one as zeros, or None if not materialized."""
    if part is not None and like is not None:
        return tensor(like, device, part)
    return zero_like(like, device) if call.materialize and like is not None and like.floats else None


def _with_jvps(
    call: Call, level: Any, needs: tuple[bool, ...], values: Sequence[Any], results: Sequence[Any], saved: Sequence[Any]
) -> list[Any]:
    """Return the results on a `Forward` level, with the tangents of jvp() if an argument has one."""
    outs = lifted(level, call.outputs, results)
    if not any(needs) or not any(call.differentiable):
        return outs
    function, inner = call.function, level.inner
    if not function.defines("jvp"):
        raise NotTrackedError(
            f"{function.__name__}.apply() was asked for its derivative in forward mode, and {function.__name__} has no "
            "jvp(); define jvp(ctx, *tangents), a static method that returns the tangent of each result"
            f"{in_reverse(level)}"
        )
    tangents = [
        _materialized(call, like, inner, v.tangent if needed else None)
        for like, v, needed in zip(call.arguments, values, needs, strict=True)
    ]
    parts = call.called("jvp", needs, inner, tangents, saved)
    return [out if part is None else Dual(out.value, part) for out, part in zip(outs, parts, strict=True)]


_DERIVED: dict[type, Callable[..., list[Any]]] = {Autodiff: _recorded, Forward: _with_jvps}
