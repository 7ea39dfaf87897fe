"""`save`, `load` and `Record`: a checkpoint is one safetensors file, with trees of other values encoded as JSON.

Decoding creates plain values only and executes nothing: a file cannot name a class.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from burnpy.backend.dtypes import DTYPES, dtype_of
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    CallError,
    DTypeError,
    KindError,
    MissingPartError,
    RecordError,
    a,
    path_shown,
    raised_by_other_code,
)
from burnpy.backend.storage import path_of
from burnpy.nn.module import Module
from burnpy.nn.module_state import Entry, State, StateReport
from burnpy.nn.module_tree import joined
from burnpy.record.fitting import DTypePolicy, Remap, fit, fitted, refuse_no_model, remapped
from burnpy.record.safetensors_file import DIGEST, MARK, METADATA, brief, damaged, read, write
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.generator import Generator
from burnpy.tensor.host_data import refuse_masked
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import M, T

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TENSOR, _TUPLE, _ENTRY, _DICT, _OPTIMIZER = "$tensor", "$tuple", "$entry", "$dict", "$optimizer"


@dataclass(frozen=True, eq=False, repr=False)
class Record(metaclass=Explaining):
    """The contents of a file that `load` read: the parts passed to `save`, as attributes and by ``record[name]``.

    A module is stored as the result of its ``into_record()``: an `Entry` of id and read-only array for each path. An
    optimizer is stored as a `burnpy.optim.OptimizerRecord`, for ``optim.load_record(record.optim, model)``, and a
    generator as its state, for ``generator.set_state(record.generator)``. Plain values and arrays are returned as
    they were saved. `part` returns a part with a checked type.

    Raises:
        MissingPartError: on accessing a part that does not exist.
    """

    parts: Mapping[str, Any]  #: all parts, by name
    path: str  #: the path of the file
    checked: bool  #: whether the file has a checksum (which has been verified); files of other programs have none

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `copy` and `pickle` look these up before ``parts`` is set
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        given: object = name
        if not isinstance(given, str):
            raise KindError(f"a part of {path_shown(self.path)} is named by a string, got {given!r:.80}")
        if name not in self.parts:
            raise MissingPartError(f"{self.path} has no {name}; it has {', '.join(self.parts) or 'nothing'}")
        return self.parts[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.parts]

    @explained
    def part(self, name: str, kind: type[T]) -> T:
        """Return a part of a known class: ``record.part("step", int)``, ``record.part("optim", OptimizerRecord)``.

        Raises:
            MissingPartError: there is no such part.
            RecordError: the part is not an instance of ``kind``.
        """
        part = self[name]
        if not isinstance(part, kind):
            hint = f"; write generator.set_state(record.{name})" if issubclass(kind, Generator) else ""
            raise RecordError(f"{name} in {path_shown(self.path)} must be {kind.__name__}, got {_shown(part)}{hint}")
        return part

    @explained
    def apply_to(
        self,
        model: M,
        *,
        part: str = "model",
        strict: bool = True,
        remap: Remap | None = None,
        dtype: DTypePolicy = "model",
    ) -> M:
        r"""Return a copy of the model with the values and ids that the record has for its paths.

        Args:
            model: the model, on any device; it is not changed.
            part: the name of the record's part.
            strict: if False, load the entries that fit and leave the rest of the model unchanged: see `report`.
            remap: a mapping from the record's paths to the model's: `{r"^encoder\.": "body."}`, or a function, which
                returns None to skip an entry.
            dtype: for entries of another dtype than the model's: "model" casts to the model's, "file" takes the
                record's, "exact" raises an error; or the dtype of all floats, as "bfloat16".

        Raises:
            StateError: the record does not fit; the message and its ``report`` list every mismatch, and nothing was
                loaded. Without ``strict``: nothing fits. Or `save` did not write the file, and its matrices may be
                transposed, as PyTorch's are: `from_torch` reads these.
            MissingPartError: there is no such part.
            RecordError: the part is not a saved module.
            ArgumentError: ``remap`` or ``dtype`` is invalid.

        >>> from burnpy.nn import Linear, Sequential
        >>> from burnpy.record import load, save
        >>> model = Linear(2, 3, device=NumPy)
        >>> save("linear.safetensors", model=model)
        >>> record = load("linear.safetensors")
        >>> wider = Sequential(Linear(2, 3, device=NumPy), Linear(3, 4, device=NumPy))
        >>> print(record.report(wider, remap={"^": "0."}))
        2 fit; 2 missing: 1.weight, 1.bias
        >>> new = record.apply_to(wider, remap={"^": "0."}, strict=False)
        >>> new[0].weight.value.tolist() == model.weight.value.tolist()
        True
        """
        state = remapped(self._state(part), remap)
        if not self.checked:
            from burnpy.record.torch_weights import refuse_transposed

            refuse_no_model(model)
            refuse_transposed(model, state, path_shown(self.path))
        return fitted(model, state, strict=strict, dtype=dtype, source=f"{part} in {path_shown(self.path)}")

    def report(
        self, model: Module[Any], *, part: str = "model", remap: Remap | None = None, dtype: DTypePolicy = "model"
    ) -> StateReport:
        """Report how the record fits a model, as `apply_to` would, without loading anything.

        Raises:
            MissingPartError, RecordError, ArgumentError: as `apply_to`.
        """
        return fit(model, remapped(self._state(part), remap), dtype).report

    def _state(self, part: str) -> State:
        state = self[part]
        if not isinstance(state, Mapping) or not all(isinstance(entry, Entry) for entry in state.values()):
            raise RecordError(
                f"{part} in {path_shown(self.path)} is not the result of a module's into_record(), "
                f"but {_shown(state)}; nothing was loaded"
            )
        return state

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {_shown(part)}" for name, part in self.parts.items())
        return (
            f"Record({self.path}, {'SHA-256 verified' if self.checked else 'without a checksum'}; {shown or 'empty'})"
        )


def _shown(part: Any) -> str:
    """Return a short description of a part."""
    if isinstance(part, Mapping) and all(isinstance(entry, Entry) for entry in part.values()):
        size = sum(entry.value.nbytes for entry in part.values())
        return f"{len(part)} tensors, {size} bytes"
    if hasattr(part, "_fields"):
        return repr(part)
    if isinstance(part, (Mapping, list, tuple)):
        return f"{a(type(part).__name__)} of {len(part)}"
    if hasattr(part, "shape"):
        return f"an array of shape {part.shape}"
    return f"{part!r:.40}"


class Encoder:
    """Convert values to JSON-compatible trees, and collect the arrays in them by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, NDArray[Any]] = {}
        self._inside: set[int] = set()

    def __call__(self, value: Any, path: str) -> Any:
        """Convert a value to a JSON-compatible tree.

        Args:
            value: None, bool, int, float, str, a tensor, an array, a `Generator` or one of NumPy or Python, whose
                state it is, an object with an ``into_record``; lists, tuples and dicts of these.
            path: the path of the value, by which its arrays are named.
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, TensorBase):
            return self._array(value.to_numpy(), path)  # type: ignore[attr-defined]  # every tensor has it
        if isinstance(value, np.ndarray):
            refuse_masked(value, f"save() got {path},")
            return self._array(value, path)
        if isinstance(value, Generator):
            value = value.get_state()
        elif type(value).__module__.partition(".")[0] in ("numpy", "random"):
            value = _random_state(value)
        elif hasattr(value, "into_record") and not isinstance(value, type):
            value = value.into_record()
        if id(value) in self._inside:
            raise ArgumentError(f"save() got {path}, which contains itself")
        self._inside.add(id(value))
        try:
            return self._tree(value, path)
        finally:
            self._inside.discard(id(value))

    def _tree(self, value: Any, path: str) -> Any:
        if isinstance(value, Entry):
            if not isinstance(value.value, (TensorBase, np.ndarray)):
                raise ArgumentError(f"save() got {path}, an Entry of {value.value!r:.40}, which is not a tensor")
            return {_ENTRY: [value.id, self(value.value, path)]}
        if hasattr(value, "_fields") and isinstance(value, _optimizer_record()):
            if not _are_states(value.states):
                raise ArgumentError(f"save() got {path}, an OptimizerRecord that no optimizer made")
            return {_OPTIMIZER: [value.optimizer, self(value.states, joined(path, "states"))]}
        if isinstance(value, tuple):
            names = getattr(value, "_fields", range(len(value)))
            return {_TUPLE: [self(part, joined(path, name)) for name, part in zip(names, value, strict=True)]}
        if isinstance(value, list):
            return [self(part, joined(path, k)) for k, part in enumerate(value)]
        if isinstance(value, Mapping):
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self(part, joined(path, key)) for key, part in value.items()}
            for key in value:
                if key is not None and type(key) not in (bool, int, float, str):
                    raise ArgumentError(f"save() got {path} with a key {key!r:.40}; keys are strings or numbers")
            return {_DICT: [[key, self(part, joined(path, key))] for key, part in value.items()]}
        raise ArgumentError(
            f"save() got {path}, {a(type(value).__name__)}; what can be saved are "
            "None, bools, numbers, strings, tensors, arrays, generators, modules, optimizers and whatever else has an "
            "into_record(), and lists, tuples and dicts of these; of a schedule save the step"
        )

    def _array(self, array: NDArray[Any], path: str) -> dict[str, str]:
        try:
            dtype = dtype_of(array.dtype)
        except DTypeError as error:
            raise DTypeError(f"save() got {path} of shape {array.shape}: {error}") from error
        if not DTYPES[dtype.name].safetensors:
            raise DTypeError(
                f"save() got {path} of shape {array.shape} and dtype {dtype.name}, which the format lacks; "
                "save its real and its imaginary part, or complex64, of a model model.astype('float32')"
            )
        name, count = path, 1
        while name in self.tensors or name == METADATA:
            count += 1
            name = f"{path}~{count}"
        self.tensors[name] = array.astype(dtype, copy=False)
        return {_TENSOR: name}


class Decoder:
    """Convert JSON back to values; raise an error for anything that `Encoder` does not produce."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], source: str) -> None:
        self.tensors, self.source = tensors, source
        self.used: set[str] = set()

    def __call__(self, node: Any) -> Any:
        """Return the value of a JSON tree.

        Raises:
            RecordError: the tree is not one that `Encoder` produces.
        """
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self(part) for part in node]
            case {"$tensor": str(name), **rest} if not rest and name in self.tensors:
                self.used.add(name)
                return self.tensors[name]
            case {"$tuple": list(parts), **rest} if not rest:
                return tuple(self(part) for part in parts)
            case {"$entry": [None | str() as id, {"$tensor": _} as value], **rest} if not rest:
                return Entry(id, self(value))
            case {"$optimizer": [str(name), states], **rest} if not rest and _are_states(decoded := self(states)):
                return _optimizer_record().of(name, decoded)
            case {"$dict": list(pairs), **rest} if not rest and all(_is_pair(pair) for pair in pairs):
                return {key: self(part) for key, part in pairs}
            case dict() if all(not key.startswith("$") for key in node):
                return {key: self(part) for key, part in node.items()}
            case _:
                raise RecordError(
                    f"{self.source} is no record of burnpy, though it says so: there is no {node!r:.80}; "
                    "nothing was loaded"
                )


def _random_state(value: Any) -> Any:
    """Return the state of a random generator of NumPy or Python; any other value unchanged."""
    if hasattr(value, "bit_generator"):
        return value.bit_generator.state
    if hasattr(value, "get_state"):
        return value.get_state(legacy=False)
    return value.getstate() if hasattr(value, "getstate") else value


def _optimizer_record() -> Any:
    """Return the class `OptimizerRecord`, imported when it is first needed to keep imports cheap."""
    from burnpy.optim.optimizer_states import OptimizerRecord

    return OptimizerRecord


def _are_states(states: Any) -> bool:
    return isinstance(states, dict) and all(
        isinstance(ident, str) and isinstance(state, tuple) and len(state) == 3 and _is_state(*state)
        for ident, state in states.items()
    )


def _is_state(path: Any, step: Any, values: Any) -> bool:
    """Return whether this is an optimizer's state of one parameter: its path, step count, and arrays by name."""
    return (
        isinstance(path, str)
        and isinstance(step, (int, np.integer))
        and not isinstance(step, bool)
        and int(step) >= 0
        and isinstance(values, dict)
        and all(isinstance(name, str) and isinstance(x, (TensorBase, np.ndarray)) for name, x in values.items())
    )


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list) and len(pair) == 2 and (pair[0] is None or isinstance(pair[0], (bool, int, float, str)))
    )


TREE, VERSION = "record", "1"


@explained
def save(path: str | os.PathLike[str], /, *unnamed: Never, **parts: Any) -> None:
    """Save models, optimizers, generators and plain values to one safetensors file.

    The file is replaced atomically: even if the process is killed or the disk is full, the path names either the
    complete old file or the complete new one. Tensors are named by their paths, as in ``model.encoder.0.weight``, so
    that other programs can read them; the metadata contains ids, plain values and a SHA-256 of the whole file.

    Args:
        path: the file to write; an existing file is replaced. Or a URL such as ``s3://bucket/run.safetensors``, to
            which a temporary file is uploaded; it needs the extra ``burnpy[remote]`` and fsspec's package for it.
        unnamed: rejects positional parts; every part is passed by keyword.
        parts: the values to save, by name: a module; an optimizer or any other object with an ``into_record()``; a
            `Generator`, or one of NumPy or Python, whose state `load` returns; tensors, arrays, None, bools,
            numbers and strings; lists, tuples and dicts of all these.

    Raises:
        CallError: a part is passed without a name, or ``path`` is not a path.
        ArgumentError: there is no part, a part cannot be saved, or its name is an attribute of `Record`.
        DTypeError: an array has a dtype that burnpy does not support.
        RecordNotFoundError: the folder does not exist.
        RecordFileError: the file cannot be written. The old file is unchanged.

    >>> from burnpy.nn import Linear
    >>> model, generator = Linear(2, 3, device=NumPy), Generator(0)
    >>> save("run.safetensors", model=model, generator=generator, step=100)
    >>> record = load("run.safetensors")
    >>> record.step, record.generator == generator.get_state(), record.apply_to(model).weight.id == model.weight.id
    (100, True, True)
    """
    if unnamed or not isinstance(path, (str, os.PathLike)):
        raise CallError("save() takes a path, and the parts to save by name; write save(path, model=model, step=step)")
    target = path_of(path, "save()")
    if not parts:
        raise ArgumentError("save() got nothing to save; write save(path, model=model, step=step) or the like")
    for name in parts:
        if hasattr(Record, name) or name in Record.__dataclass_fields__ or name.startswith("__"):
            raise ArgumentError(f"save() got a part called {name}, a name that records use themselves; rename it")
    encoder = Encoder()
    try:
        text = json.dumps({name: encoder(part, name) for name, part in parts.items()}, separators=(",", ":"))
    except RecursionError as error:
        raise ArgumentError("save() got lists, tuples or dicts nested too deeply") from error
    except ValueError as error:
        if isinstance(error, BurnpyError) or raised_by_other_code(error):
            raise
        raise ArgumentError("save() got an int of more digits than Python writes; save it as text") from error
    write(target, encoder.tensors, {MARK: VERSION, TREE: text})


@explained
def load(path: str | os.PathLike[str]) -> Record:
    """Load a file that `save` wrote; from another program's safetensors file, all its tensors, as the part ``model``.

    The path can be a URL, as in `save`. Nothing in a file is executed. A damaged file is rejected as a whole. Files of
    other programs have no checksum; for these ``record.checked`` is False.

    Raises:
        CallError: ``path`` is not a path.
        RecordNotFoundError: the file does not exist.
        RecordFileError: the file cannot be read.
        RecordError: it is not a safetensors file, or is damaged: truncated, a bit changed, or marked as a record of
            burnpy with content that `save` does not write.

    >>> load("nowhere.safetensors")
    Traceback (most recent call last):
    burnpy.backend.errors.RecordNotFoundError: [Errno 2] there is no file nowhere.safetensors
    """
    name = path_of(path, "load()")
    contents, source = read(name), path_shown(name)
    version = contents.metadata.get(MARK)
    if version is None:
        entries = {name: Entry(None, value) for name, value in contents.tensors.items()}
        return Record({"model": entries}, name, contents.checked)
    if not contents.checked:
        raise damaged(source, f"it is a record of burnpy without its checksum, {DIGEST}")
    if version != VERSION:
        raise RecordError(
            f"{source} is a record of version {brief(version)}, which a newer burnpy wrote; this one reads {VERSION}"
        )
    decoder = Decoder(contents.tensors, source)
    try:
        tree = json.loads(contents.metadata[TREE])
        parts = {part: decoder(node) for part, node in tree.items()}
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, RecordError) or raised_by_other_code(error):
            raise
        raise damaged(source, "its plain values cannot be read") from error
    unused = [name for name in contents.tensors if name not in decoder.used]
    if unused:
        raise damaged(source, f"it has no description of its tensor {brief(unused[0])}")
    return Record(parts, name, True)
