"""Nodes of a file that a recording for export keeps whole: no other operators give their results for all sizes.

Resizing, pools and padding follow from sizes in ways that differ between small and large images, and the sizes of some
results depend on values. Such a node is computed for the example alone, and is written as it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from random import Random
from typing import Any

import numpy as np

from burnpy.backend.decorators.recorded import Recorded
from burnpy.backend.dtypes import kind_of
from burnpy.backend.plans.recording import Node, Recording, Ref, refs_in
from burnpy.backend.primitives import DType, Shape, Value
from burnpy.interop.onnx.operators.table import CLASSES, HOST, SHAPED, WHOLE, Bound, GraphWriter, Operand, tensor
from burnpy.interop.onnx.sizes import Size
from burnpy.tensor.tensor_base import new_tensor

Form = tuple[str, Sequence[Any], Mapping[str, Any]]
"""A node of the newest opset: its operator, inputs and attributes."""

OWN = ("kind", "opset", "outputs", "types")
"""The attributes of functions that nodes do not have."""


class Counts:
    """The sizes of results that depend on values: different in each recording, so that nothing else equals them."""

    def __init__(self, number: int) -> None:
        self._random, self.used = Random(number), dict[Any, int]()

    def of(self, form: Form) -> int:
        """Return the size for a node, the same one for equal nodes."""
        kind, inputs, attributes = form
        traced = [x._primitive for x in inputs if x is not None and x.device is not HOST]
        recording = traced[0].recording
        numbers = _numbers(recording)
        key = (kind, id(recording), *[numbers.get(x.ref.number, x.ref.number) for x in traced], repr(attributes))
        return self.used.setdefault(key, self._random.randrange(2, 1000))


def _numbers(recording: Recording) -> dict[int, int]:
    """Return the number of the first value that was computed equally, for each value of a recording."""
    first, known = dict[int, int](), dict[str, list[int]]()

    def shown(x: Any) -> str:
        if x.__class__ in (tuple, list):
            return f"({', '.join(map(shown, x))})"
        return f"%{first.get(x.number, x.number)}" if x.__class__ is Ref else repr(x)

    for node in recording.nodes:
        results = [ref.number for ref in refs_in(node.results)]
        if not node.effect:
            first.update(zip(results, known.setdefault(f"{node.name}{shown(node.args)}", results), strict=True))
    return first


counts: ContextVar[Counts | None] = ContextVar("burnpy_counts", default=None)
"""The `Counts` of the current recording for export."""


class WholeNode:
    """A node in a recording, with its results for the values of the example.

    ``inputs`` has None for absent ones, `HOST` for values of the recording, and arrays for those that are known.
    """

    effect = draws = False

    def __init__(
        self, kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any], results: Sequence[Value]
    ) -> None:
        self.kind, self.inputs, self.attributes, self.results = kind, inputs, attributes, tuple(results)

    def run(self, device: Any, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results."""
        return self.results

    def shapes(self) -> list[tuple[Shape, DType]]:
        """Return the shape and dtype of each result."""
        return [(x.shape, x.dtype) for x in self.results]

    def write(self, g: GraphWriter, nodes: Sequence[WholeNode], values: Sequence[Operand]) -> list[str]:
        """Write the node, given the nodes of all recordings, and return the names of its results."""
        left, inputs = list(values[::-1]), list[Any]()
        for column in zip(*[node.inputs for node in nodes], strict=True):
            known = None if column[0] is None else left.pop() if column[0] is HOST else g.same_array(column)
            inputs.append(known)
        names = g.node(self.kind, *inputs, results=len(self.results), **self.attributes)
        return [names] if len(self.results) == 1 else list(names)


def kept(form: Callable[..., Form | None]) -> Callable[..., Any]:
    """Return a function that computes the results of a kept node from its operator and inputs; None elsewhere.

    Inputs are tensors, and None for absent ones.

    Args:
        form: returns the node in the newest opset, given the operator, the inputs and the attributes of its function;
            None for one that other operators express.
    """

    def whole(bound: Bound, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        device: Any = next((x.device for x in inputs if x is not None and x.device is not HOST), None)
        if device.__class__ is not Recorded or not device.sizes_vary:
            return None
        made = form(bound.kind, inputs, bound.attributes)
        if made is None:
            return None
        out = bound([_beneath(x, device) for x in inputs])
        return _recorded(device, made, out if out.__class__ is tuple else (out,))

    return whole


def nonzero(b: Any, x: Value) -> Value:
    """Return the places where a mask of a recording, a primitive, is True."""
    mask = new_tensor(CLASSES[kind_of(x.dtype)], b, x)
    places = _beneath(mask, b).nonzero().T
    return _recorded(b, ("NonZero", (mask,), {}), (places,))[0].T._primitive


def _recorded(device: Any, form: Form, out: Sequence[Any]) -> tuple[Any, ...]:
    """Record a node, whose results for the values of the example are given, and return its results."""
    kind, inputs, attributes = form
    results = [x.to_device(device.inner) for x in out]
    if kind in SHAPED and (drawn := counts.get()) is not None:
        results = _resized(kind, results, drawn.of(form), attributes.get("axis") or 0)
    arrays = [x if x is None else HOST if x.device is not HOST else x.to_numpy() for x in inputs]
    own = {key: x for key, x in attributes.items() if key not in OWN}
    node: Any = WholeNode(kind, arrays, own, [x._primitive for x in results])
    values = tuple([x._primitive for x in inputs if x is not None and x.device is not HOST])
    return tuple([new_tensor(type(x), device, y) for x, y in zip(results, device.nested(node, values), strict=True)])


def _beneath(x: Any, device: Any) -> Any:
    """Return a tensor of a recording as one without it."""
    return x if x is None or x.device is HOST else new_tensor(type(x), device.inner, x._primitive.value)


def _resized(kind: str, results: Sequence[Any], count: int, axis: int) -> list[Any]:
    """Return results with another number of the slices that values choose: these, repeated, or else zeros."""
    made = []
    for k, out in enumerate(results):
        array, dim = out.to_numpy(), 1 if kind == "NonZero" else 0 if k else axis
        if kind != "Unique" or k != 2:  # the place of each element in the first result
            chosen = array if array.shape[dim] else np.zeros([n or 1 for n in array.shape], array.dtype)
            array = np.take(chosen, np.arange(count) % chosen.shape[dim], dim)
        made.append(tensor(array, out.device))
    return made


def _as_it_is(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form:
    """Return a node that no opset wrote otherwise."""
    return kind, inputs, attributes


def _resize(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form | None:
    """Return a Resize; None for dtypes that onnxruntime does not resize."""
    x, *rest = inputs
    if x.dtype.name not in ("float16", "float32", "int32", "int8", "uint8"):
        return None
    if kind == "Resize" and attributes["opset"] >= 11:
        return kind, inputs, attributes
    scales = rest[0] if rest else tensor(np.array(attributes["scales"], np.float32))
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return "Resize", (x, None, scales), {"mode": attributes.get("mode", "nearest"), **how}


def _regions(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form | None:
    """Return a RoiAlign whose numbers of samples follow from values; onnxruntime lacks opset 22's."""
    default = "half_pixel" if attributes["opset"] >= 16 else "output_half_pixel"
    follows = not attributes.get("sampling_ratio")
    return (kind, inputs, {"coordinate_transformation_mode": default, **attributes}) if follows else None


def _convolution(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form | None:
    """Return a convolution whose padding follows from sizes."""
    follows = attributes.get("auto_pad", "").startswith("SAME") or attributes.get("output_shape") is not None
    return (kind, inputs, attributes) if follows else None


def _pool(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form | None:
    """Return a pool; None for means of elements apart, which opset 18 lacks."""
    apart = kind == "AveragePool" and any(n > 1 for n in attributes.get("dilations") or ())
    return None if apart else (kind, inputs, attributes)


def _padded(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form | None:
    """Return a Pad of ints with some of them; rules write others."""
    others = inputs[0].kind == "float" or len(inputs) < 2 or attributes.get("mode", "constant") in ("constant", "wrap")
    return None if others else (kind, inputs, attributes)


def _nonzero(kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Form | None:
    """Return a NonZero of a value of the recording."""
    return None if inputs[0].device is HOST else (kind, inputs[:1], attributes)


AS_THEY_ARE = ("CenterCropPad", "Compress", "DeformConv", "NonMaxSuppression", "Unique")
"""The operators whose nodes are kept as they are."""

_FORMS: Mapping[str, Callable[..., Form | None]] = {
    **dict.fromkeys(AS_THEY_ARE, _as_it_is),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "NonZero": _nonzero,
    "Pad": _padded,
    "RoiAlign": _regions,
}
WHOLE.update({kind: kept(form) for kind, form in _FORMS.items()})


def fixed_results(
    nodes: Sequence[Node], shapes: Mapping[int, tuple[Any, ...]], devices: Sequence[Any]
) -> list[list[Any]] | None:
    """Return the results of an operation in each recording if nothing has elements that could change them, else None.

    Runtimes refuse many an operator without elements, or return 0 as the mean of none.
    """
    first, results = nodes[0], list(refs_in(nodes[0].results))
    given = list(refs_in(first.args))
    if any(isinstance(size, Size) for ref in (*given, *results) for size in shapes[ref.number]) or first.effect:
        return None
    if results and all(0 in ref.shape for ref in results):
        return [[np.empty(ref.shape, ref.dtype)] * len(nodes) for ref in results]
    if not given or first.name == "nested" or not all(0 in ref.shape for ref in given):
        return None
    found = [getattr(d, node.name)(*_without_elements(node.args, d)) for d, node in zip(devices, nodes, strict=True)]
    rows = [x if isinstance(x, (tuple, list)) else [x] for x in found]
    return [[d.to_numpy(x) for d, x in zip(devices, column, strict=True)] for column in zip(*rows, strict=True)]


def _without_elements(x: Any, device: Any) -> Any:
    """Return an argument of a node with arrays for values."""
    if type(x) in (tuple, list):
        return type(x)([_without_elements(member, device) for member in x])
    return device.from_numpy(np.empty(x.shape, x.dtype)) if x.__class__ is Ref else x
