"""Drawing the same random numbers again: a thread's default generators, remembered and put back for a while."""

from __future__ import annotations

import collections.abc as containers
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.tensor import generator as generators
from burnpy.tensor.generator import Generator

States: TypeAlias = dict[Backend, dict[str, Any]]
"""The state of the calling thread's default generator for each device that it drew from."""


def states() -> States:
    """The states now."""
    mine = generators._mine
    if mine.seeding is not generators._seeding:
        return {}
    return {device: g.get_state() for device, g in mine.generators.items()}


def completed(before: States) -> States:
    """``before``, and where the generators began that the thread has had since then."""
    return {device: _beginning(state) for device, state in states().items()} | before


@contextmanager
def replayed(at: States) -> containers.Generator[None, None, None]:
    """A block in which this thread draws from the states ``at``; afterwards it draws on from where it was.

    `manual_seed` within the block is undone as well.
    """
    mine, seeding = generators._mine, generators._seeding
    if mine.seeding is not seeding:
        mine.seeding, mine.generators = seeding, {}
    own = mine.generators
    before = {device: g.get_state() for device, g in own.items() if device in at}
    mine.generators = {device: own.get(device) or Generator(0) for device in at}
    try:
        for device, g in mine.generators.items():
            g.set_state(at[device])
        yield
    finally:
        generators._seeding = mine.seeding = seeding
        mine.generators = own
        for device, state in before.items():
            own[device].set_state(state)


def _beginning(state: dict[str, Any]) -> dict[str, Any]:
    seeds = np.random.SeedSequence(state["entropy"], spawn_key=tuple(state["spawn_key"]))
    return {**state, "bits": dict(np.random.PCG64(seeds).state), "spawned": 0}
