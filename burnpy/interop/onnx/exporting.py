"""`export`: a model as an ONNX file; `verify`: its results beside the file's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.entries import Operation
from burnpy.backend.errors import ArgumentError, ExportError, path_shown
from burnpy.backend.lazy import needed
from burnpy.backend.storage import path_of, refuse_url, replace
from burnpy.func.pytree import flatten
from burnpy.interop.onnx.operators.table import WHOLE_NODE, Conditional, rule_of
from burnpy.interop.onnx.operators.whole_nodes import nonzero
from burnpy.interop.onnx.reader import BUFFERS
from burnpy.interop.onnx.sizes import LOOPS, Size, Symbols, UnknownSizeError, symbols_of
from burnpy.interop.onnx.tracing import Inputs, MissingResultError, Trace, inputs_of, traces
from burnpy.record.safetensors_file import write_all
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor_base import TensorBase

if TYPE_CHECKING:
    from io import FileIO

    from burnpy.interop.onnx.writer import Writer

OLDEST = 18
"""The first opset that has the operators of all rules."""

_version = cache(version)  # which searches all installed packages

_MULTIPLE = 16
"""The largest multiple to which sizes that nothing divides are rounded."""

LARGE = 2**30
"""The bytes of parameters from which on they are written beside the file; protobuf ends at 2 GB."""
_MOVED, _PAGE = 1024, 4096  # bytes from which on a tensor is moved there, and what its place is a multiple of


@explained
def export(
    model: Callable[..., Any],
    inputs: tuple[Any, ...],
    path: str | os.PathLike[str],
    *,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    opset: int = 23,
    outputs: tuple[str, ...] = (),
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a model as an ONNX file.

    The model is called with the inputs, and its operations are recorded: the file has those, for inputs of these shapes
    but in dynamic dimensions. For these the model is recorded with other sizes as well, and numbers that differ are
    computed in the file, from shapes. Parameters and buffers are initializers with their paths as names.

    Args:
        model: a module on a device that does not differentiate, as ``valid()`` returns it, or a function of tensors.
        inputs: a tuple of example inputs, trees of tensors. They are named as the parameters of ``forward``, members of
            trees by their path, as in ``x[0]``.
        path: of the file. Parameters of more than a GiB are written beside it, in a file that ends in ``.data``.
        dynamic: the names of dimensions that vary, by input and dimension: ``{"x": {0: "batch"}}``, or
            ``{"x": {2: "32*height"}}`` for one that is always a multiple of 32, or ``{"mask": {1: "past + length"}}``
            for the sum of others.
        opset: the version of ONNX's operators, from 18 on. Newer ones have more operators, such as
            Attention from 23 on.
        outputs: the names of the outputs; by default ``output``, with the path where there are several.
        metadata: texts that the file keeps.

    Raises:
        ExportError: an operation, or a number that varies with dynamic sizes, cannot be expressed; the message has the
            line of the model.
        RecordingError: a step of the model depends on values, as ``if x.sum() > 0`` does.
        ArgumentError: the model's device differentiates, the opset is unknown, or a name does not exist.
        KindError: an input is no tensor.
        MissingPackageError: onnx is not installed.
        RecordFileError: the file cannot be written; an older one stays as it was.

    >>> import onnx
    >>> from burnpy import interop
    >>> from burnpy.nn import Linear, Relu, Sequential
    >>> model = Sequential(Linear(4, 8, device=NumPy), Relu(), Linear(8, 2, device=NumPy))
    >>> interop.onnx.export(model, (Tensor[NumPy].zeros((1, 4)),), "model.onnx", dynamic={"x": {0: "batch"}})
    >>> [node.op_type for node in onnx.load("model.onnx").graph.node]
    ['MatMul', 'Add', 'Relu', 'MatMul', 'Add']
    """
    onnx = needed("onnx", "export()", "onnx", "onnx")
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise ArgumentError(
            f"export() got opset={opset}, expected {OLDEST} to {newest}, the opsets of onnx {onnx.__version__}"
        )
    target = path_of(path, "export()")
    refuse_url(target, "export()")
    given = inputs_of(model, inputs)
    symbols, numbers = symbols_of(given.named, given.call.leaves, dynamic or {})
    writer, infos, results = _written(onnx, model, given, symbols, numbers, opset, outputs)
    writer.prune([info.name for info in results])
    name = type(model).__name__ if hasattr(model, "forward") else getattr(model, "__name__", "model")
    graph = onnx.helper.make_graph(writer.nodes, name, infos, results, list(writer.initializers.values()))
    imports = [onnx.helper.make_opsetid("", opset)]
    proto = onnx.helper.make_model(
        graph,
        opset_imports=imports,
        ir_version=onnx.helper.find_min_ir_version_for(imports),
        producer_name="burnpy",
        producer_version=_version("burnpy"),
    )
    buffers = [path for path in given.buffers if path in writer.initializers]
    onnx.helper.set_model_props(proto, {**({BUFFERS: json.dumps(buffers)} if buffers else {}), **(metadata or {})})
    _save(onnx, proto, target)


class _Decompositions:
    """Which operations are recorded as their defaults, or as loops, for an opset."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.defaults: set[str] = set()  # the operations with rules that their defaults replace
        self.stepped: dict[str, Callable[..., Any]] = {}  # the loops for operations that the model has
        self.loops: Mapping[str, Callable[..., Any]] = {}  # those that are used

    def __call__(self, op: Operation, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the function to record instead of an operation; None to record the operation."""
        rule = rule_of(op)
        if op.required:
            return nonzero if rule == WHOLE_NODE else None
        if op.name in LOOPS:
            self.stepped[op.name] = LOOPS[op.name]
        if isinstance(rule, Conditional) and (self.opset < rule.since or not (rule.when is None or rule.when(*args))):
            rule = None
        return self.loops.get(op.name, op.function) if rule is None or op.name in self.defaults else None


def _written(
    onnx: Any,
    model: Callable[..., Any],
    given: Inputs,
    symbols: Symbols,
    numbers: Mapping[str, int],
    opset: int,
    outputs: tuple[str, ...],
) -> tuple[Writer, list[Any], list[Any]]:
    """Record a model for several dynamic sizes, and write its nodes; again for operations without a rule.

    Returns:
        The graph, and the descriptions of its inputs and of its outputs.
    """
    from burnpy.interop.onnx.writer import Writer

    decompositions, least = _Decompositions(opset), 1
    while True:
        recorded = traces(model, given, symbols, numbers, decompositions, least)
        _name_outputs(recorded, outputs, {*given.named, *given.parameters.values()})
        try:
            writer = Writer(onnx, opset, recorded, *_named(given, recorded[0]))
            infos, sizes = _inputs_of(writer, given, recorded[0], symbols)
            return writer, infos, writer.outputs(sizes)
        except MissingResultError as missing:
            decompositions.defaults.add(missing.operation)
        except UnknownSizeError as unknown:
            if least > 1:
                raise unknown.args[0] from None
            least = _MULTIPLE
        except ExportError:
            if len(recorded) == 1 or decompositions.loops or not decompositions.stepped:
                raise
            decompositions.loops = decompositions.stepped  # the number of steps may be what differs


def _inputs_of(writer: Writer, given: Inputs, first: Trace, symbols: Symbols) -> tuple[list[Any], dict[Any, str]]:
    """Return the descriptions of the inputs, and the names of sizes that are dynamic dimensions of them."""
    sizes: dict[Any, str] = {}
    named = {number: name for name, number in given.named.items()}
    infos = []
    for number, ref in zip(first.inputs, first.recording.inputs, strict=True):
        if number in named:
            shape = writer.operand(ref).shape
            dims = [(k, size) for k, size in enumerate(shape) if isinstance(size, Size)]
            sizes.update({size.values: symbols[number, k].text for k, size in dims})
            infos.append(writer.info(named[number], shape, ref.dtype, sizes))
    return infos, sizes


def _name_outputs(recorded: list[Trace], outputs: tuple[str, ...], taken: set[str]) -> None:
    """Give the outputs of recordings names that no input and no parameter has: those of the user, or their paths."""
    count = len(recorded[0].outputs)
    if outputs and len(outputs) != count:
        raise ArgumentError(f"export(outputs={outputs}) names {len(outputs)} outputs, and the model has {count}")
    wrong = next((name for k, name in enumerate(outputs) if not name or name in taken or name in outputs[:k]), None)
    if wrong is not None:
        raise ArgumentError(
            f"export(outputs={outputs}) has {wrong!r}, which is empty, or is the name of an input, a parameter or "
            "another output; choose another name"
        )
    for trace in recorded:
        names = outputs or [f"{name}_out" if name in taken else name for name in trace.outputs]
        renamed = dict(zip(names, trace.outputs.values(), strict=True))
        trace.outputs.clear()
        trace.outputs.update(renamed)


def _named(given: Inputs, trace: Any) -> tuple[dict[int, str], dict[int, Any]]:
    """Return the names of the inputs of a recording, and the values of its parameters."""
    named = {number: name for name, number in given.named.items()}
    names: dict[int, str] = {}
    parameters: dict[int, Any] = {}
    for number, ref in zip(trace.inputs, trace.recording.inputs, strict=True):
        if number in named:
            names[ref.number] = named[number]
        else:
            names[ref.number] = given.parameters.get(number, f"parameter_{number}")
            parameters[ref.number] = given.call.leaves[number].to_numpy()
    return names, parameters


def _save(onnx: Any, proto: Any, path: str) -> None:
    """Check a model and write it, large parameters beside it: an existing file stays as it is on failure."""
    large = sum(tensor.ByteSize() for tensor in proto.graph.initializer) > LARGE
    if large:
        _move_beside(onnx, proto.graph.initializer, path)
    else:
        _check(onnx, proto)
    replace(path, lambda file: write_all(file, memoryview(proto.SerializeToString())))
    if large:
        _check(onnx, path)


def _move_beside(onnx: Any, tensors: Any, path: str) -> None:
    """Write the data of tensors to a file beside the model, and put their places there into the model."""
    place, end = f"{path}.data", 0
    moved = [tensor for tensor in tensors if len(tensor.raw_data) >= _MOVED]

    def fill_in(file: FileIO) -> None:
        for tensor in moved:
            file.seek(int(next(entry.value for entry in tensor.external_data if entry.key == "offset")))
            write_all(file, memoryview(tensor.raw_data))

    for tensor in moved:
        start = -(-end // _PAGE) * _PAGE
        end = start + len(tensor.raw_data)
        onnx.external_data_helper.set_external_data(
            tensor, os.path.basename(place), offset=start, length=len(tensor.raw_data)
        )
    replace(place, fill_in)
    for tensor in moved:
        tensor.ClearField("raw_data")


def _check(onnx: Any, model: Any) -> None:
    """Raise an error for a model, or the path of one, that ONNX's definition of operators does not allow."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ExportError(f"export() cannot write the model, as ONNX refuses it: {error}") from error


class Difference(NamedTuple):
    """How one output of a file differs from the model's."""

    output: str
    shape: tuple[int, ...]
    largest: float  #: the largest difference; NaN where only one of them is NaN
    relative: float  #: the largest difference, divided by the largest element of the model's output


@explained
def verify(path: str | os.PathLike[str], model: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Difference]:
    """Run an exported file in onnxruntime, and return the differences of its outputs from the model's.

    Args:
        path: the file that `export` wrote.
        model: the model that it was written of.
        inputs: a tuple of inputs, as for `export`; dynamic dimensions may have any size.

    Raises:
        ArgumentError: the file has other inputs or outputs than the model, or an output has another shape.
        ExportError: onnxruntime cannot run the file; the message names the node.
        MissingPackageError: onnxruntime is not installed.
    """
    runtime = needed("onnxruntime", "verify()", "onnxruntime", "")
    given = inputs_of(model, inputs)
    settings = runtime.SessionOptions()
    settings.log_severity_level = 4  # errors are raised, too
    session = _run(path, lambda: runtime.InferenceSession(os.fspath(path), settings, ["CPUExecutionProvider"]))
    names = [value.name for value in session.get_inputs()]
    unknown = [name for name in names if name not in given.named]
    if unknown:
        raise ArgumentError(f"verify() got a file with the inputs {names} and a model with {list(given.named)}")
    arrays = {name: given.call.leaves[given.named[name]].to_numpy() for name in names}
    theirs = _run(path, lambda: session.run(None, arrays))
    ours: list[Any] = [leaf for leaf in flatten(model(*inputs), whole=True)[0] if isinstance(leaf, TensorBase)]
    outputs = [value.name for value in session.get_outputs()]
    if len(ours) != len(outputs):
        raise ArgumentError(f"verify() got a file with the outputs {outputs} and a model with {len(ours)}")
    return [_difference(name, x.to_numpy(), y) for name, x, y in zip(outputs, ours, theirs, strict=True)]


def _run(path: str | os.PathLike[str], f: Callable[[], Any]) -> Any:
    """Call a function of onnxruntime."""
    try:
        return f()
    except Exception as error:  # onnxruntime's have no common class
        text = str(error)
        node = re.search(r"running (\w+) node\. Name:'([^']*)'|Node \(([^)]*)\)", text)
        kind, name = ("", "") if node is None else (node[1] or "", node[2] or node[3] or "")
        where = f" at the node {name!r}" + (f" ({kind})" if kind else "") if name else f" at a {kind}" if kind else ""
        reason = " ".join(text.rpartition("Status Message: ")[2].split())
        raise ExportError(f"verify(): onnxruntime cannot run {path_shown(path)}{where}: {reason}") from error


def _difference(name: str, ours: Any, theirs: Any) -> Difference:
    """Return the differences of one output."""
    if ours.shape != theirs.shape:
        raise ArgumentError(
            f"verify() got output {name!r} of shape {theirs.shape} from the file and {ours.shape} from the model"
        )
    if not ours.size:
        return Difference(name, ours.shape, 0.0, 0.0)
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.where(same, 0.0, np.abs(a - b))))
    scale = float(np.max(np.abs(np.where(np.isfinite(a), a, 0.0))))
    return Difference(name, ours.shape, largest, largest / scale if scale else largest)
