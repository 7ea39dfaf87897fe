"""`load`: an ONNX file as a module, an `OnnxModel`; `source`: the file as the text of a burnpy module.

Its nodes are read by `burnpy.interop.onnx.reader`.
"""

from __future__ import annotations

import keyword
import math
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Set
from itertools import count
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.storage import replace
from burnpy.interop.onnx.operators.control_flow import Graph, GraphNode, run
from burnpy.interop.onnx.operators.elementwise import BINARY, METHODS
from burnpy.interop.onnx.operators.table import OPERATORS, tensor
from burnpy.interop.onnx.reader import read
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Buffer, Param
from burnpy.record import safetensors_file
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


SIGNS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "MatMul": "@",
    "And": "&",
    "Or": "|",
    "Xor": "^",
    "Equal": "==",
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
}
"""The operators that Python has signs for."""

HOST = frozenset(("ConstantOfShape", "Range", "Shape", "Size"))
"""The operators whose results are on the host, whatever their inputs."""

TUPLES = ("CausalConvWithState", "DynamicQuantizeLinear", "LinearAttention", "TopK", "Unique")
"""The operators that give all their results, also those that are not used."""

BLOCKS = ("If", "Loop", "Scan")
"""The operators of graphs, which give a tuple in any case."""

BUFFERS = {"float": "Buffer", "int": "IntBuffer", "bool": "BoolBuffer"}

SMALL = 8
"""The number of elements up to which a constant is written as numbers."""

TEMPLATE = '''\
"""{title}; made by burnpy.interop.onnx.source. The weights are in {weights}."""

from __future__ import annotations

import os
from typing import Any, TypeVar

{imports}

B = TypeVar("B", bound=Backend)


class {name}(Module[B]):
    """{title}."""

    def __init__(self, path: str | os.PathLike[str], device: B | type[B]) -> None:
        values = weights(path, device)
{fields}

    def forward(self, {inputs}) -> Any:
{lines}
'''


@explained
def source(path: str | os.PathLike[str], name: str = "Model", *, out: str | os.PathLike[str] | None = None) -> str:
    """Return the text of a Python module that defines an ONNX file's model as a class.

    The class reads the weights from a file, ``Model(path, device)``: the ONNX file, or the one that is written with
    ``out``, which does not need the package onnx. Its ``forward`` has one line for each node, in the words of burnpy
    where it has them. Branches and the bodies of loops are functions inside of it.

    Args:
        path: of the file.
        name: of the class.
        out: where to write the module; the weights are written beside it, in a file that ends in ``.safetensors``.

    Raises:
        LoadingError: see `load`.

    >>> from burnpy import interop
    >>> from burnpy.nn import Linear, Relu, Sequential
    >>> model = Sequential(Linear(4, 2, device=NumPy), Relu())
    >>> interop.onnx.export(model, (Tensor[NumPy].zeros((1, 4)),), "model.onnx")
    >>> print(interop.onnx.source("model.onnx").partition("def forward")[2])
    (self, x: Any) -> Any:
        add_5 = products.linear(x, self.w_0_weight.value, self.w_0_bias.value)
        output = add_5.relu()
        return output
    <BLANKLINE>
    """
    graph, floats, fixed = read(path)
    writer = _Source(graph, floats)
    lines = [f"        {line}" for line in writer.lines()]
    kinds = {key: "Buffer" if key in fixed else "Param" for key in floats}
    kinds |= {key: BUFFERS[graph.constants[key].kind] for key in writer.large}
    beside = os.path.basename(os.fspath(path))
    if out is not None:
        arrays = {**floats, **{key: graph.constants[key].to_numpy() for key in writer.large}}
        place = os.path.splitext(os.fspath(out))[0] + ".safetensors"
        beside = os.path.basename(place)
        safetensors_file.write(place, arrays, {})
    fields = [f"        self.{writer.fields[key]} = {kind}(values[{key!r}])" for key, kind in kinds.items()]
    rooms = sorted(writer.rooms)
    imports = [
        *["import numpy as np\n"] * any(re.search(r"\bnp\.", line) for line in lines),
        "from burnpy.backend import Backend",
        "from burnpy.interop.onnx import weights",
        *[f"from burnpy.interop.onnx.operators import {', '.join(rooms)}"] * bool(rooms),
        *["from burnpy.interop.onnx.operators.table import tensor"] * writer.uses_tensor,
        f"from burnpy.nn import {', '.join(sorted({'Module', *kinds.values()}))}",
    ]
    text = TEMPLATE.format(
        title=f"The model of {os.path.basename(os.fspath(path))}".replace("\\", "/").replace('"', "'"),
        weights=beside.replace("\\", "/").replace('"', "'"),
        imports="\n".join(imports),
        name=name,
        fields="\n".join(fields) or "        del values",
        inputs=", ".join(f"{writer.names[value]}: Any" for value in graph.inputs),
        lines="\n".join(lines),
    )
    if out is not None:
        replace(os.fspath(out), lambda file: safetensors_file.write_all(file, memoryview(text.encode())))
    return text


class _Source:
    """The lines of a forward pass, whose parameters are ``floats`` by name."""

    def __init__(self, graph: Graph, floats: Mapping[str, Any]) -> None:
        self.graph = graph
        self.names: dict[str, str] = {}
        self.rooms: set[str] = set()  # the modules of operators that are called
        self.uses_tensor = False
        self.large: list[str] = []  # the constants of the host that are too large to be written as numbers
        self._taken: set[str] = {"self", "tensor", "Tensor", "Any"}
        self.fields = {key: self._field(key) for key in floats}
        for value in graph.inputs:
            self.names[value] = self._named(value)
        self._values: dict[str, str] = {key: f"self.{field}.value" for key, field in self.fields.items()}
        self._host: set[str] = set(graph.constants)

    def _field(self, key: str) -> str:
        """Return a new name for a weight, which is none of a method or property of a module."""
        return self._named(f"w_{key}" if key[:1].isdigit() or hasattr(Module, key.lower()) else key)

    def _named(self, text: str) -> str:
        """Return a new name of Python for a name of the file."""
        name = re.sub(r"\W+", "_", text).strip("_").lower() or "value"
        name = f"v_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        numbered = (f"{name}_{k}" for k in count(2))
        while name in self._taken:
            name = next(numbered)
        self._taken.add(name)
        return name

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        yield from self._nodes(self.graph)
        yield f"return {', '.join(self._value(value) for value in self.graph.outputs)}"

    def _nodes(self, graph: Graph) -> Iterator[str]:
        """Yield the lines of a graph's nodes."""
        for node in graph.nodes:
            on_host = all(not i or i in self._host for i in node.inputs) if node.inputs else node.kind in HOST
            on_host = on_host or (node.kind in HOST and not self._is_placed(node))
            bodies = {}
            for key, inner in node.attributes.items():
                if isinstance(inner, Graph):
                    bodies[key] = yield from self._function(inner, key, on_host or node.kind == "Loop")
            expression = self._expression(node, on_host, {key: text for key, (text, _) in bodies.items()})
            on_host = on_host and all(is_host for _, is_host in bodies.values())
            names = []
            for value in node.outputs:
                self.names[value] = self._named(value or "unused")
                names.append(self.names[value])
                if on_host:
                    self._host.add(value)
            if node.kind in TUPLES or (len(names) == 1 and node.kind == "Split"):
                names.append("*_")
            target = f"({names[0]},)" if node.kind in BLOCKS and len(names) == 1 else ", ".join(names)
            yield f"{target} = {expression}"

    def _is_placed(self, node: GraphNode) -> bool:
        """Return whether the device of a node's result is given by its last input."""
        inputs = OPERATORS[node.kind].inputs
        return len(node.inputs) == len(inputs) and inputs[-1][0] == "device_like"

    def _function(self, graph: Graph, key: str, on_host: bool) -> Generator[str, None, tuple[str, bool]]:
        """Yield a nested graph as a function; return the expression of it, and whether its results are on the host.

        ``on_host`` says whether its inputs are.
        """
        names, host, function = dict(self.names), set(self._host), self._named(key)
        for value in graph.inputs:
            self.names[value] = self._named(value)
        self._host.update(graph.inputs if on_host else ())
        yield f"def {function}({', '.join(f'{self.names[value]}: Any' for value in graph.inputs)}) -> list[Any]:"
        for line in self._nodes(graph):
            yield f"    {line}"
        yield f"    return [{', '.join(self._value(value) for value in graph.outputs)}]"
        is_host = all(value in self._host for value in graph.outputs)
        self.names, self._host = names, host
        self.rooms.add("control_flow")
        declared = ", ".join(
            "None" if entry is None else f"(np.dtype({entry[0].name!r}), {entry[1]})" for entry in graph.declared
        )
        return f"control_flow.Body({function}{f', [{declared}]' if any(graph.declared) else ''})", is_host

    def _constant(self, array: Any) -> str | None:
        """Return the expression of a small constant of the host; None for another one."""
        if array is None or array.size > SMALL or array.dtype.kind not in "fib":
            return None
        self.uses_tensor = True
        return f"tensor({_literal(array)})"

    def _value(self, name: str) -> str:
        """Return the expression of a value."""
        if name in self.names:
            return self.names[name]
        if name in self._values:
            return self._values[name]
        array = self.graph.constants[name].to_numpy()
        small = self._constant(array)
        if small is None:
            self.large.append(name)
            self.fields[name] = self._field(name)
            small = f"self.{self.fields[name]}.value"
        self._values[name] = small
        return small

    def _expression(self, node: GraphNode, on_host: bool, bodies: Mapping[str, str]) -> str:
        """Return the expression of a node; ``bodies`` has those of its graphs."""
        operator = OPERATORS[node.kind]
        known = [self._input(node, k, name, on_host) for k, name in enumerate(node.inputs)]
        while len(known) > operator.needs and known[-1] == "None":
            known.pop()
        if node.kind in SIGNS and node.kind in BINARY:
            return f"{known[0]} {SIGNS[node.kind]} {known[1]}"
        if node.kind in (*METHODS, "Relu"):
            return f"{known[0]}.{node.kind.lower()}()"
        if node.kind == "Identity":
            return known[0]
        attributes = [f"{key}={bodies.get(key) or _literal(value)}" for key, value in node.attributes.items()]
        module = operator.function.__module__.rpartition(".")[2]
        self.rooms.add(module)
        return f"{module}.{operator.function.__name__}({', '.join([*known, *attributes])})"

    def _input(self, node: GraphNode, k: int, name: str, on_host: bool) -> str:
        """Return the expression of an input: known ints as numbers, and constants on the device of the others."""
        if not name:
            return "None"
        inputs = OPERATORS[node.kind].inputs
        annotation = inputs[k][1] if k < len(inputs) else ""
        for kind, as_text, reading in READERS:
            if annotation.startswith(kind) and "Kept" not in annotation:
                array = self._known_array(name)
                return reading.format(self._value(name)) if array is None else as_text(array)
        value = self._value(name)
        if name in self._host and not on_host and "Kept" not in annotation:
            other = next((i for i in node.inputs if i and i not in self._host), None)
            return value if other is None else f"{value}.to_device({self._value(other)}.device)"
        return value

    def _known_array(self, name: str) -> Any:
        """Return a small constant of the host, whose numbers are written; None for other values."""
        array = self.graph.constants[name].to_numpy() if name in self.graph.constants else None
        return array if array is not None and array.size <= SMALL else None


def _literal(value: Any) -> str:
    """Return a value as Python writes it.

    >>> _literal((1, -math.inf)), _literal(np.array([math.nan], np.float16))
    ("(1, float('-inf'))", "np.array([float('nan')], 'float16')")
    """
    if hasattr(value, "dtype"):
        return f"np.array({_literal(value.tolist())}, {value.dtype.name!r})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, (tuple, list)):
        members = ", ".join(map(_literal, value))
        return f"[{members}]" if isinstance(value, list) else f"({members}{',' * (len(value) == 1)})"
    return repr(value)


READERS: tuple[tuple[str, Callable[[Any], str], str], ...] = (
    (
        "Ints",
        lambda array: _literal(tuple([int(n) for n in array.reshape(-1)])),
        "tuple(int(n) for n in {0}.to_numpy().reshape(-1))",
    ),
    ("Scalar", lambda array: _literal(array.item()), "{0}.item()"),
    ("Numbers", _literal, "{0}.to_numpy()"),
)
"""The annotations of inputs that are read: how a known array is written, and how another value is read."""


@explained
def weights(path: str | os.PathLike[str], device: B | type[B]) -> dict[str, Any]:
    """Return the initializers of an ONNX file, or of the file beside a module, as tensors: for what `source` wrote.

    Raises:
        LoadingError: see `load`.
    """
    if os.fspath(path).endswith(".safetensors"):
        return {name: tensor(array, device) for name, array in safetensors_file.read(path).tensors.items()}
    graph, floats, _ = read(path)
    found = {name: Tensor.from_data(array, dtype=array.dtype, device=device) for name, array in floats.items()}
    return {**found, **{name: value.to_device(device) for name, value in graph.constants.items()}}


class OnnxModel(Module[B]):
    """A model read from an ONNX file, whose float initializers are parameters: the result of `load`.

    ``weights`` has them by name, and names with dots in nested dicts, so that a parameter of the file that is called
    ``layers.0.weight`` has the path ``weights.layers.0.weight``.
    """

    def __init__(self, graph: Graph, arrays: Mapping[str, Any], fixed: Set[str], device: B | type[B]) -> None:
        self.graph = graph
        self.paths = _paths(arrays)
        self.weights: dict[str, Any] = {}
        for name, array in arrays.items():
            value = Tensor.from_data(array, dtype=array.dtype, device=device, copy=array.flags.writeable)
            place = self.weights
            *folders, last = self.paths[name]
            for part in folders:
                place = place.setdefault(part, {})
            place[last] = Buffer(value) if name in fixed else Param(value)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs in the file."""
        return self.graph.inputs

    def forward(self, *inputs: TensorBase[B]) -> Any:
        """Compute the graph; a tuple if it has several outputs.

        Raises:
            ArgumentError: the number of inputs is another one than the graph's.
            KindError: an input is no tensor.
            LoadingError: an operator cannot be computed; the message names the node.
        """
        graph = self.graph
        if len(inputs) != len(graph.inputs):
            raise ArgumentError(
                f"the model takes {len(graph.inputs)} inputs, {', '.join(graph.inputs)}, got {len(inputs)}"
            )
        for name, x in zip(graph.inputs, inputs, strict=True):
            if not isinstance(x, TensorBase):
                raise KindError(f"the model takes a tensor as {name}, got {describe(x)}{made_of(x, 'Tensor')}")
        values: dict[str, Any] = dict(graph.constants)
        for name, path in self.paths.items():
            place: Any = self.weights
            for part in path:
                place = place[part]
            values[name] = place.value
        values.update(zip(graph.inputs, inputs, strict=True))
        results = run(graph, values)
        return results[0] if len(results) == 1 else tuple(results)

    def valid(self: OnnxModel[Autodiff[I]]) -> OnnxModel[I]:
        """Return the model on the inner backend."""
        return rebound(self)


def _paths(names: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the path of each name: its parts between dots, unless another name is a part of it.

    >>> _paths({"a.weight": 0, "b": 0, "b.c": 0, "b_c": 0})
    {'a.weight': ('a', 'weight'), 'b': ('b',), 'b.c': ('b_c_2',), 'b_c': ('b_c',)}
    """
    split = {name: tuple(name.split(".")) for name in names}
    leaves = set(split.values())
    inside = {path for path in leaves if any(path[:k] in leaves for k in range(1, len(path)))}
    taken = leaves | {path[:k] for path in leaves - inside for k in range(1, len(path))}
    paths: dict[str, tuple[str, ...]] = {}
    for name, path in split.items():
        if path in inside or not all(path):
            flat = name.replace(".", "_")
            numbered = (f"{flat}_{k}" for k in count(2))
            while (path := (flat,)) in taken:
                flat = next(numbered)
            taken.add(path)
        paths[name] = path
    return paths


@explained
def load(path: str | os.PathLike[str], device: B | type[B]) -> OnnxModel[B]:
    """Read an ONNX file as a module.

    Args:
        path: of the file. Data in other files must be in its folder.
        device: where the parameters are placed; on a device that differentiates the model can be trained.

    Returns:
        A module whose inputs are those of the file, in order. Numbers that the file computes from shapes are computed
        on the host, so that a compiled function may call the model.

    Raises:
        LoadingError: the file is damaged, or has operators, attributes or data types without a counterpart; all of
            them are named.
        MissingPackageError: onnx is not installed.

    >>> from burnpy import interop
    >>> from burnpy.nn import Linear
    >>> interop.onnx.export(Linear(4, 2, device=NumPy), (Tensor[NumPy].zeros((1, 4)),), "model.onnx")
    >>> model = interop.onnx.load("model.onnx", Autodiff[NumPy])
    >>> list(model.named_params())
    ['weights.weight', 'weights.bias']
    >>> model(Tensor[Autodiff[NumPy]].ones((1, 4))).shape
    (1, 2)
    """
    graph, arrays, fixed = read(path)
    return OnnxModel(graph, arrays, fixed, device)
