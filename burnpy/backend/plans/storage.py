"""`Storage`: the arrays in a plan's own memory, where each replay writes them anew, and views of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from burnpy.backend.plans.executor import Executor, Joined
from burnpy.backend.plans.memory import Arena, Place
from burnpy.backend.primitives import DType, Shape


class Storage:
    """The arrays by name, and how they are made for each instance of the plan.

    Args:
        executor: what makes them; None if the plan has none.
    """

    def __init__(self, executor: Executor | None) -> None:
        self.arena = Arena()
        self.models: dict[str, Any] = {}  #: arrays as those of an instance will be, but all in the same memory
        self._room: tuple[int, Any] | None = None  # its size, and the memory of the models
        self._executor = executor
        self._recipes: list[tuple[str, Place, Shape, DType]] = []
        self._views: list[tuple[str, Callable[..., Any], str, tuple[Any, ...]]] = []  # name, function, array, arguments
        self._joined: list[tuple[str, Joined]] = []

    @property
    def executor(self) -> Executor:
        """The executor, which makes the arrays."""
        assert self._executor is not None
        return self._executor

    @property
    def names(self) -> list[str]:
        """The names of all that an instance has of its own."""
        return [*self.models, *[name for name, _ in self._joined]]

    def array(self, name: str, place: Place, shape: Shape, dtype: DType) -> None:
        """Add an array, at a place of the arena."""
        self._recipes.append((name, place, shape, dtype))
        if self._room is None or place.size > self._room[0]:
            self._room = place.size, self.executor.memory(place.size)
        self.models[name] = self.executor.array(self._room[1], 0, shape, dtype)

    def scratch(self, shape: Shape, dtype: DType, scratch: list[Place]) -> str:
        """Return the name of memory that only one unit uses, and add its place to a list."""
        place = self.arena.take(shape, dtype)
        scratch.append(place)
        name = f"s{len(self._recipes)}"
        self.array(name, place, shape, dtype)
        return name

    def view(self, name: str | None, method: Callable[..., Any], array: str, args: tuple[Any, ...], model: Any) -> str:
        """Add a view, which a function makes of an array, and return its name."""
        own = name or f"p{len(self._views)}"
        self._views.append((own, method, array, args))
        self.models[own] = model
        return own

    def join(self, joined: Joined) -> str:
        """Add joined calls, and return the name of the function that makes them."""
        name = f"q{len(self._joined)}"
        self._joined.append((name, joined))
        return name

    @property
    def only(self) -> Joined | None:
        """The joined calls, if there are no others."""
        return self._joined[0][1] if len(self._joined) == 1 else None

    def complete(self) -> None:
        """Assign the places in memory. All arrays are known, and the models no longer needed."""
        self.arena.assign()
        self.models, self._room = dict.fromkeys(self.models), None

    def instance(self, objects: Mapping[str, Any]) -> dict[str, Any]:
        """Return all, in new memory; ``objects`` are others that joined calls may use."""
        made = self.arrays()
        functions = {name: joined.bind({**objects, **made}) for name, joined in self._joined}
        return made | functions

    def arrays(self) -> dict[str, Any]:
        """Return the arrays and their views, in new memory."""
        made: dict[str, Any] = {}
        if self._recipes:
            memory = self.executor.memory(self.arena.size)
            for name, place, shape, dtype in self._recipes:
                made[name] = self.executor.array(memory, place.start, shape, dtype)
            for name, method, array, args in self._views:
                made[name] = method(made[array], *args)
        return made
