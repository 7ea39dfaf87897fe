"""Replay of random numbers: saving the states of a thread's default generators and restoring them temporarily."""

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
    """Return the current states."""
    local = generators._local
    if local.seeding is not generators._seeding:
        return {}
    return {device: g.get_state() for device, g in local.generators.items()}


def completed(before: States) -> States:
    """Return ``before``, with the initial states of the generators that the thread has created since then."""
    return {device: _initial_state(state) for device, state in states().items()} | before


@contextmanager
def replayed(at: States) -> containers.Generator[None, None, None]:
    """A context manager in whose block this thread's default generators start from the states ``at``.

    Afterwards the previous states are restored, and a `manual_seed` within the block is undone.
    """
    local, seeding = generators._local, generators._seeding
    if local.seeding is not seeding:
        local.seeding, local.generators = seeding, {}
    generators_before = local.generators
    before = {device: g.get_state() for device, g in generators_before.items() if device in at}
    local.generators = {device: generators_before.get(device) or Generator(0) for device in at}
    try:
        for device, g in local.generators.items():
            g.set_state(at[device])
        yield
    finally:
        generators._seeding = local.seeding = seeding
        local.generators = generators_before
        for device, state in before.items():
            generators_before[device].set_state(state)


def _initial_state(state: dict[str, Any]) -> dict[str, Any]:
    seeds = np.random.SeedSequence(state["entropy"], spawn_key=tuple(state["spawn_key"]))
    return {**state, "bits": dict(np.random.PCG64(seeds).state), "spawned": 0}
