"""The layout that several ranks agree on, of the gradients that any of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.errors import GroupError
from burnpy.optim.layout import Entry, Layout


class Description(NamedTuple):
    """The description of a rank's gradients that it sends to the others."""

    paths: dict[str, str]
    entries: tuple[Entry, ...]
    bucket_bytes: int


Descriptions: TypeAlias = Sequence[Description | None]
"""One for each rank; None for a rank without gradients."""


def described(layout: Layout[Any]) -> Description:
    """Return what a rank tells the others of its gradients' layout."""
    return Description(layout.paths, layout.entries, layout.bucket_bytes)


def joint_layout(descriptions: Descriptions, device: Any, make: Any) -> Layout[Any]:
    """Return the layout of everything that any rank has, in the order of the model.

    Args:
        descriptions: at least one is not None.
        device: this rank's.
        make: `GradientsParams`.

    Raises:
        GroupError: the ranks have different models, or gradients of different shapes or dtypes.
    """
    given = {rank: each for rank, each in enumerate(descriptions) if each is not None}
    first, model = next(iter(given.items()))
    for rank, other in given.items():
        if other.paths != model.paths or list(other.paths) != list(model.paths):
            raise GroupError(_models_differ(first, model.paths, rank, other.paths), everywhere=True)
    merged: dict[str, tuple[int, Entry]] = {}
    for rank, each in given.items():
        for entry in each.entries:
            owner, known = merged.setdefault(entry.ident, (rank, entry))
            if (known.shape, known.dtype) != (entry.shape, entry.dtype) and entry.kind != "found_inf":
                raise GroupError(
                    f"mean() got gradients of {entry.path} of shape {known.shape} and dtype {known.dtype} on "
                    f"rank {owner}, and {entry.shape} and {entry.dtype} on rank {rank}; all "
                    "ranks must hold the same model: model = group.broadcast(model)",
                    everywhere=True,
                )
    position = {ident: place for place, ident in enumerate(model.paths)}
    kinds = {"gradient": 0, "update": 1, "found_inf": 2}
    entries = sorted(
        (entry for _, entry in merged.values()),
        key=lambda entry: (kinds[entry.kind], -position.get(entry.ident, -1), entry.ident),
    )
    return Layout(device, entries, model.paths, make, model.bucket_bytes)


def _models_differ(first: int, mine: Mapping[str, str], rank: int, theirs: Mapping[str, str]) -> str:
    """The message for ranks whose models have different parameters."""
    end = "; all ranks must hold the same model: model = group.broadcast(model) on all, before the first step"
    here, there = list(mine.values()), list(theirs.values())
    if here == there:
        return (
            f"mean() got gradients of parameters with other ids on rank {rank} than on rank {first}, as of "
            f"{here[0]}: each has made a model of its own{end}"
        )
    only = [path for path in here if path not in there], [path for path in there if path not in here]
    for owner, paths in ((first, only[0]), (rank, only[1])):
        if paths:
            other = rank if owner == first else first
            return f"mean() got gradients of {paths[0]} on rank {owner}, which the model of rank {other} lacks{end}"
    return f"mean() got gradients of models that order parameters differently on ranks {first} and {rank}{end}"
