"""`Record`: the contents of a loaded file, and applying them to models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from burnpy.backend.errors import MissingPartError, RecordError, a, path_shown
from burnpy.nn.module import Module
from burnpy.nn.state import Entry, State, StateReport
from burnpy.record.fitting import DTypePolicy, Remap, fit, fitted, remapped
from burnpy.typevars import M, T


@dataclass(frozen=True, eq=False, repr=False)
class Record:
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
        if name not in self.parts:
            raise MissingPartError(f"{self.path} has no {name}; it has {', '.join(self.parts) or 'nothing'}")
        return self.parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.parts]

    def part(self, name: str, kind: type[T]) -> T:
        """Return a part of a known class: ``record.part("step", int)``, ``record.part("optim", OptimizerRecord)``.

        Raises:
            MissingPartError: there is no such part.
            RecordError: the part is not an instance of ``kind``.
        """
        part = self[name]
        if not isinstance(part, kind):
            raise RecordError(f"{name} in {path_shown(self.path)} is wanted as {kind.__name__}, and is {_shown(part)}")
        return part

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
                record's, "exact" raises an error.

        Raises:
            StateError: the record does not fit; the message and its ``report`` list every mismatch, and nothing was
                loaded. Without ``strict``: nothing fits.
            MissingPartError: there is no such part.
            RecordError: the part is not a saved module.
            ArgumentError: ``remap`` or ``dtype`` is invalid.

        >>> import tempfile
        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear, Sequential
        >>> from burnpy.record import load, save
        >>> model = Linear(2, 3, device=NumPy)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(f"{folder}/linear.safetensors", model=model)
        ...     record = load(f"{folder}/linear.safetensors")
        >>> wider = Sequential(Linear(2, 3, device=NumPy), Linear(3, 4, device=NumPy))
        >>> print(record.report(wider, remap={"^": "0."}))
        2 fit; 2 missing: 1.weight, 1.bias
        >>> new = record.apply_to(wider, remap={"^": "0."}, strict=False)
        >>> new[0].weight.value.tolist() == model.weight.value.tolist()
        True
        """
        state = remapped(self._state(part), remap)
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
    """A short description of a part."""
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
