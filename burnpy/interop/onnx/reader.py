"""`read`: the graph of an ONNX file, read with bounds and checked before anything is computed."""

from __future__ import annotations

import json
import math
import os
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import LoadingError, counted, path_shown
from burnpy.backend.lazy import needed
from burnpy.interop.onnx.operators.control_flow import Graph, GraphNode, in_order, set_defaults
from burnpy.interop.onnx.operators.elementwise import PRODUCTS
from burnpy.interop.onnx.operators.table import DTYPES, NARROW_BITS, OPERATORS, Bound, is_float, tensor
from burnpy.interop.onnx.patterns import folded, joined, padded, placed, read_as_numbers, with_ints
from burnpy.interop.onnx.raw_data import ITSELF, without_raw_data
from burnpy.tensor.tensor import Tensor

UNREAD = {"Sequence": "sequences", "Optional": "optional values", "String": "strings", "SVM": "support vectors"}
"""The kinds of operators that are not read, by a part of their names."""
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview")
"""The domains of the operators that are read."""

BUFFERS = "burnpy.buffers"
"""The key of the metadata that names the initializers that are buffers."""

DEEPEST, MOST = 32, 10**6
"""The depth of nested graphs and the number of nodes up to which files are read."""

OLD_SCAN = 9
"""The opset from which Scan has no lengths of sequences."""

MODULES = (
    *("attention", "control_flow", "elementwise", "products", "quantization"),
    *("images_and_signals", "recurrence", "reductions", "shapes", "trees_and_linear_models"),
)
"""The modules of operators."""


def read(path: str | os.PathLike[str]) -> tuple[Graph, dict[str, Any], set[str]]:
    """Read a file.

    Returns:
        The graph; the float initializers as NumPy arrays, which become parameters; and the names of those that are not
        trained: of running statistics, and those that `export` marks.

    Raises:
        LoadingError: the file is no ONNX file, is truncated, refers to data outside of its folder, or has operators,
            attributes or data types that burnpy does not have.
        MissingPackageError: onnx is not installed.
    """
    onnx = needed("onnx", "load()", "onnx", "onnx")
    for module in MODULES:
        import_module(f"burnpy.interop.onnx.operators.{module}")
    shown = path_shown(path)
    try:
        proto = onnx.load_model_from_string(without_raw_data(path))
        if proto.functions:  # whose defaults the package's inliner does not know
            defaults = {(each.domain, each.name): each.attribute_proto for each in proto.functions}
            for part in (proto.graph, *proto.functions):
                set_defaults(part.node, defaults)
            typed = onnx.shape_inference.infer_shapes(proto)  # which operators of other versions are converted by
            proto = import_module("onnx.inliner").inline_local_functions(typed, convert_version=True)
    except FileNotFoundError:
        raise LoadingError(f"load() found no file {shown}") from None
    except Exception as error:
        why = f"which is no ONNX file or is damaged: {_first_line(error)}"
        raise LoadingError(f"load() cannot read {shown}, {why}") from None
    if not proto.HasField("graph") or not proto.graph.output:
        raise LoadingError(f"load() cannot read {shown}: it has no graph with outputs")
    opset = _opset(onnx, proto, shown)
    try:
        reader = _Reader(onnx, opset, os.path.abspath(path), shown, proto.producer_name == "burnpy")
        graph, arrays = reader.main(proto.graph)
        marked = json.loads({entry.key: entry.value for entry in proto.metadata_props}.get(BUFFERS, "[]"))
        statistics = [n for node in graph.all_nodes() if node.kind == "BatchNormalization" for n in node.inputs[3:5]]
        return graph, arrays, arrays.keys() & {*marked, *statistics, *reader.results}
    except LoadingError:
        raise
    except Exception as error:  # such as one about a damaged tensor
        raise LoadingError(f"load() cannot read {shown}, which is damaged: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _opset(onnx: Any, proto: Any, shown: str) -> int:
    """Return the version of the operators; the newest one for a file of another domain's operators alone."""
    versions = [entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    own = next((node.op_type for node in proto.graph.node if node.domain in ("", "ai.onnx")), None)
    if not versions and proto.opset_import and own is not None:
        others = ", ".join(sorted({entry.domain for entry in proto.opset_import}))
        raise LoadingError(
            f"load() cannot read {shown}: it has ONNX's operator {own}, and says the opset of {others} alone"
        )
    opset = max(versions, default=0) or (newest if any(entry.domain for entry in proto.opset_import) else 0)
    if opset < 1:
        raise LoadingError(f"load() cannot read {shown}: it does not say which opset its operators are of")
    if opset > newest:
        raise LoadingError(
            f"load() reads opsets up to {newest} with onnx {onnx.__version__}, and {shown} has {opset}; update onnx"
        )
    return int(opset)


class _Reader:
    """The reader of one file; it collects all that the file has wrong.

    Initializers and constants of inner graphs are those of the main graph, under new names where two have the same.
    ``shown`` is the path in messages. The Constant nodes of a file that `export` wrote (``is_ours``) are no parameters.
    """

    def __init__(self, onnx: Any, opset: int, path: str, shown: str, is_ours: bool) -> None:
        self.onnx, self.opset, self.path, self.shown, self.is_ours = onnx, opset, path, shown, is_ours
        self.folder = os.path.dirname(path)
        self.wrong: list[str] = []
        self.results: dict[str, Any] = {}  # the floats that nodes compute from constants
        self.count = 0
        self.arrays: dict[str, Any] = {}
        self.types: dict[str, int] = {}  # the numbers of the dtypes of values, where the file says them
        self.computed: set[str] = set()  # the names of the arrays of Constant nodes that are no weights

    def main(self, proto: Any) -> tuple[Graph, dict[str, Any]]:
        """Return the main graph and its parameters."""
        graph = self._graph(proto, {}, 0)
        texts = [name for name, array in self.arrays.items() if array.dtype.kind in "OSU"]
        for node in graph.all_nodes():
            self.wrong += [f"{node.shown} reads {name!r}, which is text" for name in texts if name in node.inputs]
        for name in texts:
            self.wrong += [f"the output {name!r} is text"] * (name in graph.outputs)
            del self.arrays[name]
        if self.wrong:
            listed = "; ".join(dict.fromkeys(self.wrong[:20])) + ("; …" if len(self.wrong) > 20 else "")
            raise LoadingError(f"load() cannot read {self.shown}: {listed}")
        read, unread = read_as_numbers(graph, self.arrays)
        numbers = read | self.computed | {n for node in graph.all_nodes() for n in _fixed_inputs(node, self.arrays)}
        floats = {name: a for name, a in self.arrays.items() if is_float(a.dtype) and name not in numbers}
        constants = {name: tensor(a, copy=a.flags.writeable) for name, a in self.arrays.items() if name not in floats}
        inputs = tuple([name for name in graph.inputs if name not in self.arrays])
        self.arrays.clear()
        nodes, results = folded(joined(graph, floats, constants), constants)
        self.results = {name: x.to_numpy() for name, x in results.items() if isinstance(x, Tensor) and x.numel() > 1}
        floats |= self.results
        constants |= {name: x for name, x in results.items() if name not in floats}
        nodes = padded(with_ints(Graph("", nodes, inputs, graph.outputs), constants), constants, graph.outputs)
        nodes = placed(nodes, unread, floats, constants, inputs[0]) if inputs else nodes
        made = Graph(graph.name, nodes, inputs, graph.outputs)
        used = {*graph.outputs, *[name for node in made.nodes for name in node.names_read]}
        return replace(made, constants={name: x for name, x in constants.items() if name in used}), floats

    def _graph(self, proto: Any, outside: Mapping[str, str], depth: int) -> Graph:
        """Return a graph; ``outside`` has the values that the graphs around it define, and the names they got."""
        if depth > DEEPEST:
            raise LoadingError(f"load() cannot read {self.shown}: its graphs are nested more than {DEEPEST} deep")
        inputs, outputs = ([value.name for value in values] for values in (proto.input, proto.output))
        names = {**outside, **{name: name for name in inputs}}
        for value in (*proto.input, *proto.value_info, *proto.output):
            self.types[value.name] = value.type.tensor_type.elem_type
        for entry in proto.initializer:
            self._hold(entry.name, self._array(entry), names)
            self.types[entry.name] = entry.data_type
        for entry in proto.sparse_initializer:
            self._hold(entry.values.name, self._dense(entry), names)
        nodes, made = [], Counter([name for node in proto.node for name in node.output if name])
        self.wrong += [f"{count} nodes compute {name!r}" for name, count in made.items() if count > 1]
        for node in in_order(proto.node):
            if node.op_type == "Constant" and node.domain in DOMAINS and len(node.output) == 1:
                self._constant(node, names)
            else:
                nodes.append(self._node(node, names, made, depth))
                names |= {name: name for name in node.output}
        self.wrong += [f"the output {name!r} does not exist" for name in outputs if name not in names]
        declared = tuple([self._declared(value) for value in proto.output])
        ends = tuple([names.get(name, name) for name in outputs])
        return Graph(proto.name, tuple(nodes), tuple(inputs), ends, declared=declared)

    def _hold(self, name: str, array: Any, names: dict[str, str]) -> str:
        """Keep an array, and return the name that it gets."""
        if not isinstance(name, str):
            raise LoadingError(f"load() cannot read {self.shown}, which is damaged: a name is no text")
        new, k = name, 2
        while new in self.arrays:
            new, k = f"{name}_{k}", k + 1
        self.arrays[new], names[name] = array, new
        return new

    def _constant(self, proto: Any, names: dict[str, str]) -> None:
        """Keep the array of a Constant node: a parameter if it has several finite floats, as some exporters write
        weights.
        """
        (entry,) = proto.attribute if len(proto.attribute) == 1 else (self.onnx.AttributeProto(),)
        if (name := entry.name) == "value":
            array = self._array(entry.t)
            self.types[proto.output[0]] = entry.t.data_type
        elif name == "sparse_value":
            array = self._dense(entry.sparse_tensor)
        elif name in ("value_float", "value_floats", "value_int", "value_ints"):
            value = self.onnx.helper.get_attribute_value(entry)
            array = np.array(value, np.float32 if "float" in name else np.int64)
        else:
            self.wrong.append(
                f"Constant ({', '.join(proto.output)}) has the attribute {name or 'none'}, which is unknown"
            )
            array = np.zeros(())
        new = self._hold(proto.output[0], array, names)
        if self.is_ours or array.size < 2 or not (is_float(array.dtype) and bool(np.isfinite(array).all())):
            self.computed.add(new)

    def _node(self, proto: Any, names: Mapping[str, str], later: Container[str], depth: int) -> GraphNode:
        """Return a node of a graph that also has values ``later``."""
        self.count += 1
        if self.count > MOST:
            raise LoadingError(f"load() cannot read {self.shown}: it has more than {MOST} nodes")
        kind = proto.op_type if proto.domain in DOMAINS else f"{proto.domain}.{proto.op_type}"
        where = f"{proto.op_type} ({proto.name or ', '.join(proto.output)})"
        found = OPERATORS.get(kind)
        if found is None:
            near = get_close_matches(proto.op_type, OPERATORS, 1, 0.9)
            domain = f" of the domain {proto.domain}" if proto.domain not in ("", "ai.onnx") else ""
            reason = next(
                (f"of {kinds}, which are not read" for part, kinds in UNREAD.items() if part in proto.op_type),
                "unknown",
            )
            self.wrong.append(f"the operator {where}{domain} is {reason}" + (f" (there is {near[0]})" if near else ""))
            return GraphNode(kind, proto.name, (), (), {}, None)
        for name in proto.input:
            if name and name not in names:
                why = "depends on the node's result" if name in later else "does not exist"
                self.wrong.append(f"the input {name!r} of {where} {why}")
        if len(proto.input) > len(found.inputs) and not found.variadic:
            self.wrong.append(f"{where} has {len(proto.input)} inputs, and at most {len(found.inputs)} are known")
        given = zip(proto.input, found.inputs[: found.needs], strict=False)
        if len(proto.input) < found.needs or any(not name and kind != "Maybe" for name, (_, kind) in given):
            self.wrong.append(f"{where} lacks an input: it needs {found.needs}")
        attributes: dict[str, Any] = {}
        for entry in proto.attribute:
            name = snake(entry.name)
            if name not in found.attributes:
                if not (entry.name == "consumed_inputs" or entry.name.startswith("_")):
                    self.wrong.append(f"{where} has the attribute {entry.name}, which is unknown")
                continue
            value = attributes[name] = self._attribute(entry, names, depth)
            if isinstance(value, str) and not value and found.attributes[name]:  # the default
                del attributes[name]
            elif not _fits(value, found.attributes[name]):
                expected = found.attributes[name].replace("Literal[", "one of [")
                self.wrong.append(f"{where} has {entry.name}={value!r}, expected {expected}")
        self.wrong += [f"{where} lacks the attribute {name}" for name in sorted(found.required - attributes.keys())]
        types = tuple([self.types.get(name, 0) for name in proto.input])
        for name, value in (("kind", kind), ("opset", self.opset), ("outputs", len(proto.output)), ("types", types)):
            if name in found.attributes:
                attributes.setdefault(name, value)
        if kind == "Cast":
            self.types.update(dict.fromkeys(proto.output, attributes.get("to", 0)))
        bodies = {name: value for name, value in attributes.items() if isinstance(value, Graph)}
        takes = {"If": 0, "Loop": max(2, len(proto.input)), "Scan": len(proto.input)}.get(kind)
        for name, body in bodies.items() if takes is not None and self.opset >= OLD_SCAN else ():
            if (count := len(body.inputs)) != takes:
                self.wrong.append(f"{where} has a {name} of {counted(count, 'input')}, expected {takes}")
        inputs = tuple([names.get(name, name) for name in proto.input])
        return GraphNode(
            kind, proto.name, inputs, tuple(proto.output), attributes, None if bodies else Bound(kind, attributes)
        )

    def _attribute(self, proto: Any, names: Mapping[str, str], depth: int) -> Any:
        """Return the value of an attribute."""
        value, kinds = self.onnx.helper.get_attribute_value(proto), self.onnx.AttributeProto
        if proto.type == kinds.GRAPH:
            return self._graph(proto.g, names, depth + 1)
        if proto.type == kinds.TENSOR:
            return self._array(proto.t)
        if hasattr(value, "__iter__") and not isinstance(value, bytes):
            return tuple([x.decode("utf-8", "replace") if isinstance(x, bytes) else x for x in value])
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def _array(self, proto: Any) -> Any:
        """Return a tensor of the file as an array."""
        try:
            return self._data(proto)
        except LoadingError:
            raise
        except Exception as error:
            name, kinds = proto.name or "a tensor", self.onnx.TensorProto.DataType.values()
            why = _first_line(error) if proto.data_type in kinds[1:] else f"it has the data type {proto.data_type}"
            raise LoadingError(f"load() cannot read {self.shown}: {name} is damaged: {why}") from None

    def _data(self, proto: Any) -> Any:
        """Return a tensor of the file as an array, with data from other files in the same folder."""
        if proto.data_location == self.onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in proto.external_data}
            if entries.get("location") == ITSELF:
                return self._read(proto, self.path, entries)
            place = os.path.realpath(os.path.join(self.folder, entries.get("location", "")))
            if os.path.commonpath([place, os.path.realpath(self.folder)]) != os.path.realpath(self.folder):
                raise LoadingError(
                    f"load() reads data in the folder of {self.shown} alone, and {proto.name} is in "
                    f"{entries['location']!r}"
                )
            if not os.path.isfile(place):
                raise LoadingError(f"load() found no file {path_shown(place)}, which has the data of {proto.name}")
            return self._read(proto, place, entries)
        array = self.onnx.numpy_helper.to_array(proto)
        if array.shape != tuple(proto.dims):
            raise LoadingError(f"load() cannot read {self.shown}: the data of {proto.name} do not fit its shape")
        return array

    def _dense(self, proto: Any) -> Any:
        """Return a sparse tensor of the file as an array."""
        values, indices, shape = self._array(proto.values), self._array(proto.indices), tuple(proto.dims)
        if len(indices) != values.size:
            counts = f"{values.size} values at {len(indices)} indices"
            raise LoadingError(f"load() cannot read {self.shown}: {proto.values.name} has {counts}")
        out = np.zeros(math.prod(shape), values.dtype)
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        if flat.size and not 0 <= flat.min() <= flat.max() < out.size:
            raise LoadingError(f"load() cannot read {self.shown}: {proto.values.name} has an index outside of {shape}")
        out[flat] = values
        return out.reshape(shape)

    def _declared(self, proto: Any) -> tuple[Any, tuple[int, ...]] | None:
        """Return the dtype and shape of an output; None if the file does not say all."""
        kind = proto.type.tensor_type
        known = kind.elem_type in DTYPES and kind.HasField("shape")
        if not known or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
            return None
        return dtype_of(DTYPES[kind.elem_type]), tuple([dim.dim_value for dim in kind.shape.dim])

    def _read(self, proto: Any, place: str, entries: Mapping[str, str]) -> Any:
        """Return the data of a tensor that lies in a file."""
        dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(proto.data_type))
        shape, offset = tuple(proto.dims), int(entries.get("offset", 0))
        size = -(-math.prod(shape) * NARROW_BITS.get(proto.data_type, 8 * dtype.itemsize) // 8)
        if offset < 0 or size < 0 or offset + size > os.path.getsize(place):
            raise LoadingError(f"load() cannot read {proto.name}: {path_shown(place)} is shorter than it says")
        with open(place, "rb") as file:
            file.seek(offset)
            data = file.read(size)
        if proto.data_type in NARROW_BITS:
            whole = self.onnx.TensorProto(dims=shape, data_type=proto.data_type, raw_data=data)
            return self.onnx.numpy_helper.to_array(whole)
        return np.frombuffer(data, dtype).reshape(shape)


def snake(name: str) -> str:
    """Return the name of a parameter for an attribute.

    >>> snake("transA"), snake("kernel_shape")
    ('trans_a', 'kernel_shape')
    """
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def _fits(value: Any, annotation: str) -> bool:
    """Return whether the value of an attribute is what a parameter takes; True for annotations that are no types."""
    kind = annotation.partition(" | ")[0]
    if kind.startswith("Literal["):
        return value in literal_eval(f"({kind[8:-1]},)")
    if kind.startswith("tuple["):
        return isinstance(value, tuple) and all(_fits(x, kind[6:].partition(",")[0]) for x in value)
    kinds: dict[str, Any] = {"int": int, "float": (float, int), "str": str, "Graph": Graph}
    return kind not in kinds or isinstance(value, kinds[kind])


def _fixed_inputs(node: GraphNode, arrays: Mapping[str, Any]) -> list[str]:
    """Return the inputs of a node that are constants, and no parameters: scales of quantized numbers, and powers."""
    if node.kind == "Pow":
        return [n for n in node.inputs[1:] if n in arrays and arrays[n].size == 1 and arrays[n].item() in PRODUCTS]
    if node.kind.rpartition(".")[2] in ("DequantizeLinear", "QuantizeLinear"):
        return list(node.inputs[1:])
    pairs = zip(node.inputs, OPERATORS[node.kind].inputs, strict=False)
    return [name for name, (parameter, _) in pairs if parameter.endswith(("_scale", "scales"))]
