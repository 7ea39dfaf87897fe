"""Recurrent cells and networks: GRU, Elman's RNN, and the base classes, which LSTMs share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.nn.argument_checks import alike, check_choice, exact_dims, floats, positive, probability
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.layers.dropout import dropout as dropped
from burnpy.nn.layers.linear import linear
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.dim_checks import integers
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.operand_checks import refuse_unless, refuse_wider, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe, made_of
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Ints


class RecurrentCell(Module[B]):
    """The base class of cells: weights for all gates, from the input and from the hidden state.

    A subclass sets `gates` and writes `_states`. Matrices are PyTorch's, transposed; ``initializer`` is theirs.
    """

    gates: ClassVar[int]  #: the number of gates
    one_bias: ClassVar[bool] = True  #: whether the biases of a gate are only ever added to each other

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive(type(self).__name__, inputs=inputs, hidden=hidden)
        self.inputs, self.hidden = inputs, hidden
        default, size = around_zero(hidden), self.gates * hidden
        weights = initializer or default
        self.weight_ih = Param(weights((inputs, size), device=device, generator=generator))
        self.weight_hh = Param(weights((self.state_sizes[0], size), device=device, generator=generator))
        self.bias_ih = Param(default((size,), device=device, generator=generator)) if bias else None
        self.bias_hh = Param(default((size,), device=device, generator=generator)) if bias else None

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The sizes of the parts of the state; the first part is the output."""
        return (self.hidden,)

    @abstractmethod
    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the parts of the state after each element, (N, T, size) of `state_sizes`; the first is the output.

        Args:
            projected: the contribution of the inputs to the gates, shape (N, T, gates · hidden).
            state: the parts of the state, shape (N, size) each.
            bias: ``bias_hh``, or None if there is none or `one_bias` has added it to ``projected``.
            lengths: the primitive of the lengths of sequences, or None.
            reverse: whether the last element is read first.
        """

    def _projected(self, x: Tensor[B]) -> tuple[Tensor[B], Tensor[B] | None]:
        """Return the contribution of inputs to the gates, and the bias for `_states`."""
        if self.bias_ih is None or self.bias_hh is None:
            return linear(x, self.weight_ih.value), None
        first, second = self.bias_ih.value, self.bias_hh.value
        if self.one_bias:
            return linear(x, self.weight_ih.value, first + second), None
        return linear(x, self.weight_ih.value, first), second

    def _zero_state(self, leading: Shape, x: Tensor[B]) -> tuple[Tensor[B], ...]:
        """Return the parts of a state of zeros, of the leading dimensions, on x's device; those of one size are one."""
        device: Any = x._device
        dtype, sizes = self.weight_hh.value.dtype, self.state_sizes
        zeros = {size: x._like(device.full((*leading, size), 0.0, dtype)) for size in {*sizes}}
        return tuple([zeros[size] for size in sizes])

    def _checked_state(
        self, operation: str, state: Sequence[Tensor[B]], names: tuple[str, ...], leading: Shape
    ) -> Sequence[Tensor[B]]:
        """Return a state, checked to have parts of the leading dimensions that are not wider than the weights."""
        weight = self.weight_hh.value
        for name, x, size in zip(names, state, self.state_sizes, strict=True):
            if not isinstance(x, Tensor):
                raise KindError(f"{operation}() takes a float Tensor as the state's {name}, got {a(type(x).__name__)}")
            if x.shape != (expected := (*leading, size)):
                raise ShapeError(f"{operation}() got a state with {name} of shape {x.shape}, expected {expected}")
        if not alike(weight, *state):
            refuse_wider(operation, "weights", weight.dtype, **dict(zip(names, state, strict=True)))
        return state

    def _sequence(
        self, x: Tensor[B], state: Sequence[Tensor[B]], reverse: bool, lengths: IntTensor[B] | None
    ) -> tuple[Tensor[B], tuple[Tensor[B], ...]]:
        """Map (N, T, inputs) and a state to the outputs after each element and the last state. After the number of
        elements that ``lengths`` says, the state stays."""
        projected, bias = self._projected(x)
        states = self._states(projected, state, bias, None if lengths is None else lengths._primitive, reverse)
        end = 0 if reverse else x.shape[1] - 1
        return states[0], tuple([part[:, end] for part in states])

    def _once(self, x: Tensor[B], state: Sequence[Tensor[B]] | None, parts: tuple[str, ...]) -> tuple[Tensor[B], ...]:
        """Return the state after one element (N, inputs) or (inputs,); ``parts`` are the names of a state's tensors."""
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise KindError(f"{name}() takes a float Tensor as x, got {describe(x)}{made_of(x, 'Tensor')}")
        if x.ndim not in (1, 2) or x.shape[-1] != self.inputs:
            raise ShapeError(f"{name}() takes x of shape (N, {self.inputs}) or ({self.inputs},), got shape {x.shape}")
        leading = x.shape[:-1]
        known = self._zero_state(leading, x) if state is None else self._checked_state(name, state, parts, leading)
        projected, bias = self._projected(x.reshape((-1, 1, self.inputs)))
        rows = known if leading else [part.unsqueeze(0) for part in known]
        states = self._states(projected, rows, bias, None, False)
        return tuple([after.reshape(part.shape) for after, part in zip(states, known, strict=True)])

    @property
    def bias(self) -> bool:
        """True if the cell has biases."""
        return self.bias_ih is not None

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        return {"weight_ih": "weight_ih.T", "weight_hh": "weight_hh.T"}


class Recurrent(Module[B]):
    """The base class of stacks of cells, one or two in each layer. A subclass writes `_cell` and ``forward``."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        count: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        positive(name, inputs=inputs, hidden=hidden, count=count)
        self.inputs, self.hidden = inputs, hidden
        self.dropout = probability(name, dropout)
        self.bidirectional = bidirectional
        made: dict[str, Any] = {"bias": bias, "device": device, "initializer": initializer, "generator": generator}
        self.layers = tuple(
            tuple(self._cell(size, hidden, made) for _ in range(1 + self.bidirectional))
            for size in (inputs, *[self.output_size] * (count - 1))
        )

    @property
    def output_size(self) -> int:
        """The size of the outputs of a layer."""
        return self.hidden * (1 + self.bidirectional)

    @abstractmethod
    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> RecurrentCell[B]:
        """Return a new cell."""

    def _outputs(
        self,
        x: Tensor[B],
        state: Sequence[Tensor[B]] | None,
        parts: tuple[str, ...],
        lengths: Ints[B] | Sequence[int] | None,
    ) -> tuple[Tensor[B], tuple[Tensor[B], ...]]:
        """Return the outputs of the last layer and the parts of the final state of all layers."""
        name = type(self).__name__
        exact_dims(name, "x", x.shape, 3, f"(N, T, {self.inputs})")
        batch, length, size = x.shape
        if size != self.inputs or not length:
            raise ShapeError(f"{name}() takes x of shape (N, T, {self.inputs}), T at least 1, got shape {x.shape}")
        cell, number = self.layers[0][0], len(self.layers) * (1 + self.bidirectional)
        if state is None:
            initial = [cell._zero_state((batch,), x)] * number
        else:
            known = cell._checked_state(name, state, parts, (number, batch))
            initial = [*zip(*(part.unbind(0) for part in known), strict=True)]
        x, counts = (x, None) if lengths is None else _with_lengths(name, x, lengths)
        mask = (
            None if counts is None else (IntTensor.arange(length, device=x.device) < counts.unsqueeze(1)).unsqueeze(2)
        )
        last: list[tuple[Tensor[B], ...]] = []
        for k, directions in enumerate(self.layers):
            if k and self.dropout:
                x = dropped(x, self.dropout, training=self.trains_on(x))
            outputs: list[Tensor[B]] = []
            for reverse, cell in enumerate(directions):
                states, after = cell._sequence(x, initial[len(last)], bool(reverse), counts)
                outputs.append(states if mask is None else states.where(mask, 0.0))
                last.append(after)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, 2)
        return x, tuple(stack(part) for part in zip(*last, strict=True))

    @property
    def count(self) -> int:
        """The number of layers."""
        return len(self.layers)

    @property
    def bias(self) -> bool:
        """True if the layers have biases."""
        return self.layers[0][0].bias_ih is not None

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        return {
            f"layers.{k}.{direction}.{name}": f"{name}_l{k}{'_reverse' * direction}{'.T' * name.startswith('weight')}"
            for k in range(len(self.layers))
            for direction in range(1 + self.bidirectional)
            for name in ("weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh")
        }


def _with_lengths(operation: str, x: Tensor[B], lengths: Ints[B] | Sequence[int]) -> tuple[Tensor[B], IntTensor[B]]:
    """Return sequences x, (N, T, inputs), and their lengths as a tensor, checked, on one device."""
    batch, length, _ = x.shape
    if not isinstance(lengths, IntTensor):
        if not isinstance(lengths, (list, tuple)):
            raise KindError(
                f"{operation}() takes lengths as an IntTensor or a list of ints, not {a(type(lengths).__name__)}"
            )
        lengths = IntTensor.from_data(integers((lengths,), "length", operation), device=x.device)
    if lengths.shape != (batch,):
        raise ShapeError(f"{operation}() takes lengths of shape ({batch},) here, got shape {lengths.shape}")
    error = ArgumentError(f"{operation}() got a length that is not from 0 to {length}, the elements of x")
    refuse_unless(lengths.device, ((lengths >= 0) & (lengths <= length))._primitive, error)
    placed: tuple[Tensor[B], IntTensor[B]] = together(operation, x, lengths)
    return placed


class HiddenStateCell(RecurrentCell[B]):
    """The base class of cells whose state is their output. A subclass sets `gates` and writes `_states`."""

    def forward(self, x: Tensor[B], hidden: Tensor[B] | None = None) -> Tensor[B]:
        """Return the next hidden state, which is the output.

        Args:
            x: shape (N, inputs) or (inputs,).
            hidden: the hidden state, shape (N, hidden) or (hidden,); zeros by default.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a float tensor.
            DTypeError: x or the state is wider than the weights.
        """
        return self._once(x, None if hidden is None else (hidden,), ("hidden",))[0]


class HiddenStateNetwork(Recurrent[B]):
    """The base class of stacks of such cells. A subclass writes `_cell`."""

    def forward(
        self, x: Tensor[B], hidden: Tensor[B] | None = None, *, lengths: Ints[B] | Sequence[int] | None = None
    ) -> tuple[Tensor[B], Tensor[B]]:
        """Return the outputs of the last layer for all elements, and the final hidden state.

        Args:
            x: shape (N, T, inputs), T at least 1.
            hidden: the initial hidden state, shape (layers · directions, N, hidden); zeros by default.
            lengths: of padded sequences, how many elements of each count, shape (N,). Outputs after those are 0, the
                final state is that after the last of them, and the reverse direction begins there.

        Returns:
            Outputs of shape (N, T, directions · hidden), and the final hidden state.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a float tensor, or the lengths are not ints.
            ArgumentError: a length is not from 0 to T.
            DTypeError: x or the state is wider than the weights.
        """
        output, last = self._outputs(x, None if hidden is None else (hidden,), ("hidden",), lengths)
        return output, last[0]


class GruCell(HiddenStateCell[B]):
    """A gated recurrent unit, which reads one element of each sequence. Gates are in PyTorch's order, r, z, n.

    The matrices are the transposes of PyTorch's. The arguments and errors are those of `RnnCell`, without
    ``nonlinearity``.

    >>> cell = GruCell(3, 4, device=NumPy)
    >>> hidden = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), hidden).shape
    (2, 4)
    """

    gates = 3
    one_bias = False  # the reset gate scales the bias of the hidden state

    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the hidden states: see `RecurrentCell._states`."""
        weight = self.weight_hh.value
        if bias is None:
            bias = weight.zeros((weight.shape[1],), dtype=weight.dtype, device=weight.device)
        placed = floats("GruCell", 4, x=projected, hidden=state[0], weight_hh=weight, bias_hh=bias)
        device: Any = placed[0].device
        return (placed[0]._like(device.recurrent_states("gru", *[x._primitive for x in placed], lengths, reverse)[0]),)

    def valid(self: GruCell[Autodiff[I]]) -> GruCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Gru(HiddenStateNetwork[B]):
    """A multi-layer network of gated recurrent units. The batch dimension comes first.

    The arguments, parameter paths and errors are those of `Lstm`, without ``proj_size``.

    Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation,
    2014.

    >>> output, hidden = Gru(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)), lengths=[5, 2])
    >>> output.shape, hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> GruCell[B]:
        return GruCell(inputs, hidden, **settings)

    def valid(self: Gru[Autodiff[I]]) -> Gru[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


class RnnCell(HiddenStateCell[B]):
    """A recurrent cell without gates, ``tanh(x @ weight_ih + hidden @ weight_hh + biases)``.

    The matrices are the transposes of PyTorch's.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        nonlinearity: "tanh" or "relu".
        bias: whether the cell has biases.
        device: the device of the cell.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> cell = RnnCell(3, 4, device=NumPy)
    >>> hidden = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), hidden).shape
    (2, 4)
    """

    gates = 1

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_choice("RnnCell", "nonlinearity", nonlinearity, ("tanh", "relu"))
        self.nonlinearity: Literal["tanh", "relu"] = nonlinearity
        super().__init__(inputs, hidden, bias=bias, device=device, initializer=initializer, generator=generator)

    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the hidden states: see `RecurrentCell._states`."""
        placed = floats("RnnCell", 3, x=projected, hidden=state[0], weight_hh=self.weight_hh.value)
        device: Any = placed[0].device
        primitives = [x._primitive for x in placed]
        return (placed[0]._like(device.rnn(*primitives, lengths, reverse, self.nonlinearity == "relu")),)

    def valid(self: RnnCell[Autodiff[I]]) -> RnnCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Rnn(HiddenStateNetwork[B]):
    """A multi-layer recurrent network without gates. The batch dimension comes first.

    ``nonlinearity`` is "tanh" or "relu". Other arguments, parameter paths and errors are those of `Lstm`, without
    ``proj_size``.

    Source: Elman, Finding Structure in Time, 1990.

    >>> output, hidden = Rnn(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)), lengths=[5, 2])
    >>> output.shape, hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        count: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_choice("Rnn", "nonlinearity", nonlinearity, ("tanh", "relu"))
        self.nonlinearity: Literal["tanh", "relu"] = nonlinearity
        super().__init__(
            inputs,
            hidden,
            count=count,
            bidirectional=bidirectional,
            dropout=dropout,
            bias=bias,
            device=device,
            initializer=initializer,
            generator=generator,
        )

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> RnnCell[B]:
        return RnnCell(inputs, hidden, nonlinearity=self.nonlinearity, **settings)

    def valid(self: Rnn[Autodiff[I]]) -> Rnn[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
