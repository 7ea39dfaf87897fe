"""Forward mode with tensors: `make_dual` and `unpack_dual`, and reverse mode from a forward-mode rule.

For reverse mode, the rule runs with zero tangents; its operations on them, which must be linear, are recorded on a
separate level, and a backward pass through this recording computes the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.graph import Leaf, Tracked, absent, untracked
from burnpy.autodiff.joint_nodes import Opaque
from burnpy.autodiff.recording import new_level, observing
from burnpy.autodiff.rule_table import RULES
from burnpy.autodiff.tools.backward import walked
from burnpy.autodiff.tools.graph_views import edge_kind
from burnpy.autodiff.tools.user_values import (
    TensorSpec,
    lifted,
    parts_of,
    results_of,
    spec_of,
    spec_of_tensor,
    tensor,
    tensors,
)
from burnpy.backend.errors import ArgumentError, KindError, NotTrackedError, ShapeError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import PartialGrad
from burnpy.backend.schema import Algebra
from burnpy.tensor.call_errors import explained
from burnpy.tensor.levels import UseCount, working_on
from burnpy.tensor.operand_checks import together
from burnpy.tensor.tensor import DIFFERENTIABLE, Tensor
from burnpy.tensor.tensor_base import TensorBase, tensor_of
from burnpy.typevars import B


class Unpacked(NamedTuple, Generic[B]):
    """The result of `unpack_dual`."""

    primal: Tensor[B]
    """The values, on the inner backend."""
    tangent: Tensor[B] | None
    """Their tangent, of the same shape and dtype; None for a constant."""


@explained
def make_dual(x: Tensor[B], tangent: Tensor[B]) -> Tensor[Forward[B]]:
    """Return ``x`` with the tangent ``tangent``: results computed from it have the derivative in this direction.

    Args:
        x: the values, of any shape and dtype.
        tangent: the direction, of the same shape and dtype, on the same device.

    Raises:
        ShapeError: the shapes or dtypes differ.
        KindError: one of them is not a float tensor.
        DeviceError: they are on two devices.

    >>> x = Tensor[NumPy].from_data(3.0)
    >>> unpack_dual(make_dual(x, Tensor[NumPy].ones(())) ** 2).tangent.item()
    6.0
    """
    for argument in (x, tangent):
        if not isinstance(argument, DIFFERENTIABLE):
            raise KindError(f"make_dual() takes two float tensors, got {argument!r}")
    x, tangent = together("make_dual", x, tangent)
    if (x.shape, x.dtype) != (tangent.shape, tangent.dtype):
        raise ShapeError(
            f"make_dual() got values of shape {x.shape} and dtype {x.dtype} and a tangent of shape "
            f"{tangent.shape} and dtype {tangent.dtype}; the tangent must have the values' shape and dtype"
        )
    device = Forward(x.device)
    return tensor_of(device, device.dual(x._primitive, tangent._primitive))  # type: ignore[no-any-return]  # of that class


@explained
def unpack_dual(x: Tensor[Forward[B]]) -> Unpacked[B]:
    """Return the values of a tensor on `Forward` and their tangent, which is None for a constant.

    Raises:
        NotTrackedError: the tensor is on another backend, where tensors have no tangent.

    >>> unpack_dual(Tensor[Forward[NumPy]].ones(())).tangent is None
    True
    """
    dual: Any = x
    if not isinstance(dual, DIFFERENTIABLE) or not isinstance(dual.device, Forward):
        raise NotTrackedError(f"unpack_dual() takes a Tensor on Forward, which make_dual() gives, got {dual!r}")
    inner: Any = dual.device.inner
    value, tangent = dual._primitive.value, dual._primitive.tangent
    return Unpacked(tensor_of(inner, value), None if tangent is None else tensor_of(inner, tangent))


class LinearMap:
    """A recorded linear map from tangents of arguments to tangents of results."""

    __slots__ = ("leaves", "level", "places", "roots", "specs")

    level: Autodiff[Any]
    leaves: list[Leaf]  #: one for each argument to differentiate,
    specs: list[TensorSpec]  #: and its class, shape and dtype
    roots: list[Tracked]  #: the tangents of the results that depend on these arguments
    places: list[int]  #: the positions of these results


def traced(
    who: str,
    jvp: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any]],
    inner: Any,
    specs: Sequence[TensorSpec | None],
    values: Sequence[Any],
    needs: Sequence[bool],
) -> tuple[Any, tuple[TensorBase[Any], ...], LinearMap]:
    """Run a forward-mode rule with zero tangents and record its operations on them.

    Args:
        who: the rule, for messages.
        jvp: takes primals and tangents, returns the result and its tangent.
        inner: the device to compute on.
        specs: the class, shape and dtype of each argument, None for a plain value.
        values: the arguments' primitives on ``inner``.
        needs: for each argument, whether to differentiate it.

    Returns:
        The result as returned by the rule, which shows whether it is a tuple; its tensors on ``inner``; the linear map.
    """
    level: Any = new_level(Autodiff, inner, "jvp")
    linear = LinearMap()
    linear.level, linear.leaves, linear.specs = level, [], []
    tangents: list[Any] = []
    for spec, needed in zip(specs, needs, strict=True):
        if spec is None or not spec.floats:
            tangents.append(None)
            continue
        zero = untracked(inner.expand(inner.full((), 0.0, spec.dtype), spec.shape))
        if needed:
            zero.node = Leaf(zero.value)
            linear.leaves.append(zero.node)
            linear.specs.append(spec)
        tangents.append(tensor(spec, level, zero))
    level.uses = UseCount(
        Autodiff, Autodiff
    )  # never closed: gradients pass through the level after the rule has returned
    with observing(partial(_refuse_nonlinear, who, level)), working_on(inner, level):
        result, tangent = jvp(tensors(level, specs, lifted(level, specs, values)), tuple(tangents))
    outs = results_of(who, result, level)
    results: list[TensorBase[Any]] = []
    for k, out in enumerate(outs):
        spec = spec_of_tensor(out)
        if spec.floats and out._primitive.node is not None:
            raise ArgumentError(f"{who} computed result {k} of the tangents; it must depend on the primals alone")
        results.append(tensor(spec, inner, level.lower(out._primitive) if spec.floats else out._primitive))
    linear.roots, linear.places = [], []
    for k, part in enumerate(tangent_parts(who, outs, tangent, level)):
        if part is not None and part.node is not None:
            root = untracked(None)  # only the node is needed, not the array
            root.node = part.node
            linear.roots.append(root)
            linear.places.append(k)
    return result, tuple(results), linear


def tangent_parts(who: str, outs: Sequence[TensorBase[Any]], tangent: object, device: Any) -> list[Float | None]:
    """Check the tangents of results and return their primitives; None for zero."""
    return parts_of(who, "tangent", tangent, [spec_of(out) for out in outs], device)


def transposed(inner: Any, grads: Sequence[Any], linear: LinearMap) -> tuple[Float, ...]:
    """Apply the transposed linear map to the gradients of the results: the vjp of a `custom_jvp`."""
    seeds: list[Any] = [(root.node, grad) for root, grad in zip(linear.roots, grads, strict=True) if grad is not None]
    by_leaf = walked(inner, linear.level.inner, seeds, retain_graph=True)
    return tuple(
        by_leaf[leaf] if leaf in by_leaf else PartialGrad(absent, spec.shape, spec.dtype)
        for leaf, spec in zip(linear.leaves, linear.specs, strict=True)
    )


def _refuse_nonlinear(who: str, level: Any, device: Any, node: Any) -> None:
    """Observe a recorded node: raise an error for an operation on tangents that is not linear in them."""
    if device is not level or isinstance(node, Opaque):
        return
    rule = RULES.get(node.operation)
    if rule is None or rule.operation.algebra in (Algebra.LINEAR, Algebra.STRUCTURAL):
        return
    if node.parent1 is None:
        if rule.operation.algebra is Algebra.BILINEAR:
            return
        kind = edge_kind(node, node.vjp0)
        if node.operation == "div" and kind is not None and kind.argument == "x":
            return
    raise ArgumentError(
        f"{who} applied {node.operation} to the tangents, which is not linear in them; tangents may be added, and "
        "multiplied or divided by values that do not depend on them"
    )
