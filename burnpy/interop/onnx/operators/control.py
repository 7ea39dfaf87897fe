"""Branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.errors import BurnpyError, LoadingError, RecordingError
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.interop.onnx.operators.table import HOST, Kept, Scalar, Value, like, operator, tensor
from burnpy.tensor.joining import stack
from burnpy.tensor.operands import refuse_unless


class Body(NamedTuple):
    """A graph in an attribute, as a function of its inputs."""

    function: Callable[..., list[Value]]
    declared: Sequence[
        tuple[Any, tuple[int, ...]] | None
    ]  #: the dtype and shape of each output, where the file has all

    def __call__(self, *inputs: Value) -> list[Value]:
        """Compute the graph."""
        return self.function(*inputs)


@operator("If")
def branch(condition: Value, *, then_branch: Body, else_branch: Body, outputs: int) -> Any:
    """Compute one of two graphs: by `burnpy.func.cond` if the condition is computed on a device."""
    if condition.device is HOST:
        return tuple((then_branch if condition.item() else else_branch)())
    from burnpy.func import cond

    condition = condition.reshape(())
    try:
        return tuple(cond(condition, lambda: then_branch(), lambda: else_branch()))
    except BurnpyError:
        if recorder_of(condition.device) is None:
            raise
        fitting = _only_fitting(then_branch, else_branch)
        if fitting is None:
            raise
        refuse_unless(condition.device, (condition == fitting.value)._primitive, fitting.error)
        return tuple(fitting.results)


class _Fitting(NamedTuple):
    """The only branch that can be computed with the shapes of a recording."""

    value: bool  #: of the condition
    results: list[Value]
    error: LoadingError  #: of a run whose condition chooses the other one


def _only_fitting(then_branch: Body, else_branch: Body) -> _Fitting | None:
    """Return the branch that can be computed; None if both or none can."""
    results: dict[bool, list[Value]] = {}
    errors: dict[bool, BurnpyError] = {}
    for value, body in ((True, then_branch), (False, else_branch)):
        try:
            results[value] = body()
        except RecordingError:
            raise
        except BurnpyError as error:
            errors[value] = error
    if len(results) != 1:
        return None
    (value, found), (failed,) = *results.items(), errors.values()
    text = f"the {'else' if value else 'then'}_branch of an If cannot be computed with inputs of these shapes: {failed}"
    return _Fitting(value, found, LoadingError(text))


@operator("Loop")
def loop(trips: Scalar = None, condition: Kept = None, *carried: Value, body: Body, outputs: int) -> Any:
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
    if not rows:
        return (*state, *_no_rows(body, outputs - len(state), lambda: (tensor(0), tensor(True), *state)))
    return (*state, *[stack(list(column), dim=0) for column in zip(*rows, strict=True)])


def _no_rows(body: Body, count: int, first: Callable[[], tuple[Value, ...]]) -> list[Value]:
    """Return the stacked results of no steps: by the shapes that the file declares, else of a step with inputs."""
    declared = body.declared[len(body.declared) - count :]
    known = [tensor(np.zeros((0, *entry[1]), entry[0])) for entry in declared if entry is not None]
    if len(known) == count:
        return known
    step = body(*first())
    return [x.unsqueeze(0)[:0] for x in step[len(step) - count :]]


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
    count = outputs - len(state)
    out_axes, out_back = scan_output_axes or (0,) * count, scan_output_directions or (0,) * count
    if not rows:
        zeros = [like(x, [n for k, n in enumerate(x.shape) if k != a], 0) for x, a in zip(sequences, axes, strict=True)]
        none = _no_rows(body, count, lambda: (*state, *zeros))
        return (*state, *[x.movedim(0, axis) for x, axis in zip(none, out_axes, strict=True)])
    stacked = [
        stack(list(column[::-1] if b else column), dim=axis)
        for column, axis, b in zip(zip(*rows, strict=True), out_axes, out_back, strict=True)
    ]
    return (*state, *stacked)


def _scan_of_batch(inputs: tuple[Value, ...], body: Body, count: int, outputs: int) -> Any:
    """Scan each member of a batch, as before opset 9."""
    members = []
    for n in range(inputs[0].shape[0]):
        own = [x[n] for x in inputs]
        members.append(scan(*own, body=body, num_scan_inputs=count, opset=9, outputs=outputs))
    return tuple([stack(list(column), dim=0) for column in zip(*members, strict=True)])
