"""What makes batches: the interface of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Work: TypeAlias = Callable[[Any, Callable[[], bool]], Any]
"""A function of a task, and of a function that says whether nobody waits for the result any more."""


class Engine(ABC, Generic[R_co]):
    """Makes the results of tasks ahead, and gives them in the order of the tasks."""

    @abstractmethod
    def next(self) -> R_co:
        """The result of the next task.

        Raises:
            StopIteration: there is none.
            Exception: what the work raised.
        """

    @abstractmethod
    def close(self) -> None:
        """End all workers; may be called again."""
