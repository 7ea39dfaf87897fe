"""Nodes of a file that are one operation of burnpy together, are computed once, or multiply by ints as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from burnpy.backend.errors import BurnpyError
from burnpy.interop.onnx.operators.control_flow import Graph, GraphNode, run
from burnpy.interop.onnx.operators.table import INTS, OPERATORS, READ, SHAPED, Bound, by_rows, tensor, unpacked


def joined(graph: Graph, arrays: Mapping[str, Any], constants: Mapping[str, Any]) -> tuple[GraphNode, ...]:
    """Return the nodes of a graph that has these parameters and constants, with one node for each pattern."""
    found = _Patterns(graph, arrays, constants)
    replaced = {node.outputs[0]: made for node in graph.nodes if (made := found.rewritten(node))}
    return tuple([replaced.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in found.inner])


def padded(nodes: Sequence[GraphNode], constants: Mapping[str, Any], outputs: Sequence[str]) -> tuple[GraphNode, ...]:
    """Return the nodes of a graph with the zeros of a Pad, if its sizes are constants, as padding of a convolution."""
    uses = Counter([name for node in nodes for name in (*node.inputs, *node.results_read)] + list(outputs))
    zeros = {
        node.outputs[0]: pads for node in nodes if (pads := _zeros(node, constants)) and uses[node.outputs[0]] == 1
    }
    changed, gone = [], set[str]()
    for node in nodes:
        pads = zeros.get(node.inputs[0]) if node.kind == "Conv" and node.call is not None else None
        if pads is None or node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            changed.append(node)
            continue
        own = node.attributes.get("pads") or (0,) * len(pads)
        both = tuple([a + b for a, b in zip(own, pads, strict=True)])
        gone.add(node.inputs[0])
        source = next(made.inputs[0] for made in nodes if node.inputs[0] in made.outputs)
        settings = {**node.attributes, "pads": both, "auto_pad": "NOTSET"}
        changed.append(node.replaced(node.kind, (source, *node.inputs[1:]), settings))
    return tuple([node for node in changed if gone.isdisjoint(node.outputs)])


def _zeros(node: GraphNode, constants: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the numbers of zeros that a Pad adds around images, as a Conv has them; None for other nodes."""
    name, value, axes = [*node.inputs[1:4], "", "", ""][:3]
    if node.kind != "Pad" or node.attributes.get("mode", "constant") != "constant" or axes or name not in constants:
        return None
    pads = [int(n) for n in constants[name].to_numpy().reshape(-1)]
    first, last = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    if min(pads, default=-1) < 0 or any([*first[:2], *last[:2]]) or (value and value not in constants):
        return None
    return None if value and constants[value].item() != 0 else (*first[2:], *last[2:])


WITHOUT_VALUES = ("Shape", "Size")
"""The operators that read no values of their input."""


def read_as_numbers(graph: Graph, arrays: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the values that depend on sizes of tensors and on arrays alone: those that determine numbers which
    operators read, such as shapes, and the others.

    The first are computed on the host, where the arrays among them stay; no gradient reaches these.
    """
    fixed, needed = set(arrays), set[str]()  # values that depend on no input, and those of them that are read

    def forward(graph: Graph) -> None:
        for node in graph.nodes:
            known = node.kind in WITHOUT_VALUES or all(name in fixed for name in node.inputs if name)
            for inner in node.graphs:
                fixed.update(inner.inputs if known else ())
                forward(inner)
                known = known and fixed.issuperset(inner.outputs)
            fixed.update(node.outputs if known else ())

    def backward(graph: Graph) -> None:
        for node in reversed(graph.nodes):
            wanted = node.kind not in WITHOUT_VALUES and not needed.isdisjoint(node.outputs)
            for inner in node.graphs:
                needed.update(fixed.intersection(inner.outputs) if wanted else ())
                backward(inner)
            for k, name in enumerate(node.inputs):
                read = any(annotation.startswith(READ) for _, annotation in OPERATORS[node.kind].inputs[k : k + 1])
                read = read or node.kind in SHAPED or (node.kind in ("If", "Loop") and k < 2)
                if name in fixed and (wanted or read):
                    needed.add(name)

    forward(graph)
    backward(graph)
    return needed, fixed - needed


def placed(
    nodes: Sequence[GraphNode], unread: Container[str], held: Iterable[str], constants: Container[str], like: str
) -> tuple[GraphNode, ...]:
    """Return nodes that compute the values ``unread`` on the device of the tensor ``like``. These values depend on
    sizes and arrays alone, and are not read as numbers.

    So a recording has these computations, which hold for all sizes, in place of their results. The parameters that are
    ``held`` are on the device, and the constants on the host.
    """
    made, there = list[GraphNode](), {like, *held}
    for node in nodes:
        if node.call is not None and all(name in unread for name in node.outputs) and node.kind not in WITHOUT_VALUES:
            values = [*node.inputs, *[like] * (node.kind in ("ConstantOfShape", "NonZero", "Range"))]
            fixed = [k for k, name in enumerate(values) if name in constants and k not in node.call.read]
            for k in fixed[:1] if there.isdisjoint(values) else ():
                name, values[k] = values[k], f"{values[k]}:placed"
                if values[k] not in there:
                    made.append(GraphNode("Placed", name, (name, like), (values[k],), {}, Bound("Placed", {})))
                    there.add(values[k])
            if not there.isdisjoint(values):
                there.update(node.outputs)
                node = node.replaced(node.kind, values, node.attributes)
        made.append(node)
    return tuple(made)


UNFOLDED = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""The operators that give other results in each call."""

LARGER = 8
"""How many times larger than its inputs the result of a node may be that is computed once, when the file is read."""

QUANTIZED = 1 << 12
"""The number of quantized weights from which they stay ints, which take a quarter of the memory of floats."""


def folded(nodes: Sequence[GraphNode], constants: Mapping[str, Any]) -> tuple[tuple[GraphNode, ...], dict[str, Any]]:
    """Return the nodes that depend on inputs and parameters, and the results of the others by name.

    Quantized weights stay as they are in the file.
    """
    known, kept, results = dict(constants), list[GraphNode](), dict[str, Any]()
    for node in nodes:
        values = [known.get(name) if name else None for name in node.inputs]
        is_fixed = node.call is not None and node.kind not in UNFOLDED and bool(values)
        if node.kind.endswith("DequantizeLinear") and values[0] is not None and values[0].numel() >= QUANTIZED:
            is_fixed = False
        if is_fixed and all(value is not None or not name for name, value in zip(node.inputs, values, strict=True)):
            try:
                out = run(Graph("", (node,), (), node.outputs), dict(known))
            except BurnpyError:  # an error of the call, in a branch that is not taken perhaps
                kept.append(node)
                continue
            made = dict(zip(node.outputs, out, strict=True))
            if sum(x.numel() for x in made.values()) <= LARGER * (64 + sum(x.numel() for x in values if x is not None)):
                known |= made
                results |= made
                continue
        kept.append(node)
    return tuple(kept), results


MATRICES = {
    "MatMulInteger": (1, 3),
    "QLinearMatMul": (3, 5),
    "com.microsoft.MatMulIntegerToFloat": (1, 5),
    "com.microsoft.DynamicQuantizeMatMul": (1, 3),
    "com.microsoft.QAttention": (1, 7),
    "com.microsoft.QGemm": (3, 5),
    "ConvInteger": (1, 3),
    "ConvDequantized": (1, 5),
    "QLinearConv": (3, 5),
}
"""The places of weights that are ints, and of their zero points, among the inputs of products and convolutions."""


class _Matrices:
    """Products with matrices of ints. Of floats, these are the rows of their transposes, as the kernels read them.

    Other quantized weights become floats on the device of the inputs, in each call anew. The constants of the graph get
    the matrices.
    """

    def __init__(self, graph: Graph, constants: dict[str, Any]) -> None:
        self.constants = constants
        self._made = {name: node for node in graph.nodes for name in node.outputs}
        self._like = graph.inputs[:1]

    def rewritten(self, node: GraphNode) -> GraphNode:
        """Return a node that gives the same results."""
        if node.kind in MATRICES:
            return self._of_ints(node, *MATRICES[node.kind])
        if self.dequantizes(node):
            return node.replaced(node.kind, (*node.inputs, "")[:3] + self._like, node.attributes)
        if node.kind == "com.microsoft.MatMulNBits":
            return self._of_blocks(node) or node
        return (self._dequantized(node) if node.kind in ("Gemm", "MatMul") else None) or node

    def dequantizes(self, node: GraphNode) -> bool:
        """Return whether a node makes floats of a constant."""
        return node.kind.endswith("DequantizeLinear") and node.inputs[0] in self.constants

    def _of_ints(self, node: GraphNode, place: int, zero_place: int) -> GraphNode:
        """Return a product of ints with weights of int8, which rarely have zero points."""
        given = [*node.inputs, *[""] * (zero_place + 1 - len(node.inputs))]
        weight = self.constants.get(given[place])
        if weight is None or weight.dtype.name not in INTS or given[zero_place] not in ("", *self.constants):
            return node
        given[zero_place] = self._zero(given[zero_place], given[place])
        given[place] = self._signed(given[place])
        return node.replaced(node.kind, given, node.attributes)

    def _dequantized(self, node: GraphNode) -> GraphNode | None:
        """Return the node for a product with a DequantizeLinear, which may be transposed; None if it is none."""
        settings = node.attributes
        if settings.get("trans_a") or settings.get("alpha", 1.0) != 1.0 or settings.get("beta", 1.0) != 1.0:
            return None
        source, turned = self._made.get(node.inputs[1]), bool(settings.get("trans_b"))
        if source is not None and source.kind == "Transpose" and source.attributes.get("perm", (1, 0)) == (1, 0):
            source, turned = self._made.get(source.inputs[0]), not turned
        if source is None or not source.kind.endswith("DequantizeLinear") or source.attributes.get("output_dtype"):
            return None
        name, *parts = [*source.inputs, ""][:3]
        block, by_row = source.attributes.get("block_size", 0), source.attributes.get("axis", 1) % 2 != turned
        if not self._is_matrix(name) or not self.constants.keys() >= {*parts} - {""}:
            return None
        if by_row if block else not (by_row or self.constants[parts[0]].numel() == 1):
            return None
        scale, zero = (self.constants[part].to_numpy() if part else np.zeros((), np.int8) for part in parts)
        scale, zero = (part.reshape(-1, 1) if part.ndim < 2 else part if turned else part.T for part in (scale, zero))
        rows = self.constants[name].to_numpy() if turned else self.constants[name].to_numpy().T
        key = f"{name}:{'rows' if turned else 'columns'}"
        return self._with_rows(node, (key, *node.inputs[2:]), rows, block or rows.shape[1], scale, zero)

    def _of_blocks(self, node: GraphNode) -> GraphNode | None:
        """Return the node for a MatMulNBits with constant ints; None for other ones."""
        _, name, scale, zero, index, *bias = [*node.inputs, "", "", ""][:6]
        settings, known = node.attributes, self.constants
        if name not in known or scale not in known or zero not in ("", *known):
            return None
        if index or (zero and known[zero].dtype != known[name].dtype) or settings["n"] * settings["k"] < QUANTIZED:
            return None
        bits, size, rows = settings["bits"], settings["block_size"], settings["n"]
        blocks = -(-settings["k"] // size)
        packed, width = known[name].to_numpy().reshape(rows, -1), blocks * size
        ints = by_rows(lambda part: unpacked(tensor(part), bits, width).to_numpy(), packed, width, np.uint8)
        centre = np.array([[2 ** (bits - 1)]], np.uint8)
        zeros = unpacked(known[zero].reshape(rows, -1), bits, blocks).to_numpy() if zero else centre
        scales = known[scale].to_numpy().reshape(rows, blocks)
        return self._with_rows(node, (f"{name}:rows", *bias), ints, size, scales, zeros)

    def _with_rows(
        self, node: GraphNode, names: Sequence[str], rows: Any, size: int, scale: Any, zero: Any
    ) -> GraphNode:
        """Return a product with the transpose of a matrix of ints, which are 4-bit ints where these hold all.

        Args:
            node: the node that it replaces.
            names: of the new matrix, and of a bias.
            rows: the matrix, (out, in).
            size: the number of elements of a row that share a scale.
            scale: the scales (out, groups), or (out, 1) or (1, 1) for fewer.
            zero: the zero points, in the same way.
        """
        low, high = int(rows.min()), int(rows.max())
        shifts = [int(zero.flat[0])] if (zero == zero.flat[0]).all() else []
        limit, shift = next(
            (limit, shift)
            for limit in (8, 128)[size % 2 :]
            for shift in (*shifts, 0, limit)
            if -limit <= low - shift and high - shift < limit
        )
        key, groups = names[0], -(-rows.shape[1] // size)

        def converted(part: Any) -> Any:
            ints = np.pad((part - np.int16(shift)).astype(np.int8), ((0, 0), (0, groups * size - part.shape[1])))
            if limit == 128:
                return ints
            first, last = np.split((ints + 8).astype(np.uint8).reshape(len(part), groups, size), 2, axis=2)
            return (first | last << 4).reshape(len(part), -1)

        if key not in self.constants:
            width, dtype = (groups * size // 2, np.uint8) if limit == 8 else (groups * size, np.int8)
            self.constants[key] = tensor(by_rows(converted, rows, width, dtype))
            self.constants[f"{key}:scale"] = tensor(np.broadcast_to(scale, (len(rows), groups)))
            offset = (zero.astype(np.int16) - shift) * scale
            self.constants[f"{key}:offset"] = tensor(np.broadcast_to(offset, (len(rows), groups)))
        offset = f"{key}:offset" if self.constants[f"{key}:offset"].to_numpy().any() else ""
        given = (node.inputs[0], key, f"{key}:scale", offset, *names[1:])
        return node.replaced("MatMulDequantized", given, {})

    def _is_matrix(self, name: str) -> bool:
        x = self.constants.get(name)
        return x is not None and x.ndim == 2 and x.dtype.name in INTS and x.numel() >= QUANTIZED

    def _signed(self, name: str) -> str:
        """Return the name of a constant as int8, less 128 if it is uint8."""
        if self.constants[name].dtype.name == "int8":
            return name
        new = f"{name}:int8"
        if new not in self.constants:
            self.constants[new] = tensor((self.constants[name].to_numpy() ^ np.uint8(128)).view(np.int8))
        return new

    def _zero(self, name: str, matrix: str) -> str:
        """Return the name of the zero points of a matrix as int8; none if all of them are 0."""
        if not name and self.constants[matrix].dtype.name == "uint8":
            self.constants[f"{matrix}:zero"] = tensor(np.array(-128, np.int8))
            return f"{matrix}:zero"
        new = self._signed(name) if name else ""
        return new if new and self.constants[new].to_numpy().any() else ""


def with_ints(graph: Graph, constants: dict[str, Any]) -> tuple[GraphNode, ...]:
    """Return the nodes of a graph with products of `_Matrices`, and dequantized weights right before they are read."""
    matrices, kept, weights = _Matrices(graph, constants), list[GraphNode](), dict[str, GraphNode]()

    def keep(node: GraphNode) -> None:
        for name in sorted(node.names_read & weights.keys()):
            keep(weights.pop(name))
        kept.append(node)

    uses = Counter([*graph.outputs, *[name for node in graph.nodes for name in node.names_read]])
    for old in graph.nodes:
        node = matrices.rewritten(old)
        uses.subtract(old.names_read - node.names_read)
        for name in old.names_read:
            if not uses[name]:
                constants.pop(name, None)
        if matrices.dequantizes(node) or (node.kind == "Transpose" and node.inputs[0] in weights):
            weights[node.outputs[0]] = node
        else:
            keep(node)
    for name in weights.keys() & {*graph.outputs}:
        keep(weights[name])
    return tuple(kept)


DEQUANTIZED = {"Conv": "ConvDequantized", "MatMul": "com.microsoft.MatMulIntegerToFloat"}
"""The products of two DequantizeLinear as products of their ints."""


class _Patterns:
    """The patterns of a graph. ``inner`` gets the results of nodes that are part of one."""

    def __init__(self, graph: Graph, arrays: Mapping[str, Any], constants: Mapping[str, Any]) -> None:
        self.arrays, self._constants = arrays, constants
        self.inner: set[str] = set()
        self._readers: dict[str, list[tuple[str, int]]] = {name: [("", 0)] for name in graph.outputs}
        for node in graph.all_nodes():
            for k, name in enumerate((*node.inputs, *node.results_read)):
                self._readers.setdefault(name, []).append((node.kind, k))
        self._made = {name: node for node in graph.nodes for name in node.outputs}
        self._products = {node.outputs[0]: made for node in graph.nodes if (made := self._of_ints(node))}
        for name, made in self._products.items():
            for k, given in enumerate(self._made[name].inputs[:2]):
                self._readers[given].remove((self._made[name].kind, k))
                self._readers[made.inputs[k]].append((made.kind, k))
                self.inner.update(() if self._readers[given] else (given,))
        self._rounded = {node.outputs[0]: made for node in graph.nodes if (made := self._requantized(node))}

    def _of_ints(self, node: GraphNode) -> GraphNode | None:
        """Return the node for a product of floats that a QuantizeLinear rounds with 8-bit ints, or a convolution."""
        kind = DEQUANTIZED.get(node.kind)
        sources = [self._made[name] for name in node.inputs[:2] if name in self._made] if kind else []
        kinds = [(x.kind, x.attributes.get("output_dtype", 0), len(x.inputs)) for x in sources]
        if kinds[:1] != [("DequantizeLinear", 0, 3)] or kinds[1:] not in ([(*kinds[0][:2], 2)], kinds[:1]):
            return None
        (ints, x_scale, x_zero), (matrix, scale, *zero), known = *[x.inputs for x in sources], self._constants
        made = self._made.get(ints)
        fits = made is not None and (made.kind, *made.inputs[1:]) == ("QuantizeLinear", x_scale, x_zero)
        if not fits or not known.keys() >= {x_scale, x_zero, matrix, scale, *zero} or known[x_scale].numel() != 1:
            return None
        dtypes = [known[name].dtype.name for name in (x_scale, scale, x_zero, matrix)]
        axes = (0,) if node.kind == "Conv" else (-1, known[matrix].ndim - 1)
        each = known[scale].ndim == 1 and sources[1].attributes.get("axis", 1) in axes
        if not (each or known[scale].numel() == 1) or dtypes[:2] != ["float32"] * 2 or not INTS.issuperset(dtypes[2:]):
            return None
        given = (ints, matrix, x_scale, scale, x_zero, *(zero or [""]), *node.inputs[2:])
        return node.replaced(str(kind), given, node.attributes if node.kind == "Conv" else {})

    def _requantized(self, node: GraphNode) -> GraphNode | None:
        """Return the node for a convolution of ints, whose bias has ints too, that a QuantizeLinear rounds."""
        product, known = self._products.get(node.inputs[0]), self._constants
        if node.kind != "QuantizeLinear" or product is None or product.kind != "ConvDequantized":
            return None
        (x, w, x_scale, w_scale, x_zero, w_zero, *bias), rounding = product.inputs, node.inputs[1:]
        numbers = [known[name] for name in rounding if name in known and known[name].numel() == 1]
        if len(numbers) != 2 or numbers[1].dtype.name not in INTS or len(self._readers[node.inputs[0]]) != 1:
            return None
        for name in tuple(bias):
            ints = self._made.get(name)
            if ints is None or ints.kind != "DequantizeLinear" or not known.keys() >= {*ints.inputs}:
                return None
            levels, scale, *zero = [known[given].to_numpy() for given in ints.inputs]
            sums = known[x_scale].to_numpy() * known[w_scale].to_numpy().reshape(-1)
            if levels.dtype != np.int32 or any(part.any() for part in zero) or not np.allclose(scale, sums, 1e-5, 0):
                return None
            bias = [ints.inputs[0]]
            self.inner.update((name,) if len(self._readers[name]) == 1 else ())
        self.inner.add(node.inputs[0])
        given = (x, x_scale, x_zero, w, w_scale, w_zero, *rounding, *bias)
        return node.replaced("QLinearConv", given, product.attributes)

    def _only(self, name: str, kinds: Container[str], inputs: int | None = None) -> GraphNode | None:
        """Return the node that makes a value; None if it is of another kind, or the value is used elsewhere too."""
        node = self._made.get(name)
        if node is None or node.kind not in kinds or len(self._readers[name]) != 1:
            return None
        return node if inputs in (None, len(node.inputs)) else None

    def rewritten(self, node: GraphNode) -> GraphNode | None:
        """Return the node of the pattern that ends with a node; None if there is none."""
        found = self._rounded.get(node.outputs[0]) or self._products.get(node.outputs[0])
        return found or self.attention(node) or self.linear(node) or self.quantization(node)

    def quantization(self, node: GraphNode) -> GraphNode | None:
        """Return the node for a QuantizeLinear and its inverse, whose ints nobody else reads."""
        if node.kind != "DequantizeLinear" or node.attributes.get("output_dtype") or node.inputs[0] in self._rounded:
            return None
        made = self._made.get(node.inputs[0])
        if made is None or made.kind != "QuantizeLinear" or len(self._readers[node.inputs[0]]) != 1:
            return None
        keys = ("axis", "block_size")
        settings, own = ({k: x.attributes[k] for k in keys if k in x.attributes} for x in (made, node))
        if made.inputs[1:] != node.inputs[1:] or settings != own:
            return None
        types = made.attributes["types"]
        settings["number"] = (types[2] if len(types) > 2 else 0) or made.attributes.get("output_dtype", 0)
        self.inner.add(node.inputs[0])
        return node.replaced("QuantizeDequantize", made.inputs, settings)

    def linear(self, node: GraphNode) -> GraphNode | None:
        """Return the node for ``x @ weight + bias``, with a matrix and a vector of the parameters."""
        if node.kind != "Add" or len(node.inputs) != 2:
            return None
        for name, bias in (node.inputs, node.inputs[::-1]):
            product = self._only(name, ("MatMul",), 2)
            names = () if product is None else (product.inputs[1], bias)
            shapes = [self.arrays[each].shape for each in names if each in self.arrays]
            if product and [*map(len, shapes)] == [2, 1] and shapes[0][1:] == shapes[1]:
                self.inner.add(name)
                return node.replaced("Linear", (*product.inputs, bias), {})
        return None

    def attention(self, node: GraphNode) -> GraphNode | None:
        """Return the node for ``softmax(q @ k + mask) @ v``, with or without a mask."""
        weights = self._only(node.inputs[0], ("Softmax",), 1) if node.kind == "MatMul" else None
        if weights is None or weights.attributes.get("axis", -1) != -1 or weights.attributes["opset"] < 13:
            return None
        added = self._only(weights.inputs[0], ("Add",), 2)
        sums = [(weights.inputs[0],)] if added is None else [added.inputs, added.inputs[::-1]]
        for name, *mask in sums:
            if (scores := self._only(name, ("MatMul",), 2)) is not None:
                self.inner.update((node.inputs[0], weights.inputs[0], name))
                return node.replaced("Attend", (*scores.inputs, node.inputs[1], *mask), {})
        return None
