"""`save` and `load`: a checkpoint is one safetensors file."""

from __future__ import annotations

import json
import os
from typing import Any, Never

from burnpy.backend.error_origin import raised_by_other_code
from burnpy.backend.errors import ArgumentError, BurnpyError, CallError, RecordError, path_shown
from burnpy.nn.state import Entry
from burnpy.record.files import DIGEST, read, write
from burnpy.record.memory import brief, damaged
from burnpy.record.paths import path_of
from burnpy.record.record import Record
from burnpy.record.trees import Decoder, Encoder

MARK, TREE, VERSION = "burnpy", "record", "1"


def save(path: str | os.PathLike[str], /, *unnamed: Never, **parts: Any) -> None:
    """Save models, optimizers, generators and plain values to one safetensors file.

    The file is replaced atomically: even if the process is killed or the disk is full, the path names either the
    complete old file or the complete new one. Tensors are named by their paths, as in ``model.encoder.0.weight``, so
    that other programs can read them; the metadata contains ids, plain values and a SHA-256 of the whole file.

    Args:
        path: the file to write; an existing file is replaced.
        unnamed: rejects positional parts; every part is passed by keyword.
        parts: the values to save, by name: a module; an optimizer or any other object with an ``into_record()``; a
            `Generator`; tensors, arrays, None, bools, numbers and strings; lists, tuples and dicts of all these.

    Raises:
        CallError: a part is passed without a name, or ``path`` is not a path.
        ArgumentError: there is no part, a part cannot be saved, or its name is an attribute of `Record`.
        DTypeError: an array has a dtype that burnpy does not support.
        RecordNotFoundError: the folder does not exist.
        RecordFileError: the file cannot be written. The old file is unchanged.

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
        raise CallError("save() takes a path, and the parts to save by name; write save(path, model=model, step=step)")
    target = path_of(path, "save()")
    if not parts:
        raise ArgumentError("save() got nothing to save; write save(path, model=model, step=step) or the like")
    for name in parts:
        if hasattr(Record, name) or name in Record.__dataclass_fields__ or name.startswith("__"):
            raise ArgumentError(f"save() got a part called {name}, which means something for a record; rename it")
    encoder = Encoder()
    try:
        text = json.dumps({name: encoder(part, name) for name, part in parts.items()}, separators=(",", ":"))
    except RecursionError as error:
        raise ArgumentError("save() got lists, tuples or dicts too deep inside of each other") from error
    except ValueError as error:
        if isinstance(error, BurnpyError) or raised_by_other_code(error):
            raise
        raise ArgumentError("save() got an int of more digits than Python writes; save it as text") from error
    write(target, encoder.tensors, {MARK: VERSION, TREE: text})


def load(path: str | os.PathLike[str]) -> Record:
    """Load a file that `save` wrote; from another program's safetensors file, all its tensors, as the part ``model``.

    Nothing in a file is executed. A damaged file is rejected as a whole. Files of other programs have no checksum; for
    these ``record.checked`` is False.

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
