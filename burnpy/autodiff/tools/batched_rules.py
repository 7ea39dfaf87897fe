"""User code beneath a level of `vmap`: functions and rules that compute for all examples together.

Where a device beneath `vmap` differentiates, a `Function`, a `custom_vjp` or a `custom_jvp` becomes one of batches on
that device: its code, and the code of its rule, runs on a `Batched` level of its own and sees single examples."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from burnpy.autodiff.recording import new_level
from burnpy.autodiff.tools.function_calls import (
    ONCE,
    SAVED_INTERMEDIATE,
    TAKES,
    Context,
    FunctionBase,
    differentiable_flags,
    source_of,
)
from burnpy.autodiff.tools.user_code import call_user_code, is_differentiated, map_members, tensors_in
from burnpy.autodiff.tools.user_values import TensorSpec, lowered_tensor, parts_of, results_of, spec_of, spec_of_tensor
from burnpy.backend.primitives import INEXACT
from burnpy.batching.batch_methods import BatchedValue
from burnpy.batching.batched import Batched
from burnpy.tensor.levels import UseCount, levels_between, raised, working_on
from burnpy.tensor.operand_checks import together
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of


def differentiated_beneath(device: Any, arguments: Sequence[object]) -> bool:
    """Return whether ``device`` is a level of `vmap`, and a device beneath it differentiates an argument."""
    return (
        device is not None
        and device.lifts_discrete
        and any(isinstance(x, TensorBase) and x.kind in INEXACT and is_differentiated(x) for x in arguments)
    )


class Batch:
    """One call of user code on a level of `vmap`, as a call on the device beneath.

    Args:
        level: the level.
        arguments: the arguments of the code, tensors on the level and plain values.
    """

    def __init__(self, level: Any, arguments: Sequence[Any]) -> None:
        self.level = level
        self.inner: list[Any] = []  #: the arguments on the device beneath, those that differ with the batch first
        self.differ: list[bool] = []  #: whether each argument differs between the examples
        for x in arguments:
            own = level.own(x._primitive) if isinstance(x, TensorBase) else None
            self.inner.append(x if own is None else new_tensor(type(x), _inner_of(level, x), own.value))
            self.differ.append(own is not None and own.batched)

    @contextmanager
    def reopened(self, device: Any) -> Generator[Any, None, None]:
        """Return a context manager with a level like the call's on another device, for rules that run later."""
        level: Any = new_level(Batched, device, self.level.api)
        level.size, level.randomness, level.draws = self.level.size, self.level.randomness, self.level.draws
        level.uses = UseCount(Batched, Batched)
        yield level

    def single(self, level: Any, x: Any, differs: bool) -> Any:
        """Return an argument of user code on a level, from one with the batch first if it differs."""
        if not isinstance(x, TensorBase):
            return x
        return new_tensor(type(x), level, BatchedValue(level, x._primitive, differs))

    def examples(self, level: Any, inner: Sequence[Any]) -> list[Any]:
        """Return the arguments of user code on a level."""
        return [self.single(level, x, differs) for x, differs in zip(inner, self.differ, strict=True)]

    def whole(self, level: Any, x: Any) -> Any:
        """Return a tensor of user code on the device beneath a level, with the batch first."""
        return new_tensor(type(x), _inner_of(level, x), level.spread(level.own(x._primitive)))

    def called(self, level: Any, code: Callable[..., Any], *args: Any) -> Any:
        """Return what user code on a level returns, its tensors on the device beneath with the batch first."""
        with working_on(level):
            return map_members(TensorBase, lambda x: self.whole(level, x), code(*args))

    def summed(self, parts: Sequence[Any], level: Any) -> tuple[Any, ...]:
        """Return the gradients of the arguments on the device beneath, added for those that all examples share."""
        gradients: list[Any] = []
        for part, differs in zip(parts, self.differ, strict=True):
            if part is None:
                gradients.append(None)
                continue
            each: Any = tensor_of(level.inner, level.spread(level.own(part)))
            gradients.append(each if differs else each.sum(0))
        return tuple(gradients)

    def on_level(self, returned: Any) -> tuple[Any, ...]:
        """Return results with the batch first as tensors on the call's level."""
        return tuple([self.single(self.level, x, True) for x in _members(returned)])


def _inner_of(level: Any, x: Any) -> Any:
    return level.inner if x.kind in INEXACT else level.inner.discrete


def device_under(arguments: Sequence[Any]) -> Any:
    """Return the common device of the tensors among the arguments."""
    return together("vmap", *[x for x in arguments if isinstance(x, TensorBase)])[0]._device


class BatchedCall(Batch):
    """One call of a `Function`: what forward() returned and kept, for the levels above the batch and for its rule."""

    context: Context
    returned: Any  #: the results of forward(), which show their grouping
    saved: tuple[tuple[int, int], ...]  #: the location of each saved tensor, see `source_of`
    constants: list[Any]  #: saved tensors that are neither arguments nor results, None for others; with the batch first
    kept: list[TensorSpec | None]  #: the class, shape and dtype of each saved tensor for one example
    differentiable: tuple[bool, ...]  #: for each result
    lost: str | None = None  #: what forward() did that loses second derivatives

    def forward(self, function: type[FunctionBase], ctx: Context, inner: Sequence[Any]) -> tuple[Any, ...]:
        """Call the method of that name for all examples; ``ctx`` is the context on the device beneath."""
        with self.reopened(device_under(inner)) as level:
            name, arguments = function.__name__, self.examples(level, inner)
            self.context = Context(name, "forward", ctx.needs_input_grad[1:], level)
            who = f"{name}.forward()"
            self.returned = call_user_code(who, TAKES["forward"], function.forward, level, self.context, *arguments)
            outs = results_of(who, self.returned, level)
            saved = self.context._saved or ()
            self.saved = tuple([source_of(x, c, arguments, outs) for c, x in enumerate(saved)])
            self.kept = [spec_of(x) for x in saved]
            whole = tuple([self.whole(level, out) for out in outs])
            self.constants = [
                self.whole(level, x) if pool == 2 and x is not None else None
                for x, (pool, _) in zip(saved, self.saved, strict=True)
            ]
            self.differentiable = differentiable_flags(name, outs, self.context._marked)
            if any(x is not None and x.kind in INEXACT and is_differentiated(x) for x in self.constants):
                self.lost = SAVED_INTERMEDIATE
        ctx.save_for_backward(
            *[
                (inner, whole, self.constants)[pool][place] if pool < 2 else self.constants[c]
                for c, (pool, place) in enumerate(self.saved)
            ]
        )
        marked = [x for x, flag in zip(whole, self.differentiable, strict=True) if not flag and x.kind in INEXACT]
        if marked:
            ctx.mark_non_differentiable(*marked)
        ctx.set_materialize_grads(self.context._materialize)
        return whole

    def rule(self, function: type[FunctionBase], method: str, ctx: Context, incoming: Sequence[Any]) -> Any:
        """Run backward() or jvp() for all examples, and return its results with the batch first, gradients summed."""
        kept: tuple[Any, ...] = ctx.saved_tensors
        present = [x for x in (*incoming, *kept) if x is not None]
        with self.reopened(device_under(present)) as level:
            saved = [
                None if x is None else self.single(level, x, pool > 0 or self.differ[place])._primitive
                for x, (pool, place) in zip(kept, self.saved, strict=True)
            ]
            differ = [True] * len(incoming) if method == "backward" else self.differ
            given = [
                None if x is None else self.single(level, x, flag) for x, flag in zip(incoming, differ, strict=True)
            ]
            own = Context(function.__name__, method, ctx.needs_input_grad[1:], level, (level, self.kept, saved))
            own.__dict__ = self.context.__dict__
            who = f"{function.__name__}.{method}()"
            returned = call_user_code(who, TAKES[method], getattr(function, method), level, own, *given)
            own._close()
            if method == "backward":
                specs = [spec_of(x) for x in self.examples(level, self.inner)]
                return None, *self.summed(parts_of(who, "gradient", returned, specs, level), level)
            outs = [spec_of_tensor(x) for x in results_of(who, self.returned, self.returned_device)]
            parts = parts_of(who, "tangent", returned, outs, level)
            return tuple([None if p is None else self.whole(level, tensor_of(level, p)) for p in parts])

    def constants_on_level(self) -> list[Any]:
        """Return the saved tensors that are constants on the call's level."""
        inner = self.level.inner
        return [x if x is None else self.single(self.level, _brought(x, inner), True) for x in self.constants]

    @property
    def returned_device(self) -> Any:
        """The level on which forward() returned its results."""
        return next(x._device for x in _members(self.returned))


def _brought(x: Any, device: Any) -> Any:
    """Return the value of a tensor, which a level under ``device`` may follow, as a constant on ``device``."""
    while x._device.differentiates and levels_between(device, x._device) is None:
        x = lowered_tensor(x, x._device)
    return raised(x, device)


def _members(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def batched_function(function: type[FunctionBase]) -> type[FunctionBase]:
    """Return the Function of batches whose first argument is a `BatchedCall`; made once for a class."""
    known: Any = vars(function).get("_batched")
    if known is not None:
        return known  # type: ignore[no-any-return]  # set below

    def forward(ctx: Context, call: BatchedCall, *inner: Any) -> Any:
        return call_forward(ctx, call, inner)

    def call_forward(ctx: Context, call: BatchedCall, inner: Sequence[Any]) -> Any:
        ctx.call = call
        return call.forward(function, ctx, inner)

    def backward(ctx: Context, *grads: Any) -> Any:
        return ctx.call.rule(function, "backward", ctx, grads)

    def jvp(ctx: Context, call: Any, *tangents: Any) -> Any:
        return ctx.call.rule(function, "jvp", ctx, tangents)

    if hasattr(function.backward, ONCE):
        setattr(backward, ONCE, True)
    methods: dict[str, Callable[..., Any]] = {"forward": forward, "backward": backward, "jvp": jvp}
    members = {name: staticmethod(f) for name, f in methods.items() if function.defines(name)}
    made = type(function.__name__, (FunctionBase,), {**members, "_kind": function._kind})
    function._batched = made  # type: ignore[attr-defined]  # read above
    return made


def batched_code(batch: Batch, code: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the arguments of a batch that calls user code of single examples."""

    def whole_code(*inner: Any) -> Any:
        with batch.reopened(device_under(inner)) as level:
            return batch.called(level, code, *batch.examples(level, inner))

    return whole_code


def batched_bwd(batch: Batch, who: str, bwd: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the backward rule of `custom_vjp` for a batch: gradients of shared arguments are added."""

    def whole_bwd(residuals: Any, grads: Any) -> Any:
        with batch.reopened(device_under([*tensors_in((residuals, grads))])) as level:
            one = lambda x: batch.single(level, x, True)  # noqa: E731
            returned = bwd(map_members(TensorBase, one, residuals), map_members(TensorBase, one, grads))
            specs = [spec_of(x) for x in batch.examples(level, batch.inner)]
            return batch.summed(parts_of(f"the bwd of {who}()", "gradient", returned, specs, level), level)

    return whole_bwd


def batched_jvp(batch: Batch, jvp: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the rule of `custom_jvp` for a batch."""

    def whole_jvp(primals: Any, tangents: Any) -> Any:
        with batch.reopened(device_under([*tensors_in((primals, tangents))])) as level:
            examples = [tuple(batch.examples(level, xs)) for xs in (primals, tangents)]
            return batch.called(level, jvp, *examples)

    return whole_jvp
