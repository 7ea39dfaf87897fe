"""`Summary`: the layers of a model as a table, with what they return, hold and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.decorators.tables import scaled, table
from burnpy.backend.errors import ArgumentError
from burnpy.nn.call_trace import Calls, Input, shapes_text

if TYPE_CHECKING:
    from burnpy.nn.base import ModuleBase


class SummaryRow(NamedTuple):
    """One module of a `Summary`, with all that is inside of it."""

    path: str  #: in the model; of what is shared, the first
    layer: str  #: as the call that makes it
    output: Any  #: the shape of what its last call returned; of several, lists and dicts of shapes; None without a call
    calls: int
    num_params: int  #: shared ones counted once
    flops: int | None  #: of all calls; None without one


class Summary:
    """The layers of a model: see `Module.summary`. Printed, it is a table."""

    def __init__(self, rows: Sequence[SummaryRow], num_params: int, num_frozen: int, flops: int | None) -> None:
        self.rows = tuple(rows)  #: the model first, and each module before what is inside of it
        self.num_params = num_params  #: of the model
        self.num_frozen = num_frozen  #: how many of them training leaves as they are
        self.flops = flops  #: of one call of the model; None if it was not called

    def __str__(self) -> str:
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


def summarized(model: ModuleBase[Any], depth: int | None, input: Input | Sequence[Input] | None) -> Summary:
    """The summary of a model: see `Module.summary`."""
    wanted: Any = depth
    if depth is not None and (not isinstance(wanted, int) or depth < 0):
        raise ArgumentError(f"summary() was given depth={depth!r}; it is an int from 0, or None for all")
    calls, flops = Calls(), None
    if input is not None:
        flops = calls.run(model, input)
    modules = model.named_modules()
    rows: list[SummaryRow] = []
    for path, module in modules.items():
        if depth is None or _depth(path, modules) <= depth:
            output, count, cost = calls.of(path)
            layer = f"{type(module).__name__}({module.extra_repr()})"
            rows.append(SummaryRow(path, layer, output, count, module.num_params, cost))
    frozen = sum(p.numel() for p in model.params() if p.frozen)
    return Summary(rows, model.num_params, frozen, flops)


def _depth(path: str, modules: Mapping[str, ModuleBase[Any]]) -> int:
    """In how many modules a path is."""
    steps = path.split(".") if path else []
    return sum(".".join(steps[:k]) in modules for k in range(len(steps)))
