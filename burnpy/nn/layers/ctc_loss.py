"""`CtcLoss`: connectionist temporal classification, the loss of sequences whose alignment to labels is not known.

The operation, its recursion and gradient are in `burnpy.backend.operations.losses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.nn.argument_checks import floats, whole
from burnpy.nn.layers.losses import Loss
from burnpy.tensor.call_errors import explained
from burnpy.tensor.losses import Reduction, reduced
from burnpy.tensor.operand_checks import in_range, refuse_unless, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.tensor.tensor_types import Ints
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Int

Lengths: TypeAlias = Ints[B] | Sequence[int]
"""The length of each sequence: an `IntTensor` of shape (N,), or ints."""


@explained
def ctc_loss(
    log_probs: Tensor[B],
    targets: Ints[B],
    input_lengths: Lengths[B],
    target_lengths: Lengths[B],
    *,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor[B]:
    """Compute the negative log probability of labels, summed over all alignments with time steps.

    An alignment has a label or a blank at each step; repeated labels count once unless there is a blank between them.
    The derivatives are those of the loss with respect to independent log probabilities; PyTorch's are right only for
    ``log_softmax``, with which both are equal.

    Args:
        log_probs: log probabilities, such as `log_softmax` returns, of shape (T, N, C), or (T, C) for one sequence.
        targets: the labels, of shape (N, S), or those of all sequences in a row, (sum of the target lengths,).
        input_lengths: the number of time steps of each sequence, at most T.
        target_lengths: the number of labels of each sequence, at most S.
        blank: the class of the blank, which is no label.
        reduction: "mean" of the losses over their target lengths, "sum", or "none" for the loss of each sequence.
        zero_infinity: whether a sequence without a possible alignment, as one with fewer steps than labels, has the
            loss 0 in place of inf. Its gradient is 0 in any case.

    Returns:
        Shape (), or (N,) for "none", or () for one sequence.

    Raises:
        ShapeError: the shapes do not match.
        KindError: targets or lengths are not ints.
        IndexRangeError: a label is out of range.
        ArgumentError: ``blank`` is not a class, a label is the blank, or a length is too large or negative.

    Source: Graves et al., Connectionist Temporal Classification, 2006.

    >>> even = Tensor[NumPy].zeros((3, 1, 2)).log_softmax(-1)
    >>> round(ctc_loss(even, IntTensor[NumPy].from_data([[1]]), [3], [1]).exp().item(), 4)
    1.3333
    """
    name = "ctc_loss"
    (log_probs,) = floats(name, 1, log_probs=log_probs)
    one = log_probs.ndim == 2
    if log_probs.ndim not in (2, 3) or not log_probs.shape[-1]:
        raise ShapeError(f"{name}() takes log_probs of shape (T, N, C), or (T, C), got shape {log_probs.shape}")
    given = log_probs.unsqueeze(1) if one else log_probs
    if not isinstance(targets, IntTensor):
        raise KindError(f"{name}() takes its targets as an IntTensor, got {describe(targets)}{made_of(targets)}")
    others = [x for x in (targets, input_lengths, target_lengths) if isinstance(x, TensorBase)]
    placed, *_ = together(name, given, *others)
    time, n, classes = placed.shape
    blank_class = whole(name, "blank", blank)
    if not 0 <= blank_class < classes:
        raise ArgumentError(f"{name}() got blank={blank_class} for {classes} classes; expected one of them")
    steps = _lengths(placed, "input_lengths", input_lengths, n, one)
    counts = _lengths(placed, "target_lengths", target_lengths, n, one)
    d: Any = placed.device.discrete
    message = f"{name}() got input_lengths that are negative or above {time}, the number of time steps"
    refuse_unless(placed.device, d.bitwise_and(d.ge(steps, 0), d.le(steps, time)), ArgumentError(message))
    labels = _labels(placed, targets, counts, classes, blank_class, one)
    device: Any = placed.device
    losses: Tensor[B] = placed._like(device.ctc_loss(placed._primitive, labels, steps, counts, blank_class))
    if zero_infinity:
        losses = losses.where(~losses.isinf(), 0.0)
    if reduction == "mean":
        losses = losses / placed._like(device.to_float(d.clamp_min(counts, 1), placed.dtype))
    out = reduced(name, losses, reduction)
    return out.squeeze(0) if one and reduction == "none" else out


def _lengths(x: Tensor[B], name: str, lengths: Lengths[B], n: int, one: bool) -> Int:
    """Return the lengths of n sequences as a primitive of int64."""
    given: Any = lengths
    d: Any = x.device.discrete
    if isinstance(given, IntTensor):
        value = d.cast(given._primitive, int64)
    else:
        values = given if isinstance(given, Sequence) else (given,)
        value = d.from_numpy(np.array([whole("ctc_loss", name, k) for k in values], np.int64))
    if one and value.shape == ():
        value = d.reshape(value, (1,))
    if value.shape != (n,):
        shape = f"{x.shape}, (T, N, C)" if not one else f"{x.shape[::2]}, (T, C)"
        raise ShapeError(
            f"ctc_loss() got {name} of shape {value.shape} for log_probs of shape {shape}; expected shape {(n,)}"
        )
    return value


def _labels(x: Tensor[B], targets: IntTensor[Any], counts: Int, classes: int, blank: int, one: bool) -> Int:
    """Return the labels as a primitive of shape (N, S), with some class where a label does not count."""
    d: Any = x.device.discrete
    n, shape = x.shape[1], targets.shape
    value = d.cast(targets._primitive, int64)
    if len(shape) == 2 and shape[0] == n:
        most = shape[1]
    elif len(shape) == 1:
        if one:
            value, most = d.reshape(value, (1, shape[0])), shape[0]
        else:
            most = int(d.to_numpy(counts).max(initial=0))
    else:
        raise ShapeError(
            f"ctc_loss() got log_probs of shape {x.shape} and targets of shape {shape}; expected ({n}, S), or the "
            "labels of all sequences in a row"
        )
    limit = most if len(value.shape) == 2 else shape[0]
    message = f"ctc_loss() got target_lengths that are negative or above {limit}, the number of labels"
    refuse_unless(x.device, d.bitwise_and(d.ge(counts, 0), d.le(counts, limit)), ArgumentError(message))
    place = d.from_numpy(np.arange(most)[None])
    real = d.lt(place, d.reshape(counts, (n, 1)))
    if len(value.shape) == 1:  # the labels of a sequence begin where those of the one before end
        ends = d.cumsum(counts, 0)
        total = d.slice(ends, (slice(n - 1, n, 1),)) if n else d.full((1,), 0, int64)
        message = f"ctc_loss() got {shape[0]} labels in a row; expected as many as the sum of target_lengths"
        refuse_unless(x.device, d.eq(total, shape[0]), ArgumentError(message))
        at = d.where(real, d.add(place, d.reshape(d.sub(ends, counts), (n, 1))), 0)
        value = d.reshape(d.index_select(value, 0, d.reshape(at, (n * most,))), (n, most)) if shape[0] else at
    other = 0 if blank else min(1, classes - 1)
    value = d.where(real, value, other)
    message = f"ctc_loss() got the label {blank}, which is the blank; name another class with blank="
    refuse_unless(x.device, d.bitwise_or(d.bitwise_not(real), d.ne(value, blank)), ArgumentError(message))
    return in_range(x.device, value, classes, False, "ctc_loss()", 2, x.shape)


class CtcLoss(Loss):
    """Connectionist temporal classification: see `burnpy.nn.functional.ctc_loss`."""

    _function = staticmethod(ctc_loss)
    _settings = ("blank", "reduction", "zero_infinity")

    def __init__(self, *, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = whole("CtcLoss", "blank", blank)
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor[B], targets: Ints[B], input_lengths: Lengths[B], target_lengths: Lengths[B]
    ) -> Tensor[B]:
        """Return the loss of log probabilities (T, N, C) and labels (N, S), of given lengths."""
        return self._result(log_probs, targets, input_lengths, target_lengths)

    if TYPE_CHECKING:

        def __call__(
            self, log_probs: Tensor[B], targets: Ints[B], input_lengths: Lengths[B], target_lengths: Lengths[B]
        ) -> Tensor[B]:
            """Return the result of `forward`."""
            ...
