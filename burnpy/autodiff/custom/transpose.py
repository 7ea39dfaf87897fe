"""Reverse mode out of a rule for forward mode: the rule is run on tangents of zero, and what it does to them, which is
linear, is recorded on a level of its own; a gradient then goes back through that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.custom.arguments import Kept, kept_of, kept_of_tensor, lifted, tensor, tensors
from burnpy.autodiff.custom.results import parts_of, results_of
from burnpy.autodiff.graph import Leaf, PartialGrad, Tracked, absent, untracked
from burnpy.autodiff.inspect.nodes import rule_of
from burnpy.autodiff.modes import next_level, observing
from burnpy.autodiff.multi_output import Opaque
from burnpy.autodiff.rules import RULES
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import Float
from burnpy.backend.schema import Algebra
from burnpy.tensor.base import TensorBase
from burnpy.tensor.levels import Door, working_on


class Linear:
    """A linear map from tangents of arguments to tangents of results, recorded."""

    __slots__ = ("leaves", "level", "likes", "places", "roots")

    level: Autodiff[Any]
    leaves: list[Leaf]  #: one for each tangent that it depends on,
    likes: list[Kept]  #: and what it is like
    roots: list[Tracked]  #: the tangents of the results that depend on any
    places: list[int]  #: which results these belong to


def traced(
    who: str,
    jvp: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any]],
    inner: Any,
    kept: Sequence[Kept | None],
    values: Sequence[Any],
    needs: Sequence[bool],
) -> tuple[Any, tuple[TensorBase[Any], ...], Linear]:
    """Run a rule for forward mode with tangents of zero.

    Args:
        who: the rule, for messages.
        jvp: takes primals and tangents, returns the result and its tangent.
        inner: the device to compute on.
        kept: what the arguments are like,
        values: their primitives on ``inner``,
        needs: and by which to differentiate.

    Returns:
        The result as the rule gave it, only to see whether it is a tuple; its tensors on ``inner``; the map.

    Raises:
        ArgumentError: the result depends on the tangents, or its tangent does not do so linearly.
    """
    level: Any = Autodiff.unregistered(inner)
    level.level = next_level()
    linear = Linear()
    linear.level, linear.leaves, linear.likes = level, [], []
    tangents: list[Any] = []
    for like, needed in zip(kept, needs, strict=True):
        if like is None or not like.floats:
            tangents.append(None)
            continue
        zero = untracked(inner.expand(inner.full((), 0.0, like.dtype), like.shape))
        if needed:
            zero.node = Leaf(zero.value)
            linear.leaves.append(zero.node)
            linear.likes.append(like)
        tangents.append(tensor(like, level, zero))
    level.door = Door(Autodiff, Autodiff)  # which never closes: gradients go through it when the rule has returned
    with observing(partial(_refuse_nonlinear, who, level)), working_on(inner, level):
        found, tangent = jvp(tensors(level, kept, lifted(level, kept, values)), tuple(tangents))
    outs = results_of(who, found, level)
    results: list[TensorBase[Any]] = []
    for k, out in enumerate(outs):
        like = kept_of_tensor(out)
        if like.floats and out._primitive.node is not None:
            raise ArgumentError(f"{who} computed result {k} of the tangents; it must depend on the primals alone")
        results.append(tensor(like, inner, level.lower(out._primitive) if like.floats else out._primitive))
    linear.roots, linear.places = [], []
    for k, part in enumerate(tangent_parts(who, outs, tangent, level)):
        if part is not None and part.node is not None:
            root = untracked(None)  # the node is what is needed, and the array is not
            root.node = part.node
            linear.roots.append(root)
            linear.places.append(k)
    return found, tuple(results), linear


def tangent_parts(who: str, outs: Sequence[TensorBase[Any]], tangent: object, device: Any) -> list[Float | None]:
    """The tangents of results, checked; None for zero."""
    return parts_of(who, "tangent", tangent, [kept_of(out) for out in outs], device)


def transposed(inner: Any, grads: Sequence[Any], linear: Linear) -> tuple[Float, ...]:
    """The gradients of the arguments: those of the results, taken back through the map."""
    roots = [(root, grad) for root, grad in zip(linear.roots, grads, strict=True) if grad is not None]
    found = linear.level.gradients(roots, retain_graph=True, targets=linear.leaves)
    return tuple(
        found[leaf] if leaf in found else PartialGrad(absent, like.shape, like.dtype)
        for leaf, like in zip(linear.leaves, linear.likes, strict=True)
    )


def _refuse_nonlinear(who: str, level: Any, device: Any, node: Any) -> None:
    """An observer: an error for what is done to tangents and is not linear in them."""
    if device is not level or isinstance(node, Opaque):
        return
    rule = RULES.get(node.operation)
    if rule is None or rule.operation.algebra in (Algebra.LINEAR, Algebra.STRUCTURAL):
        return
    if node.parent1 is None:
        if rule.operation.algebra is Algebra.BILINEAR:
            return
        if node.operation == "div" and rule_of(node.vjp0) is rule.vjps[0]:
            return
    raise ArgumentError(
        f"{who} applied {node.operation} to the tangents, which is not linear in them; tangents may be added, and "
        "multiplied with and divided by what does not depend on them"
    )
