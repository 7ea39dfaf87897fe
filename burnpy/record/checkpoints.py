"""`save` and `load`: a checkpoint is one safetensors file."""

from __future__ import annotations

import json
import os
from typing import Any, Never

from burnpy.backend.errors import ArgumentError, BurnpyError, CallError, RecordError
from burnpy.nn.state import Entry
from burnpy.record.files import DIGEST, read, write
from burnpy.record.foreign_errors import is_anothers
from burnpy.record.memory import brief, damaged
from burnpy.record.paths import path_of
from burnpy.record.record import Record
from burnpy.record.trees import Decoder, Encoder

MARK, TREE, VERSION = "burnpy", "record", "1"


def save(path: str | os.PathLike[str], /, *unnamed: Never, **parts: Any) -> None:
    """Write a file of any number of parts: models, optimizers, generators, plain values.

    Under the file's name there is at any moment the old file or the new one, whole, even if the process is killed or
    the disk is full. Tensors are named by their paths, as in ``model.encoder.0.weight``, for whoever else reads the
    file; in its metadata are ids, plain values and a SHA-256 of all of it.

    Args:
        path: where to; what is there is replaced.
        unnamed: nothing; parts have names.
        parts: by the name to find it by: a module; an optimizer or whatever else has an ``into_record()``; a
            `Generator`; tensors, arrays, None, bools, numbers and strings; lists, tuples and dicts of all these.

    Raises:
        CallError: a part has no name, or the path is none.
        ArgumentError: there is no part, a part is something else, or has a name that means something for a record.
        DTypeError: an array is of a dtype that no tensor has.
        RecordNotFoundError: there is no such folder.
        RecordFileError: the file cannot be written. The old one is as it was.

    >>> import tempfile
    >>> from burnpy import Generator
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> model, generator = Linear(2, 3, device=NumPy), Generator(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/run.safetensors", model=model, generator=generator, step=100)
    ...     record = load(f"{folder}/run.safetensors")
    >>> record.step, record.generator == generator.get_state(), record.apply_to(model).weight.id == model.weight.id
    (100, True, True)
    """
    if unnamed or not isinstance(path, (str, os.PathLike)):
        raise CallError("save() takes a path, and what to save by name; write save(path, model=model, step=step)")
    target = path_of(path, "save()")
    if not parts:
        raise ArgumentError("save() was given nothing to save; write save(path, model=model, step=step) or the like")
    for name in parts:
        if hasattr(Record, name) or name in Record.__dataclass_fields__ or name.startswith("__"):
            raise ArgumentError(f"save() was given a part called {name}, which means something for a record; rename it")
    encoder = Encoder()
    try:
        text = json.dumps({name: encoder(part, name) for name, part in parts.items()}, separators=(",", ":"))
    except RecursionError as error:
        raise ArgumentError("save() was given lists, tuples or dicts too deep inside of each other") from error
    except ValueError as error:
        if isinstance(error, BurnpyError) or is_anothers(error):
            raise
        raise ArgumentError("save() was given an int of more digits than Python writes; save it as text") from error
    write(target, encoder.tensors, {MARK: VERSION, TREE: text})


def load(path: str | os.PathLike[str]) -> Record:
    """What `save` wrote; of a safetensors file that others wrote, all its tensors, as ``model``.

    Nothing in a file is executed. What is damaged is refused, and nothing of it loaded. Others' files have no checksum,
    and their records say so: ``record.checked``.

    Raises:
        CallError: the path is none.
        RecordNotFoundError: there is no such file.
        RecordFileError: it cannot be read.
        RecordError: it is no safetensors file, or damaged: cut short, a bit changed, no record though it says so.

    >>> load("nowhere.safetensors")
    Traceback (most recent call last):
    burnpy.backend.errors.RecordNotFoundError: [Errno 2] there is no file nowhere.safetensors
    """
    source = path_of(path, "load()")
    contents = read(source)
    version = contents.metadata.get(MARK)
    if version is None:
        entries = {name: Entry(None, value) for name, value in contents.tensors.items()}
        return Record({"model": entries}, source, contents.checked)
    if not contents.checked:
        raise damaged(source, f"it is a record of burnpy without its checksum, {DIGEST}")
    if version != VERSION:
        raise RecordError(
            f"{source} is a record of version {brief(version)}, which a newer burnpy wrote; this one reads {VERSION}"
        )
    decoder = Decoder(contents.tensors, source)
    try:
        tree = json.loads(contents.metadata[TREE])
        parts = {name: decoder(node) for name, node in tree.items()}
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, RecordError) or is_anothers(error):
            raise
        raise damaged(source, "its plain values cannot be read") from error
    unused = [name for name in contents.tensors if name not in decoder.used]
    if unused:
        raise damaged(source, f"nothing says what its tensor {brief(unused[0])} is")
    return Record(parts, source, True)
