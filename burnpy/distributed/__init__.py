"""Training on several processes and machines: groups of ranks that average gradients by MPI, and workers.

A program of ranks is started once for each, by ``mpiexec -n 4 python -m mpi4py train.py``, and its loop becomes::

    group = Group.world()
    model = group.broadcast(model)                                    # the same parameters, with the same ids
    for batch in loader.shard(group.rank, group.size).epoch(epoch):
        grads = group.mean(gradients(model, batch), weight=len(batch))
        model = optim.step(rate, model, grads)

Started without a launcher, the same program is a group of one:

>>> from burnpy.distributed import Group
>>> group = Group.world()
>>> group.rank, group.size, group.sum(3), group.gather("a")
(0, 1, 3, ['a'])

`Workers` compute the shares of a batch for a program that is started once.
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.distributed.elastic": "Elastic",
    "burnpy.distributed.group": "DataParallel Group",
    "burnpy.distributed.workers": "Workers",
    "burnpy.distributed.zero": "ZeroRedundancy",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
