"""Loops and branches of a model: `Scan`, `Loop` and `If`, whose bodies are graphs inside of the model's graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from burnpy.backend.plans.blocks import Block, Choice, Loop, WhileLoop
from burnpy.interop.onnx.rules.rule import GraphWriter, Operand
from burnpy.interop.onnx.sizes import merged_size

_INT = np.dtype(np.int64)


def blocks_written(writer: GraphWriter, blocks: Sequence[Any], values: Sequence[Operand]) -> list[str]:
    """Write a loop or branch, and return the names of its results.

    Args:
        writer: the graph.
        blocks: the block in each recording of the model.
        values: its values outside.

    Raises:
        ExportError: it draws random numbers, is the gradient of a loop, or is another block for some sizes.
    """
    first = blocks[0]
    if first.effect:
        raise writer.error("it draws random numbers in a loop or branch, which ONNX cannot express")
    if any(block.__class__ is not first.__class__ for block in blocks):
        raise writer.error("it calls cond(), scan() or while_loop() for some sizes of its inputs alone")
    if isinstance(first, Loop):
        return _scan(writer, blocks, values)
    if isinstance(first, Choice):
        return _if(writer, blocks, values)
    if isinstance(first, WhileLoop):
        return _loop(writer, blocks, values)
    raise writer.error("it differentiates a while_loop(), which ONNX cannot express")


def _bodies(blocks: Sequence[Block], k: int) -> list[Any]:
    """Return the k-th recording of each block."""
    return [block.recordings[k] for block in blocks]


def _names(operands: Sequence[Operand]) -> list[str]:
    return [x.name for x in operands]


def _scan(writer: GraphWriter, blocks: Sequence[Loop], values: Sequence[Operand]) -> list[str]:
    """Write a loop over slices. One without slices takes the numbers of its steps, which its body does not read."""
    loop = blocks[0]
    fixed, end = len(values) - loop.carried - loop.sliced, len(values) - loop.sliced
    carry, xs = values[fixed:end], list(values[end:])
    states, slices = [writer.inside(x) for x in carry], [writer.inside(x, sliced=True) for x in xs]
    given = _names([*values[:fixed], *states, *slices])
    if not xs:
        length = writer.constant(merged_size([block.length for block in blocks]), _INT)
        steps = writer.node("Range", writer.constant(0, _INT), length, writer.constant(1, _INT))
        xs = [Operand(steps, (loop.length,), _INT)]
        slices = [writer.inside(xs[0], sliced=True)]
    body = writer.graph("step", [*states, *slices], partial(writer.body, _bodies(blocks, 0), given))
    directions = {
        "scan_input_directions": [1] * len(xs),
        "scan_output_directions": [1] * (len(body.output) - len(carry)),
    }
    reverse = {name: each for name, each in directions.items() if each and loop.reverse}
    return _node(writer, "Scan", [*carry, *xs], len(body.output), body=body, num_scan_inputs=len(xs), **reverse)


def _if(writer: GraphWriter, blocks: Sequence[Choice], values: Sequence[Operand]) -> list[str]:
    """Write a branch. Its graphs read the values outside."""
    names = _names(values)
    middle, end = 1 + len(blocks[0].recordings[0].inputs) - blocks[0].common, len(values) - blocks[0].common
    inputs = [*names[1:middle], *names[end:]], names[middle:]
    one, two = [
        writer.graph(name, [], partial(writer.body, _bodies(blocks, k), inputs[k]))
        for k, name in enumerate(("if_true", "if_false"))
    ]
    return _node(writer, "If", values[:1], len(one.output), then_branch=one, else_branch=two)


def _loop(writer: GraphWriter, blocks: Sequence[WhileLoop], values: Sequence[Operand]) -> list[str]:
    """Write a loop that a bool ends. The graph computes the bool before the first step, and the body for the next."""
    fixed = len(values) - blocks[0].carried
    carry = values[fixed:]
    count = Operand("", (), _INT)
    states = [writer.inside(x) for x in carry]
    before = writer.body(_bodies(blocks, 0), _names(values))

    def step() -> list[Operand]:
        new = writer.body(_bodies(blocks, 1), _names([*values[:fixed], *states]))
        return [*writer.body(_bodies(blocks, 0), _names([*values[:fixed], *new])), *new]

    body = writer.graph("step", [writer.inside(count), writer.inside(before[0]), *states], step)
    return _node(writer, "Loop", [None, before[0], *carry], len(carry), body=body)


def _node(writer: GraphWriter, kind: str, inputs: Sequence[Any], results: int, **attributes: Any) -> list[str]:
    """Add a node, and return the names of its results."""
    names = writer.node(kind, *inputs, results=results, **attributes)
    return [names] if results == 1 else list(names)
