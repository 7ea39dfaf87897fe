"""`Workers`: other processes to which the shares of a batch are given, of this machine or, by Ray, of several."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.errors import ArgumentError, BurnpyError, CallError, KindError, WorkerError, a
from burnpy.distributed.worker_engine import Failure, FlatLayouts, Lost, WorkerEngine, WorkerHandle, WorkerTask
from burnpy.optim.gradients.accumulator import GradientsAccumulator
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.dim_checks import checked_count
from burnpy.tensor.tensor_base import describe
from burnpy.train.train_step import batch_size
from burnpy.typevars import R

M = TypeVar("M")
S = TypeVar("S")
G = TypeVar("G", bound=GradientsParams[Any])

EngineName: TypeAlias = Literal["processes", "ray"]

_STARTS = 4
"""How many workers in a row may end before they are ready; then there is no use in starting another."""


class Workers(metaclass=Explaining):
    """Workers that compute a function of the model for each share of some data, and return the values.

    A worker has no state. If a worker is lost (killed, out of memory, its machine gone), another worker computes the
    share, and the lost worker is replaced. The results are the same, to the bit, whichever worker computed which share
    in which order: sums have the order of the shares, and random numbers drawn for a share depend on ``seed``,
    the number of earlier calls, and the number of the share::

        def gradients(model, rows):                      # at the top level of a module
            return GradientsParams.from_grads(loss(model, rows).backward(), model)

        if __name__ == "__main__":
            with Workers(8) as workers:
                for rows in batches:
                    grads = workers.mean(gradients, model, numpy.array_split(rows, 8))
                    model = optim.step(rate, model, grads)

    Args:
        count: the number of workers.
        engine: "processes" on this machine, which need no package and take functions by pickle, as names in a module;
            or "ray", for several machines and for functions defined anywhere (``pip install "burnpy[ray]"``).
        address: with "ray", the address of a cluster ("10.0.0.1:6379", "ray://10.0.0.1:10001", "auto"); by default the
            cluster that the program started by ``ray.init``, or a new one on this machine.
        limit: how many seconds a worker may take to be ready, or for a share. One that takes longer is lost.
        retries: how often another worker tries a share before the call gives up.
        seed: for the random numbers that are drawn in workers.

    Raises:
        ArgumentError: a number is out of range, there is no such engine, or the cluster does not answer.
        MissingPackageError: Ray is not installed.
        WorkerError: this process may not start others.
    """

    def __init__(
        self,
        count: int,
        *,
        engine: EngineName = "processes",
        address: str | None = None,
        limit: float = 600.0,
        retries: int = 3,
        seed: int = 0,
    ) -> None:
        for name, number, least in (("count", count, 1), ("retries", retries, 0), ("seed", seed, 0)):
            checked_count(number, name, least, "Workers()")
        if not 0 < limit < math.inf:
            raise ArgumentError(f"Workers() got limit={limit!r:.80}; expected a number of seconds above 0")
        self._count, self._limit, self._retries, self._seed = count, limit, retries, seed
        self._calls = 0
        self._layouts = FlatLayouts()
        self._failed_starts = 0
        self._idle: list[WorkerHandle] = []
        self._busy: dict[
            WorkerHandle, tuple[WorkerTask | None, float]
        ] = {}  # its task, None while it starts, and its deadline
        self._engine: WorkerEngine | None = _engine(engine, address, count, limit)
        try:
            while len(self._busy) < count:
                self._start()
        except BaseException:
            self.close()
            raise

    def map(self, f: Callable[[M, S], R], model: M, shares: Iterable[S]) -> list[R]:
        """Return ``f(model, share)`` for each share, in their order.

        Args:
            f: the function.
            model: the model, or any other value that all shares need; it is sent once to each worker.
            shares: any number of them; each worker takes one at a time.

        Raises:
            CallError: the workers were closed.
            WorkerError: something cannot be sent, or every worker that tried a share was lost.
            Exception: the one that ``f`` raised, with its traceback in the worker as the cause.

        >>> with Workers(2) as workers:                # doctest: +SKIP
        ...     workers.map(pow, 2, [1, 2, 3])
        [2, 4, 8]
        """
        return self._answers(f, model, list(shares))

    def mean(self, f: Callable[[M, S], G], model: M, shares: Iterable[S], weights: Sequence[float] | None = None) -> G:
        """Return the mean of the gradients ``f(model, share)`` of all shares.

        They are those of one process that computes the shares in order and adds them by a `GradientsAccumulator`, to
        the bit. Updates of running statistics are included.

        Args:
            f: from the model and a share to the `GradientsParams` of the mean loss of the share.
            model: the model.
            shares: the shares.
            weights: the weight of each share, by default the number of its samples: the length of its first tensor or
                array. Shares of weight 0 are left out.

        Raises:
            ArgumentError: there are no shares, the weights do not fit, or the size of a share is not known.
            KindError: ``f`` returned something else.
            CallError, WorkerError, Exception: see `map`.
        """
        given = list(shares)
        numbers = _weights(given, weights)
        chosen = [(share, weight) for share, weight in zip(given, numbers, strict=True) if weight]
        if not chosen:
            raise ArgumentError(f"mean() got {len(given)} shares, and none of them has a weight above 0")
        total = GradientsAccumulator[Any]()
        for grads, (_, weight) in zip(self._answers(f, model, [share for share, _ in chosen]), chosen, strict=True):
            answer: object = grads
            if not isinstance(answer, GradientsParams):
                raise KindError(
                    "mean() takes a function that returns GradientsParams, and it returned "
                    f"{a(type(answer).__name__)}; write GradientsParams.from_grads(loss.backward(), model), or use "
                    "map()"
                )
            total = total.add(answer, weight=weight)
        mean: Any = total.mean()
        return mean  # type: ignore[no-any-return]  # of the class of the summands

    def _answers(self, f: Callable[[Any, Any], Any], model: Any, shares: list[Any]) -> list[Any]:
        engine = self._open()
        if not callable(f):
            raise KindError(f"Workers got {describe(f)} as the function; write workers.map(f, model, shares)")
        self._calls += 1
        tasks = [WorkerTask(self._calls, k, _seed(self._seed, self._calls, k)) for k in range(len(shares))]
        pending, answers, losses = deque(tasks), dict[int, Any](), dict[int, int]()
        call = engine.call(f, model) if shares else None
        while len(self._idle) + len(self._busy) < self._count:  # an earlier call had given up
            self._start()
        while len(answers) < len(shares):
            while pending and self._idle:
                worker, task = self._idle.pop(), pending.popleft()
                try:
                    worker.submit(call, task, shares[task.share])
                except Lost as lost:
                    self._replace(worker, task, str(lost), pending, losses)
                except BaseException:
                    self._idle.append(worker)
                    raise
                else:
                    self._busy[worker] = (task, time.monotonic() + self._limit)
            for done, answer in self._received(pending, losses):
                if done is None or done.call != self._calls:
                    continue  # it is ready, or has done the work of an earlier call, which raised and no longer waits
                if isinstance(answer, Failure):
                    answer.error.add_note(f"raised by a worker, for share {done.share} of {len(shares)}")
                    raise answer.error
                answers[done.share] = answer
        return [answers[k] for k in range(len(shares))]

    def _received(self, pending: deque[WorkerTask], losses: dict[int, int]) -> list[tuple[WorkerTask | None, Any]]:
        """Wait for answers, and return them; replace workers that are lost, and put their tasks back."""
        engine, out = self._open(), list[tuple[WorkerTask | None, Any]]()
        remaining = min(deadline for _, deadline in self._busy.values()) - time.monotonic()
        for worker in engine.wait([*self._busy], max(remaining, 0.0)):
            task, _ = self._busy[worker]
            try:
                answer = worker.answer()
            except Lost as lost:
                self._replace(worker, task, str(lost), pending, losses)
            else:
                del self._busy[worker]
                self._idle.append(worker)
                self._failed_starts = 0
                out.append((task, self._layouts.opened(answer)))
        now = time.monotonic()
        for worker, (task, deadline) in [*self._busy.items()]:
            if deadline <= now:
                self._replace(worker, task, f"a worker did not answer within {self._limit:g} s", pending, losses)
        return out

    def _start(self) -> None:
        self._busy[self._open().start()] = (None, time.monotonic() + self._limit)

    def _replace(
        self,
        worker: WorkerHandle,
        task: WorkerTask | None,
        how: str,
        pending: deque[WorkerTask],
        losses: dict[int, int],
    ) -> None:
        """End a worker that is lost, start another, and put its task back."""
        self._busy.pop(worker, None)
        self._open().end([worker])
        if task is None:
            self._failed_starts += 1
            if self._failed_starts == _STARTS:
                self._failed_starts = 0
                raise WorkerError(
                    f"{_STARTS} workers, one after another, were lost before they were ready: {how}; their output "
                    "is on standard error"
                )
        self._start()
        if task is None or task.call != self._calls:
            return
        losses[task.share] = count = losses.get(task.share, 0) + 1
        if count > self._retries:
            raise WorkerError(
                f"{count} workers were lost while computing share {task.share}, the last one as "
                f"{how}; use smaller shares, which take less memory and time, or raise Workers(retries=, limit=)"
            )
        pending.appendleft(task)

    def _open(self) -> WorkerEngine:
        if self._engine is None:
            raise CallError("these workers were closed; make new ones: with Workers(...) as workers: ...")
        return self._engine

    def close(self) -> None:
        """End the workers at once; may be called again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            workers = [*self._idle, *self._busy]
            self._idle.clear()
            self._busy.clear()
            engine.end(workers)
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_engine", None) is not None:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._engine is None else type(self._engine).__name__
        return f"Workers({self._count}, {state})"


def _engine(name: object, address: str | None, count: int, limit: float) -> WorkerEngine:
    if name == "ray":
        from burnpy.distributed.ray_actors import RayActors

        return RayActors(address, count, limit)
    if name != "processes":
        raise ArgumentError(f"Workers() got engine={describe(name)}; expected 'processes' or 'ray'")
    if address is not None:
        raise ArgumentError(
            f"Workers() got address={address!r:.80} for processes of this machine; other machines need engine='ray'"
        )
    from burnpy.distributed.worker_engine import Processes

    return Processes()


def _seed(seed: int, call: int, share: int) -> int:
    return int(np.random.SeedSequence((seed, call, share)).generate_state(1, np.uint64)[0])


def _weights(shares: Sequence[Any], weights: Sequence[float] | None) -> list[float]:
    if weights is None:
        try:
            return [batch_size(share) for share in shares]
        except BurnpyError:
            raise ArgumentError(
                "mean() cannot find the number of samples in each share; pass weights=, one for each share"
            ) from None
    if len(weights) != len(shares) or not all(0 <= weight < math.inf for weight in weights):
        raise ArgumentError(
            f"mean() got {len(weights)} weights for {len(shares)} shares; expected one for each, finite and not "
            "negative"
        )
    return [float(weight) for weight in weights]
