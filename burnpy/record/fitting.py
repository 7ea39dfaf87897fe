"""Loading a state into a module: rename its paths, convert dtypes by a policy, and report what fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias

from burnpy.backend.dtypes import kind_of
from burnpy.backend.error_origin import raised_by_other_code
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, StateError, a
from burnpy.nn.base import ModuleBase
from burnpy.nn.module import Module
from burnpy.nn.state import Entry, State, StateReport
from burnpy.nn.tree import Rebuild, walk
from burnpy.nn.variable import Variable
from burnpy.typevars import M

Remap: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | Callable[[str], str | None]
"""A mapping from paths in a file to paths in a model: regular expressions with their replacements, applied one after
another as by `re.sub`; or a function of a path, which returns the new path, or None to skip the entry."""
DTypePolicy: TypeAlias = Literal["model", "file", "exact"]
"""The policy for entries whose dtype differs from the model's: "model" casts to the model's dtype, "file" takes the
file's, "exact" raises an error. Ints out of the range of the model's dtype always raise an error."""


def remapped(state: State, remap: Remap | None) -> dict[str, Any]:
    """Return the state with its paths renamed by ``remap``.

    Raises:
        ArgumentError: two paths become the same path, a pattern is not a regular expression, or ``remap`` is neither
            patterns nor a function.
    """
    if remap is None:
        return dict(state)
    rename = _renaming(remap)
    renamed: dict[str, Any] = {}
    before: dict[str, str] = {}
    for path, value in state.items():
        new: object = rename(path)
        if new is None:
            continue
        if not isinstance(new, str):
            raise ArgumentError(f"remap= returned {new!r:.80} for {path}; it returns a path, or None to leave it out")
        if new in renamed:
            raise ArgumentError(f"remap= gives {before[new]} and {path} one path, {new}; nothing was loaded")
        renamed[new], before[new] = value, path
    return renamed


class Fit(NamedTuple, Generic[M]):
    """The result of matching a state with a model."""

    model: M  #: the model, cast to the dtypes that the policy selects
    report: StateReport
    kept: dict[str, Any]  #: the entries of the state that are to be loaded


def fit(model: M, state: State, dtype: DTypePolicy) -> Fit[M]:
    """Match a state with a model, without loading anything.

    Raises:
        KindError: ``model`` is not a module.
        ArgumentError: ``dtype`` is not one of the policies.
    """
    refuse_no_model(model)
    if dtype not in ("model", "file", "exact"):
        raise ArgumentError(f"dtype= is 'model', 'file' or 'exact', got {dtype!r}")
    if dtype == "file":
        model = _in_dtypes_of(model, state)
    known = _known(model)
    refused: dict[str, str] = {}
    if dtype == "exact":
        for path, entry in state.items():
            value, variable = _value(entry), known.get(path)
            if variable is not None and hasattr(value, "dtype") and value.dtype != variable.dtype:
                refused[path] = f"{path} (of dtype {value.dtype}, not {variable.dtype})"
    kept = {path: entry for path, entry in state.items() if path not in refused}
    report = model.state_report(kept)
    if refused:
        refused_ids = {id(known[path]) for path in refused}
        report = report._replace(
            missing=tuple(path for path in report.missing if id(known[path]) not in refused_ids),
            mismatched=(*report.mismatched, *refused.values()),
        )
    return Fit(model, report, kept)


def refuse_no_model(model: Any, asked: str = "weights are loaded into a model") -> None:
    """Raise an error that begins with ``asked``, unless ``model`` is a module.

    Raises:
        KindError: it is not a module.
    """
    if not isinstance(model, ModuleBase):
        kind = f"the class {model.__name__}" if isinstance(model, type) else a(type(model).__name__)
        hint = "the model is the first argument"
        if isinstance(model, type):
            hint = f"make a model first, as with {model.__name__}(...)"
        elif hasattr(model, "load_record"):
            hint = "for an optimizer write optim.load_record(record.optim, model)"
        raise KindError(f"{asked}, got {kind}; {hint}")


def fitted(model: M, state: State, *, strict: bool, dtype: DTypePolicy, source: str) -> M:
    """Return the model with the values of a state.

    Raises:
        StateError: with ``strict``, an entry is missing, unexpected or of another shape or kind, or of a dtype that the
            policy rejects; or nothing fits at all.
        ArgumentError: ``dtype`` is not one of the policies.
        ModuleError: two parameters would have the same id.
    """
    fitting, report, kept = fit(model, state, dtype)
    name = type(model).__name__
    if strict and not report.fits:
        raise StateError(
            f"{source} does not fit {name}, and nothing was loaded: {report}; strict=False takes the parts that fit",
            report,
        )
    if not report.applied and model.state():
        raise StateError(f"nothing of {source} fits {name}: {report}", report)
    return fitting.with_state(kept, strict=False)


def _in_dtypes_of(model: M, state: State) -> M:
    """Return the model cast to the dtypes of the state, for the entries that fit."""
    known, dtypes = _known(model), dict[int, Any]()
    for path, entry in state.items():
        value, variable = _value(entry), known.get(path)
        if variable is not None and _fits(value, variable):
            dtypes[id(variable)] = value.dtype

    def cast(path: str, variable: Variable[Any]) -> Variable[Any]:
        dtype = dtypes.get(id(variable), variable.dtype)
        if dtype == variable.dtype:
            return variable
        value = variable._value.detach() if variable.kind == "float" else variable._value
        return variable._with_value(value.to_dtype(dtype))

    return Rebuild(cast)(model)  # type: ignore[no-any-return]  # of the same class


def _fits(value: Any, variable: Variable[Any]) -> bool:
    """Return whether a value has the shape and kind of a variable."""
    try:
        return tuple(value.shape) == variable.shape and kind_of(value.dtype) == variable.kind
    except (AttributeError, DTypeError):  # not an array, or of an unsupported dtype
        return False


def _known(model: Module[Any]) -> dict[str, Variable[Any]]:
    return {path: item for path, item in walk(model) if isinstance(item, Variable)}


def _value(entry: Any) -> Any:
    """The tensor or array of an entry of a state: an `Entry`, a pair of id and value, or the value itself."""
    return entry.value if isinstance(entry, Entry) else entry[1] if isinstance(entry, tuple) else entry


def _renaming(remap: Remap) -> Callable[[str], object]:
    if callable(remap):
        return remap
    pairs: Any = list(remap.items() if isinstance(remap, Mapping) else remap)
    rules = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ArgumentError(
                f"remap= takes regular expressions with their replacements, as in {{r'^module\\.': ''}}, or a "
                f"function, got {pair!r:.80}"
            )
        try:
            rules.append((re.compile(pair[0]), pair[1]))
        except re.error as error:
            raise ArgumentError(f"remap= got {pair[0]!r}, which is not a regular expression: {error}") from error

    def rename(path: str) -> str:
        for pattern, replacement in rules:
            try:
                path = pattern.sub(replacement, path)
            except (re.error, IndexError) as error:
                if raised_by_other_code(error):
                    raise
                raise ArgumentError(
                    f"remap= cannot put {replacement!r} in the place of {pattern.pattern!r}: {error}"
                ) from error
        return path

    return rename
