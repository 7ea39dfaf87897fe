"""`Summary`: a table of the layers of a model with output shapes, parameter counts and FLOPs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.errors import ArgumentError
from burnpy.nn.display import Displayed
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.nn.call_trace import Input


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
        from burnpy.backend.device_memory import scaled, table  # the decorators take long to import
        from burnpy.nn.call_trace import shapes_text

        total = [f"{self.num_params:,} parameter{'s' * (self.num_params != 1)}"]
        if self.num_frozen:
            total.append(f"{self.num_frozen:,} of them frozen")
        ran = self.flops is not None
        if self.flops is not None:
            total.append(scaled(self.flops, "FLOP"))
        often = any(row.calls > 1 for row in self.rows)
        headers = ["path", "layer", *(["output"] * ran), *(["calls"] * often), "parameters", *(["FLOPs"] * ran)]
        lines = [
            [
                *(row.path, row.layer),
                *(["–" if row.output is None else shapes_text(row.output)] * ran),
                *([f"{row.calls}" if row.calls else "–"] * often),
                f"{row.num_params:,}",
                *(["–" if row.flops is None else scaled(row.flops, "").rstrip()] * ran),
            ]
            for row in self.rows
        ]
        return f"{table(headers, lines, left=2 + ran)}\n{', '.join(total)}"

    __repr__ = __str__


class Summarized(Displayed[B]):
    """The method of a module that returns its summary."""

    __slots__ = ()

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

        >>> from burnpy.backend import NumPy
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
    """The number of modules that contain the module at a path."""
    steps = path.split(".") if path else []
    return sum(".".join(steps[:k]) in modules for k in range(len(steps)))
