"""`Record`: what a file had, and how it comes back into models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from burnpy.backend.errors import MissingPartError, RecordError, a
from burnpy.nn.module import Module
from burnpy.nn.state import Entry, State, StateReport
from burnpy.record.fitting import DTypePolicy, Remap, fit, fitted, remapped

M = TypeVar("M", bound=Module[Any])
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """What `load` found in a file: its parts, under the names that `save` was given, as attributes and by ``[...]``.

    Modules are there as what ``into_record()`` gave: by path an `Entry` of id and read-only array. Optimizers too, as a
    `burnpy.optim.OptimizerRecord`, and generators, for ``optim.load_record(record.optim, model)`` and
    ``generator.set_state(record.generator)``. Plain values and arrays are there as they were. `part` says to type
    checkers what is expected, and makes sure of it.

    Raises:
        MissingPartError: by an attribute or ``[...]``: there is no such part.
    """

    parts: Mapping[str, Any]  #: everything, by name
    path: str  #: of the file
    checked: bool  #: whether the file has a checksum, and is as it was saved; others' files have none

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as `copy` and `pickle` ask for, of one that has no parts yet
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
        """One part, which is of a class: ``record.part("step", int)``, ``record.part("optim", OptimizerRecord)``.

        Raises:
            MissingPartError: there is no such part.
            RecordError: it is something else.
        """
        found = self[name]
        if not isinstance(found, kind):
            raise RecordError(f"{name} in {self.path} is wanted as {kind.__name__}, and is {_shown(found)}")
        return found

    def apply_to(
        self,
        model: M,
        *,
        part: str = "model",
        strict: bool = True,
        remap: Remap | None = None,
        dtype: DTypePolicy = "model",
    ) -> M:
        r"""The same model with the values, and ids, that the record has for its paths; the one given stays as it is.

        Args:
            model: on any device.
            part: which part of the record.
            strict: False takes what fits and leaves the rest as it is: see `report`.
            remap: how paths of the record become paths of the model: `{r"^encoder\.": "body."}`, or a function, which
                returns None for what is to be left out.
            dtype: where the record has another dtype: "model" casts to the model's, "file" takes the record's, "exact"
                refuses.

        Raises:
            StateError: the record does not fit; the message and its ``report`` have all of it, and nothing was loaded.
                Without ``strict``: nothing fits.
            MissingPartError: there is no such part.
            RecordError: the part is of no module.
            ArgumentError: ``remap`` or ``dtype`` makes no sense.

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
        return fitted(model, state, strict=strict, dtype=dtype, source=f"{part} in {self.path}")

    def report(
        self, model: Module[Any], *, part: str = "model", remap: Remap | None = None, dtype: DTypePolicy = "model"
    ) -> StateReport:
        """What `apply_to` would find, with nothing done.

        Raises:
            MissingPartError, RecordError, ArgumentError: as `apply_to`.
        """
        return fit(model, remapped(self._state(part), remap), dtype).report

    def _state(self, part: str) -> State:
        found = self[part]
        if not isinstance(found, Mapping) or not all(isinstance(entry, Entry) for entry in found.values()):
            raise RecordError(
                f"{part} in {self.path} is not what a module's into_record() gives, but {_shown(found)}; "
                "nothing was loaded"
            )
        return found

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {_shown(part)}" for name, part in self.parts.items())
        return (
            f"Record({self.path}, {'SHA-256 verified' if self.checked else 'without a checksum'}; {shown or 'empty'})"
        )


def _shown(part: Any) -> str:
    """What a part is, in a few words."""
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
