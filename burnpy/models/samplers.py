"""Functions that change logits, and functions that choose the next tokens by them.

A processor maps logits (N, vocabulary) and the tokens so far (N, T) to logits; a sampler maps logits to tokens (N,).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import above_zero, positive_int
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator

Processor: TypeAlias = Callable[[Tensor[B], IntTensor[B]], Tensor[B]]
"""A function of logits (N, vocabulary) and the tokens so far (N, T), which returns logits."""
Sampler: TypeAlias = Callable[[Tensor[B]], IntTensor[B]]
"""A function of logits (N, vocabulary), which returns tokens (N,)."""


def greedy(logits: Tensor[B]) -> IntTensor[B]:
    """Choose the token with the largest logit, the first of several.

    >>> greedy(Tensor[NumPy].from_data([[0.0, 2.0, 1.0]])).tolist()
    [1]
    """
    return logits.argmax(dim=-1)


@explained
def sampling(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    generator: Generator | None = None,
) -> Sampler[B]:
    """Return a sampler that draws tokens with the probabilities ``softmax(logits / temperature)``.

    Args:
        temperature: above 0; the smaller, the more likely are the likely tokens.
        top_k: keep only the k most likely tokens: see `top_k`.
        top_p: keep only the most likely tokens that have this probability together: see `top_p`.
        min_p: keep only tokens with this share of the largest probability: see `min_p`.
        generator: the source of random numbers; by default `burnpy.default_generator`.

    Raises:
        ArgumentError: a setting is invalid.

    >>> sampler = sampling(temperature=0.7, top_k=2, generator=Generator(0))
    >>> sampler(Tensor[NumPy].from_data([[0.0, 9.0, 8.5]])).item() in (1, 2)
    True
    """
    above_zero("sampling", temperature=temperature)
    if top_k is not None:
        positive_int("sampling", "top_k", top_k)
    for name, share in (("top_p", top_p), ("min_p", min_p)):
        if share is not None:
            _share("sampling", name, share)

    def sampled(logits: Tensor[B]) -> IntTensor[B]:
        scaled = logits if temperature == 1.0 else logits / temperature
        scaled = scaled if top_k is None else keep_top_k(scaled, top_k)
        scaled = scaled if top_p is None else keep_top_p(scaled, top_p)
        scaled = scaled if min_p is None else keep_min_p(scaled, min_p)
        return scaled.categorical(generator=generator)

    return sampled


@explained
def keep_top_k(logits: Tensor[B], k: int) -> Tensor[B]:
    """Give all but the k largest logits of each row the value -inf; keep those that equal the k-th.

    Source: Fan et al., Hierarchical Neural Story Generation, 2018.

    >>> keep_top_k(Tensor[NumPy].from_data([[1.0, 3.0, 2.0]]), 2).tolist()
    [[-inf, 3.0, 2.0]]
    """
    k = min(positive_int("keep_top_k", "k", k), _rows("keep_top_k", logits))
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], -math.inf)


@explained
def keep_top_p(logits: Tensor[B], p: float) -> Tensor[B]:
    """Give the least likely tokens of each row, whose probabilities sum to at most 1 - p, the logit -inf.

    The most likely token always stays.

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration, 2020.

    >>> keep_top_p(Tensor[NumPy].from_data([[1.0, 3.0, 2.0]]), 0.7).tolist()
    [[-inf, 3.0, 2.0]]
    """
    _share("keep_top_p", "p", p)
    _rows("keep_top_p", logits)
    ordered, places = logits.sort(dim=-1)
    rare = ordered.softmax(-1).cumsum(dim=-1) <= 1.0 - p
    rare = rare & (places != places[..., -1:])
    return ordered.masked_fill(rare, -math.inf).gather(-1, places.argsort(dim=-1))


@explained
def keep_min_p(logits: Tensor[B], p: float) -> Tensor[B]:
    """Give tokens less likely than p times the most likely token of their row the logit -inf.

    Source: Nguyen et al., Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs, 2024.

    >>> keep_min_p(Tensor[NumPy].from_data([[1.0, 3.0, 2.0]]), 0.2).tolist()
    [[-inf, 3.0, 2.0]]
    """
    _share("keep_min_p", "p", p)
    _rows("keep_min_p", logits)
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < probabilities.amax(dim=-1, keepdim=True) * p, -math.inf)


@explained
def repetition_penalty(logits: Tensor[B], tokens: IntTensor[B], penalty: float) -> Tensor[B]:
    """Divide the positive logits of tokens that a row already has by the penalty, and multiply the negative ones.

    It is a processor with ``functools.partial(repetition_penalty, penalty=1.2)``.

    Args:
        logits: shape (N, vocabulary).
        tokens: shape (N, T), the tokens so far.
        penalty: above 0; above 1 to repeat less.

    Source: Keskar et al., CTRL, 2019.

    >>> logits = Tensor[NumPy].from_data([[1.0, -3.0, 2.0]])
    >>> repetition_penalty(logits, IntTensor[NumPy].from_data([[1, 2, 2]]), 2.0).tolist()
    [[1.0, -6.0, 1.0]]
    """
    above_zero("repetition_penalty", penalty=penalty)
    if logits.ndim != 2 or tokens.ndim != 2 or logits.shape[0] != tokens.shape[0]:
        raise ShapeError(
            f"repetition_penalty() takes logits (N, vocabulary) and tokens (N, T), got {logits.shape} and "
            f"{tokens.shape}"
        )
    found = logits.gather(1, tokens)
    return logits.scatter(1, tokens, (found * penalty).where(found < 0.0, found / penalty))


def _share(operation: str, name: str, value: float) -> None:
    """Check that a setting is above 0 and at most 1."""
    if not 0.0 < value <= 1.0:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected a number above 0 and at most 1")


def _rows(operation: str, logits: Tensor[B]) -> int:
    """Return the number of logits in a row, checked to be at least 1."""
    if not logits.ndim or not logits.shape[-1]:
        raise ShapeError(f"{operation}() takes logits of shape (…, vocabulary), got {logits.shape}")
    return logits.shape[-1]
