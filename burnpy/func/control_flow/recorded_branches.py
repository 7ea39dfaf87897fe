"""`cond` and `while_loop` in a recording: branches and bodies recorded as plans of their own, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.forward import Forward
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.backend.errors import RecordingError
from burnpy.backend.plans.blocks import Choice, WhileGradient, WhileLoop
from burnpy.backend.plans.recording import Ref, Traced, part
from burnpy.backend.primitives import INEXACT
from burnpy.func.control_flow.nested_calls import (
    Left,
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
from burnpy.func.pytree import Structure
from burnpy.func.user_functions import base_for
from burnpy.tensor.levels import lifted_to, raised

_KIND = opaque_class("cond")


def recorded_cond(
    predicate: Any, branches: Sequence[Callable[..., list[Any]]], operands: list[Any], structure: Structure
) -> list[Any] | None:
    """Record both branches of a `cond` as one operation, and return the leaves of its result.

    Return None if several levels differentiate it, so that both branches must be computed.

    Args:
        predicate: the bool that chooses.
        branches: the functions of the operands, which return the leaves of their results, of the same shapes.
        operands: the leaves of the operands.
        structure: their structure.
    """
    device = base_for("cond", (predicate, *operands))
    operands = [raised(x, device) for x in operands]
    try:
        sides = [_Side(f, device, operands, structure) for f in branches]
    except UnsupportedLevelsError:
        return None
    levels = {side.call.level for side in sides} - {None}
    if len(levels) > 1:
        return None
    level = next(iter(levels), None)
    chosen = predicate._primitive
    if level is None:
        return outputs_on(device, _choose(sides, chosen, [side.outputs() for side in sides]), sides[0].left)
    record = _record_with_tangents if isinstance(level, Forward) else _record_with_gradient
    return record(device, level, sides, chosen)


def refuse_draws(nodes: Sequence[Any]) -> None:
    """Check that the nodes of a branch draw no random numbers: a gradient runs it again, or runs both branches."""
    if any(node.draws for node in nodes):
        raise RecordingError(
            "a compiled function differentiates cond() with a branch that draws random numbers; draw them before, and "
            "pass them as operands"
        )


class _Gradients(NamedTuple):
    """The recorded backward pass of a branch."""

    cotangents: list[Ref]
    operands: dict[int, Ref]  #: the gradients of operands, by number
    captured: dict[Any, Ref]  #: the gradients of captured values, by node outside


class _Side:
    """A recorded branch."""

    def __init__(self, f: Callable[..., list[Any]], device: Any, operands: list[Any], structure: Structure) -> None:
        call = self.call = NestedCall(device)
        inside = [call.tensor(x) for x in operands]
        self.entered = list(call.entered)
        with call.recorder.branch():
            self.left: list[Left] = call.call(f, structure.unflatten(inside))
        self.forward = list(call.recorder.recording.nodes)

    def outputs(self) -> list[Ref]:
        return [out.ref for out in self.left]

    def recording(self, outputs: list[Ref], inputs: Sequence[Ref] = ()) -> Any:
        """Return the recording with the captured values and the operands as inputs, and further ones."""
        recorder = self.call.recorder
        given = [own.ref for own in recorder.captured] + [e.inside.ref for e in self.entered]
        given += [tangent_of(e).ref for e in self.entered if e.tangent is not None]
        return part(recorder.recording, recorder.recording.nodes, [*given, *inputs], outputs)

    def gradients(self, level: Any, places: Sequence[int]) -> _Gradients:
        """Record the backward pass of the branch, from cotangents of the results at ``places``."""
        call, inside = self.call, self.call.inside(level)
        with call.recorder.branch():
            cotangents = [call.cotangent(self.left[k].ref) for k in places]
            seeds = [
                (root, lifted_to(inside.inner, grad))
                for root, grad in zip([self.left[k].root for k in places], cotangents, strict=True)
                if root is not None
            ]
            by_leaf = inside.gradients(seeds, retain_graph=False)
            operands = {
                k: call.ref(call.lowered(inside.inner, by_leaf[e.leaf]))
                for k, e in enumerate(self.entered)
                if e.leaf in by_leaf
            }
            found = call.captured_gradients(level, by_leaf, len(self.entered))
            captured = {node: call.ref(gradient) for node, gradient in found.items()}
        return _Gradients([x.ref for x in cotangents], operands, captured)

    def values(self) -> list[Traced]:
        """Return the values outside of the operands, as the recording takes them."""
        values = [e.outside for e in self.entered]
        return values + [e.tangent_outside for e in self.entered if e.tangent_outside is not None]


def _choose(sides: Sequence[_Side], chosen: Traced, outputs: Sequence[list[Ref]]) -> list[Traced]:
    """Record the choice between two branches, and return its results."""
    one, two = sides
    common = one.values()
    choice = Choice(one.recording(outputs[0]), two.recording(outputs[1]), len(common))
    values = (chosen, *one.call.recorder.captures, *two.call.recorder.captures, *common)
    return list(one.call.outer.nested(choice, values))


def _record_with_tangents(device: Any, level: Any, sides: Sequence[_Side], chosen: Traced) -> list[Any]:
    """Record the branches with their tangents, and return the results on the device."""
    places = [k for k in range(len(sides[0].left)) if any(side.left[k].tangent is not None for side in sides)]
    outputs = [
        [*side.outputs(), *[side.left[k].tangent or side.call.zeros(side.left[k].ref) for k in places]]
        for side in sides
    ]
    results = _choose(sides, chosen, outputs)
    count = len(sides[0].left)
    tangents = {k: lifted_to(level.inner, t) for k, t in zip(places, results[count:], strict=True)}
    return outputs_on(device, results[:count], sides[0].left, level, tangents)


def _record_with_gradient(device: Any, level: Any, sides: Sequence[_Side], chosen: Traced) -> list[Any]:
    """Record the branches, and a node whose gradient runs the chosen one again; return the results on the device."""
    for side in sides:
        refuse_draws(side.forward)
    one = sides[0]
    results = _choose(sides, chosen, [side.outputs() for side in sides])
    places = [k for k in range(len(results)) if any(side.left[k].root is not None for side in sides)]
    if not places:
        return outputs_on(device, results, one.left)
    active = [k for k, e in enumerate(one.entered) if e.leaf is not None]
    block, captured = _gradient_choice(sides, level, places, active)
    values = [chosen, *[x for side in sides for x in side.call.recorder.captures], *one.values()]
    specs = [(out.ref.shape, out.ref.dtype) for out in (one.left[k] for k in places)]
    parents = [*[one.entered[k].node for k in active], *captured]
    floats = [lifted_to(level.inner, results[k]) for k in places]
    recorded = record_outputs(level, _KIND, floats, parents, _vjp, (block, specs, *kept_on(level, values)))
    return outputs_on(device, results, one.left, level, dict(zip(places, recorded, strict=True)))


def _gradient_choice(
    sides: Sequence[_Side], level: Any, places: Sequence[int], active: Sequence[int]
) -> tuple[Choice, list[Any]]:
    """Return the choice between the gradients of the branches, and the nodes of the values that they capture. Both
    return the gradients of the ``active`` operands and of all captured values, zeros for those they do not use."""
    gradients = [side.gradients(level, places) for side in sides]
    recordings = []
    for side, own in zip(sides, gradients, strict=True):
        outputs = [own.operands.get(k) or side.call.zeros(side.entered[k].inside) for k in active]
        for each in gradients:
            outputs += [x if each is own else side.call.zeros(x) for x in each.captured.values()]
        recordings.append(side.recording(outputs, own.cotangents))
    choice = Choice(recordings[0], recordings[1], len(sides[0].values()) + len(places))
    return choice, [node for each in gradients for node in each.captured]


def _vjp(inner: Any, grads: Sequence[Any], block: Choice, specs: Any, *kept: Any) -> tuple[Any, ...]:
    """Run the gradient of the chosen branch."""
    values = (*[beneath(inner, x, "cond") for x in kept], *gradients_beneath(inner, grads, specs, "cond"))
    return tuple([lifted_to(inner, x) for x in recorder_of(inner).nested(block, values)])


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
    """The condition and one step of a `while_loop`, recorded; the arguments are those of `scan`'s steps."""

    def __init__(self, device: Any, condition: Any, step: Any, state: list[Any], forced: set[int], level: Any) -> None:
        self.device = device
        call = self.call = NestedCall(device, level)
        inside = [call.tensor(x, forced=k in forced and x.kind in INEXACT) for k, x in enumerate(state)]
        self.entered = list(call.entered)
        self.tested = 0  #: the number of the condition's nodes, the first ones

        def flat(*leaves: Any) -> list[Any]:
            answer = condition(list(leaves))
            self.tested = len(call.recorder.recording.nodes)
            with call.recorder.branch():  # which may never run
                return [answer, *step(list(leaves))]

        self.answer, *self.carry = call.call(flat, inside)

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
        return WhileLoop(step, len(outputs), self.tested), values

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
        recorder = self.call.recorder
        if any(node.draws for node in recorder.recording.nodes):
            raise RecordingError(
                "a compiled function differentiates while_loop() with steps that draw random numbers; draw them before"
            )
        block, given = self.block()
        results = self.run(block, given)
        active = [k for k, e in enumerate(self.entered) if e.leaf is not None]
        cotangents, gradients, captured = self._step_gradient(level, active)
        inputs = [x.ref for x in (*recorder.captured, *cotangents)] + [e.inside.ref for e in self.entered]
        step_gradient = part(recorder.recording, recorder.recording.nodes, inputs, gradients)
        fixed = given[: len(given) - len(self.entered)]
        values = [*fixed, *recorder.captures, *[e.outside for e in self.entered]]
        nodes = [*[self.entered[k].node for k in active], *captured]
        rule = _Rule(
            WhileGradient(block, step_gradient, len(cotangents)),
            [(x.shape, x.dtype) for x in cotangents],
            len(active),
            [node is not None for node in nodes],
        )
        floats = [lifted_to(level.inner, results[k]) for k in active]
        parents = [node for node in nodes if node is not None]
        recorded = record_outputs(level, _LOOP_KIND, floats, parents, _loop_vjp, (rule, *kept_on(level, values)))
        return outputs_on(self.device, results, self.carry, level, dict(zip(active, recorded, strict=True)))

    def _step_gradient(self, level: Any, active: Sequence[int]) -> tuple[list[Traced], list[Ref], list[Any]]:
        """Record the backward pass of one step.

        Returns its cotangents: of the carried values that are tracked, and the sums so far of the gradients of captured
        values; the gradients before the step and the new sums; and the nodes outside of the captured values.
        """
        call, inside = self.call, self.call.inside(level)
        cotangents = [call.cotangent(self.entered[k].inside) for k in active]
        gradients: list[Ref] = []
        with call.recorder.branch():
            seeds = [
                (self.carry[k].root, lifted_to(inside.inner, cotangent))
                for k, cotangent in zip(active, cotangents, strict=True)
                if self.carry[k].root is not None
            ]
            by_leaf = inside.gradients(seeds, retain_graph=False)
            for e in (self.entered[k] for k in active):
                found = by_leaf.get(e.leaf)
                gradients.append(call.zeros(e.inside) if found is None else call.ref(call.lowered(inside.inner, found)))
            captured = call.captured_gradients(level, by_leaf, len(self.entered))
        for gradient in captured.values():
            cotangents.append(total := call.cotangent(gradient))
            gradients.append(call.recorder.add(total, gradient).ref)
        return cotangents, gradients, list(captured)


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
