"""The check of batching rules: an operation on a batch of examples equals one call for each example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, cycle, islice
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.autodiff import Autodiff, Forward
from burnpy.autodiff.recording import new_level
from burnpy.backend.dtypes import is_inexact
from burnpy.backend.errors import BurnpyError
from burnpy.backend.rules import Folded
from burnpy.batching.batched import Batched
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import EmptyIndex, Index, Sample, Values
from burnpy.testing.cases.table import arguments_of, called, fits
from burnpy.testing.checks import difference

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType
    from burnpy.testing.cases import Row

COUNT = 3
"""The number of examples."""
INNER = 2
"""The number of examples of each in batches of batches."""
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
    chosen = ("float64" if "float64" in dtypes else "float32", "int64", "bool", "complex128")
    return [dtypes[name] for name in chosen if name in dtypes and fits(row, dtypes[name])]


def has_own_rule(row: Row) -> bool:
    """Return whether an operation has a batching rule that no other has, or `Folded`: those are checked nested."""
    rule = row.operation.batch
    return isinstance(rule, Folded) or callable(rule)


def check_batches(device: Any, row: Row, example: str, dtype: DType, derivatives: bool, nested: bool = False) -> None:
    """Check an operation on batched arguments, all together and each alone.

    Args:
        device: the device that computes.
        row: the operation and its examples.
        example: the name of the example.
        dtype: the dtype of the case.
        derivatives: whether to compare gradients and tangents, and tangents of gradients, instead of values.
        nested: whether to compute batches of batches, in which arguments differ along one of both dimensions, or both.
    """
    sizes = (COUNT, INNER) if nested else (COUNT,)
    empty = (0, *sizes[1:])
    arguments = arguments_of(row.operation.name, example, dtype, "contiguous")
    samples = row.examples[example]
    sorts = row.operation.name == "searchsorted"
    varied = [_variants(samples[k], a, k, sorts and k == 0) for k, a in enumerate(arguments.given)]
    places = [k for k, variants in enumerate(varied) if variants is not None]
    for along in _arrangements(places, nested):
        given = [
            [_variant(varied[k], at, along[k]) if k in along else a for k, a in enumerate(arguments.given)]
            for at in np.ndindex(*sizes)
        ]
        try:
            each = [_outcome(device, row, [_primitives(device, a) for a in args], derivatives) for args in given]
        except (BurnpyError, ValueError):
            continue  # not valid arguments of the operation, such as a matrix that is not positive definite
        if any(x.shape != y.shape for other in each[1:] for x, y in zip(each[0], other, strict=True)):
            continue  # shapes that depend on values
        names = ", ".join([f"{row.operation.arguments[k].name} {along[k]}" for k in along])
        where = f"{row.operation.name} ({example}), {dtype}, batched by {names}"
        together = partial(_together, row=row, along=along, given=given, derivatives=derivatives)
        found = together(levels_on(device, sizes))
        for k, values in enumerate(together(levels_on(device, empty)) if nested else ()):
            shape = (*empty, *each[0][k].shape)
            assert values.shape == shape, f"{where}: result {k} of no examples has shape {values.shape}, not {shape}"
        for k, (values, column) in enumerate(zip(found, zip(*each, strict=True), strict=True)):
            expected = np.stack([np.asarray(_on(device, x).to_numpy(x)) for x in column])
            _compare(f"{where}: result {k}", values, expected.reshape((*sizes, *expected.shape[1:])), row)


def _variant(variants: Any, at: Sequence[int], along: Sequence[int]) -> Any:
    """Return an argument of the example at a place in the batch, along some of whose dimensions it differs."""
    return variants[sum([at[level] for level in along])]


def _compare(result: str, values: Any, expected: Any, row: Row) -> None:
    assert values.shape == expected.shape, f"{result} has shape {values.shape}, not {expected.shape}"
    assert values.dtype == expected.dtype, f"{result} has {values.dtype}, not {expected.dtype}"
    actual, wanted = (abs(values), abs(expected)) if row.up_to_sign else (values, expected)
    wrong = difference(actual, wanted, LOOSE * row.loose)
    assert wrong is None, f"{result}: {wrong}"


def _arrangements(places: Sequence[int], nested: bool) -> list[dict[int, tuple[int, ...]]]:
    """Return the dimensions of the batch along which each argument differs, for several calls."""
    if not nested:
        return [dict.fromkeys(chosen, (0,)) for chosen in dict.fromkeys([tuple(places), *[(k,) for k in places]])]
    kinds = ((0, 1), (0,), (1,))
    return [dict(zip(places, islice(cycle(kinds), first, None), strict=False)) for first in (0, 2)]


def levels_on(device: Any, sizes: Sequence[int]) -> list[Any]:
    """Return new `Batched` levels of some sizes on a device, from the outermost to the innermost."""
    levels: list[Any] = []
    for size in sizes:
        level: Any = new_level(Batched, levels[-1] if levels else device, "vmap")
        level.size, level.randomness = size, "different"
        levels.append(level)
    return levels


def _variants(sample: Any, given: Any, place: int, sorts: bool) -> list[Any] | None:
    """Return a value of an argument for each example, by other seeds or backward; None if it is not a primitive."""
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
        variants = [given, given.reshape(-1)[::-1].reshape(given.shape), given, given]
    else:
        variants = [given, *[sample.array(given.dtype, 100 * n + place) for n in range(1, COUNT + INNER - 1)]]
    return [np.sort(x, axis=-1) for x in variants] if sorts else variants


def _on(device: Any, x: Any) -> Any:
    return device if is_inexact(x.dtype) else device.discrete


def _primitives(device: Any, a: Any) -> Any:
    if isinstance(a, list):
        return [_primitives(device, member) for member in a]
    return _on(device, a).from_numpy(a) if isinstance(a, np.ndarray) else a


def _together(
    levels: Sequence[Any], row: Row, along: Mapping[int, Any], given: Sequence[list[Any]], derivatives: bool
) -> list[Any]:
    """Compute all examples in one call, as many as the levels have."""
    args = [
        _stacked(levels, along[k], [args[k] for args in given]) if k in along else _primitives(levels[0].inner, a)
        for k, a in enumerate(given[0])
    ]
    with np.errstate(all="ignore"):
        return [_values(levels, x) for x in _outcome(levels[-1], row, args, derivatives)]


def _stacked(levels: Sequence[Any], along: tuple[int, ...], values: Sequence[Any]) -> Any:
    """Return an argument that differs along some dimensions of the batch as a primitive of the innermost level."""
    if isinstance(values[0], list):
        return [_stacked(levels, along, column) for column in zip(*values, strict=True)]
    sizes = [level.size for level in levels]
    array = np.stack(values).reshape((len(values) // prod(sizes[1:]), *sizes[1:], *values[0].shape))
    rows = [slice(size) if k in along else 0 for k, size in enumerate(sizes)]
    x = _on(levels[0].inner, array).from_numpy(np.ascontiguousarray(array[tuple(rows)]))
    for k, level in enumerate(levels):
        x = level.batched(x) if k in along else level.lift(x)
    return x


def _values(levels: Sequence[Any], x: Any) -> Any:
    for level in reversed(levels):
        x = level.spread(level.own(x))
    return np.asarray(_on(levels[0].inner, x).to_numpy(x))


def _outcome(device: Any, row: Row, args: list[Any], derivatives: bool) -> list[Any]:
    """Return the results of a call, or with ``derivatives`` their tangents, the gradients and the tangents of these.
    Tangents and the gradients of results are given functions of the arguments' values and of the shapes."""
    name = row.operation.name
    if not derivatives:
        kinds = [a.kind for a in row.operation.arguments]
        numeric = [a[0] if isinstance(a, list) else a for a, kind in zip(args, kinds, strict=True) if _numeric(a, kind)]
        on = device if row.operation.results == ("Float",) or not numeric else _on(device, numeric[0])
        return [x for _, x in row.flat_results(called(name, on, args))]
    forward = new_level(Forward, device, "jvp")
    reverse = new_level(Autodiff, forward, "grad")
    leaves = []

    def tracked(x: Any) -> Any:
        if isinstance(x, list):
            return [tracked(member) for member in x]
        if not hasattr(x, "dtype") or not is_inexact(x.dtype):
            return x
        leaf = reverse.require_grad(reverse.lift(forward.dual(x, device.sin(device.mul(x, 3.0)))))
        leaves.append(leaf)
        return leaf

    results = row.flat_results(called(name, reverse, [*map(tracked, args)]))
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
