"""Recurrences over whole sequences: long short-term memory, gated recurrent units, and networks without gates.

The contribution of the inputs to the gates, one matrix product for all elements, is an argument. Backward passes use
what the forward pass returns besides the hidden states. The gradient of the weight is one product for all elements: its
factors are left to the engine, which joins those of a loop over cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.pointwise import one_minus
from burnpy.backend.primitives import Bool, Float, Int
from burnpy.backend.rules import Factors, Folded, rows
from burnpy.backend.schema import GENERAL, derived


def lstm_step(b: Any, i: Float, f: Float, g: Float, o: Float, cell: Float) -> tuple[Float, ...]:
    """Return the next hidden state and cell state, and the gates, from the sums before the functions of the gates."""
    i, f, g, o = b.sigmoid(i), b.sigmoid(f), b.tanh(g), b.sigmoid(o)
    cell = b.add(b.mul(f, cell), b.mul(i, g))
    return b.mul(o, b.tanh(cell)), cell, i, f, g, o


def lstm_step_backward(
    b: Any,
    grad_hidden: Float,
    grad_cell: Float,
    i: Float,
    f: Float,
    g: Float,
    o: Float,
    before: Float,
    after: Float,
    *grad_gates: Float,
) -> tuple[Float, ...]:
    """Return the gradients of the sums of the gates and of the cell state ``before``; ``grad_gates`` adds to those of
    gates."""
    bounded = b.tanh(after)
    grad_cell = b.add(grad_cell, b.mul(b.mul(grad_hidden, o), one_minus(b, b.mul(bounded, bounded))))
    parts = [b.mul(grad_cell, g), b.mul(grad_cell, before), b.mul(grad_cell, i), b.mul(grad_hidden, bounded)]
    if grad_gates:
        parts = [b.add(x, y) for x, y in zip(parts, grad_gates, strict=True)]
    grad_i, grad_f, grad_g, grad_o = parts
    return (
        b.mul(grad_i, _sigmoid_slope(b, i)),
        b.mul(grad_f, _sigmoid_slope(b, f)),
        b.mul(grad_g, one_minus(b, b.mul(g, g))),
        b.mul(grad_o, _sigmoid_slope(b, o)),
        b.mul(grad_cell, f),
    )


def gru_step(
    b: Any, xr: Float, xz: Float, xn: Float, hr: Float, hz: Float, hn: Float, hidden: Float
) -> tuple[Float, ...]:
    """Return the next hidden state, the gates r, z and n, and n's recurrent part, from the parts of x and of the
    state."""
    r, z = b.sigmoid(b.add(xr, hr)), b.sigmoid(b.add(xz, hz))
    n = b.tanh(b.add(xn, b.mul(r, hn)))
    return b.add(n, b.mul(z, b.sub(hidden, n))), r, z, n, hn


def gru_step_backward(
    b: Any, grad_hidden: Float, r: Float, z: Float, n: Float, hn: Float, before: Float, *grad_gates: Float
) -> tuple[Float, ...]:
    """Return the gradients of the sums of r, z and n, of n's recurrent part, and of the state ``before`` through z.
    ``grad_gates`` are further gradients of the gates and n's recurrent part."""
    grad_z, grad_n = b.mul(grad_hidden, b.sub(before, n)), b.mul(grad_hidden, one_minus(b, z))
    if grad_gates:
        grad_z, grad_n = b.add(grad_z, grad_gates[1]), b.add(grad_n, grad_gates[2])
    grad_n = b.mul(grad_n, one_minus(b, b.mul(n, n)))
    grad_r, grad_hn = b.mul(grad_n, hn), b.mul(grad_n, r)
    if grad_gates:
        grad_r, grad_hn = b.add(grad_r, grad_gates[0]), b.add(grad_hn, grad_gates[3])
    grad_r, grad_z = b.mul(grad_r, _sigmoid_slope(b, r)), b.mul(grad_z, _sigmoid_slope(b, z))
    return grad_r, grad_z, grad_n, grad_hn, b.mul(grad_hidden, z)


def rnn_step(b: Any, x: Float, relu: bool) -> Float:
    """Return the next hidden state."""
    return b.relu(x) if relu else b.tanh(x)


def rnn_step_backward(b: Any, grad_hidden: Float, hidden: Float, relu: bool) -> Float:
    """Compute the gradient of the sum that the activation takes, from the gradient of its result ``hidden``."""
    if relu:
        return b.relu_backward(grad_hidden, hidden)
    return b.mul(grad_hidden, one_minus(b, b.mul(hidden, hidden)))


def _sigmoid_slope(b: Any, y: Float) -> Float:
    """Return the derivative of the sigmoid with respect to its result."""
    return b.mul(y, one_minus(b, y))


_WHOLE = slice(None, None, 1)


def lstm_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    hidden: Float,
    cell: Float,
    weight: Float,
    out: Float,
    out1: Float,
    out2: Float,
    lengths: Int | None,
    reverse: bool,
) -> tuple[Float | Factors, ...]:
    """Return the gradients of x, hidden, cell and weight, through the states, the cell states and the gates."""
    grad_states, grad_cells = (_or_zeros(i, grad, out) for grad in grads[:2])
    given = (cell, weight, out1, out2, lengths, reverse)
    if grads[2] is None:
        grad_x, grad_hidden, grad_cell = i.lstm_backward(grad_states, grad_cells, *given)
    else:
        grad_x, grad_hidden, grad_cell = lstm_gradients(i, grad_states, grad_cells, grads[2], *given)
    return grad_x, grad_hidden, grad_cell, _weight_factors(i, hidden, out, reverse, grad_x)


def gru_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    hidden: Float,
    weight: Float,
    out: Float,
    out1: Float,
    lengths: Int | None,
    reverse: bool,
) -> tuple[Float | Factors, ...]:
    """Return the gradients of x, hidden, weight and bias, through the states and the gates."""
    grad_states, given = _or_zeros(i, grads[0], out), (hidden, weight, out, out1, lengths, reverse)
    if grads[1] is None:
        grad_x, grad_products, grad_hidden = i.gru_backward(grad_states, *given)
    else:
        grad_x, grad_products, grad_hidden = gru_gradients(i, grad_states, grads[1], *given)
    grad_weight = _weight_factors(i, hidden, out, reverse, grad_products)
    return grad_x, grad_hidden, grad_weight, i.sum(grad_products, (0, 1), False)


def rnn_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    hidden: Float,
    weight: Float,
    out: Float,
    lengths: Int | None,
    reverse: bool,
    relu: bool,
) -> tuple[Float | Factors, ...]:
    """Return the gradients of x, hidden and weight."""
    grad_x, grad_hidden = i.rnn_backward(grads[0], weight, out, lengths, reverse, relu)
    return grad_x, grad_hidden, _weight_factors(i, hidden, out, reverse, grad_x)


def _or_zeros(i: Any, grad: Float | None, result: Float) -> Float:
    """Return the gradient of a result, zeros for one that is not used."""
    return i.full(result.shape, 0.0, result.dtype) if grad is None else grad


class Recurrent(OperationsBase):
    """Recurrences over sequences x (N, T, gates · H), T at least 1, from a state (N, H); floats of one dtype.

    The weight is (H, gates · H). ``lengths`` (N,), of int64, are the numbers of elements that count, None for all: at
    the elements after those, the state stays as it is. With ``reverse``, sequences are read from element T - 1 to 0.
    Results have the states after each element, at that element's place.
    """

    @derived(
        GENERAL,
        product=("weight",),
        flops=lambda x, hidden: prod(x) // 4 * (8 * hidden[1] + 26),
        joint=lstm_vjp,
        batch=Folded(("x", "hidden", "cell", "lengths"), ("weight",)),
        onnx="recurrence.lstm",
    )
    def lstm(
        self, x: Float, hidden: Float, cell: Float, weight: Float, lengths: Int | None, reverse: bool
    ) -> tuple[Float, Float, Float]:
        """Long short-term memory: the hidden states, the cell states, and the gates i, f, g, o (N, T, 4 · H).

        Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997.
        """
        elements: list[tuple[Float, ...]] = []
        for t in _order(x, reverse):
            sums = self.add(_at(self, x, t), self.matmul(hidden, weight))
            given: tuple[Float, ...] = (*_split(self, sums, 4), cell)
            after, cell_after, *gates = lstm_step(self, *given)
            hidden, cell = _held(self, lengths, t, (after, cell_after), (hidden, cell))
            elements.append((hidden, cell, self.cat(gates, 1)))
        states, cells, every = _stacked(self, elements, reverse)
        return states, cells, every

    @derived(GENERAL, product=("weight",), flops=lambda grad: prod(grad) * (8 * grad[2] + 32))
    def lstm_backward(
        self,
        grad: Float,
        grad_cells: Float,
        cell: Float,
        weight: Float,
        cells: Float,
        gates: Float,
        lengths: Int | None,
        reverse: bool,
    ) -> tuple[Float, Float, Float]:
        """Gradients of `lstm` with respect to x, hidden and cell.

        ``grad`` and ``grad_cells`` are those of its first two results; ``cells`` and ``gates`` are results of it.
        """
        return lstm_gradients(self, grad, grad_cells, None, cell, weight, cells, gates, lengths, reverse)

    @derived(
        GENERAL,
        product=("weight",),
        flops=lambda x, hidden: prod(x) // 3 * (6 * hidden[1] + 21),
        joint=gru_vjp,
        batch=Folded(("x", "hidden", "lengths"), ("weight", "bias")),
        onnx="recurrence.gru",
    )
    def gru(
        self, x: Float, hidden: Float, weight: Float, bias: Float, lengths: Int | None, reverse: bool
    ) -> tuple[Float, Float]:
        """Gated recurrent units: the hidden states, and the gates r, z, n with n's recurrent part (N, T, 4 · H).

        ``bias`` (3 · H,) is added to the product of the hidden state and the weight.

        Source: Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
        Translation, 2014.
        """
        elements: list[tuple[Float, ...]] = []
        for t in _order(x, reverse):
            sums = self.add(self.matmul(hidden, weight), bias)
            given = (*_split(self, _at(self, x, t), 3), *_split(self, sums, 3), hidden)
            after, *gates = gru_step(self, *given)
            (hidden,) = _held(self, lengths, t, (after,), (hidden,))
            elements.append((hidden, self.cat(gates, 1)))
        states, every = _stacked(self, elements, reverse)
        return states, every

    @derived(GENERAL, product=("weight",), flops=lambda grad: prod(grad) * (6 * grad[2] + 25))
    def gru_backward(
        self, grad: Float, hidden: Float, weight: Float, states: Float, gates: Float, lengths: Int | None, reverse: bool
    ) -> tuple[Float, Float, Float]:
        """Gradients of the first result of `gru` with respect to x, the products of states and weight, and hidden.

        ``states`` and ``gates`` are its results.
        """
        return gru_gradients(self, grad, None, hidden, weight, states, gates, lengths, reverse)

    @derived(
        GENERAL,
        product=("weight",),
        like="x",
        flops=lambda x: prod(x) * (2 * x[2] + 4),
        joint=rnn_vjp,
        batch=Folded(("x", "hidden", "lengths"), ("weight",)),
        onnx="recurrence.rnn",
    )
    def rnn(self, x: Float, hidden: Float, weight: Float, lengths: Int | None, reverse: bool, relu: bool) -> Float:
        """Return a recurrent network without gates: the hidden states tanh(x + hidden @ weight), or with relu for tanh.

        Source: Elman, Finding Structure in Time, 1990.
        """
        elements: list[tuple[Float, ...]] = []
        for t in _order(x, reverse):
            after = rnn_step(self, self.add(_at(self, x, t), self.matmul(hidden, weight)), relu)
            (hidden,) = _held(self, lengths, t, (after,), (hidden,))
            elements.append((hidden,))
        (states,) = _stacked(self, elements, reverse)
        return states

    @derived(GENERAL, product=("weight",), flops=lambda grad: prod(grad) * (2 * grad[2] + 5))
    def rnn_backward(
        self, grad: Float, weight: Float, states: Float, lengths: Int | None, reverse: bool, relu: bool
    ) -> tuple[Float, Float]:
        """Gradients of `rnn` with respect to x and hidden; ``states`` is its result."""
        carried: Float | None = None
        elements: list[tuple[Float, ...]] = []
        for t in _order(states, not reverse):
            total = _sum(self, _at(self, grad, t), carried)
            (grad_state,), skipped = _counted(self, lengths, t, (total,))
            grad_sum = rnn_step_backward(self, grad_state, _at(self, states, t), relu)
            carried = _sum(self, self.matmul_nt(grad_sum, weight), skipped[0])
            elements.append((grad_sum,))
        (grad_x,) = _stacked(self, elements, not reverse)
        return grad_x, carried


def lstm_gradients(
    b: Any,
    grad: Float,
    grad_cells: Float,
    grad_gates: Float | None,
    cell: Float,
    weight: Float,
    cells: Float,
    gates: Float,
    lengths: Int | None,
    reverse: bool,
) -> tuple[Float, Float, Float]:
    """Compute the gradients of `lstm` as `lstm_backward` does, through the gates as well."""
    cells_before = states_before(b, cell, cells, reverse)
    carried: Float | None = None
    carried_cell: Float | None = None
    elements: list[tuple[Float, ...]] = []
    for t in _order(cells, not reverse):
        totals = (_sum(b, _at(b, grad, t), carried), _sum(b, _at(b, grad_cells, t), carried_cell))
        (grad_hidden, grad_cell), (skipped, skipped_cell) = _counted(b, lengths, t, totals)
        given = (*_split(b, _at(b, gates, t), 4), _at(b, cells_before, t), _at(b, cells, t))
        more = () if grad_gates is None else _split(b, _at(b, grad_gates, t), 4)
        *parts, grad_before = lstm_step_backward(b, grad_hidden, grad_cell, *given, *more)
        grad_sums = b.cat(parts, 1)
        carried = _sum(b, b.matmul_nt(grad_sums, weight), skipped)
        carried_cell = _sum(b, grad_before, skipped_cell)
        elements.append((grad_sums,))
    (grad_x,) = _stacked(b, elements, not reverse)
    return grad_x, carried, carried_cell


def gru_gradients(
    b: Any,
    grad: Float,
    grad_gates: Float | None,
    hidden: Float,
    weight: Float,
    states: Float,
    gates: Float,
    lengths: Int | None,
    reverse: bool,
) -> tuple[Float, Float, Float]:
    """Compute the gradients of `gru` as `gru_backward` does, through the gates as well."""
    before = states_before(b, hidden, states, reverse)
    carried: Float | None = None
    elements: list[tuple[Float, ...]] = []
    for t in _order(states, not reverse):
        total = _sum(b, _at(b, grad, t), carried)
        (grad_hidden,), (skipped,) = _counted(b, lengths, t, (total,))
        more = () if grad_gates is None else _split(b, _at(b, grad_gates, t), 4)
        given = (*_split(b, _at(b, gates, t), 4), _at(b, before, t))
        grad_r, grad_z, grad_n, grad_hn, grad_before = gru_step_backward(b, grad_hidden, *given, *more)
        grad_product = b.cat([grad_r, grad_z, grad_hn], 1)
        carried = _sum(b, b.add(b.matmul_nt(grad_product, weight), grad_before), skipped)
        elements.append((b.cat([grad_r, grad_z, grad_n], 1), grad_product))
    grad_x, grad_products = _stacked(b, elements, not reverse)
    return grad_x, grad_products, carried


def _order(x: Float, reverse: bool) -> range:
    """Return the indices of the elements of sequences in the order in which they are read."""
    return range(x.shape[1])[::-1] if reverse else range(x.shape[1])


def _at(b: Any, x: Float, t: int) -> Float:
    """One element of each sequence."""
    return b.slice(x, (_WHOLE, t))


def _split(b: Any, x: Float, count: int) -> tuple[Float, ...]:
    """Parts of equal size of the last of two dimensions."""
    size = x.shape[1] // count
    return tuple([b.slice(x, (_WHOLE, slice(k * size, (k + 1) * size, 1))) for k in range(count)])


def _stacked(b: Any, elements: Sequence[tuple[Float, ...]], reverse: bool) -> list[Float]:
    """Join the results of each element, in the order of reading, into sequences."""
    columns = zip(*(elements[::-1] if reverse else elements), strict=True)
    return [b.stack(column, 1) for column in columns]


def states_before(b: Any, first: Float, states: Float, reverse: bool) -> Float:
    """Return the states before each element: the first one, and those after the others."""
    n, t, h = states.shape
    first = b.reshape(first, (n, 1, h))
    if reverse:
        return b.cat([b.slice(states, (_WHOLE, slice(1, None, 1))), first], 1)
    return b.cat([first, b.slice(states, (_WHOLE, slice(0, t - 1, 1)))], 1)


def _counts(b: Any, lengths: Int, t: int) -> Bool:
    """For each sequence, (N, 1), whether an element is within the length."""
    return b.discrete.gt(b.discrete.reshape(lengths, (lengths.shape[0], 1)), t)


def _held(
    b: Any, lengths: Int | None, t: int, after: tuple[Float, ...], before: tuple[Float, ...]
) -> tuple[Float, ...]:
    """Return the state after an element: that before it where the element does not count."""
    if lengths is None:
        return after
    counts = _counts(b, lengths, t)
    return tuple([b.where(counts, x, y) for x, y in zip(after, before, strict=True)])


def _counted(
    b: Any, lengths: Int | None, t: int, grads: tuple[Float, ...]
) -> tuple[tuple[Float, ...], tuple[Float | None, ...]]:
    """Return the gradients of the state after an element where it counts, else 0; and where it does not count, else
    0."""
    if lengths is None:
        return grads, (None,) * len(grads)
    counts = _counts(b, lengths, t)
    skips = b.discrete.bitwise_not(counts)
    return tuple([b.where(counts, x, 0.0) for x in grads]), tuple([b.where(skips, x, 0.0) for x in grads])


def _sum(b: Any, x: Float, y: Float | None) -> Float:
    return x if y is None else b.add(x, y)


def _weight_factors(b: Any, hidden: Float, states: Float, reverse: bool, grad_products: Float) -> Factors:
    """Return the gradient of the weight: one product over all elements of all sequences."""
    before = hidden if states.shape[1] == 1 else rows(b, states_before(b, hidden, states, reverse))
    return Factors(before, rows(b, grad_products))
