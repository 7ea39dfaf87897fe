"""Long short-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.nn.functional.checks import exact_dims, probability
from burnpy.nn.functional.dense import linear
from burnpy.nn.functional.regularization import dropout as dropped
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param
from burnpy.tensor.float_width import refuse_wider
from burnpy.tensor.joining import cat, stack
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class LstmState(NamedTuple, Generic[B]):
    """The recurrent state of an `Lstm`."""

    hidden: Tensor[B]  #: the hidden state, shape (layers · directions, N, hidden)
    cell: Tensor[B]  #: the cell state, of the same shape


class LstmParams(Module[B]):
    """An LSTM layer in one direction. Gates are in PyTorch's order, i, f, g, o; matrices are transposed."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        bias: bool,
        device: B | type[B],
        initializer: Initializer | None,
        generator: Generator | None,
    ) -> None:
        self.inputs, self.hidden = inputs, hidden
        default = around_zero(hidden)
        weights = initializer or default
        self.weight_ih = Param(weights((inputs, 4 * hidden), device=device, generator=generator))
        self.weight_hh = Param(weights((hidden, 4 * hidden), device=device, generator=generator))
        self.bias_ih = Param(default((4 * hidden,), device=device, generator=generator)) if bias else None
        self.bias_hh = Param(default((4 * hidden,), device=device, generator=generator)) if bias else None

    def forward(
        self, x: Tensor[B], hidden: Tensor[B], cell: Tensor[B], reverse: bool
    ) -> tuple[Tensor[B], Tensor[B], Tensor[B]]:
        """Map (N, T, inputs) and the states, (N, hidden) each, to outputs (N, T, hidden) and the last states."""
        bias = None
        if self.bias_ih is not None and self.bias_hh is not None:
            bias = self.bias_ih.value + self.bias_hh.value
        projected = linear(x, self.weight_ih.value, bias).unbind(1)
        weight = self.weight_hh.value
        outputs: list[Tensor[B]] = []
        for step in reversed(projected) if reverse else projected:
            i, f, g, o = (step + hidden @ weight).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        return stack(outputs[::-1] if reverse else outputs, 1), hidden, cell


class Lstm(Module[B]):
    """A multi-layer long short-term memory network. The batch dimension comes first.

    Parameter paths are ``layers.0.0.weight_ih`` and, for the reverse direction, ``layers.0.1.weight_ih``; in PyTorch
    they are ``weight_ih_l0`` and ``weight_ih_l0_reverse``, transposed.

    Args:
        inputs: the size of an input vector.
        hidden: the size of the hidden state.
        count: the number of stacked layers.
        bidirectional: whether each layer reads the sequence in both directions; its output size is then 2 · hidden.
        dropout: the dropout probability, in training, of each layer's output but the last's.
        bias: whether the layers have biases.
        device: the device of the layers.
        initializer: the initializer of the matrices; by default, as for the biases, uniform in ±1/√hidden.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.

    >>> from burnpy.backend import NumPy
    >>> output, state = Lstm(3, 4, device=NumPy)(Tensor[NumPy].ones((2, 5, 3)))
    >>> output.shape, state.hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """

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
        positive("Lstm", inputs=inputs, hidden=hidden, count=count)
        self.inputs, self.hidden = inputs, hidden
        self.dropout = probability("Lstm", dropout)
        self.bidirectional = bidirectional
        self.layers = tuple(
            tuple(LstmParams(size, hidden, bias, device, initializer, generator) for _ in range(1 + self.bidirectional))
            for size in (inputs, *[hidden * (1 + bidirectional)] * (count - 1))
        )

    def forward(
        self, x: Tensor[B], state: LstmState[B] | tuple[Tensor[B], Tensor[B]] | None = None
    ) -> tuple[Tensor[B], LstmState[B]]:
        """Return the outputs of the last layer for all elements, and the final state.

        Args:
            x: shape (N, T, inputs), T at least 1.
            state: the initial hidden and cell state; zeros by default.

        Returns:
            Outputs of shape (N, T, directions · hidden), and the final state.

        Raises:
            ShapeError: the shapes do not match.
            KindError: the state is not a pair of tensors.
            DTypeError: x or the state is wider than the weights.
        """
        exact_dims("Lstm", "x", x.shape, 3, f"(N, T, {self.inputs})")
        batch, length, size = x.shape
        if size != self.inputs or not length:
            raise ShapeError(
                f"Lstm() takes x of shape (N, T, {self.inputs}), T at least 1, and was given shape {x.shape}"
            )
        state_shape = (len(self.layers) * (1 + self.bidirectional), batch, self.hidden)
        if state is None:
            zeros = Tensor.zeros(state_shape, dtype=self.layers[0][0].weight_hh.dtype, device=x.device)
            state = LstmState(zeros, zeros)
        state = _state_of(state)
        for name, part in zip(LstmState._fields, state, strict=True):
            if part.shape != state_shape:
                raise ShapeError(
                    f"Lstm() was given a state with {name} of shape {part.shape}; here it is {state_shape}"
                )
        refuse_wider("Lstm", "weights", self.layers[0][0].weight_hh.dtype, **state._asdict())
        hidden, cell = state.hidden.unbind(0), state.cell.unbind(0)
        last: list[tuple[Tensor[B], Tensor[B]]] = []
        for k, directions in enumerate(self.layers):
            if k and self.dropout:
                x = dropped(x, self.dropout, training=self.trains_on(x))
            outputs: list[Tensor[B]] = []
            for reverse, layer in enumerate(directions):
                place = len(last)
                output, h, c = layer(x, hidden[place], cell[place], bool(reverse))
                outputs.append(output)
                last.append((h, c))
            x = outputs[0] if len(outputs) == 1 else cat(outputs, 2)
        return x, LstmState(stack([h for h, _ in last]), stack([c for _, c in last]))

    @property
    def count(self) -> int:
        """The number of layers."""
        return len(self.layers)

    @property
    def bias(self) -> bool:
        """Whether the layers have biases."""
        return self.layers[0][0].bias_ih is not None

    def torch_names(self) -> dict[str, str]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_names`."""
        return {
            f"layers.{k}.{direction}.{name}": f"{name}_l{k}{'_reverse' * direction}{'.T' * name.startswith('weight')}"
            for k in range(len(self.layers))
            for direction in range(1 + self.bidirectional)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }

    def valid(self: Lstm[Autodiff[I]]) -> Lstm[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


def _state_of(state: object) -> LstmState[Any]:
    """Convert a pair of tensors to an `LstmState`."""
    if not isinstance(state, tuple) or len(state) != 2 or not all(isinstance(part, Tensor) for part in state):
        raise KindError(f"Lstm() takes a state as LstmState(hidden, cell), and was given {a(type(state).__name__)}")
    return LstmState(*state)
