"""Checks that all ranks hold the same model: the same structure, and the same bits."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any, TypeAlias

from burnpy.backend.errors import GroupError
from burnpy.distributed.calls import Alone, Header
from burnpy.nn.module_base import ModuleBase

Facts: TypeAlias = dict[str, tuple[Any, ...]]
"""Properties that must be equal on all ranks, by the path of a parameter or buffer."""


def structure_of(value: object) -> Facts | None:
    """Return the shapes and dtypes in a model; None for other values."""
    if not isinstance(value, ModuleBase):
        return None
    return {path: (each.shape, each.dtype.name) for path, each in value._variables().items()}


def bits_of(model: Any) -> Facts:
    """Return the shapes, the dtypes, the ids and a digest of the values in a model."""
    facts: Facts = {}
    each: Any
    for path, each in model._variables().items():
        digest = hashlib.blake2b(each.value.to_numpy().tobytes(), digest_size=16).hexdigest()
        facts[path] = each.shape, each.dtype.name, each.id, digest
    return facts


def digest_of(facts: Facts | None) -> bytes:
    """Return 32 bytes for the header of a call; zeros for None."""
    return b"\0" * 32 if facts is None else hashlib.sha256(repr([*facts.items()]).encode()).digest()


def refuse_differences(calls: Alone, operation: str, facts: Facts | None, headers: list[Header]) -> None:
    """Check that those ranks that have facts have the same ones.

    Args:
        calls: of the group.
        operation: the name of the call.
        facts: this rank's.
        headers: of all ranks, with `digest_of` their facts.

    Raises:
        GroupError: a parameter or buffer differs; the message names the first.
    """
    if len({header.digest for header in headers} - {digest_of(None)}) <= 1:
        return
    data = pickle.dumps(facts)
    sizes = [header.nbytes for header in calls.open(Header(operation, nbytes=len(data)))]
    given = {rank: pickle.loads(each) for rank, each in enumerate(calls.gather(data, sizes))}
    present = {rank: each for rank, each in given.items() if each is not None}
    first, known = next(iter(present.items()))
    for rank, other in present.items():
        if other == known and [*other] == [*known]:
            continue
        path = next((path for path in (*known, *other) if known.get(path) != other.get(path)), None)
        raise GroupError(f"{operation}() {_difference(calls, path, first, known, rank, other)}", everywhere=True)


def _difference(calls: Alone, path: str | None, first: int, known: Facts, rank: int, other: Facts) -> str:
    mine, its = calls.name(first), calls.name(rank)
    if path is None:
        return (
            f"got different models: {mine} and {its} order the parameters differently; make the same model on all ranks"
        )
    for owner, lacking, facts in ((mine, its, other), (its, mine, known)):
        if path not in facts:
            return f"got different models: {owner} has {path}, {lacking} does not; make the same model on all ranks"
    one, two = known[path], other[path]
    if one[:2] != two[:2]:
        return (
            f"got different models: {path} has shape {one[0]} and dtype {one[1]} on {mine}, but shape {two[0]} and "
            f"dtype {two[1]} on {its}; make the same model on all ranks"
        )
    what = "parameters of its own" if one[2] != two[2] else "other values"
    return (
        f"got different models: {path} on {its} differs from {path} on {mine}: it has {what}; write model = "
        "group.broadcast(model) on all ranks, and make the same steps on all"
    )
