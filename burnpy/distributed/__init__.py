"""Training on several processes and machines: groups of ranks that average gradients by MPI.

A program is started once for each rank, by ``mpiexec -n 4 python -m mpi4py train.py``, and its loop becomes::

    group = Group.world()
    model = group.broadcast(model)                                    # the same parameters, with the same ids
    for batch in loader.shard(group.rank, group.size).epoch(epoch):
        grads = group.mean(gradients(model, batch), weight=len(batch))
        model = optim.step(rate, model, grads)

Started without a launcher, the same program is a group of one:

>>> group = Group.world()
>>> group.rank, group.size, group.sum(3), group.gather("a")
(0, 1, 3, ['a'])
"""

from burnpy.distributed.elastic import Elastic
from burnpy.distributed.group import Group
from burnpy.distributed.zero import ZeroRedundancy

__all__ = ["Elastic", "Group", "ZeroRedundancy"]
