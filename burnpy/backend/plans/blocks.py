"""Loops and branches of a recording: `Loop`, `WhileLoop` and `Choice`, whose bodies are recordings of their own.

Each is one node of the outer recording, a call of `Backend.nested`. It makes the plans of its bodies at its first run
on a device, and runs them as often as the values say. Values are passed in a fixed order: those that stay the same,
those that a step changes, and those that have one slice for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import kind_of
from burnpy.backend.plans.graph import Sharing, simplified
from burnpy.backend.plans.plan import Plan
from burnpy.backend.plans.recording import Recording, alike, refs_in
from burnpy.backend.plans.step_loops import StepLoop
from burnpy.backend.primitives import Value

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


class Block:
    """A part of a recording that runs other recordings.

    Args:
        recordings: the recordings that it runs.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = tuple(recordings)
        self.effect = any(node.effect for recording in recordings for node in recording.nodes)
        """True if it does more than compute results, such as drawing random numbers."""
        self._plans: dict[Backend, list[Plan]] = {}
        self._shared = [_shared(recording) for recording in recordings]

    def plans(self, device: Backend) -> list[Plan]:
        """Return the plans of the recordings on a device, which the first call makes."""
        plans = self._plans.get(device)
        if plans is None:
            plans = [Plan(recording, device, unroll=True) for recording in self.recordings]
            self._plans[device] = plans
        return plans

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        raise NotImplementedError

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results for values, in memory that nothing else shares."""
        raise NotImplementedError

    def alike(self, other: Block) -> bool:
        """Return whether another block runs the same operations as often."""
        mine, others = self.recordings, other.recordings
        return (
            type(self) is type(other)
            and self._settings() == other._settings()
            and len(mine) == len(others)
            and all(
                len(one.nodes) == len(two.nodes)
                and all(alike(a, b, one, two) for a, b in zip(one.nodes, two.nodes, strict=True))
                for one, two in zip(mine, others, strict=True)
            )
        )

    def _settings(self) -> tuple[Any, ...]:
        """Return what distinguishes blocks of equal recordings."""
        return ()

    def _own(self, device: Backend, number: int, results: Sequence[Value]) -> list[Value]:
        """Return results of a recording, with those copied that share memory with its inputs or with each other."""
        shared = self._shared[number]
        return [_copied(device, x) if k in shared else x for k, x in enumerate(results)]


class Loop(Block):
    """A recording that runs for a fixed number of steps, each with the values of the one before it.

    The recording's inputs are the fixed values, the carried ones, and the slices of this step; its outputs the carried
    values and those that each step adds to a stack. The results are the last carried values, and the stacks.

    Args:
        body: the recording of one step.
        carried: the number of carried values.
        sliced: the number of values with a slice for each step.
        length: the number of steps, at least one.
        reverse: whether the last step comes first.
    """

    def __init__(self, body: Recording, carried: int, sliced: int, length: int, reverse: bool) -> None:
        super().__init__([body])
        self.carried, self.sliced, self.length, self.reverse = carried, sliced, length, reverse
        self._loops: dict[Backend, StepLoop | None] = {}

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run all steps."""
        (plan,) = self.plans(device)
        count = self.carried
        if device not in self._loops:
            self._loops[device] = plan.steps(count, self.sliced)
        loop = self._loops[device]
        if loop is not None:
            results, owning = loop.run(values, self.length, self.reverse)
            return tuple([x if k in owning else _copied(device, x) for k, x in enumerate(results)])
        fixed = list(values[: len(values) - count - self.sliced])
        xs = values[len(values) - self.sliced :]
        state = list(values[len(fixed) : len(fixed) + count])
        stacks: list[list[Value]] = [[] for _ in range(len(self.recordings[0].outputs) - count)]
        steps = range(self.length - 1, -1, -1) if self.reverse else range(self.length)
        cut = device.slice
        for k in steps:
            outs = plan([*fixed, *state, *[cut(x, (k,)) for x in xs]])
            state = outs[:count]
            for stack, out in zip(stacks, outs[count:], strict=True):
                stack.append(out)
        if self.reverse:
            for stack in stacks:
                stack.reverse()
        return (*self._own(device, 0, state), *[stacked(device, stack) for stack in stacks])

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return f"scan of {self.length} steps"

    def _settings(self) -> tuple[Any, ...]:
        return self.carried, self.sliced, self.length, self.reverse


class WhileLoop(Block):
    """A recording that runs for as long as another one gives True, each time with the values of the time before.

    Args:
        condition: the recording of the condition; its inputs are its own fixed values and the carried ones.
        body: the recording of one step; its inputs are its own fixed values and the carried ones.
        carried: the number of carried values.
    """

    def __init__(self, condition: Recording, body: Recording, carried: int) -> None:
        super().__init__([condition, body])
        self.carried = carried

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run steps while the condition holds."""
        first, last = self.steps(device, values, keep=False)
        if last is first:
            return tuple([_copied(device, x) for x in last])
        return tuple(self._own(device, 1, last))

    def steps(self, device: Backend, values: Sequence[Value], keep: bool = True) -> list[list[Value]]:
        """Return the carried values before the first step and after each one; or the first and last, if not all."""
        condition, step = self.plans(device)
        count = len(self.recordings[0].inputs) - self.carried
        end = len(values) - self.carried
        first, fixed, state = values[:count], values[count:end], list(values[end:])
        states = [state]
        while device.to_numpy(condition([*first, *state])[0]).item():
            state = step([*fixed, *state])
            if keep:
                states.append(state)
        return states if keep else [states[0], state]

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return "while_loop: the condition and the body"

    def _settings(self) -> tuple[Any, ...]:
        return (self.carried,)


class WhileGradient(Block):
    """The gradient of a `WhileLoop`: the loop again, for the values before each step, and its steps from the last on.

    Its values are the fixed ones of the condition, of the body and of the gradient, the carried ones, the gradients by
    the last carried values, and zeros for the sums of gradients by fixed values.

    Args:
        loop: the loop.
        gradient: the recording of the gradient of one step; its inputs are its own fixed values, the gradients by the
            values after the step, the sums, and the values before the step; its outputs the gradients by these, and
            the sums.
        grads: the number of gradients and sums.
    """

    def __init__(self, loop: WhileLoop, gradient: Recording, grads: int) -> None:
        super().__init__([*loop.recordings, gradient])
        self.loop, self.grads = loop, grads

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run the steps forward, and then backward."""
        *_, plan = self.plans(device)
        begin = sum(len(recording.inputs) - self.loop.carried for recording in self.loop.recordings)
        end = len(values) - self.loop.carried - self.grads
        fixed, grads = values[begin:end], list(values[len(values) - self.grads :])
        steps = self.loop.steps(device, [*values[:begin], *values[end : end + self.loop.carried]])
        if len(steps) == 1:
            return tuple([_copied(device, x) for x in grads])
        for state in reversed(steps[:-1]):
            grads = plan([*fixed, *grads, *state])
        return tuple(self._own(device, 2, grads))

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return "gradient of while_loop: the condition, the body and its gradient"

    def _settings(self) -> tuple[Any, ...]:
        return self.loop.carried, self.grads


class Choice(Block):
    """Two recordings; the value of a bool chooses one of them.

    Its values are the bool, the fixed values of the first recording, those of the second one, and those of both.

    Args:
        if_true: the recording that runs for True; its inputs are its own fixed values and those of both.
        if_false: the one that runs for False, with outputs of the same shapes and dtypes.
        common: the number of values that both take.
    """

    def __init__(self, if_true: Recording, if_false: Recording, common: int) -> None:
        super().__init__([if_true, if_false])
        self.common = common

    def run(self, device: Backend, values: Sequence[Value]) -> tuple[Value, ...]:
        """Run one of the recordings."""
        plans = self.plans(device)
        middle, end = 1 + len(self.recordings[0].inputs) - self.common, len(values) - self.common
        chosen = 0 if device.to_numpy(values[0]).item() else 1
        own = values[1:middle] if chosen == 0 else values[middle:end]
        return tuple(self._own(device, chosen, plans[chosen]([*own, *values[end:]])))

    @property
    def description(self) -> str:
        """The words for it in explanations."""
        return "cond: the branches for True and False"

    def _settings(self) -> tuple[Any, ...]:
        return (self.common,)


def stacked(device: Backend, values: Sequence[Value]) -> Value:
    """Return primitives of one shape, at least one, joined along a new first dimension, in new memory."""
    shape = tuple(values[0].shape)
    if len(values) == 1:
        return device.reshape(_copied(device, values[0]), (1, *shape))
    if not shape:
        return device.cat([device.reshape(value, (1,)) for value in values], 0)
    return device.reshape(device.cat(list(values), 0), (len(values), *shape))


def _copied(device: Backend, x: Value) -> Value:
    """Return a copy in new memory, with the same bits."""
    kind = kind_of(x.dtype)
    if kind == "float":
        return device.mul(x, 1)
    return device.bitwise_or(x, x)


def _shared(recording: Recording) -> set[int]:
    """Return the positions of the outputs that may share memory with an input, a constant or an earlier output."""
    nodes, outputs = simplified(recording)
    sharing = Sharing(nodes, outputs)
    made = {ref.number for node in nodes for ref in refs_in(node.results) if sharing.root(ref) == ref.number}
    shared: set[int] = set()
    for k, ref in enumerate(outputs):
        root = sharing.root(ref)
        if root in made:
            made.remove(root)
        else:
            shared.add(k)
    return shared
