"""`Writer`: the ONNX graph of a model's recordings, written by the rules of its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from burnpy.backend.backend import operations
from burnpy.backend.call_origin import format_lines, lines_of
from burnpy.backend.dtypes import int64, part_dtype
from burnpy.backend.entries import Operation
from burnpy.backend.errors import ExportError
from burnpy.backend.plans.recording import Node, Recording, Ref, refs_in
from burnpy.backend.primitives import DType
from burnpy.backend.schema import Algebra
from burnpy.interop.onnx.operators.control_flow import blocks_written, names_read, rename
from burnpy.interop.onnx.operators.elementwise import write_complex, write_imag, write_real
from burnpy.interop.onnx.operators.table import REFUSED, WIDE, Conditional, Operand, common_dtype, rule_of
from burnpy.interop.onnx.operators.whole_nodes import fixed_results
from burnpy.interop.onnx.sizes import (
    DifferError,
    Size,
    UnknownSizeError,
    Varying,
    expression_of,
    merged,
    merged_numbers,
    merged_size,
    power_of,
)
from burnpy.interop.onnx.tracing import MissingResultError, Trace


class Writer:
    """The graph that is written: the `burnpy.interop.onnx.operators.table.GraphWriter` of the rules.

    Args:
        onnx: the package.
        opset: the version of the operators.
        traces: the recordings; the first gives shapes and constants.
        names: the names of the inputs of the recordings, by the number of the value.
        parameters: those of them that become initializers.
    """

    def __init__(
        self, onnx: Any, opset: int, traces: Sequence[Trace], names: Mapping[int, str], parameters: Mapping[int, Any]
    ) -> None:
        self._onnx, self.opset = onnx, opset
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self._traces = traces
        self._recordings: Sequence[Recording] = [trace.recording for trace in traces]  # of the graph, or of a body
        self._names: dict[int, str] = dict(names)  # of the values of these recordings
        self._taken = {*names.values(), *traces[0].outputs}
        self._known: dict[Any, Any] = {}  # nodes, constants and sizes that were written
        self._dims: dict[tuple[int, ...], tuple[str, int]] = {}  # the dimensions that vary: a value and the number
        self._line = ""
        self._shapes = self._merged_shapes()
        for number, value in parameters.items():
            self._initializer(self._names[number], value)
        for ref in self._recordings[0].inputs:
            self._note_dims(ref)
        self._write({ref.number for ref in traces[0].outputs.values() if isinstance(ref, Ref)})

    def _merged_shapes(self) -> dict[int, tuple[Any, ...]]:
        """Return the shape of each value, whose sizes may vary."""
        nodes = [recording.nodes for recording in self._recordings]
        for row in zip(*nodes, strict=False):
            for node, trace in zip(row, self._traces, strict=True):
                if node.name != row[0].name:
                    self._at(row[0])
                    raise self._differs(f"it calls {row[0].name}()", f"and {node.name}()", trace)
        for other, trace in zip(nodes, self._traces, strict=True):
            if len(other) != len(nodes[0]):
                raise self._differs("it calls more operations", "than", trace)
        shapes: dict[int, tuple[Any, ...]] = {}
        columns = [[*r.inputs, *r.outputs] for r in self._recordings]
        for column, own in zip(columns, nodes, strict=True):
            column += [x for node in own for x in refs_in((node.args, node.results))]
        for row in zip(*columns, strict=True):
            for ref, trace in zip(row, self._traces, strict=True):
                if len(ref.shape) != len(row[0].shape):
                    raise self._differs("a tensor has more dimensions", "than", trace)
            shapes[row[0].number] = tuple(
                [merged_size(sizes) for sizes in zip(*[ref.shape for ref in row], strict=True)]
            )
        return shapes

    # What rules call

    def node(self, kind: str, *inputs: Any, results: int = 1, **attributes: Any) -> Any:
        """Add a node, and return the name of its result, or a list of names; None is an absent input."""
        names = [name.name if isinstance(name, Operand) else name or "" for name in inputs]
        while names and not names[-1]:
            names.pop()
        settings = {key: self._attribute(kind, key, value) for key, value in attributes.items()}
        key = (kind, tuple(names), results, repr(sorted(settings.items())))
        if key not in self._known:
            outputs = [self._name(kind.lower()) for _ in range(results)]
            self._add(kind, names, outputs, **settings)
            self._known[key] = outputs
        found = self._known[key]
        return found[0] if results == 1 else found

    def _add(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **settings: Any) -> None:
        self.nodes.append(self._onnx.helper.make_node(kind, inputs, outputs, name=outputs[0], **settings))

    def constant(self, value: Any, dtype: DType) -> str:
        """Return the name of a 0-d constant; a size or number that varies is computed from shapes."""
        if isinstance(value, Size):
            scalar = self.node("Squeeze", self._size(value.values), self.sizes((0,)))
            return str(scalar if dtype == np.int64 else self.node("Cast", scalar, to=dtype))
        if isinstance(value, Varying):
            return self._number(value.values, dtype)
        key = ("constant", repr(value), dtype)
        if key not in self._known:
            self._known[key] = self._constant_array(np.asarray(value).astype(dtype))
        return str(self._known[key])

    def sizes(self, sizes: Sequence[Any]) -> str:
        """Return the name of a vector of int64 with these sizes."""
        if any(isinstance(size, Size) for size in sizes):
            parts = [self._size(s.values) if isinstance(s, Size) else self.sizes((s,)) for s in sizes]
            return str(self.node("Concat", *parts, axis=0))
        key = ("sizes", tuple(sizes))
        if key not in self._known:
            self._known[key] = self._initializer(self._name("sizes"), np.array(sizes, np.int64).reshape(-1))
        return str(self._known[key])

    def cast(self, x: Any, dtype: DType) -> str:
        """Return the name of an operand, or of a number, as one of this dtype."""
        if not isinstance(x, Operand):
            return self.constant(x, dtype)
        return x.name if x.dtype == dtype else str(self.node("Cast", x, to=dtype))

    def each(self, f: Callable[..., float], *sizes: Any) -> Any:
        """Return ``f(*sizes)``: a number if it is the same for all sizes, else one that varies between calls."""
        count = len(self._traces)
        columns = [x.values if isinstance(x, Varying) else (x,) * count for x in sizes]
        return merged([f(*row) for row in zip(*columns, strict=True)], self.operand)

    def filling(self, x: Operand) -> str | None:
        """Return the name of the 0-d constant that an operand repeats, if it does."""
        made = next((node for node in self.nodes[::-1] if x.name in node.output), None)
        if made is None or made.op_type != "Expand":
            return None
        number = next((node for node in self.nodes if made.input[0] in node.output), None)
        is_number = number and number.op_type == "Constant" and not number.attribute[0].t.dims
        return str(made.input[0]) if is_number else None

    # Values

    def operand(self, ref: Ref) -> Operand:
        """Return a value of the recordings as an operand."""
        name = self._names.get(ref.number)
        if name is None:
            name = self._names[ref.number] = self._constant_of(ref)
        return Operand(name, self._shapes[ref.number], ref.dtype)

    def _constant_of(self, ref: Ref) -> str:
        """Return the name of a constant of the recordings."""
        pairs = zip(self._traces, self._recordings, strict=True)
        return self.same_array([np.asarray(t.device.to_numpy(r.constants[ref.number])) for t, r in pairs])

    def same_array(self, arrays: Sequence[Any]) -> str:
        """Return the name of a constant, given the one of each recording; a few numbers may vary with sizes."""
        first = arrays[0]
        if (numbers := merged_numbers(arrays)) is not None:
            parts = [self.node("Unsqueeze", self.constant(x, first.dtype), self.sizes((0,))) for x in numbers]
            return str(self.node("Reshape", self.node("Concat", *parts, axis=0), self.sizes(first.shape)))
        if any(a.shape != first.shape or a.tobytes() != first.tobytes() for a in arrays):
            raise self.error(
                "it computes with an array of NumPy that differs with the sizes of its inputs; compute it from "
                "tensors, as with IntTensor.arange(x.shape[0], device=x.device)"
            )
        return self._constant_array(first)

    def _constant_array(self, array: Any) -> str:
        """Add a constant: floats as a node, since initializers of floats are parameters."""
        name = self._name("constant")
        if array.dtype.kind == "c":
            array = np.stack([array.real, array.imag], -1)
        if array.dtype.kind not in "fV":
            return self._initializer(name, array)
        self._add("Constant", [], [name], value=self._onnx.numpy_helper.from_array(array, name))
        return name

    def _initializer(self, name: str, array: Any) -> str:
        self.initializers[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def _name(self, stem: str) -> str:
        k = len(self._taken)
        while f"{stem}_{k}" in self._taken:
            k += 1
        self._taken.add(f"{stem}_{k}")
        return f"{stem}_{k}"

    def _note_dims(self, ref: Ref) -> None:
        for k, size in enumerate(self._shapes[ref.number]):
            if isinstance(size, Size):
                self._dims.setdefault(size.values, (self._names[ref.number], k))

    def _size(self, values: tuple[int, ...]) -> str:
        """Return the name of a vector of one size that varies."""
        if values in self._dims:
            name, axis = self._dims[values]
            return str(self.node("Shape", name, start=axis, end=axis + 1))
        found = expression_of(values, list(self._dims))
        if found is None:
            why = f"a size is {Size(values)}, which export() cannot express by {self._tried()}; make it static"
            raise UnknownSizeError(self.error(why))
        out = self._size(found.one)
        if found.modulo:
            return str(self.node("Mod", self.sizes((found.offset,)), out))
        if found.two is not None:
            out = self.node("Mul", out, self._size(found.two))
        division = "Mod" if found.remainder else "Div"
        steps = [("Mul", found.numerator, 1), ("Add", found.offset, 0), (division, found.denominator, 1)]
        for kind, number, neutral in (*steps, ("Mul", found.scale, 1), ("Add", found.shift, 0)):
            out = out if number == neutral else self.node(kind, out, self.sizes((number,)))
        return str(out)

    def _number(self, values: tuple[float, ...], dtype: DType) -> str:
        """Return the name of a float that varies."""
        found = power_of(values, list(self._dims))
        whole = tuple([int(value) for value in values if value.is_integer()])
        if found is None and whole == values and expression_of(whole, list(self._dims)) is not None:
            return self.constant(Size(whole), dtype)
        if found is None:
            raise self.error(
                f"a number is {Varying(values)}, which export() cannot express by {self._tried()}; compute it with "
                "tensors, or make that dimension static"
            )
        size, power, factor = found
        out = self.node("Cast", self.constant(Size(size), np.dtype(np.int64)), to=np.dtype(np.float64))
        for kind in reversed(power.split(" of ")):
            out = self.node(kind, out) if kind else out
        if factor != 1.0:
            out = self.node("Mul", out, self.constant(factor, np.dtype(np.float64)))
        return str(self.node("Cast", out, to=dtype))

    def _tried(self) -> str:
        """Return the sizes that are known, in some recordings."""
        known = [*map(Size, self._dims)]
        return ", ".join(map(str, known[:4])) + (f" and {len(known) - 4} more" if len(known) > 4 else "")

    def _attribute(self, kind: str, key: str, value: Any) -> Any:
        """Return an attribute as `helper.make_node` takes it."""
        if isinstance(value, np.dtype):
            return self._onnx.helper.np_dtype_to_tensor_dtype(value)
        if any(isinstance(member, Varying) for member in (value if isinstance(value, list) else [value])):
            raise self.error(f"{key} of {kind} would vary with the sizes of its inputs; make that dimension static")
        return value

    # The recordings

    def body(self, recordings: Sequence[Recording], inputs: Sequence[str]) -> list[Operand]:
        """Write the recordings of a loop's body or of a branch into the current graph, and return their outputs.

        Args:
            recordings: one for each recording of the model.
            inputs: the names of their inputs.
        """
        outside = self._recordings, self._names, self._shapes
        self._recordings = recordings
        try:
            self._names = {ref.number: name for ref, name in zip(recordings[0].inputs, inputs, strict=True)}
            self._shapes = self._merged_shapes()
            for ref in recordings[0].inputs:
                self._note_dims(ref)
            self._write({ref.number for ref in recordings[0].outputs})
            return [self.operand(ref) for ref in recordings[0].outputs]
        finally:
            self._recordings, self._names, self._shapes = outside

    def graph(self, name: str, inputs: Sequence[Operand], write: Callable[[], Sequence[Operand]]) -> Any:
        """Return a graph inside of this one, which may read the values outside of it.

        Its inputs have new names; ``write`` writes its nodes, and returns its outputs.
        """
        outside = self.nodes, self._known, self._dims
        self.nodes, self._known, self._dims = [], dict(self._known), dict(self._dims)
        try:
            outputs = []
            for x in write():
                outputs.append(Operand(self._name("output"), x.shape, x.dtype))
                self._add("Identity", [x.name], [outputs[-1].name])
            infos = [[self.info(x.name, x.shape, x.dtype, {}) for x in row] for row in (inputs, outputs)]
            return self._onnx.helper.make_graph(self.nodes, name, *infos)
        finally:
            self.nodes, self._known, self._dims = outside

    def inside(self, x: Operand, sliced: bool = False) -> Operand:
        """Return an operand under a new name, as the input of a graph; with ``sliced``, a slice of its first dim."""
        return Operand(self._name("input"), x.shape[1:] if sliced else x.shape, x.dtype)

    def _write(self, live: set[int]) -> None:
        """Write the nodes of the recordings on which the values ``live``, by number, depend."""
        rows: list[tuple[Node, ...]] = []
        for row in reversed(list(zip(*[recording.nodes for recording in self._recordings], strict=True))):
            if any(ref.number in live for ref in refs_in(row[0].results)):
                live.update(ref.number for ref in refs_in(row[0].args))
                rows.append(row)
        for row in reversed(rows):
            self._at(row[0])
            try:
                args = [merged(column, self.operand) for column in zip(*[node.args for node in row], strict=True)]
            except DifferError as error:
                other = self._traces[error.recording]
                raise self._differs(f"it calls {row[0].name}() otherwise", "than", other) from None
            results: Sequence[Any]
            if (fixed := fixed_results(row, self._shapes, [trace.device for trace in self._traces])) is not None:
                results = [self.same_array(arrays) for arrays in fixed]
            elif row[0].name == "nested":
                results = blocks_written(self, [node.args[0] for node in row], args[1])
            else:
                results = self._with_wide_ints(row[0], args)
            for ref, name in zip(refs_in(row[0].results), results, strict=True):
                if name is None and ref.number in live:
                    raise MissingResultError(row[0].name)
                if name is None or (callable(name) and ref.number not in live):
                    continue
                written: Any = name() if callable(name) else name
                self._names[ref.number] = written.name if isinstance(written, Operand) else written
                self._note_dims(ref)

    def _with_wide_ints(self, node: Node, args: list[Any]) -> Sequence[Any]:
        """Write one operation, of int64 if the operators do not have it for the dtype of its ints."""
        op = operations().get(node.name)
        given = {x.dtype.name for x in args if isinstance(x, Operand)} - {"bool", "int32", "int64"}
        if not given or not given <= WIDE.get(node.name, frozenset()):
            return self._written(op, node.name, args)
        names = self._written(op, node.name, [self._wide(x) for x in args])
        dtypes = [ref.dtype for ref in refs_in(node.results)]
        return [self.cast(Operand(name, (), int64), dtype) for name, dtype in zip(names, dtypes, strict=True)]

    def _wide(self, x: Any) -> Any:
        return Operand(self.cast(x, int64), x.shape, int64) if isinstance(x, Operand) and x.dtype.kind in "iu" else x

    def _written(self, op: Operation | None, name: str, args: list[Any]) -> Sequence[Any]:
        """Write one operation, and return the names of its results."""
        rule = None if op is None else rule_of(op)
        if op is None or rule is None or rule == REFUSED:
            raise self.error(f"it calls {name}(), which ONNX cannot express")
        of_pairs = "Complex" in [a.kind for a in op.arguments]  # by a rule for pairs
        if not of_pairs and any(x.dtype.kind == "c" for x in args if isinstance(x, Operand)):
            return self._by_parts(op, args)
        write = rule.write if isinstance(rule, Conditional) else rule
        if isinstance(write, str):
            operands = [x for x, argument in zip(args, op.arguments, strict=True) if argument.kind is not None]
            dtype = common_dtype(*operands)
            return (self.node(write, *[self.cast(x, dtype) for x in operands]),)
        try:
            results = write(self, *args)
        except TypeError as error:
            if "Size" not in str(error):
                raise
            raise self.error(
                f"the arguments of {name}() vary with the sizes of its inputs; make the dimension static"
            ) from None
        alone = isinstance(results, (str, Operand))
        return (results,) if alone else results

    def _by_parts(self, op: Operation, args: list[Any]) -> Sequence[Any]:
        """Write an operation of complex numbers, which are pairs, on both parts, if it is linear or a product."""
        scaled = op.name in ("mul", "div") and isinstance(args[1], (int, float))
        linear = scaled or op.algebra in (Algebra.LINEAR, Algebra.STRUCTURAL)
        if not linear and op.algebra is not Algebra.BILINEAR:
            raise self.error(
                f"it calls {op.name}() of complex numbers, which ONNX cannot express; compute with z.real and z.imag"
            )
        given: list[list[Any]] = []
        for part, take in (("real", write_real), ("imag", write_imag)):

            def of(x: Any, scalar: bool, part: str = part, take: Any = take) -> Any:
                if isinstance(x, Operand) and x.dtype.kind == "c":
                    return Operand(take(self, x), x.shape, part_dtype(x.dtype))
                if isinstance(x, (list, tuple)) and x and isinstance(x[0], Operand):
                    return [of(member, False) for member in x]
                return float(getattr(complex(x), part)) if scalar and isinstance(x, (int, float, complex)) else x

            given.append([of(x, a.scalar and not scaled) for x, a in zip(args, op.arguments, strict=True)])
        if linear:
            return (write_complex(self, *[name for row in given for name in self._written(op, op.name, row)]),)
        (a, b), (c, d) = given
        pairs = [
            [self._written(op, op.name, [*row])[0] for row in rows] for rows in (((a, b), (c, d)), ((a, d), (c, b)))
        ]
        return (write_complex(self, self.node("Sub", *pairs[0]), self.node("Add", *pairs[1])),)

    def _at(self, node: Node) -> None:
        lines = format_lines(lines_of(node.line))
        self._line = f"\n{lines}" if lines else ""

    def error(self, why: str) -> ExportError:
        """Return the error that says why the model cannot be written, with the line of the current operation."""
        return ExportError(f"export() cannot write the model: {why}{self._line}")

    def _differs(self, some: str, others: str, trace: Trace) -> ExportError:
        """Return the error for a model whose operations depend on sizes, given a recording that has other ones."""
        first, other = [", ".join([f"{k} = {n}" for k, n in t.sizes.items()]) for t in (self._traces[0], trace)]
        return self.error(
            f"{some} for some sizes of its inputs ({first}) {others} for others ({other}); where a size is always a "
            'multiple, say so in dynamic=..., as with "32*height"'
        )

    # The whole

    def outputs(self, symbols: Mapping[tuple[int, ...], str]) -> list[Any]:
        """Name the outputs, and return their descriptions; ``symbols`` has the names of sizes that vary."""
        infos = []
        renamed: dict[str, str] = {}
        for name, ref in self._traces[0].outputs.items():
            x = self.operand(ref) if isinstance(ref, Ref) else ref
            value = x.name if x is not ref else self.same_array([trace.outputs[name] for trace in self._traces])
            if value in renamed or value in self.initializers or not any(value in node.output for node in self.nodes):
                self._add("Identity", [renamed.get(value, value)], [name])
            else:
                renamed[value] = name
                for node in self.nodes:
                    rename(node, value, name)
            infos.append(self.info(name, x.shape, x.dtype, symbols))
        return infos

    def info(self, name: str, shape: tuple[Any, ...], dtype: DType, symbols: Mapping[tuple[int, ...], str]) -> Any:
        """Return the description of an input or output."""
        if dtype.kind == "c":
            raise self.error("it takes or returns complex numbers, which ONNX does not have; pass z.real and z.imag")
        sizes = [symbols.get(size.values) if isinstance(size, Size) else size for size in shape]
        return self._onnx.helper.make_tensor_value_info(name, self._onnx.helper.np_dtype_to_tensor_dtype(dtype), sizes)

    def prune(self, outputs: Sequence[str]) -> None:
        """Drop the nodes and constants that no output needs."""
        needed = set(outputs)
        kept: list[Any] = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                read = names_read(node)
                required = self._onnx.defs.get_schema(node.op_type, node.domain).min_output
                if len(read) > len(node.input):  # it has graphs, whose outputs are as many
                    required = len(node.output)
                while node.output[-1] not in needed and len(node.output) > required:
                    del node.output[-1]
                kept.append(node)
                needed.update(read)
        self.nodes = kept[::-1]
        self.initializers = {name: tensor for name, tensor in self.initializers.items() if name in needed}
