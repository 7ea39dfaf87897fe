"""A `scan` inside of a compiled function: one operation of the recording, and another for its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.forward import Forward
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.backend.plans.blocks import Loop
from burnpy.backend.plans.recording import Ref, Traced, part, split
from burnpy.backend.primitives import INEXACT
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
    settled,
    tangent_of,
    uses_of,
)
from burnpy.func.user_functions import base_for
from burnpy.tensor.levels import lifted_to, raised
from burnpy.tensor.tensor_base import TensorBase

_KIND = opaque_class("scan")


def is_recorded(tensors: Sequence[TensorBase[Any]]) -> bool:
    """Return whether a loop over some tensors is inside of a compiled function."""
    return recorder_of(base_for("scan", tensors)) is not None


def recorded_scan(
    body: Any, carry: list[Any], xs: list[Any], length: int, reverse: bool, again: bool
) -> tuple[list[Any], list[Any]] | None:
    """Record a scan as one operation; return the leaves of the last carry and of the stacked results.

    Return None if several levels differentiate it, so that its steps must be recorded one by one.

    Args:
        body: takes the leaves of a carry and of a slice, and returns those of the new carry and of the result.
        carry: the leaves of the first carry.
        xs: the leaves with the slices.
        length: the number of steps.
        reverse: whether to begin with the last slice.
        again: whether the gradient computes all again, and saves nothing but the carry before each step.
    """
    device = base_for("scan", (*carry, *xs))
    operands = [raised(x, device) for x in (*carry, *xs)]
    try:
        step = settled(lambda forced, level: _Step(body, device, operands, len(carry), forced, level))
        return step.loop(length, reverse, again)
    except UnsupportedLevelsError:
        return None


class _Step:
    """One step of a scan, recorded. ``operands`` are the leaves of the carry, as many as ``carried``, and then those
    with slices. ``forced`` are the leaves of the carry that depend, after some steps, on what ``level`` differentiates
    by."""

    def __init__(self, body: Any, device: Any, operands: list[Any], carried: int, forced: set[int], level: Any) -> None:
        call = self.call = NestedCall(device, level)
        self.device, self.carried = device, carried
        inside = [
            call.tensor(x, sliced=k >= carried, forced=k in forced and x.kind in INEXACT)
            for k, x in enumerate(operands)
        ]
        self.entered = list(call.entered)

        def flat(*leaves: Any) -> list[Any]:
            new, y = body(list(leaves[:carried]), list(leaves[carried:]))
            return [*new, *y]

        self.left = call.call(flat, inside)
        self.forward = list(call.recorder.recording.nodes)

    @property
    def carry(self) -> list[Left]:
        """The leaves of the carry after the step."""
        return self.left[: self.carried]

    def loop(self, length: int, reverse: bool, again: bool) -> tuple[list[Any], list[Any]]:
        """Record the loop in the recording outside, and return the leaves of its results."""
        level = self.call.level
        if isinstance(level, Forward):
            tensors = self._pushed(level, length, reverse)
        elif any(out.root is not None for out in self.left):
            tensors = self._tracked(level, length, reverse, again)
        else:
            tensors = outputs_on(self.device, self._run(length, reverse), self.left)
        return tensors[: self.carried], tensors[self.carried :]

    def _run(self, length: int, reverse: bool, extra: Sequence[Ref] = ()) -> list[Traced]:
        """Record the loop, with further results to stack, and return its results."""
        recorder, carried = self.call.recorder, self.carried
        before, slices = self.entered[:carried], self.entered[carried:]
        carry_refs = [e.inside.ref for e in before]
        x_refs = [e.inside.ref for e in slices]
        new, ys = [out.ref for out in self.left[:carried]], [out.ref for out in self.left[carried:]]
        whole = recorder.recording
        captured = [own.ref for own in recorder.captured]
        body = part(whole, self.forward, [*captured, *carry_refs, *x_refs], [*new, *ys, *extra])
        loop = Loop(body, carried, len(slices), length, reverse)
        values = [*recorder.captures, *[e.outside for e in self.entered]]
        return list(self.call.outer.nested(loop, tuple(values)))

    def _pushed(self, level: Any, length: int, reverse: bool) -> list[Any]:
        """Record the loop with the tangents of everything, and return its results."""
        call, recorder = self.call, self.call.recorder
        before, slices = self._groups()
        new, ys = self.left[: self.carried], self.left[self.carried :]
        moved, moved_slices = ([e for e in group if e.tangent is not None] for group in (before, slices))
        carry_in = [*[e.inside.ref for e in before], *[tangent_of(e).ref for e in moved]]
        x_in = [*[e.inside.ref for e in slices], *[tangent_of(e).ref for e in moved_slices]]
        outputs = [
            *[out.ref for out in new],
            *[out.tangent or call.zeros(out.ref) for e, out in zip(before, new, strict=True) if e.tangent is not None],
            *[out.ref for out in ys],
            *[out.tangent for out in ys if out.tangent is not None],
        ]
        captured = [own.ref for own in recorder.captured]
        nodes = list(recorder.recording.nodes)  # with those of `zeros`
        body = part(recorder.recording, nodes, [*captured, *carry_in, *x_in], outputs)
        values = [*recorder.captures, *[e.outside for e in before], *[e.tangent_outside for e in moved]]
        values += [*[e.outside for e in slices], *[e.tangent_outside for e in moved_slices]]
        loop = Loop(body, len(carry_in), len(x_in), length, reverse)
        results = iter(call.outer.nested(loop, tuple(values)))
        primals, tangents = list[Any](), dict[int, Any]()
        groups: list[tuple[int, Sequence[Entered | Left]]] = [(0, before), (self.carried, ys)]
        for first, group in groups:
            primals += [next(results) for _ in group]
            tangents |= {k: next(results) for k, x in enumerate(group, first) if x.tangent is not None}
        on_level = {k: lifted_to(level.inner, t) for k, t in tangents.items()}
        return outputs_on(self.device, primals, self.left, level, on_level)

    def _groups(self) -> tuple[list[Entered], list[Entered]]:
        return self.entered[: self.carried], self.entered[self.carried :]

    def _tracked(self, level: Any, length: int, reverse: bool, again: bool) -> list[Any]:
        """Record the loop and its node on the level, and return its results."""
        tracked = self._tracked_values()
        given = self._cotangents(tracked)
        backward = self._backward(given, self._gradients(level, tracked, given), length, reverse, again)
        results = self._run(length, reverse, backward.stacked)
        constants = [*backward.fixed, *results[len(self.left) :], *[e.outside for e in backward.slices]]
        rule = _Rule(
            backward.loop,
            len(backward.fixed),
            [(e.inside.shape, e.inside.dtype) for e in tracked.carry],
            [(e.inside.shape, e.inside.dtype) for e in tracked.captured],
            [((length, *self.left[k].ref.shape), self.left[k].ref.dtype) for k in given.ys],
            [e.node is not None for e in tracked.all],
        )
        parents = [e.node for e in tracked.all if e.node is not None]
        differentiable = [k for k in range(len(self.left)) if k in given.ys or k in given.carry]
        floats = [lifted_to(level.inner, results[k]) for k in differentiable]
        recorded = record_outputs(level, _KIND, floats, parents, _vjp, (rule, *kept_on(level, constants)))
        outputs = dict(zip(differentiable, recorded, strict=True))
        return outputs_on(self.device, results[: len(self.left)], self.left, level, outputs)

    def _tracked_values(self) -> _TrackedValues:
        """Return the values for which the step has gradients."""
        before, slices = self._groups()
        captured = self.call.entered[len(self.entered) :]
        return _TrackedValues(*[[e for e in group if e.leaf is not None] for group in (before, captured, slices)])

    def _cotangents(self, tracked: _TrackedValues) -> _Cotangents:
        """Add the inputs of the gradient of the step to its recording."""
        cotangent = self.call.cotangent
        carry = {k: cotangent(e.inside) for k, e in enumerate(self.entered[: self.carried]) if e.leaf}
        ys = {
            k: cotangent(out.ref)
            for k, out in enumerate(self.left)
            if k >= self.carried and out.root is not None and out.root.node is not None
        }
        return _Cotangents(carry, ys, [cotangent(e.inside) for e in tracked.captured])

    def _gradients(self, level: Any, tracked: _TrackedValues, given: _Cotangents) -> list[Ref]:
        """Record the gradient of the step: by the carry, added to the sums, and by the slices."""
        call, recorder, own = self.call, self.call.recorder, self.call.inside(level)
        grads = {**given.carry, **given.ys}
        seeds = [
            (out.root, lifted_to(own.inner, grads[k]))
            for k, out in enumerate(self.left)
            if k in grads and out.root is not None
        ]
        by_leaf = own.gradients(seeds, retain_graph=False)

        def gradient(e: Entered) -> Traced:
            found = by_leaf.get(e.leaf)
            if found is None:
                return recorder.full(e.inside.shape, 0.0, e.inside.dtype)  # type: ignore[no-any-return]  # as declared
            return call.lowered(own.inner, found)  # type: ignore[no-any-return]  # as declared

        to_carry = [gradient(e) for e in tracked.carry]
        to_sums = [recorder.add(total, gradient(e)) for total, e in zip(given.sums, tracked.captured, strict=True)]
        return [call.ref(x) for x in (*to_carry, *to_sums, *[gradient(e) for e in tracked.slices])]

    def _backward(
        self, given: _Cotangents, outputs: Sequence[Ref], length: int, reverse: bool, again: bool
    ) -> _Backward:
        """Return the loop of the gradient, and the values that it needs of the loop and from outside."""
        recorder, whole = self.call.recorder, self.call.recorder.recording
        captured = [own.ref for own in recorder.captured]
        random = any(node.draws for node in self.forward)
        nodes = whole.nodes[len(self.forward) :]
        nodes, saved = split(self.forward, nodes, outputs, captured, whole.constants, again and not random)
        uses = uses_of(nodes, outputs)
        carry = [e.inside.ref for e in self.entered[: self.carried] if e.inside.ref.number in uses]
        slices = [e for e in self.entered[self.carried :] if e.inside.ref.number in uses]
        fixed = [
            (x, own) for x, own in zip(recorder.captures, recorder.captured, strict=True) if own.ref.number in uses
        ]
        inputs = [own.ref for _, own in fixed]
        inputs += [x.ref for x in (*given.carry.values(), *given.sums)] + carry + saved
        inputs += [e.inside.ref for e in slices] + [x.ref for x in given.ys.values()]
        taken = len(given.carry) + len(given.sums)
        stacks = len(carry) + len(saved) + len(slices) + len(given.ys)
        loop = Loop(part(whole, nodes, inputs, outputs), taken, stacks, length, not reverse)
        return _Backward(loop, [x for x, _ in fixed], [*carry, *saved], slices)


class _TrackedValues(NamedTuple):
    """The values that enter a step and for which it has gradients."""

    carry: list[Entered]
    captured: list[Entered]
    slices: list[Entered]

    @property
    def all(self) -> list[Entered]:
        """All of them, in the order of the results of the gradient."""
        return [*self.carry, *self.captured, *self.slices]


class _Cotangents(NamedTuple):
    """The inputs of the gradient of a step."""

    carry: dict[int, Traced]  #: by the number of the leaf of the carry
    ys: dict[int, Traced]  #: by the number of the result
    sums: list[Traced]  #: the gradients of captured values, of the steps after this one


class _Backward(NamedTuple):
    """The loop of the gradient of a scan, and the values that it reads."""

    loop: Loop
    fixed: list[Any]  #: captured values
    stacked: list[Ref]  #: values of each step, which the scan stacks as further results
    slices: list[Entered]


class _Rule(NamedTuple):
    """The gradient of a scan: its loop, and the shapes and dtypes of the gradients that the loop takes."""

    loop: Loop
    fixed: int  #: the number of captured values that it takes
    carry: list[Any]
    sums: list[Any]  #: of the gradients of captured values
    ys: list[Any]
    needs: list[bool]  #: which of the results are gradients of tracked values


def _vjp(inner: Any, grads: Sequence[Any], rule: _Rule, *kept: Any) -> tuple[Any, ...]:
    """Run the loop of the gradient, and return the gradients of the tracked values that the scan got."""
    recorder = recorder_of(inner)
    given = gradients_beneath(inner, grads, [*rule.carry, *rule.ys], "scan")
    values = [beneath(inner, x, "scan") for x in kept]
    count = len(rule.carry)
    zeros = [recorder.full(shape, 0.0, dtype) for shape, dtype in rule.sums]
    operands = [*values[: rule.fixed], *given[:count], *zeros, *values[rule.fixed :], *given[count:]]
    results = recorder.nested(rule.loop, tuple(operands))
    return tuple([lifted_to(inner, x) for x, needed in zip(results, rule.needs, strict=True) if needed])
