"""JAX: whole training steps and models as functions compiled by ``jax.jit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("NPROC", os.environ.get("OMP_NUM_THREADS", "1"))  # the number of XLA's threads

from benchmarks.peers import EXPRESSIONS, Array, Peer, Training
from benchmarks.tasks import Task


class Jax(Peer):
    package = "jax"
    expressions = EXPRESSIONS

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        import jax.numpy as jnp

        return {name: jnp.asarray(array) for name, array in arrays.items()}

    def training(self, task: Task, *, profiled: bool = False) -> Training:
        from benchmarks.peers.jax_models import JaxTraining

        return JaxTraining(task)

    def inference(self, task: Task) -> Callable[[], Any]:
        from benchmarks.peers.jax_models import inference

        return inference(task)


PEER = Jax()
