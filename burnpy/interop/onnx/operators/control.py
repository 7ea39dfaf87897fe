"""Branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.interop.onnx.operators.table import HOST, Kept, Scalar, Value, operator, tensor
from burnpy.tensor.joining import stack

Body = Callable[..., list[Value]]


@operator("If")
def branch(condition: Value, *, then_branch: Body, else_branch: Body, outputs: int = 1) -> Any:
    """Compute one of two graphs: by `burnpy.func.cond` if the condition is computed on a device."""
    if condition.device is HOST:
        return tuple((then_branch if condition.item() else else_branch)())
    from burnpy.func import cond

    return tuple(cond(condition.reshape(()), lambda: then_branch(), lambda: else_branch()))


@operator("Loop")
def loop(trips: Scalar = None, condition: Kept = None, *carried: Value, body: Body, outputs: int = 1) -> Any:
    """Repeat a graph; the results are the last carried values, and the others of all steps, stacked.

    Python reads the bool that ends the loop. In a compiled function, where one that depends on inputs cannot be read,
    the steps from there on are a `burnpy.func.while_loop`.
    """
    flag = tensor(True) if condition is None else condition
    state, rows, k = list(carried), [], 0
    while trips is None or k < trips:
        if recorder_of(flag.device) is not None and len(state) == outputs:
            return _recorded(k, trips, flag, state, body)
        if not flag.item():
            break
        flag, *results = body(tensor(k), tensor(True), *state)
        state, k = results[: len(state)], k + 1
        rows.append(results[len(state) :])
    stacked = [stack(list(column), dim=0) for column in zip(*rows, strict=True)]
    return (*state, *stacked)


def _recorded(first: int, trips: int | None, flag: Value, state: list[Value], body: Body) -> tuple[Value, ...]:
    """Return the carried values after the steps from a number on, as one operation of a recording."""
    from burnpy.func import while_loop

    def goes_on(values: tuple[Value, ...]) -> Value:
        k, flag, *_ = values
        return flag if trips is None else flag & (k < trips)

    def step(values: tuple[Value, ...]) -> tuple[Value, ...]:
        k, flag, *old = values
        flag, *new = body(k, flag, *old)
        return k + 1, flag.reshape(()), *new

    begin = (tensor(first, flag.device), flag.reshape(()), *[x.to_device(flag.device) for x in state])
    return while_loop(goes_on, step, begin)[2:]


@operator("Scan")
def scan(
    *inputs: Value,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
    opset: int,
    outputs: int,
) -> Any:
    """Repeat a graph for the slices of inputs, and stack its results."""
    if opset < 9:
        return _scan_of_batch(inputs[1:], body, num_scan_inputs, outputs)
    state, sequences = list(inputs[: len(inputs) - num_scan_inputs]), inputs[len(inputs) - num_scan_inputs :]
    axes = scan_input_axes or (0,) * len(sequences)
    back = scan_input_directions or (0,) * len(sequences)
    steps = sequences[0].shape[axes[0]]
    rows: list[list[Value]] = []
    for k in range(steps):
        places = [steps - 1 - k if b else k for b in back]
        slices = [x.narrow(axis, at, 1).squeeze(axis) for x, axis, at in zip(sequences, axes, places, strict=True)]
        results = body(*state, *slices)
        state = results[: len(state)]
        rows.append(results[len(state) :])
    columns = list(zip(*rows, strict=True))
    out_axes = scan_output_axes or (0,) * len(columns)
    out_back = scan_output_directions or (0,) * len(columns)
    stacked = [
        stack(list(column[::-1] if b else column), dim=axis)
        for column, axis, b in zip(columns, out_axes, out_back, strict=True)
    ]
    return (*state, *stacked)


def _scan_of_batch(inputs: tuple[Value, ...], body: Body, count: int, outputs: int) -> Any:
    """Scan each member of a batch, as before opset 9."""
    members = []
    for n in range(inputs[0].shape[0]):
        own = [x[n] for x in inputs]
        members.append(scan(*own, body=body, num_scan_inputs=count, opset=9, outputs=outputs))
    return tuple([stack(list(column), dim=0) for column in zip(*members, strict=True)])
