"""`Plan`: a recording as one function that computes its outputs, without the Python code that was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from burnpy.backend.plans.explain import PlanExplanation, parts_of
from burnpy.backend.plans.graph import simplified
from burnpy.backend.plans.loops import StepLoop, unrolled
from burnpy.backend.plans.recording import Recording
from burnpy.backend.plans.rewriting import activated, divided, folded, prepared, rewritten, turned, unbiased
from burnpy.backend.plans.writer import Writer, numbers_in
from burnpy.backend.primitives import Value

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend


class Plan:
    """A recording that can be computed again, with other inputs.

    Args:
        recording: the recording.
        device: the device that computes.
        fuse: whether operations that follow each other become programs; otherwise the outputs have the bits that the
            operations give.
        donated: the positions of inputs whose memory outputs may take.
        unroll: whether operations on few elements are computed one number at a time, see `unrolled`.
        fixed: the primitives of inputs that are the same in each replay, by their positions. What depends on them and
            on constants alone is computed once.

    >>> from burnpy.backend.decorators.recorded import Recorded
    >>> recorder, one = Recorded.unregistered(NumPy()), NumPy().full((2,), 1.0, NumPy().full((), 0.0, "float32").dtype)
    >>> x = recorder.input(one)
    >>> recorder.recording.outputs.append(recorder.mul(x, 3.0).ref)
    >>> Plan(recorder.recording, NumPy())([one + one])
    [array([6., 6.], dtype=float32)]
    """

    def __init__(
        self,
        recording: Recording,
        device: Backend,
        fuse: bool = True,
        donated: Set[int] = frozenset(),
        unroll: bool = False,
        fixed: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        start = perf_counter()
        self.recording = recording
        self.device = device
        nodes, outputs = simplified(recording)
        constants = dict(recording.constants)
        if fixed:
            known = constants | {recording.inputs[k].number: x for k, x in fixed.items()}
            nodes, once = prepared(nodes, outputs, known, device)
            constants |= once
        executor = device.executor() if fuse else None
        if executor is not None:
            nodes = divided(turned(nodes, recording), recording)
            nodes = unbiased(nodes, recording, executor)
            nodes, numbers = folded(rewritten(nodes, outputs, recording), outputs, device)
            nodes = activated(nodes, outputs, executor)
            constants |= numbers
            if unroll:
                nodes = unrolled(nodes, outputs, numbers_in(constants), executor)
        self._writer = Writer(
            device,
            executor,
            nodes,
            recording.inputs,
            outputs,
            constants,
            donated if executor is not None else frozenset(),
        )
        self._donates = executor is not None and bool(donated)
        self._instance = self._writer.compiled("replay")
        self._free = [self._instance()]
        self.seconds = perf_counter() - start  #: the time that planning took

    def __call__(self, inputs: Sequence[Value], free: Sequence[int] = ()) -> list[Value]:
        """Return the outputs for inputs of the recorded shapes and dtypes, which are not checked.

        Threads that call a plan at once get memory of their own. If a call raises an error, its memory is dropped.

        Args:
            inputs: the inputs, in order.
            free: the positions of those that outputs may overwrite.
        """
        try:
            replay = self._free.pop()
        except IndexError:
            replay = self._instance()
        executor = self._writer.executor
        if self._donates and executor is not None:
            own = {k for k in free if executor.may_overwrite(inputs[k])}
            outputs: list[Value] = replay(*inputs, own)
        else:
            outputs = replay(*inputs)
        self._free.append(replay)
        return outputs

    def steps(self, carried: int, sliced: int) -> StepLoop | None:
        """Return the plan as a loop, see `StepLoop`; None if Python has to make its steps."""
        writer = self._writer
        calls = writer.step
        if calls is None:
            return None
        inputs, outputs = (
            [f"v{ref.number}" for ref in writer.inputs],
            [(writer.name(ref), ref) for ref in writer.outputs],
        )
        loop = StepLoop(calls, writer.storage, writer.source.objects, inputs, outputs, carried, sliced)
        return loop if loop.possible else None

    def explanation(self) -> PlanExplanation:
        """Return what the plan does."""
        writer = self._writer
        return PlanExplanation(
            tuple(parts_of(writer)),
            len(self.recording.nodes),
            writer.storage.arena.size,
            writer.storage.arena.total,
            self.seconds,
            writer.source.text,
        )
