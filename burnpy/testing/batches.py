"""The check of batching rules: an operation on a batch of examples equals one call for each example."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.autodiff.recording import new_level
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import BurnpyError
from burnpy.batching.batched import Batched
from burnpy.testing.arguments import arguments_of, fits
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import EmptyIndex, Index, Sample, Values
from burnpy.testing.checks import difference

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType
    from burnpy.testing.cases import Row

COUNT = 3
"""The number of examples."""
NOT_BATCHED = ("nonzero", "to_numpy")
"""Operations that vmap refuses, as their result depends on values."""
LOOSE = 64.0
"""The factor by which rounding errors may exceed those of a row: a batch may be summed in another order."""


def batched_operations(dtypes: Mapping[str, DType]) -> list[str]:
    """Return the operations that are run on batches in some of the dtypes."""
    return [
        name
        for name, row in ROWS.items()
        if name not in NOT_BATCHED and any(a.kind for a in row.operation.arguments) and batched_dtypes(row, dtypes)
    ]


def batched_dtypes(row: Row, dtypes: Mapping[str, DType]) -> list[DType]:
    """Return the dtypes in which an operation is run on batches: one of each kind, the widest float."""
    chosen = ("float64" if "float64" in dtypes else "float32", "int64", "bool")
    return [dtypes[name] for name in chosen if name in dtypes and fits(row, dtypes[name])]


def check_batches(device: Any, row: Row, example: str, dtype: DType, derivatives: bool) -> None:
    """Check an operation on batched arguments, all together and each alone.

    Args:
        device: the device that computes.
        row: the operation and its examples.
        example: the name of the example.
        dtype: the dtype of the case.
        derivatives: whether to compare gradients and tangents, and tangents of gradients, instead of values.
    """
    arguments = arguments_of(row.operation.name, example, dtype, "contiguous")
    samples = row.examples[example]
    sorts = row.operation.name == "searchsorted"
    varied = [_variants(samples[k], a, k, sorts and k == 0) for k, a in enumerate(arguments.given)]
    places = [k for k, variants in enumerate(varied) if variants is not None]
    for batched in dict.fromkeys([tuple(places), *[(k,) for k in places]]):
        given = [
            [varied[k][n] if k in batched else a for k, a in enumerate(arguments.given)]  # type: ignore[index]  # not None
            for n in range(COUNT)
        ]
        try:
            each = [_outcome(device, row, [_primitives(device, a) for a in args], derivatives) for args in given]
        except (BurnpyError, ValueError):
            continue  # not valid arguments of the operation, such as a matrix that is not positive definite
        if any(x.shape != y.shape for other in each[1:] for x, y in zip(each[0], other, strict=True)):
            continue  # shapes that depend on values
        names = ", ".join(row.operation.arguments[k].name for k in batched)
        where = f"{row.operation.name} ({example}), {dtype}, batched by {names}"
        with np.errstate(all="ignore"), level_on(device) as level:
            stacked = [
                _batch(level, [args[k] for args in given]) if k in batched else _primitives(device, a)
                for k, a in enumerate(arguments.given)
            ]
            found = [_values(level, x) for x in _outcome(level, row, stacked, derivatives)]
        for k, (values, column) in enumerate(zip(found, zip(*each, strict=True), strict=True)):
            expected = np.stack([np.asarray(_on(device, x).to_numpy(x)) for x in column])
            assert values.shape == expected.shape, f"{where}: result {k} has shape {values.shape}, not {expected.shape}"
            assert values.dtype == expected.dtype, f"{where}: result {k} has {values.dtype}, not {expected.dtype}"
            actual, wanted = (abs(values), abs(expected)) if row.up_to_sign else (values, expected)
            wrong = difference(actual, wanted, LOOSE * row.loose)
            assert wrong is None, f"{where}: result {k}: {wrong}"


@contextmanager
def level_on(device: Any) -> Generator[Any, None, None]:
    """Return a context manager that creates a `Batched` level on a device."""
    level = new_level(Batched, device)
    level.size, level.randomness = COUNT, "different"
    yield level


def _variants(sample: Any, given: Any, place: int, sorts: bool) -> list[Any] | None:
    """Return a value of an argument for each example, by other seeds or backward; None if it is no primitive."""
    if isinstance(given, list):
        members = [
            _variants(s, member, 10 * place + k, sorts)
            for k, (s, member) in enumerate(zip(sample, given, strict=True))
            if isinstance(member, np.ndarray)
        ]
        return [list(column) for column in zip(*members, strict=True)] if members else None
    if not isinstance(given, np.ndarray):
        return None
    if isinstance(sample, (Index, EmptyIndex, Values)) or not isinstance(sample, Sample):
        variants = [given, given.reshape(-1)[::-1].reshape(given.shape), given]
    else:
        variants = [given, *[sample.array(given.dtype, 100 * n + place) for n in range(1, COUNT)]]
    return [np.sort(x, axis=-1) for x in variants] if sorts else variants


def _on(device: Any, x: Any) -> Any:
    return device if kind_of(x.dtype) == "float" else device.discrete


def _primitives(device: Any, a: Any) -> Any:
    if isinstance(a, list):
        return [_primitives(device, member) for member in a]
    return _on(device, a).from_numpy(a) if isinstance(a, np.ndarray) else a


def _batch(level: Any, arrays: Sequence[Any]) -> Any:
    if isinstance(arrays[0], list):
        return [_batch(level, column) for column in zip(*arrays, strict=True)]
    return level.batched(_on(level.inner, arrays[0]).from_numpy(np.stack(arrays)))


def _values(level: Any, x: Any) -> Any:
    value = level.spread(level.own(x))
    return np.asarray(_on(level.inner, value).to_numpy(value))


def _outcome(device: Any, row: Row, args: list[Any], derivatives: bool) -> list[Any]:
    """Return the results of a call, or with ``derivatives`` their tangents, the gradients and the tangents of these.

    Tangents and the gradients of results are given functions of the arguments' values and of the shapes.
    """
    name = row.operation.name
    if not derivatives:
        kinds = [a.kind for a in row.operation.arguments]
        numeric = [a[0] if isinstance(a, list) else a for a, kind in zip(args, kinds, strict=True) if _numeric(a, kind)]
        on = device if row.operation.results == ("Float",) or not numeric else _on(device, numeric[0])
        return [x for _, x in row.flat_results(getattr(on, name)(*args))]
    forward = new_level(Forward, device)
    reverse = new_level(Autodiff, forward)
    leaves = []

    def tracked(x: Any) -> Any:
        if isinstance(x, list):
            return [tracked(member) for member in x]
        if not hasattr(x, "dtype") or kind_of(x.dtype) != "float":
            return x
        leaf = reverse.require_grad(reverse.lift(forward.dual(x, device.sin(device.mul(x, 3.0)))))
        leaves.append(leaf)
        return leaf

    results = row.flat_results(getattr(reverse, name)(*map(tracked, args)))
    roots = [x for k, x in results if row.operation.float_results[k]]
    seeds = [(x, forward.lift(device.full(x.shape, 0.7, x.dtype))) for x in roots]
    gradients = reverse.gradients(seeds, retain_graph=False)
    found = [gradients[leaf.node] for leaf in leaves if leaf.node in gradients]
    duals = [*[x.value for x in roots], *found]
    return [*chain.from_iterable([(d.value, _tangent(device, d)) for d in duals])]


def _tangent(device: Any, x: Any) -> Any:
    return device.full(x.shape, 0.0, x.dtype) if x.tangent is None else x.tangent


def _numeric(a: Any, kind: str | None) -> bool:
    return kind is not None and kind != "Bool" and (bool(a) if isinstance(a, list) else hasattr(a, "dtype"))
