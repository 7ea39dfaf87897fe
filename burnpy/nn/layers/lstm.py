"""The long short-term memory: `LstmCell` and `Lstm`, with projections of hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.nn.argument_checks import floats, positive_int
from burnpy.nn.init import around_zero
from burnpy.nn.layers.recurrent import Recurrent, RecurrentCell
from burnpy.nn.module import rebound
from burnpy.nn.param import Param
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import new_tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.init import Initializer
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Ints


class LstmState(NamedTuple, Generic[B]):
    """The recurrent state of an `Lstm` or an `LstmCell`."""

    hidden: Tensor[B]  #: the hidden state, shape (layers · directions, N, proj_size or hidden); of a cell (N, …)
    cell: Tensor[B]  #: the cell state, shape (layers · directions, N, hidden); of a cell (N, hidden)


class LstmCell(RecurrentCell[B]):
    """A long short-term memory cell, which reads one element of each sequence.

    Gates are in PyTorch's order, i, f, g, o; the matrices are the transposes of PyTorch's.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the cell state, and of the hidden state without a projection.
        proj_size: the size to which hidden states are projected by a matrix ``weight_hr``; 0 for no projection.
        bias: whether the cell has biases.
        device: the device of the cell.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> cell = LstmCell(3, 4, device=NumPy)
    >>> state = cell(Tensor[NumPy].ones((2, 3)))
    >>> cell(Tensor[NumPy].ones((2, 3)), state).hidden.shape
    (2, 4)
    """

    gates = 4

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        proj_size: int = 0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.proj_size = _projected_size("LstmCell", hidden, proj_size)
        super().__init__(inputs, hidden, bias=bias, device=device, initializer=initializer, generator=generator)
        weights, shape = initializer or around_zero(hidden), (hidden, proj_size)
        self.weight_hr = Param(weights(shape, device=device, generator=generator)) if proj_size else None

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The sizes of the hidden and of the cell state."""
        return self.proj_size or self.hidden, self.hidden

    def forward(self, x: Tensor[B], state: LstmState[B] | tuple[Tensor[B], Tensor[B]] | None = None) -> LstmState[B]:
        """Return the next state, whose hidden part is the output.

        Args:
            x: shape (N, inputs) or (inputs,).
            state: the hidden and cell state, shape (N, size) or (size,) of `state_sizes`; zeros by default.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a pair of tensors.
            DTypeError: x or the state is wider than the weights.
        """
        return LstmState(*self._once(x, _pair("LstmCell", state), LstmState._fields))

    def _states(
        self, projected: Tensor[B], state: Sequence[Tensor[B]], bias: Tensor[B] | None, lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], ...]:
        """Return the hidden and cell states: see `RecurrentCell._states`."""
        (hidden, cell), weight = state, self.weight_hh.value
        if self.weight_hr is not None:
            return self._projected_states(projected, hidden, cell, self.weight_hr.value, lengths, reverse)
        return self._cells(projected, hidden, cell, weight, lengths, reverse)

    def _cells(
        self, projected: Tensor[B], hidden: Tensor[B], cell: Tensor[B], weight: Tensor[B], lengths: Any, reverse: bool
    ) -> tuple[Tensor[B], Tensor[B]]:
        """Return the hidden states before a projection, and the cell states."""
        placed = floats("LstmCell", 4, x=projected, hidden=hidden, cell=cell, weight_hh=weight)
        device: Any = placed[0].device
        states, cells = device.recurrent_states("lstm", *[x._primitive for x in placed], lengths, reverse)
        return placed[0]._like(states), placed[0]._like(cells)

    def _projected_states(
        self,
        projected: Tensor[B],
        hidden: Tensor[B],
        cell: Tensor[B],
        weight_hr: Tensor[B],
        lengths: Any,
        reverse: bool,
    ) -> tuple[Tensor[B], Tensor[B]]:
        """Return the projected hidden states and the cell states. They are those of a network without a projection
        whose recurrent matrix is the product of both; only the first hidden state, which is projected already,
        contributes to the first element instead."""
        weight, count = self.weight_hh.value, projected.shape[1]
        first = hidden @ weight
        if lengths is None or not reverse:
            x = projected.at[:, count - 1 if reverse else 0].add(first)
        else:
            ends: IntTensor[B] = new_tensor(IntTensor, projected.device, lengths).unsqueeze(1) - 1
            begins = IntTensor.arange(count, device=projected.device) == ends
            x = projected + first.unsqueeze(1).where(begins.unsqueeze(2), 0.0)
        states, cells = self._cells(x, cell.zeros_like(), cell, weight_hr @ weight, lengths, reverse)
        outputs = states @ weight_hr
        if lengths is not None:  # a sequence without elements keeps its state
            some = new_tensor(IntTensor, projected.device, lengths).reshape((-1, 1, 1)) > 0
            outputs = outputs.where(some, hidden.unsqueeze(1))
        return outputs, cells

    def valid(self: LstmCell[Autodiff[I]]) -> LstmCell[I]:
        """Return the same cell on the inner backend."""
        return rebound(self)


class Lstm(Recurrent[B]):
    """A multi-layer long short-term memory network. The batch dimension comes first.

    Parameter paths are ``layers.0.0.weight_ih`` and, for the reverse direction, ``layers.0.1.weight_ih``; in PyTorch
    they are ``weight_ih_l0`` and ``weight_ih_l0_reverse``, transposed.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        proj_size: the size to which hidden states are projected; 0 for no projection. Sak et al., Long short-term
            memory based recurrent neural network architectures, 2014.
        count: the number of stacked layers.
        bidirectional: whether each layer reads the sequence in both directions; its output size is then doubled.
        dropout: the dropout probability, in training, of each layer's output but the last's.
        bias: whether the layers have biases.
        device: the device of the layers.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.

    >>> output, state = Lstm(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)))
    >>> output.shape, state.hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        proj_size: int = 0,
        count: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.proj_size = _projected_size("Lstm", hidden, proj_size)
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

    def _cell(self, inputs: int, hidden: int, settings: dict[str, Any]) -> LstmCell[B]:
        return LstmCell(inputs, hidden, proj_size=self.proj_size, **settings)

    @property
    def output_size(self) -> int:
        """The size of the outputs of a layer."""
        return (self.proj_size or self.hidden) * (1 + self.bidirectional)

    def forward(
        self,
        x: Tensor[B],
        state: LstmState[B] | tuple[Tensor[B], Tensor[B]] | None = None,
        *,
        lengths: Ints[B] | Sequence[int] | None = None,
    ) -> tuple[Tensor[B], LstmState[B]]:
        """Return the outputs of the last layer for all elements, and the final state.

        Args:
            x: shape (N, T, inputs), T at least 1.
            state: the initial hidden and cell state; zeros by default.
            lengths: of padded sequences, how many elements of each count, shape (N,). Outputs after those are 0, the
                final state is that after the last of them, and the reverse direction begins there.

        Returns:
            Outputs of shape (N, T, `output_size`), and the final state.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a pair of tensors, or the lengths are not ints.
            ArgumentError: a length is not from 0 to T.
            DTypeError: x or the state is wider than the weights.
        """
        output, last = self._outputs(x, _pair("Lstm", state), LstmState._fields, lengths)
        return output, LstmState(*last)

    def valid(self: Lstm[Autodiff[I]]) -> Lstm[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


def _projected_size(operation: str, hidden: int, proj_size: int) -> int:
    """Return the size of a projection; 0 if there is none."""
    if proj_size != 0:
        positive_int(operation, "proj_size", proj_size)
        if proj_size >= hidden:
            raise ArgumentError(f"{operation}() got proj_size={proj_size} for hidden={hidden}, which must be larger")
    return proj_size


def _pair(operation: str, state: object) -> LstmState[Any] | None:
    """Convert a pair of tensors to an `LstmState`."""
    if state is None:
        return None
    if not isinstance(state, tuple) or len(state) != 2 or not all(isinstance(part, Tensor) for part in state):
        raise KindError(f"{operation}() takes a state as LstmState(hidden, cell), got {a(type(state).__name__)}")
    return LstmState(*state)
