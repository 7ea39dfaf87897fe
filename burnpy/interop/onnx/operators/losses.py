"""Losses."""

from __future__ import annotations

from typing import Any

from burnpy.interop.onnx.operators.table import Value, cast, like, operator
from burnpy.tensor.joining import where


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def nll_loss(
    x: Value,
    target: Value,
    weight: Value = None,
    *,
    kind: str,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> Any:
    """Return the weighted negative log probability of the targets, and the log probabilities too."""
    target = cast(target, "int64")
    log_p = x.log_softmax(dim=1) if kind.startswith("Softmax") else x
    safe = target if ignore_index is None else where(target == ignore_index, 0, target)
    loss = -log_p.gather(1, safe.unsqueeze(1)).squeeze(1)
    shares = (
        like(x, target.shape, 1.0)
        if weight is None
        else weight.index_select(0, safe.reshape(-1)).reshape(*target.shape)
    )
    if ignore_index is not None:
        shares = shares.masked_fill(target == ignore_index, 0.0)
    loss = loss * shares
    if reduction == "mean":
        loss = loss.sum() / shares.sum()
    elif reduction == "sum":
        loss = loss.sum()
    return (loss, log_p) if outputs > 1 else loss
