"""The generated Python function that replays a plan: its statements, and launches that follow each other as one call.

While a `CallRun` is open, statements that prepare memory and arguments are written before it, and those that drop
values wait for its end. Any other statement ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

from burnpy.backend.plans.recording import DefaultGenerator, Ref

if TYPE_CHECKING:
    from burnpy.backend.plans.executor import Launch, Number
    from burnpy.backend.plans.memory import Storage


class Source:
    """The statements of a function, and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.prepared = 0  #: how many of them convert an input or make memory for an output
        self.text = ""  #: the function, once it is defined
        self.objects: dict[str, Any] = {}
        self.generators: list[Callable[[], Any]] = []  #: functions that return the default generators it draws from
        self._names: dict[Any, str] = {}

    def bind(self, value: Any, prefix: str = "c") -> str:
        """Return the name of an object that the statements use."""
        method = value.__class__ is MethodType  # made anew each time that it is looked up
        key = (id(value.__self__), id(value.__func__)) if method else id(value)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"{prefix}{len(self.objects)}"
            self.objects[name] = value
        return name

    def write(self, line: str) -> None:
        """Add a statement."""
        self.lines.append(line)

    def prepare(self, line: str) -> None:
        """Add a statement that converts an input to another layout, or makes memory for an output."""
        self.prepared += 1
        self.write(line)

    def expression(self, x: Any, name: Callable[[Ref], str]) -> str:
        """Return the expression of an argument; ``name`` gives the name of a value."""
        kind = x.__class__
        if kind is Ref:
            return name(x)
        if kind is tuple:
            return "(" + "".join(f"{self.expression(member, name)}, " for member in x) + ")"
        if kind is list:
            return "[" + ", ".join(self.expression(member, name) for member in x) + "]"
        if kind is DefaultGenerator:
            self.generators.append(x.find)
            return f"{self.bind(x.find)}()"
        if x is None or x is True or x is False or kind is int:
            return repr(x)
        return self.bind(x)

    def target(self, results: Any, name: Callable[[Ref], str]) -> str:
        """Return the left side of the assignment of results; empty if there are none."""
        if results.__class__ is Ref:
            return f"{name(results)} = "
        if results.__class__ is tuple or results.__class__ is list:
            inside = "".join(f"{self.target(member, name).removesuffix(' = ') or '_'}, " for member in results)
            return f"({inside}) = " if inside else ""
        return ""

    def definition(
        self, parameters: list[str], result: str, name: str, later: list[str]
    ) -> Callable[[dict[str, Any]], Callable[..., Any]]:
        """Return a function that makes the function, given the objects of the names ``later``.

        All objects are locals of the function, which Python reads fastest.
        """
        inside = "\n    ".join([*self.lines, f"return {result}"])
        given = [*self.objects, *later]
        star = ", *, " if parameters and given else "*, " if given else ""
        defaults = ", ".join(f"{key}={key}" for key in given)
        self.text = f"def {name}({', '.join(parameters)}{star}{defaults}):\n    {inside}\n"
        code = compile(self.text, f"<{name}>", "exec")

        def make(objects: dict[str, Any]) -> Callable[..., Any]:
            space = {**self.objects, **objects}
            exec(code, space)
            return space[name]  # type: ignore[no-any-return]  # the function

        return make


class CallRun:
    """The open run of a replay.

    Args:
        source: the replay.
        storage: the memory of the plan.
    """

    def __init__(self, source: Source, storage: Storage) -> None:
        self._source, self._storage = source, storage
        self._calls: list[Any] = []
        self._launches: list[tuple[Launch, Sequence[str], Sequence[Number], Sequence[str]]] = []
        self._names: dict[str, None] = {}  # of all arrays that the calls use
        self._written: set[str] = set()
        self._later: list[str] = []

    def add(
        self,
        launch: Launch,
        arrays: Sequence[str],
        results: Sequence[str],
        numbers: Sequence[Number] = (),
        scratch: Sequence[str] = (),
    ) -> None:
        """Add a launch, which ends the run if Python has to make it."""
        given = [*arrays, *results]
        calls = launch.calls(given, numbers, scratch)
        if calls is None:
            self.end()
            launch.write(self._source, given, numbers, scratch)
            return
        self._calls += calls
        self._launches.append((launch, given, numbers, scratch))
        self._written.update(results)
        self._names.update(dict.fromkeys([*given, *[number.name for number in numbers], *scratch]))

    def writes(self, name: str) -> bool:
        """Return whether the run has yet to write an array."""
        return name in self._written

    def drop(self, names: Sequence[str]) -> None:
        """Write that values are needed no longer, after the run."""
        line = " = ".join(names) + " = None"
        if self._calls:
            self._later.append(line)
        else:
            self._source.write(line)

    def end(self) -> None:
        """Write the run as one statement."""
        if not self._calls:
            return
        kept, bound = self._storage.models, self._source.objects
        given = [name for name in self._names if name not in kept and name not in bound]
        joined = self._storage.executor.joined(self._calls, given)
        if joined is not None:
            self._source.write(f"{self._storage.join(joined)}({', '.join(given)})")
        else:
            for launch, arrays, numbers, scratch in self._launches:
                launch.write(self._source, arrays, numbers, scratch)
        for line in self._later:
            self._source.write(line)
        self._calls, self._launches, self._names, self._written, self._later = [], [], {}, set(), []
