"""`DataParallel`: a learner's strategy by which the ranks of a group share every batch."""

from __future__ import annotations

from collections.abc import Callable

from burnpy.backend.errors import KindError, a
from burnpy.distributed.group import Group
from burnpy.typevars import T


class DataParallel:
    """Training of one model by all ranks of a group. Each rank computes the gradients of its part of every batch::

        group = Group.world()
        learner = Learner(train_step, valid_step, optim=AdamW(), lr=1e-3, strategy=DataParallel(group))
        result = learner.fit(model, train, valid, epochs=10, resume="auto")

    All ranks run the same program and pass `fit` the same loaders; the learner takes the rank's part. ``batch_size``
    counts the samples of all ranks together. The run begins with rank 0's model, or with its checkpoint, which a run
    with another number of ranks may have written. Rank 0 writes files and logs.

    The gradients are means over the samples of a batch on all ranks, metrics are of all ranks, and a callback, a signal
    or an error on one rank stops all. The loss and the metrics of a `BatchEnd` are the rank's own; BatchNorm
    normalizes by the rank's part of the batch, and merges its running statistics. Random numbers, as for dropout,
    differ between ranks.

    Args:
        group: the ranks.

    Raises:
        KindError: ``group`` is not a `Group`.

    >>> from burnpy.distributed import DataParallel, Group
    >>> DataParallel(Group.world()).run(lambda group: group.gather(group.rank))
    [0]
    """

    def __init__(self, group: Group) -> None:
        given: object = group
        if not isinstance(given, Group):
            raise KindError(
                f"DataParallel() takes a Group, not {a(type(given).__name__)}; write DataParallel(Group.world())"
            )
        self._group = group

    @property
    def group(self) -> Group:
        """The ranks."""
        return self._group

    def run(self, step: Callable[[Group], T]) -> T:
        """Return ``step(group)``."""
        return step(self._group)

    def __repr__(self) -> str:
        return f"DataParallel({self._group!r})"
