"""The repr and the summary of modules: their settings, a tree with a line per part, and a table of layers.

Notebooks show the tree and the table as HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.errors import ArgumentError, counted
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_tree import TreeNode, children
from burnpy.nn.param import Param, Variable
from burnpy.tensor.call_errors import signature_of
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.nn.call_trace import Input

_UNKNOWN: Any = Parameter.empty


class Displayed(ModuleBase[B]):
    """The methods of a module that show it: as text, and in a table."""

    __slots__ = ()

    def extra_repr(self) -> str:
        """Return the settings shown in parentheses in the module's repr, written as the arguments of its class."""
        return settings(self)

    def __repr__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        """Return the tree as a notebook shows it: submodules fold."""
        from burnpy.backend import html

        return html.block(_folding(_shown(self), depth=0))

    def summary(self, *, depth: int | None = None, input: Input | Sequence[Input] | None = None) -> Summary:
        """Return a table of the layers with parameter counts and, if there is an input, output shapes and FLOPs.

        With an input the model is run once, in eval mode and without a graph. FLOPs are counted by `Profiled`.

        Args:
            depth: the number of nested levels to show: 0 for the model alone, 1 for its submodules too, None for all.
            input: the arguments of the model: a tensor, the shape of a tensor of zeros, or a tuple of these.

        Raises:
            ArgumentError: ``input`` is none of these.
            DeviceError: ``input`` is on another device.
            Exception: whatever the model raises, with a note that names the module.

        >>> from burnpy.nn import Linear, Relu, Sequential
        >>> Sequential(Linear(2, 8, device=NumPy), Relu(), Linear(8, 1, device=NumPy)).summary(input=(3, 2))
        path  layer         output  parameters  FLOPs
        ────  ────────────  ──────  ──────────  ─────
              Sequential()  (3, 1)          33    195
        0     Linear(2, 8)  (3, 8)          24    120
        1     Relu()        (3, 8)           0     24
        2     Linear(8, 1)  (3, 1)           9     51
        33 parameters, 195 FLOP
        """
        return summarized(self, depth, input)


class SummaryRow(NamedTuple):
    """One row of a `Summary`: a module including its submodules."""

    path: str  #: the path in the model; of a shared module, the first
    layer: str  #: its class and settings, as a constructor call
    output: Any  #: the output shape of its last call, or lists and dicts of shapes; None without a call
    calls: int  #: the number of calls in the run
    num_params: int  #: the number of parameter elements, shared ones counted once
    flops: int | None  #: the FLOPs of all calls; None without a call


class Summary:
    """A summary of the layers of a model, printed as a table: see `Module.summary`."""

    def __init__(self, rows: Sequence[SummaryRow], num_params: int, num_frozen: int, flops: int | None) -> None:
        self.rows = tuple(rows)  #: the model first, each module before its submodules
        self.num_params = num_params  #: the number of parameter elements of the model
        self.num_frozen = num_frozen  #: how many of them are frozen
        self.flops = flops  #: the FLOPs of one call of the model; None if it was not called

    def __str__(self) -> str:
        from burnpy.backend.device_memory import table  # the decorators take long to import

        return f"{table(*self._cells())}\n{self._total()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        from burnpy.backend import html

        return html.block(html.table(*self._cells(), most=len(self.rows)), html.headline("", self._total()))

    def _cells(self) -> tuple[list[str], list[list[str]], int]:
        """Return the headers, the rows, and the number of columns of words."""
        from burnpy.backend.device_memory import scaled
        from burnpy.nn.call_trace import shapes_text

        ran = self.flops is not None
        often = any(row.calls > 1 for row in self.rows)
        headers = ["path", "layer", *(["output"] * ran), *(["calls"] * often), "parameters", *(["FLOPs"] * ran)]
        rows = [
            [
                *(row.path, row.layer),
                *(["–" if row.output is None else shapes_text(row.output)] * ran),
                *([f"{row.calls}" if row.calls else "–"] * often),
                f"{row.num_params:,}",
                *(["–" if row.flops is None else scaled(row.flops, "").rstrip()] * ran),
            ]
            for row in self.rows
        ]
        return headers, rows, 2 + ran

    def _total(self) -> str:
        """Return the line below the table."""
        from burnpy.backend.device_memory import scaled

        total = [counted(self.num_params, "parameter")]
        if self.num_frozen:
            total.append(f"{self.num_frozen:,} of them frozen")
        if self.flops is not None:
            total.append(scaled(self.flops, "FLOP"))
        return ", ".join(total)


def summarized(model: Displayed[Any], depth: int | None, input: Input | Sequence[Input] | None) -> Summary:
    """Return the summary of a model: see `Module.summary`."""
    from burnpy.nn.call_trace import Calls

    argument: Any = depth
    if depth is not None and (not isinstance(argument, int) or depth < 0):
        raise ArgumentError(f"summary() got depth={depth!r:.80}; expected an int from 0, or None for all")
    calls, flops = Calls(), None
    if input is not None:
        flops = calls.run(model, input)
    modules = model.named_modules()
    rows: list[SummaryRow] = []
    for path, part in modules.items():
        module: Any = part  # every class of modules is `Displayed`
        if depth is None or _depth(path, modules) <= depth:
            output, count, cost = calls.of(path)
            layer = f"{type(module).__name__}({module.extra_repr()})"
            rows.append(SummaryRow(path, layer, output, count, module.num_params, cost))
    frozen = sum(p.numel() for p in model.params() if p.frozen)
    return Summary(rows, model.num_params, frozen, flops)


def _depth(path: str, modules: Mapping[str, object]) -> int:
    """Return the number of modules that contain the module at a path."""
    steps = path.split(".") if path else []
    return sum(".".join(steps[:k]) in modules for k in range(len(steps)))


def render(module: Displayed[Any]) -> str:
    """Return the module tree as text, a line per part: shapes, counts, and marks such as "frozen" and "shared".

    >>> from burnpy.nn import Linear, Relu, Sequential
    >>> print(render(Sequential(Linear(2, 8, device=NumPy), Relu(), Linear(8, 1, device=NumPy)).no_grad("0")))
    Sequential()  33 parameters, 24 of them frozen
      0  Linear(2, 8)  24 parameters, 24 of them frozen
        weight  (2, 8) frozen
        bias  (8,) frozen
      1  Relu()
      2  Linear(8, 1)  9 parameters
        weight  (8, 1)
        bias  (1,)
    """
    return "\n".join(_lines(_shown(module)))


class _Shown(NamedTuple):
    """A module, parameter or buffer as it is shown."""

    name: str  #: in the module around it; of the whole, empty
    text: str
    parts: Sequence[_Shown] = ()


def _lines(shown: _Shown, indent: str = "") -> Iterator[str]:
    yield f"{indent}{shown.name}{'  ' * bool(shown.name)}{shown.text}"
    for part in shown.parts:
        yield from _lines(part, indent + "  ")


def _folding(shown: _Shown, depth: int) -> str:
    """Return a part as HTML, in which the parts of its parts are folded."""
    from burnpy.backend import html

    name = f"<b>{escape(shown.name)}</b> " if shown.name else ""
    title = name + escape(shown.text)
    if not shown.parts:
        return f"<div>{title}</div>"
    inside = html.indented(*(_folding(part, depth + 1) for part in shown.parts))
    return html.folded(title, inside, unfolded=depth == 0)


def _shown(module: Displayed[Any]) -> _Shown:
    if not module._sealed:
        return _Shown("", f"<{type(module).__name__} under construction>")
    return _part("", module, "", {}, None)


def _part(name: str, module: Displayed[Any], path: str, seen: dict[int, str], override: bool | None) -> _Shown:
    """Return a module with its parts; ``override`` is the train/eval override of the enclosing module."""
    parts: list[_Shown] = []
    for called, part in _flat(module):
        inside = f"{path}.{called}" if path else called
        known = seen.setdefault(id(part), inside)
        if known != inside and (isinstance(part, Variable) or part._variables()):
            parts.append(_Shown(called, f"is {known}"))
        elif isinstance(part, Variable):
            word = "" if isinstance(part, Param) else " buffer"
            parts.append(_Shown(called, f"{part.shape}{word}{' frozen' if part.frozen else ''}"))
        else:
            parts.append(_part(called, part, inside, seen, module._override))
    return _Shown(name, _headline(module, override), parts)


def _flat(tree: Any) -> list[tuple[str, Any]]:
    """Return the direct parts of a module with their names, including the parts inside tuples and dicts."""
    parts: list[tuple[str, Any]] = []
    for name, part in children(tree):
        if isinstance(part, (tuple, dict)):
            parts += [(f"{name}.{inner}" if name != "" else inner, x) for inner, x in _flat(part)]
        elif isinstance(part, (TreeNode, Variable)):
            parts.append((name, part))
    return parts


def _headline(module: Displayed[Any], override: bool | None) -> str:
    """Return the first line of a module: its class and settings, parameter counts, and its mode if overridden."""
    notes: list[str] = []
    count = module.num_params
    if count:
        notes.append(counted(count, "parameter"))
        frozen = sum(p.numel() for p in module.params() if p.frozen)
        if frozen:
            notes.append(f"{frozen:,} of them frozen")
    if module._override is not override:
        notes.append({True: "training mode", False: "eval mode", None: "as the device says"}[module._override])
    return f"{type(module).__name__}({module.extra_repr()}){'  ' * bool(notes)}{', '.join(notes)}"


def settings(module: TreeNode) -> str:
    """Return the arguments of the constructor call: the positional ones, then keyword arguments that are not defaults.

    The value of an argument of ``__init__`` is read from the field or property of the same name. Arguments without one,
    such as a device or an initializer, are not shown; submodules are shown by `render`, as lines of their own.

    >>> from burnpy.nn import Flatten, MaxPool2d
    >>> settings(MaxPool2d(3, stride=2)), settings(Flatten())
    ('3, stride=2', '1, -1')
    """
    arguments: list[str] = []
    by_position = True
    for p in signature_of(type(module)).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        value = _setting(module, p)
        by_position = by_position and p.kind is not p.KEYWORD_ONLY and value is not _UNKNOWN
        if by_position:
            arguments.append(describe(value))
        elif value is not _UNKNOWN and (p.default is p.empty or value != p.default):
            arguments.append(f"{p.name}={describe(value)}")
    return ", ".join(arguments)


def _setting(module: TreeNode, p: Parameter) -> Any:
    """Return the value of a parameter of ``__init__``, or ``_UNKNOWN`` if the module does not store it."""
    fields, annotation = vars(module), str(p.annotation)
    if p.name in fields:
        value = fields[p.name]
    elif p.name != "device" and isinstance(getattr(type(module), p.name, None), property):
        try:
            value = getattr(module, p.name)
        except AttributeError:  # the property reads a part that was replaced by another
            return _UNKNOWN
    else:
        return _UNKNOWN
    if "bool" in annotation and (value is None or p.name in module._parts):
        return value is not None  # a flag such as bias=True creates an optional part
    return _UNKNOWN if p.name in module._parts else _short(value, annotation)


def _short(value: Any, annotation: str) -> Any:
    """Shorten a tuple of equal sizes to one number where the parameter accepts one."""
    if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
        sizes = any(name in annotation for name in ("Pair", "Triple", "Size", "Padding"))
        if (sizes and len(value) > 1 and len({*value}) == 1) or (len(value) == 1 and "int" in annotation):
            return value[0]
    return value
