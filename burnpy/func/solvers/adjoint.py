"""Gradients of differential equations by their adjoint equation, in memory that does not grow with the steps.

The solution is one node of the graph. Its vjp solves backwards, from each time to the one before, for the state y, its
adjoint a and the gradients g by the tensors p that f closes over::

    dy/dt = f(t, y)    da/dt = -aᵀ ∂f/∂y    dg/dt = -aᵀ ∂f/∂p

Each call of f records its own graph on the level that differentiates, which is walked and freed at once. It ends at
nodes that are older than the call: those of y and p.

Source: Chen, Rubanova, Bettencourt and Duvenaud, Neural Ordinary Differential Equations, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.graph import Leaf, next_seq, untracked
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.autodiff.recording import current_mode, using
from burnpy.autodiff.tools.backward import walked
from burnpy.backend.errors import ConvergenceError, NotTrackedError
from burnpy.batching.batch_methods import BatchedValue
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.func.solvers.problems import FlatTree
from burnpy.tensor.joining import stack
from burnpy.tensor.levels import common_device, is_followed, levels_of, raised, reopened, values_beneath
from burnpy.tensor.tensor_base import tensor_of

_Node = opaque_class("odeint")


class Solved(NamedTuple):
    """The result of a solver for a vector."""

    t: Any
    y: Any  #: the states at the times, (T, n)
    steps: Any
    rejected: Any
    converged: Any
    event: Any


Solve: TypeAlias = Callable[[Callable[..., Any], Any, Any], Solved]
"""A solver: takes the function of a time and a vector, the first vector and the times."""


def solved_with_adjoint(solve: Solve, f: Callable[..., Any], y0: Any, times: Any) -> Solved:
    """Solve such that each level that differentiates in reverse records one node. In forward mode alone, which keeps
    nothing, and where a plan is recorded, the steps are differentiated."""
    first = f(times[0], y0)
    device: Any = common_device("odeint", [x._device for x in (y0, times, first)])
    depth = None if recorder_of(device) is not None else _outermost([raised(x, device) for x in (y0, times, first)])
    if depth is None:
        return solve(f, y0, times)
    levels = _Levels(device, depth)
    ends: dict[Any, tuple[Any, Any]] = {}  # shapes and dtypes of the tensors that f closes over

    def values_of_f(t: Any, y: Any) -> Any:
        call = _Call(levels, f, t, y)
        if not ends.keys() >= call.ends.keys():
            zeros = levels.base.full(call.root.shape, 0.0, call.root.dtype)
            ends.update({node: (g.shape, g.dtype) for node, g in call.gradients(levels.base, zeros).items()})
        return levels.constant(call.root)

    begin, at = levels.lowered(y0), levels.lowered(times)
    found = solved_with_adjoint(solve, values_of_f, levels.constant(begin), levels.constant(at))
    parents = [node for node in (begin.node, at.node, *ends) if node is not None]
    if not parents:
        return found
    rows = levels.lowered(found.y).value
    equation = _AdjointEquation(solve, f, levels, ends, begin.node is not None, at.node is not None)
    (out,) = record_outputs(levels.level, _Node, [rows], parents, _vjp, (equation, rows, at.value))
    return found._replace(t=times, y=levels.raised(out))


def _outermost(xs: Sequence[Any]) -> int | None:
    """Return the number of the outermost level that differentiates in reverse, from the outside; None if none does."""
    levels = levels_of(xs[0]._device)
    values = list(zip(*map(values_beneath, xs), strict=True))
    followed = [any(map(is_followed, v)) and not _is_silent(level) for level, v in zip(levels, values, strict=True)]
    reverse = [k for k, level in enumerate(levels) if followed[k] and isinstance(level, Autodiff)]
    if not reverse:
        return None
    if True in followed[: reverse[0]]:
        raise NotTrackedError(
            "odeint(adjoint=True) has a gradient, which jvp() and grad() differentiate again, and no tangent whose "
            "gradient could be taken; use jvp of grad in place of grad of jvp, or adjoint=False"
        )
    return reverse[0]


def _is_silent(level: Any) -> bool:
    mode = None if level.lifts_discrete else level.mode()
    return mode is not None and bool(mode.silences(level.level))


class _Levels:
    """The level that differentiates and those above it; there a batch of `vmap` is a dim in front."""

    def __init__(self, device: Any, depth: int) -> None:
        levels = levels_of(device)
        self.device, self.above, self.level = device, levels[:depth], levels[depth]
        self.base = self.level.inner

    def lowered(self, x: Any) -> Any:
        """Return a tensor as a primitive of the level that differentiates."""
        primitive = raised(x, self.device)._primitive
        for level in self.above:
            if is_followed(primitive):
                raise _not_seen()
            primitive = level.spread(level.own(primitive)) if level.lifts_discrete else level.lower(primitive)
        return primitive

    def raised(self, primitive: Any) -> Any:
        """Return a primitive of the level that differentiates as a tensor of the device."""
        for level in reversed(self.above):
            primitive = BatchedValue(level, primitive, True) if level.lifts_discrete else level.lift(primitive)
        return tensor_of(self.device, primitive)

    def constant(self, primitive: Any) -> Any:
        """Return a primitive of the level that differentiates as a tensor without its node."""
        return self.raised(untracked(primitive.value))

    def result(self, primitive: Any) -> Any:
        """Return a primitive of the level that differentiates as a tensor of the device beneath it."""
        return tensor_of(self.base, self.level.lower(primitive))


class _Call:
    """A call of f, and the graph that it recorded, which ends at nodes that are older than the call."""

    def __init__(self, levels: _Levels, f: Callable[..., Any], t: Any, y: Any) -> None:
        self._levels, self._start = levels, next_seq()
        self.root: Any = levels.lowered(f(t, y))
        self.ends: dict[Any, Leaf] = {}  #: a leaf for each of the nodes at which the graph ends
        self._fresh: list[Any] = []
        waiting = [] if self.root.node is None else [self.root.node]
        seen = {None, *waiting}
        while waiting:
            node = waiting.pop()
            if node.__class__ is Leaf:
                self.ends[node] = node
            elif node.seq < self._start:
                self.ends[node] = Leaf(None)
            else:
                self._fresh.append(node)
                more = {node.parent0, node.parent1} - seen
                seen |= more
                waiting += [
                    parent for parent in more if getattr(parent, "buffer", None) is None
                ]  # no running statistics

    def gradients(self, device: Any, seed: Any) -> Mapping[Any, Any]:
        """Return the gradients of the nodes at which the graph ends, once."""
        base = self._levels.base
        for node in self._fresh:
            node.parent0 = self.ends.get(node.parent0, node.parent0)
            if node.parent1 is not None:
                node.parent1 = self.ends.get(node.parent1, node.parent1)
        root = self.ends.get(self.root.node, self.root.node)
        found = {} if root is None else walked(device, base, [(root, seed)], retain_graph=False)
        return {node: found[leaf] for node, leaf in self.ends.items() if leaf in found}


def _not_seen() -> NotTrackedError:
    return NotTrackedError(
        "odeint(adjoint=True) got a function that depends on a tensor in some steps only, such as in a branch of "
        "Python, so that its gradient would be missing; use all tensors in each call, or adjoint=False"
    )


class _AdjointEquation:
    """The backward pass of one solution of ``f``, a function of a time and a vector. ``levels`` are the one that
    differentiates and those above it, ``ends`` the nodes of the tensors that ``f`` closes over, with shapes and dtypes.
    ``by_start`` and ``by_times`` tell whether the first state and the times are tracked."""

    def __init__(
        self,
        solve: Solve,
        f: Callable[..., Any],
        levels: _Levels,
        ends: Mapping[Any, tuple[Any, Any]],
        by_start: bool,
        by_times: bool,
    ) -> None:
        self.solve, self.f, self.levels, self.ends = solve, f, levels, ends
        self.by_start, self.by_times = by_start, by_times
        self.context = copy_context()
        self._units: Any = None  # a level of cotangents that are computed together

    def gradients(self, inner: Any, grad: Any, rows: Any, times: Any) -> tuple[Any, ...]:
        """Return the gradients of the first state, the times and the tensors that f closes over."""
        base = self.levels.base
        y, t, units = tensor_of(base, rows), tensor_of(base, times), None
        if inner is not base:
            if not (inner.lifts_discrete and inner.inner is base):
                raise NotTrackedError(
                    f"odeint(adjoint=True) has a gradient that cannot be differentiated on {inner}; use jvp of grad, "
                    "or adjoint=False"
                )
            grad, units = inner.spread(inner.own(grad)), inner
        grad = tensor_of(base, grad)
        front = grad.shape[: len(grad.shape) - len(y.shape)]
        kind = y.dtype
        sums = [
            tensor_of(base, base.full((*front, *shape), 0.0, np.result_type(dtype, kind)))
            for shape, dtype in self.ends.values()
        ]
        a, moments = grad[..., -1, :], []
        for k in range(t.shape[-1] - 1, -1, -1):
            if self.by_times:
                slope = self.levels.result(self._call(t[..., k], y[..., k, :]).root)
                share = grad[..., k, :] if k else grad[..., 0, :] - a
                moments.append((share * slope).sum(-1))
            if k:
                a, sums = self._interval(t[..., k], t[..., k - 1], y[..., k, :], a, sums, units)
                a = a + grad[..., k - 1, :]
        found = [a] if self.by_start else []
        if self.by_times:
            found.append(stack(moments[::-1], -1))
        found += [x.to_dtype(dtype) for x, (_, dtype) in zip(sums, self.ends.values(), strict=True)]
        return tuple([x._primitive if units is None else BatchedValue(units, x._primitive, True) for x in found])

    def _call(self, t: Any, y: Any, leaf: Leaf | None = None) -> _Call:
        """Call f with tensors of the device beneath the level that differentiates."""
        level = self.levels.level
        state = level.lift(y._primitive)
        state.node = leaf
        return _Call(self.levels, self.f, self.levels.raised(level.lift(t._primitive)), self.levels.raised(state))

    def _interval(self, end: Any, begin: Any, y: Any, a: Any, sums: list[Any], units: Any) -> tuple[Any, list[Any]]:
        """Return the adjoint and the gradients at the beginning of an interval from those at its end. The variable is
        the share s of the interval, as examples of a batch may have other times."""
        base = self.levels.base
        width = begin - end

        def slopes(s: Any, state: Any) -> Any:
            leaf = Leaf(state["y"]._primitive)
            seed = (state["a"] * width.unsqueeze(-1))._primitive
            call = self._call(end + s * width, state["y"], leaf)
            on, seed = (base, seed) if units is None else (units, BatchedValue(units, seed, True))
            found = dict(call.gradients(on, seed))
            gradients = {
                node: tensor_of(base, g if units is None else units.spread(units.own(g))) for node, g in found.items()
            }
            grad_y = gradients.pop(leaf, None)
            if not self.ends.keys() >= gradients.keys():
                raise _not_seen()
            return {
                "y": self.levels.result(call.root) * width.unsqueeze(-1),
                "a": state["a"] * 0.0 if grad_y is None else -grad_y,
                "sums": [
                    x * 0.0 if node not in gradients else -gradients[node].to_dtype(x.dtype)
                    for node, x in zip(self.ends, state["sums"], strict=True)
                ],
            }

        flat = FlatTree("odeint", "the adjoint", {"y": y, "a": a, "sums": sums})
        zero = (width * 0.0).sum()
        found = solved_with_adjoint(
            self.solve, flat.function(slopes, "the adjoint equation"), flat.vector, stack([zero, zero + 1.0])
        )
        last = flat.tree(found.y[-1])
        return last["a"], last["sums"]


def _vjp(inner: Any, grads: Sequence[Any], equation: _AdjointEquation, rows: Any, times: Any) -> tuple[Any, ...]:
    mode = current_mode()
    interceptors = () if mode is None else mode.interceptors

    def run() -> tuple[Any, ...]:
        with using(recording=True, observers=(), value_observers=(), interceptors=interceptors), reopened():
            return equation.gradients(inner, grads[0], rows, times)

    try:
        return equation.context.copy().run(run)
    except ConvergenceError as error:
        raise ConvergenceError(
            f"the backward pass of odeint(adjoint=True) failed, where t counts from 0 to 1 between two times: {error}; "
            "adjoint=False differentiates the steps instead"
        ) from None
