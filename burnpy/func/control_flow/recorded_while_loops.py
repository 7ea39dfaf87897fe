"""A `while_loop` inside of a compiled function: one operation of the recording, and another for its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.forward import Forward
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.backend.errors import RecordingError
from burnpy.backend.plans.blocks import WhileGradient, WhileLoop
from burnpy.backend.plans.graph import part
from burnpy.backend.plans.recording import Ref
from burnpy.func.control_flow.nested_calls import (
    NestedCall,
    UnsupportedLevelsError,
    beneath,
    gradients_beneath,
    kept_on,
    outputs_on,
    recorder_of,
    settled,
    tangent_of,
)
from burnpy.func.derivative_levels import base_for
from burnpy.tensor.levels import lifted_to, raised

_LOOP_KIND = opaque_class("while_loop")
_SEVERAL_LOOPS = (
    "a compiled function differentiates while_loop() on several levels, the innermost in reverse, as in "
    "func.hessian(f), or inside of vmap(); use func.hessian(f, mode='forward-over-forward'), or differentiate the sum "
    "of vmap(f)"
)


def recorded_while(condition: Callable[..., Any], step: Callable[..., list[Any]], state: list[Any]) -> list[Any]:
    """Record a `while_loop` as one operation, and return the leaves of the last state.

    Args:
        condition: the function of the leaves that returns a bool.
        step: the function of the leaves that returns those of the new state.
        state: the leaves of the first state.

    Raises:
        RecordingError: it is differentiated on several levels, or in reverse with steps that draw random numbers.
    """
    device = base_for("while_loop", state)
    state = [raised(x, device) for x in state]
    try:
        loop = settled(lambda forced, level: _Repeated(device, condition, step, state, forced, level))
    except UnsupportedLevelsError:
        raise RecordingError(_SEVERAL_LOOPS) from None
    level = loop.call.level
    if isinstance(level, Forward):
        return loop.pushed(level)
    if any(out.root is not None for out in loop.carry):
        return loop.tracked(level)
    return outputs_on(device, loop.run(*loop.block()), loop.carry)


class _Repeated:
    """The condition and one step of a `while_loop`, recorded; the arguments are as of `scan`'s steps."""

    def __init__(self, device: Any, condition: Any, step: Any, state: list[Any], forced: set[int], level: Any) -> None:
        self.device = device
        call = self.call = NestedCall(device, level)
        inside = [call.tensor(x, forced=k in forced and x.kind == "float") for k, x in enumerate(state)]
        self.entered = list(call.entered)
        *self.carry, self.answer = call.call(lambda *xs: [*step(list(xs)), condition(list(xs))], inside)

    def block(self, with_tangent: Sequence[int] = ()) -> tuple[WhileLoop, list[Any]]:
        """Return the loop, with the tangents of some leaves, and the values that it takes."""
        recorder, entered = self.call.recorder, self.entered
        outputs = [out.ref for out in self.carry]
        outputs += [self.carry[k].tangent or self.call.zeros(entered[k].inside) for k in with_tangent]
        inputs = [own.ref for own in recorder.captured] + [e.inside.ref for e in entered]
        inputs += [tangent_of(entered[k]).ref for k in with_tangent]
        step = part(recorder.recording, recorder.recording.nodes, inputs, [*outputs, self.answer.ref])
        values = [*recorder.captures, *[e.outside for e in entered]]
        values += [entered[k].tangent_outside for k in with_tangent]
        return WhileLoop(step, len(outputs)), values

    def run(self, block: WhileLoop, values: Sequence[Any]) -> list[Any]:
        """Record the loop, and return the values after the last step."""
        return list(self.call.outer.nested(block, tuple(values)))

    def pushed(self, level: Any) -> list[Any]:
        """Record the loop with tangents, and return its results."""
        with_tangent = [k for k, e in enumerate(self.entered) if e.tangent is not None]
        results = self.run(*self.block(with_tangent))
        count = len(self.carry)
        tangents = {k: lifted_to(level.inner, t) for k, t in zip(with_tangent, results[count:], strict=True)}
        return outputs_on(self.device, results[:count], self.carry, level, tangents)

    def tracked(self, level: Any) -> list[Any]:
        """Record the loop, and a node whose gradient runs it again; return its results."""
        call, recorder = self.call, self.call.recorder
        whole, own = recorder.recording, call.inside(level)
        if any(node.draws for node in whole.nodes):
            raise RecordingError(
                "a compiled function differentiates while_loop() with steps that draw random numbers; draw them before"
            )
        block, given = self.block()
        results = self.run(block, given)
        active = [k for k, e in enumerate(self.entered) if e.leaf is not None]
        captured = [e for e in call.entered[len(self.entered) :] if e.leaf is not None]
        entries = [*[self.entered[k] for k in active], *captured]
        grads = [recorder.input(recorder.inner.full(e.inside.shape, 1.0, e.inside.dtype)) for e in entries]
        seeds = [
            (self.carry[k].root, lifted_to(own.inner, grad))
            for k, grad in zip(active, grads, strict=False)
            if self.carry[k].root is not None
        ]
        by_leaf = own.gradients(seeds, retain_graph=False)
        outputs: list[Ref] = []
        for position, (e, total) in enumerate(zip(entries, grads, strict=True)):
            found = call.lowered(own.inner, by_leaf[e.leaf]) if e.leaf in by_leaf else None
            if position >= len(active):
                found = total if found is None else recorder.add(total, found)
            outputs.append(call.zeros(e.inside) if found is None else call.ref(found))
        inputs = [x.ref for x in (*recorder.captured, *grads)] + [e.inside.ref for e in self.entered]
        gradient = WhileGradient(block, part(whole, whole.nodes, inputs, outputs), len(entries))
        fixed = given[: len(given) - len(self.entered)]
        values = [*fixed, *recorder.captures, *[e.outside for e in self.entered]]
        parents = [e.node for e in entries if e.node is not None]
        specs = [(e.inside.shape, e.inside.dtype) for e in entries]
        rule = _Rule(gradient, specs, len(active), [e.node is not None for e in entries])
        floats = [lifted_to(level.inner, results[k]) for k in active]
        recorded = record_outputs(level, _LOOP_KIND, floats, parents, _loop_vjp, (rule, *kept_on(level, values)))
        return outputs_on(self.device, results, self.carry, level, dict(zip(active, recorded, strict=True)))


class _Rule(NamedTuple):
    """The gradient of a while_loop, and what it takes and returns."""

    block: WhileGradient
    specs: list[Any]  #: the shapes and dtypes of the gradients of carried values, and of the sums
    carried: int  #: how many of them are of carried values
    needs: list[bool]  #: which of the results are gradients of tracked values


def _loop_vjp(inner: Any, grads: Sequence[Any], rule: _Rule, *kept: Any) -> tuple[Any, ...]:
    """Run the loop again, and the gradient of its steps."""
    sums = [None] * (len(rule.specs) - rule.carried)
    given = gradients_beneath(inner, [*grads, *sums], rule.specs, "while_loop")
    results = recorder_of(inner).nested(rule.block, (*[beneath(inner, x, "while_loop") for x in kept], *given))
    return tuple([lifted_to(inner, x) for x, needed in zip(results, rule.needs, strict=True) if needed])
