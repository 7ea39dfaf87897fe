"""`read`: the graph of an ONNX file, read with bounds and checked before anything is computed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np

from burnpy.backend.errors import LoadingError, path_shown
from burnpy.backend.extras import needed
from burnpy.interop.onnx.exporting import BUFFERS
from burnpy.interop.onnx.graph import Graph, GraphNode
from burnpy.interop.onnx.operators.table import OPERATORS, Bound, parameter_of, tensor
from burnpy.interop.onnx.patterns import joined

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""The domains of the operators that are read."""

DEEPEST, MOST = 32, 10**6
"""The depth of nested graphs and the number of nodes up to which files are read."""

MODULES = (
    *("attention", "classical", "control", "elementwise", "indexing", "losses", "normalization", "quantization"),
    *("recurrence", "reductions", "resizing", "shapes", "signals", "windows"),
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
        proto = onnx.load(os.fspath(path), load_external_data=False)
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto)
    except FileNotFoundError:
        raise LoadingError(f"load() found no file {shown}") from None
    except Exception as error:
        raise LoadingError(
            f"load() cannot read {shown}, which is no ONNX file or is damaged: {_first_line(error)}"
        ) from None
    if not proto.HasField("graph") or not proto.graph.output:
        raise LoadingError(f"load() cannot read {shown}: it has no graph with outputs")
    opset = _opset(onnx, proto, shown)
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    try:
        graph, arrays = _Reader(onnx, opset, folder, shown).main(proto.graph)
        marked = json.loads({entry.key: entry.value for entry in proto.metadata_props}.get(BUFFERS, "[]"))
        statistics = [n for node in graph.all_nodes() if node.kind == "BatchNormalization" for n in node.inputs[3:5]]
        return graph, arrays, arrays.keys() & {*marked, *statistics}
    except LoadingError:
        raise
    except Exception as error:  # as of a damaged tensor
        raise LoadingError(f"load() cannot read {shown}, which is damaged: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _opset(onnx: Any, proto: Any, shown: str) -> int:
    """Return the version of the operators.

    Raises:
        LoadingError: the file has none, or one that is too new.
    """
    versions = [entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")]
    opset = max(versions, default=0)
    newest = onnx.defs.onnx_opset_version()
    if not opset:
        raise LoadingError(f"load() cannot read {shown}: it does not say which opset its operators are of")
    if opset > newest:
        raise LoadingError(
            f"load() reads opsets up to {newest} with onnx {onnx.__version__}, and {shown} has {opset}; update onnx"
        )
    return int(opset)


def _names_used(proto: Any) -> Iterator[str]:
    """Yield the names of the values that a graph and those within it read or return."""
    for node in proto.node:
        yield from node.input
        for entry in node.attribute:
            yield from _names_used(entry.g)
    for value in proto.output:
        yield value.name


class _Reader:
    """The reader of one file; it collects all that the file has wrong."""

    def __init__(self, onnx: Any, opset: int, folder: str, shown: str) -> None:
        self.onnx, self.opset, self.folder, self.shown = onnx, opset, folder, shown
        self.wrong: list[str] = []
        self.count = 0
        self.used: set[str] = set()  # the names of values that are read

    def main(self, proto: Any) -> tuple[Graph, dict[str, Any]]:
        """Return the main graph and its parameters.

        Raises:
            LoadingError: something in the file has no counterpart; all of it is named.
        """
        arrays = {entry.name: self._array(entry) for entry in proto.initializer}
        graph = self._graph(proto, {}, 0)
        if not all(isinstance(name, str) for name in (*self.used, *arrays, *graph.inputs)):
            raise LoadingError(f"load() cannot read {self.shown}, which is damaged: a name is no text")
        if self.wrong:
            listed = "; ".join(dict.fromkeys(self.wrong[:20])) + ("; …" if len(self.wrong) > 20 else "")
            raise LoadingError(f"load() cannot read {self.shown}: {listed}")
        read_as_numbers = {
            name
            for node in graph.all_nodes()
            for name, (_, annotation) in zip(node.inputs, OPERATORS[node.kind].inputs, strict=False)
            if annotation.startswith(("Ints", "Scalar"))
        }
        floats = {
            name: a
            for name, a in arrays.items()
            if (a.dtype.kind == "f" or a.dtype.name == "bfloat16") and name not in read_as_numbers
        }
        constants = {name: tensor(a) for name, a in arrays.items() if name not in floats}
        inputs = tuple([name for name in graph.inputs if name not in arrays])
        return Graph(graph.name, joined(graph, floats), inputs, graph.outputs, constants), floats

    def _graph(self, proto: Any, arrays: Mapping[str, Any], depth: int) -> Graph:
        if depth > DEEPEST:
            raise LoadingError(f"load() cannot read {self.shown}: its graphs are nested more than {DEEPEST} deep")
        self.used |= {*_names_used(proto)}
        nodes = tuple([self._node(node, depth) for node in proto.node])
        inputs, outputs = ([value.name for value in values] for values in (proto.input, proto.output))
        return Graph(proto.name, nodes, tuple(inputs), tuple(outputs), dict(arrays))

    def _node(self, proto: Any, depth: int) -> GraphNode:
        self.count += 1
        if self.count > MOST:
            raise LoadingError(f"load() cannot read {self.shown}: it has more than {MOST} nodes")
        kind = proto.op_type
        where = f"{kind} ({proto.name or ', '.join(proto.output)})"
        found = OPERATORS.get(kind) if proto.domain in DOMAINS else None
        if found is None:
            near = get_close_matches(kind, OPERATORS, 1, 0.9)
            domain = f" of the domain {proto.domain}" if proto.domain not in ("", "ai.onnx") else ""
            self.wrong.append(f"the operator {where}{domain} is unknown" + (f" (there is {near[0]})" if near else ""))
            return GraphNode(kind, proto.name, (), (), {}, None)
        if len(proto.input) > len(found.inputs) and not found.variadic:
            self.wrong.append(f"{where} has {len(proto.input)} inputs, and at most {len(found.inputs)} are known")
        attributes: dict[str, Any] = {}
        for entry in proto.attribute:
            name = parameter_of(found, entry.name)
            if name is None:
                if not (entry.name == "consumed_inputs" or entry.name.startswith("_")):
                    self.wrong.append(f"{where} has the attribute {entry.name}, which is unknown")
                continue
            attributes[name] = self._attribute(entry, depth)
        results = [k for k, name in enumerate(proto.output) if name in self.used]
        for name, value in (("kind", kind), ("opset", self.opset), ("outputs", max(results, default=0) + 1)):
            if name in found.attributes:
                attributes[name] = value
        nested = any(isinstance(value, Graph) for value in attributes.values())
        call = None if nested else Bound(kind, attributes)
        return GraphNode(kind, proto.name, tuple(proto.input), tuple(proto.output), attributes, call)

    def _attribute(self, proto: Any, depth: int) -> Any:
        """Return the value of an attribute."""
        types = proto.AttributeType if hasattr(proto, "AttributeType") else None
        value = self.onnx.helper.get_attribute_value(proto)
        if types is not None and proto.type == types.Value("GRAPH"):
            inner = {entry.name: tensor(self._array(entry)) for entry in proto.g.initializer}
            return self._graph(proto.g, inner, depth + 1)
        if types is not None and proto.type == types.Value("TENSOR"):
            return self._array(proto.t)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
            return tuple(
                [member.decode("utf-8", "replace") if isinstance(member, bytes) else member for member in value]
            )
        return value

    def _array(self, proto: Any) -> Any:
        """Return a tensor of the file as an array, with data from other files in the same folder.

        Raises:
            LoadingError: its data is elsewhere, or has another size.
        """
        if proto.data_location == self.onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in proto.external_data}
            place = os.path.realpath(os.path.join(self.folder, entries.get("location", "")))
            if os.path.commonpath([place, os.path.realpath(self.folder)]) != os.path.realpath(self.folder):
                raise LoadingError(
                    f"load() reads data in the folder of {self.shown} alone, and {proto.name} is in "
                    f"{entries['location']!r}"
                )
            if not os.path.isfile(place):
                raise LoadingError(f"load() found no file {path_shown(place)}, which has the data of {proto.name}")
            return self._mapped(proto, place, entries)
        array = self.onnx.numpy_helper.to_array(proto)
        if array.shape != tuple(proto.dims):
            raise LoadingError(f"load() cannot read {self.shown}: {proto.name} has other data than its shape")
        return array

    def _mapped(self, proto: Any, place: str, entries: Mapping[str, str]) -> Any:
        dtype = np.dtype(self.onnx.helper.tensor_dtype_to_np_dtype(proto.data_type))
        shape, offset = tuple(proto.dims), int(entries.get("offset", 0))
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if offset < 0 or offset + count * dtype.itemsize > os.path.getsize(place):
            raise LoadingError(f"load() cannot read {proto.name}: {path_shown(place)} is shorter than it says")
        return np.memmap(place, dtype, "r", offset, shape) if count else np.zeros(shape, dtype)
