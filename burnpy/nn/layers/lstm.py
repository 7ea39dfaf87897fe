"""`Lstm`: sequences read one element after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.nn.functional.checks import exact_dims, probability
from burnpy.nn.functional.dropout import dropout as dropped
from burnpy.nn.functional.linear import linear
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
    """What an `Lstm` remembers between two elements."""

    hidden: Tensor[B]  #: shape (layers · directions, N, hidden)
    cell: Tensor[B]  #: of the same shape


class LstmParams(Module[B]):
    """One layer in one direction. Gates are in PyTorch's order, i, f, g, o; matrices are the transposes of its."""

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
        first = around_zero(hidden)
        made = initializer or first
        self.weight_ih = Param(made((inputs, 4 * hidden), device=device, generator=generator))
        self.weight_hh = Param(made((hidden, 4 * hidden), device=device, generator=generator))
        self.bias_ih = Param(first((4 * hidden,), device=device, generator=generator)) if bias else None
        self.bias_hh = Param(first((4 * hidden,), device=device, generator=generator)) if bias else None

    def forward(
        self, x: Tensor[B], hidden: Tensor[B], cell: Tensor[B], reverse: bool
    ) -> tuple[Tensor[B], Tensor[B], Tensor[B]]:
        """From (N, T, inputs) and a state (N, hidden), twice, to (N, T, hidden) and the last state."""
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
    """Long short-term memory: sequences read one element after another. The batch comes first.

    Paths are ``layers.0.0.weight_ih`` and, of the other direction, ``layers.0.1.weight_ih``; in PyTorch
    ``weight_ih_l0`` and ``weight_ih_l0_reverse``, transposed.

    Args:
        inputs: the size of an element.
        hidden: the size of what is remembered of it.
        count: how many layers, each reading what the one before it said.
        bidirectional: whether each reads from both ends; what it says is then of size 2 · hidden.
        dropout: how likely, in training, something of what a layer says is dropped before the next reads it;
            one layer alone drops nothing.
        bias: whether something is added.
        device: where the layers are.
        initializer: of the matrices; as of the biases uniform in ±1/√hidden, unless given.
        generator: what to draw the first values from.

    Raises:
        ArgumentError: a setting makes no sense.

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
        """What the last layer says of each element, and the state after the last.

        Args:
            x: shape (N, T, inputs), T at least 1.
            state: to begin with, hidden and cell; zeros, unless given.

        Returns:
            Shape (N, T, directions · hidden), and the state.

        Raises:
            ShapeError: the shapes do not belong together.
            KindError: the state is no pair of tensors.
            DTypeError: x or the state is wider than the weights.
        """
        exact_dims("Lstm", "x", x, 3, f"(N, T, {self.inputs})")
        batch, length, size = x.shape
        if size != self.inputs or not length:
            raise ShapeError(
                f"Lstm() takes x of shape (N, T, {self.inputs}), T at least 1, and was given shape {x.shape}"
            )
        wanted = (len(self.layers) * (1 + self.bidirectional), batch, self.hidden)
        if state is None:
            zeros = Tensor.zeros(wanted, dtype=self.layers[0][0].weight_hh.dtype, device=x.device)
            state = LstmState(zeros, zeros)
        state = _state_of(state)
        for name, part in zip(LstmState._fields, state, strict=True):
            if part.shape != wanted:
                raise ShapeError(f"Lstm() was given a state with {name} of shape {part.shape}; here it is {wanted}")
        refuse_wider("Lstm", "weights", self.layers[0][0].weight_hh.dtype, **state._asdict())
        hidden, cell = state.hidden.unbind(0), state.cell.unbind(0)
        last: list[tuple[Tensor[B], Tensor[B]]] = []
        for k, directions in enumerate(self.layers):
            if k and self.dropout:
                x = dropped(x, self.dropout, training=self.trains_on(x))
            said: list[Tensor[B]] = []
            for reverse, layer in enumerate(directions):
                place = len(last)
                output, h, c = layer(x, hidden[place], cell[place], bool(reverse))
                said.append(output)
                last.append((h, c))
            x = said[0] if len(said) == 1 else cat(said, 2)
        return x, LstmState(stack([h for h, _ in last]), stack([c for _, c in last]))

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self.layers)

    @property
    def bias(self) -> bool:
        """Whether something is added."""
        return self.layers[0][0].bias_ih is not None

    def torch_names(self) -> dict[str, str]:
        """PyTorch's names, where they differ: see `burnpy.record.torch_names`."""
        return {
            f"layers.{k}.{direction}.{name}": f"{name}_l{k}{'_reverse' * direction}{'.T' * name.startswith('weight')}"
            for k in range(len(self.layers))
            for direction in range(1 + self.bidirectional)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }

    def valid(self: Lstm[Autodiff[I]]) -> Lstm[I]:
        """The same layers on the inner backend."""
        return rebound(self)


def _state_of(state: object) -> LstmState[Any]:
    """A state of what may be a plain pair."""
    if not isinstance(state, tuple) or len(state) != 2 or not all(isinstance(part, Tensor) for part in state):
        raise KindError(f"Lstm() takes a state as LstmState(hidden, cell), and was given {a(type(state).__name__)}")
    return LstmState(*state)
