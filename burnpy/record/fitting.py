"""Fitting the tensors of a file to a module, by path, dtype and shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias

from burnpy.backend.dtypes import complex_dtype, dtype_of, kind_of
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, StateError, a, raised_by_other_code
from burnpy.backend.primitives import INEXACT
from burnpy.nn.init import unfilled
from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_state import Entry, State, StateReport
from burnpy.nn.module_tree import Rebuild, walk
from burnpy.nn.param import Variable
from burnpy.typevars import M

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType
    from burnpy.tensor.host_data import DTypeLike

Remap: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]] | Callable[[str], str | None]
"""A mapping from paths in a file to paths in a model: regular expressions with their replacements, applied one after
another as by `re.sub`; or a function of a path, which returns the new path, or None to skip the entry."""
DTypePolicy: TypeAlias = "Literal['model', 'file', 'exact'] | DTypeLike"
"""The policy for entries whose dtype differs from the model's: "model" casts to the model's dtype, "file" takes the
file's, "exact" raises an error; a float dtype, as in "bfloat16", is the dtype of all floats of the loaded model. Ints
out of the range of the model's dtype always raise an error."""


def remapped(state: State, remap: Remap | None) -> dict[str, Any]:
    """Return the state with its paths renamed by ``remap``."""
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


def fit(model: M, state: State, dtype: DTypePolicy, refused: Mapping[str, str] | None = None) -> Fit[M]:
    """Match a state with a model, without loading anything.

    Args:
        model: the model.
        state: the state.
        dtype: the policy.
        refused: paths of the model for which the source has no value that fits, with the reason.

    Raises:
        KindError: ``model`` is not a module.
        ArgumentError: ``dtype`` is neither one of the policies nor a float dtype.
    """
    refuse_no_model(model)
    policy = dtype if isinstance(dtype, str) and dtype in ("model", "file", "exact") else None
    if policy is None or policy == "file":
        model = _in_dtypes_of(model, state, None if policy else _asked(dtype))
    known = _known(model)
    reasons = {path: f"{path} ({reason})" for path, reason in (refused or {}).items()}
    if policy == "exact":
        for path, entry in state.items():
            value, variable = _value(entry), known.get(path)
            if variable is not None and hasattr(value, "dtype") and value.dtype != variable.dtype:
                reasons[path] = f"{path} (of dtype {value.dtype}, not {variable.dtype})"
    kept = {path: entry for path, entry in state.items() if path not in reasons}
    report = model.state_report(kept)
    if reasons:
        refused_ids = {id(known[path]) for path in reasons}
        report = report._replace(
            missing=tuple(path for path in report.missing if id(known[path]) not in refused_ids),
            mismatched=(*report.mismatched, *reasons.values()),
        )
    return Fit(model, report, kept)


def _asked(dtype: Any) -> DType:
    """Return the float dtype that a policy names."""
    try:
        return dtype_of(dtype, "float")
    except DTypeError as error:
        raise ArgumentError(f"dtype= must be 'model', 'file', 'exact' or a float dtype, got {dtype!r:.80}") from error


def refuse_no_model(model: Any, asked: str = "weights are loaded into a model") -> None:
    """Raise an error that begins with ``asked``, unless ``model`` is a module."""
    if not isinstance(model, ModuleBase):
        kind = f"the class {model.__name__}" if isinstance(model, type) else a(type(model).__name__)
        hint = "the model is the first argument"
        if isinstance(model, type):
            hint = f"make a model first, as with {model.__name__}(...)"
        elif hasattr(model, "load_record"):
            hint = "for an optimizer write optim.load_record(record.optim, model)"
        raise KindError(f"{asked}, got {kind}; {hint}")


def fitted(
    model: M, state: State, *, strict: bool, dtype: DTypePolicy, source: str, refused: Mapping[str, str] | None = None
) -> M:
    """Return the model with the values of a state."""
    fitting, report, kept = fit(model, state, dtype, refused)
    name = type(model).__name__
    if strict and not report.fits:
        raise StateError(
            f"{source} does not fit {name}, and nothing was loaded: {report}; strict=False takes the parts that fit",
            report,
        )
    if not report.applied and model.state():
        raise StateError(f"nothing of {source} fits {name}: {report}", report)
    return fitting.with_state(kept, strict=False)


def _in_dtypes_of(model: M, state: State, asked: DType | None) -> M:
    """Return the model with the dtypes of the state where that fits, or with all floats in the ``asked`` dtype.
    Parameters that the state has a value for get none yet."""
    known, values = _known(model), dict[int, Any]()
    for path, entry in state.items():
        value, variable = _value(entry), known.get(path)
        if variable is not None and _fits(value, variable):
            values[id(variable)] = value

    def cast(path: str, variable: Variable[Any]) -> Variable[Any]:
        value, dtype = values.get(id(variable)), variable.dtype
        if asked is not None and variable.kind in INEXACT:
            dtype = asked if variable.kind == "float" else complex_dtype(asked)
        elif asked is None and value is not None:
            dtype = value.dtype
        if dtype == variable.dtype:
            return variable
        if value is not None:
            return variable._with_primitive(variable.device, unfilled(variable.shape, dtype, variable.device))
        own = variable._value.detach() if variable.kind in INEXACT else variable._value
        return variable._with_value(own.to_dtype(dtype))

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
    """Return the tensor or array of an entry of a state: an `Entry`, a pair of id and value, or the value itself."""
    return entry.value if isinstance(entry, Entry) else entry[1] if isinstance(entry, tuple) else entry


def _renaming(remap: Remap) -> Callable[[str], object]:
    if callable(remap):
        return remap
    given: Any = remap.items() if isinstance(remap, Mapping) else remap
    rules = []
    for pair in given if isinstance(given, Iterable) else (given,):
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
                raise ArgumentError(f"remap= cannot replace {pattern.pattern!r} by {replacement!r}: {error}") from error
        return path

    return rename
