"""A `cond` inside of a compiled function: one operation of the recording, and another for its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.autodiff.forward import Forward
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.backend.decorators.recorded import Traced
from burnpy.backend.errors import RecordingError
from burnpy.backend.plans.blocks import Choice
from burnpy.backend.plans.graph import part
from burnpy.backend.plans.recording import Ref
from burnpy.func.control_flow.nested_calls import (
    Entered,
    Left,
    NestedCall,
    UnsupportedLevelsError,
    beneath,
    gradients_beneath,
    kept_on,
    outputs_on,
    recorder_of,
    tangent_of,
)
from burnpy.func.derivative_levels import base_for
from burnpy.func.pytree import Structure
from burnpy.tensor.levels import lifted_to, raised

_KIND = opaque_class("cond")
_SEVERAL = (
    "a compiled function differentiates cond() on several levels, as second derivatives do; choose between values with "
    "burnpy.where()"
)


def recorded_cond(
    predicate: Any, branches: Sequence[Callable[..., list[Any]]], operands: list[Any], structure: Structure
) -> list[Any]:
    """Record both branches of a `cond` as one operation, and return the leaves of its result.

    Args:
        predicate: the bool that chooses.
        branches: the functions of the operands, which return the leaves of their results, of the same shapes.
        operands: the leaves of the operands.
        structure: their structure.

    Raises:
        RecordingError: it is differentiated on several levels, or in reverse with a branch that draws random numbers.
    """
    device = base_for("cond", (predicate, *operands))
    operands = [raised(x, device) for x in operands]
    try:
        sides = [_Side(f, device, operands, structure) for f in branches]
    except UnsupportedLevelsError:
        raise RecordingError(_SEVERAL) from None
    levels = {side.call.level for side in sides} - {None}
    if len(levels) > 1:
        raise RecordingError(_SEVERAL)
    level = next(iter(levels), None)
    chosen = predicate._primitive
    if level is None:
        return outputs_on(device, _choose(sides, chosen, [side.outputs() for side in sides]), sides[0].left)
    return (_pushed if isinstance(level, Forward) else _tracked)(device, level, sides, chosen)


class _Side:
    """A recorded branch."""

    def __init__(self, f: Callable[..., list[Any]], device: Any, operands: list[Any], structure: Structure) -> None:
        call = self.call = NestedCall(device)
        inside = [call.tensor(x) for x in operands]
        self.entered = list(call.entered)
        self.left: list[Left] = call.call(f, structure.unflatten(inside))
        self.forward = list(call.recorder.recording.nodes)

    def outputs(self) -> list[Ref]:
        """Return the values of the results."""
        return [out.ref for out in self.left]

    def recording(self, outputs: list[Ref], inputs: Sequence[Ref] = ()) -> Any:
        """Return the recording with the captured values and the operands as inputs, and further ones."""
        recorder = self.call.recorder
        given = [own.ref for own in recorder.captured] + [e.inside.ref for e in self.entered]
        given += [tangent_of(e).ref for e in self.entered if e.tangent is not None]
        return part(recorder.recording, recorder.recording.nodes, [*given, *inputs], outputs)

    def values(self) -> list[Traced]:
        """Return the values outside of the operands, as the recording takes them."""
        values = [e.outside for e in self.entered]
        return values + [e.tangent_outside for e in self.entered if e.tangent_outside is not None]


def _choose(
    sides: Sequence[_Side], chosen: Traced, outputs: Sequence[list[Ref]], extra: Sequence[Any] = (), given: Any = ()
) -> list[Traced]:
    """Record the choice; ``given`` are further inputs of each side, and ``extra`` their values."""
    one, two = sides
    recordings = [
        side.recording(outs, given[k] if given else ())
        for k, (side, outs) in enumerate(zip(sides, outputs, strict=True))
    ]
    common = [*one.values(), *extra]
    choice = Choice(recordings[0], recordings[1], len(common))
    values = (chosen, *one.call.recorder.captures, *two.call.recorder.captures, *common)
    return list(one.call.outer.nested(choice, values))


def _pushed(device: Any, level: Any, sides: Sequence[_Side], chosen: Traced) -> list[Any]:
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


def _tracked(device: Any, level: Any, sides: Sequence[_Side], chosen: Traced) -> list[Any]:
    """Record the branches, and a node whose gradient runs the chosen one again; return the results on the device."""
    if any(node.draws for side in sides for node in side.forward):
        raise RecordingError(
            "a compiled function differentiates cond() with a branch that draws random numbers; draw them before, and "
            "pass them as operands"
        )
    results = _choose(sides, chosen, [side.outputs() for side in sides])
    places = [k for k in range(len(results)) if any(side.left[k].root is not None for side in sides)]
    if not places:
        return outputs_on(device, results, sides[0].left)
    specs = [(out.ref.shape, out.ref.dtype) for out in (sides[0].left[k] for k in places)]
    common = [k for k, e in enumerate(sides[0].entered) if e.leaf is not None]
    own = [[e for e in side.call.entered[len(side.entered) :] if e.leaf is not None] for side in sides]
    grads: list[list[Ref]] = []
    inputs: list[list[Ref]] = []
    for number, side in enumerate(sides):
        call = side.call
        inside = call.inside(level)
        cotangents = [call.recorder.input(call.recorder.inner.full(tuple(s), 1.0, d)) for s, d in specs]
        roots = [side.left[k].root for k in places]
        seeds = [
            (root, lifted_to(inside.inner, grad))
            for root, grad in zip(roots, cotangents, strict=True)
            if root is not None
        ]
        by_leaf = inside.gradients(seeds, retain_graph=False)

        def gradient(e: Entered, side: _Side = side, found: Any = by_leaf, inner: Any = inside.inner) -> Ref:
            if e.leaf not in found:
                return side.call.zeros(e.inside)
            return side.call.ref(side.call.lowered(inner, found[e.leaf]))

        outputs = [gradient(side.entered[k]) for k in common]
        for which, group in enumerate(own):
            outputs += [gradient(e) if which == number else side.call.zeros(e.inside) for e in group]
        grads.append(outputs)
        inputs.append([x.ref for x in cotangents])
    one, two = sides
    recordings = [side.recording(grads[k], inputs[k]) for k, side in enumerate(sides)]
    values = [chosen, *one.call.recorder.captures, *two.call.recorder.captures, *one.values()]
    block = Choice(recordings[0], recordings[1], len(one.values()) + len(places))
    parents = [e.node for e in (*[one.entered[k] for k in common], *own[0], *own[1])]
    floats = [lifted_to(level.inner, results[k]) for k in places]
    recorded = record_outputs(level, _KIND, floats, parents, _vjp, (block, specs, *kept_on(level, values)))
    return outputs_on(device, results, sides[0].left, level, dict(zip(places, recorded, strict=True)))


def _vjp(inner: Any, grads: Sequence[Any], block: Choice, specs: Any, *kept: Any) -> tuple[Any, ...]:
    """Run the gradient of the chosen branch."""
    values = (*[beneath(inner, x, "cond") for x in kept], *gradients_beneath(inner, grads, specs, "cond"))
    return tuple([lifted_to(inner, x) for x in recorder_of(inner).nested(block, values)])
