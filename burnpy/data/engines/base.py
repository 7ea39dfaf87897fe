"""The interface of engines, which make batches in advance: serially, in threads or in processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

R_co = TypeVar("R_co", covariant=True)

Work: TypeAlias = Callable[[Any, Callable[[], bool]], Any]
"""A function of a task, and of a function that returns True once the result is no longer needed."""


class Engine(ABC, Generic[R_co]):
    """Computes the results of tasks in advance, and returns them in the order of the tasks."""

    @abstractmethod
    def next(self) -> R_co:
        """Return the result of the next task.

        Raises:
            StopIteration: there is none.
            Exception: what the work raised.
        """

    @abstractmethod
    def close(self) -> None:
        """End all workers; may be called again."""
