"""Putting a state into a module: paths renamed, dtypes by policy, and a report of what fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, StateError
from burnpy.nn.base import ModuleBase
from burnpy.nn.module import Module
from burnpy.nn.state import Entry, State, StateReport
from burnpy.nn.tree import Rebuild, walk
from burnpy.nn.variable import Variable
from burnpy.record.foreign_errors import is_anothers

M = TypeVar("M", bound=Module[Any])

Remap: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | Callable[[str], str | None]
"""How paths of a file become paths of a model: regular expressions and what to put in their place, one after another,
as `re.sub` does; or a function, which returns None for what is to be left out."""
DTypePolicy: TypeAlias = Literal["model", "file", "exact"]
"""Where a file has another dtype than the model: cast to the model's, take the file's, or refuse. Ints that the model's
dtype does not hold are refused in any case."""


def remapped(state: State, remap: Remap | None) -> dict[str, Any]:
    """A state under other paths.

    Raises:
        ArgumentError: two paths become one, a rule is no regular expression, or there is no such way to rename.
    """
    if remap is None:
        return dict(state)
    rename = _renaming(remap)
    found: dict[str, Any] = {}
    before: dict[str, str] = {}
    for path, value in state.items():
        new: object = rename(path)
        if new is None:
            continue
        if not isinstance(new, str):
            raise ArgumentError(f"remap= returned {new!r:.80} for {path}; it returns a path, or None to leave it out")
        if new in found:
            raise ArgumentError(f"remap= gives {before[new]} and {path} one path, {new}; nothing was loaded")
        found[new], before[new] = value, path
    return found


class Fit(NamedTuple, Generic[M]):
    """How a state and a model go together."""

    model: M  #: the model, in the dtypes that the policy wants
    report: StateReport
    kept: dict[str, Any]  #: what of the state there is to be loaded


def fit(model: M, state: State, dtype: DTypePolicy) -> Fit[M]:
    """What of a state fits a model.

    Raises:
        KindError: the model is none.
        ArgumentError: there is no such policy.
    """
    refuse_no_model(model)
    if dtype not in ("model", "file", "exact"):
        raise ArgumentError(f"dtype= is 'model', 'file' or 'exact', and was given {dtype!r}")
    if dtype == "file":
        model = _in_dtypes_of(model, state)
    known = _known(model)
    refused: dict[str, str] = {}
    if dtype == "exact":
        for path, given in state.items():
            value, held = _value(given), known.get(path)
            if held is not None and hasattr(value, "dtype") and value.dtype != held.dtype:
                refused[path] = f"{path} (of dtype {value.dtype}, not {held.dtype})"
    kept = {path: given for path, given in state.items() if path not in refused}
    report = model.state_report(kept)
    if refused:
        there = {id(known[path]) for path in refused}
        report = report._replace(
            missing=tuple(path for path in report.missing if id(known[path]) not in there),
            mismatched=(*report.mismatched, *refused.values()),
        )
    return Fit(model, report, kept)


def refuse_no_model(model: Any) -> None:
    """Refuse what is no model.

    Raises:
        KindError: it is none.
    """
    if not isinstance(model, ModuleBase):
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise KindError(
            f"what a file has is put into a model, and not into {kind}; a class wants to be called first, and an "
            "optimizer has load_record(record.optim, model)"
        )


def fitted(model: M, state: State, *, strict: bool, dtype: DTypePolicy, source: str) -> M:
    """The model with what a state has for it.

    Raises:
        StateError: ``strict`` and something is missing, unexpected or of another shape or kind, or by the policy of
            another dtype; or nothing fits at all.
        ArgumentError: there is no such policy.
        ModuleError: two parameters would have one id.
    """
    fitting, report, kept = fit(model, state, dtype)
    name = type(model).__name__
    if strict and not report.fits:
        raise StateError(
            f"{source} does not fit {name}, and nothing was loaded: {report}; strict=False takes what fits", report
        )
    if not report.applied and model.state():
        raise StateError(f"nothing of {source} fits {name}: {report}", report)
    return fitting.with_state(kept, strict=False)


def _in_dtypes_of(model: M, state: State) -> M:
    """The model in the dtypes that a state has, as far as it fits."""
    known, dtypes = _known(model), dict[int, Any]()
    for path, given in state.items():
        value, held = _value(given), known.get(path)
        if held is not None and _fits(value, held):
            dtypes[id(held)] = value.dtype

    def cast(path: str, held: Variable[Any]) -> Variable[Any]:
        dtype = dtypes.get(id(held), held.dtype)
        if dtype == held.dtype:
            return held
        value = held._value.detach() if held.kind == "float" else held._value
        return held.holding(value.to_dtype(dtype))

    return Rebuild(cast)(model)  # type: ignore[no-any-return]  # of the same class


def _fits(value: Any, held: Variable[Any]) -> bool:
    """Whether a value is of the shape and kind of what is held."""
    try:
        return tuple(value.shape) == held.shape and kind_of(value.dtype) == held.kind
    except (AttributeError, DTypeError):  # no array, or of a dtype that no tensor has
        return False


def _known(model: Module[Any]) -> dict[str, Variable[Any]]:
    return {path: item for path, item in walk(model) if isinstance(item, Variable)}


def _value(given: Any) -> Any:
    """The tensor or array of what a state has at a path."""
    return given.value if isinstance(given, Entry) else given[1] if isinstance(given, tuple) else given


def _renaming(remap: Remap) -> Callable[[str], object]:
    if callable(remap):
        return remap
    pairs: Any = list(remap.items() if isinstance(remap, Mapping) else remap)
    rules = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise ArgumentError(
                f"remap= takes regular expressions with what to put in their place, as in {{r'^module\\.': ''}}, or a "
                f"function, and was given {pair!r:.80}"
            )
        try:
            rules.append((re.compile(pair[0]), pair[1]))
        except re.error as error:
            raise ArgumentError(f"remap= was given {pair[0]!r}, which is no regular expression: {error}") from error

    def rename(path: str) -> str:
        for pattern, replacement in rules:
            try:
                path = pattern.sub(replacement, path)
            except (re.error, IndexError) as error:
                if is_anothers(error):
                    raise
                raise ArgumentError(
                    f"remap= cannot put {replacement!r} in the place of {pattern.pattern!r}: {error}"
                ) from error
        return path

    return rename
