"""`generate`, an iterator of the tokens that follow prompts, `beam_search`, and the samplers that choose tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from burnpy.backend.errors import ArgumentError, KindError, ModuleError, ShapeError, a
from burnpy.func.compiling.compilation import Compiled, compiled
from burnpy.models.decoder import Caches, Decoder, refuse_non_functions
from burnpy.nn.argument_checks import above_zero, positive_int
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.joining import cat
from burnpy.tensor.levels import in_training_mode
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Ints

Processor: TypeAlias = Callable[[Tensor[B], IntTensor[B]], Tensor[B]]
"""A function of logits (N, vocabulary) and the tokens so far (N, T), which returns logits."""
Sampler: TypeAlias = Callable[[Tensor[B]], IntTensor[B]]
"""A function of logits (N, vocabulary), which returns tokens (N,)."""


@explained
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
) -> Callable[[Tensor[B]], IntTensor[B]]:
    """Return a sampler that draws tokens with the probabilities ``softmax(logits / temperature)``.

    Args:
        temperature: above 0; the smaller, the more likely are the likely tokens.
        top_k: keep only the k most likely tokens: see `keep_top_k`.
        top_p: keep only the most likely tokens that have this probability together: see `keep_top_p`.
        min_p: keep only tokens with this share of the largest probability: see `keep_min_p`.
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

    return explained(sampled)


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
    rare = (ordered.softmax(-1).cumsum(dim=-1) <= 1.0 - p) & (places != places[..., -1:])
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


Prompt: TypeAlias = Sequence[int]
Stop: TypeAlias = int | Collection[int] | None
CompiledStep: TypeAlias = Compiled[..., Any]
"""The result of `compiled_step`."""


@overload
def generate(
    model: Decoder[B],
    tokens: Sequence[int],
    *,
    max_new: int,
    sampler: Sampler[B] = ...,
    processors: Sequence[Processor[B]] = (),
    stop: Stop = None,
    cache: bool = True,
    step: CompiledStep | None = None,
) -> Iterator[int]: ...
@overload
def generate(
    model: Decoder[B],
    tokens: Sequence[Sequence[int]] | IntTensor[Any],
    *,
    max_new: int,
    sampler: Sampler[B] = ...,
    processors: Sequence[Processor[B]] = (),
    stop: Stop = None,
    cache: bool = True,
    step: CompiledStep | None = None,
) -> Iterator[tuple[int | None, ...]]: ...
@explained
def generate(
    model: Decoder[Any],
    tokens: Any,
    *,
    max_new: int,
    sampler: Sampler[Any] = greedy,
    processors: Sequence[Processor[Any]] = (),
    stop: Stop = None,
    cache: bool = True,
    step: CompiledStep | None = None,
) -> Iterator[Any]:
    """Return an iterator of the tokens that follow a prompt; each is computed when it is read.

    Args:
        model: a language model on a backend that records no graph: ``model.valid()`` of one in training.
        tokens: a prompt, at least one token; or several prompts, of any lengths. Padding goes before shorter prompts,
            and no token attends to it, so that each prompt continues as it does alone.
        max_new: the largest number of new tokens.
        sampler: the function that chooses tokens by logits (N, vocabulary): `greedy`, or one of `sampling`.
        processors: functions of logits and the tokens so far, (N, T), which change the logits before the sampler
            sees them, in turn: `functools.partial(repetition_penalty, penalty=1.2)`, or your own.
        stop: a token, or several, that end a prompt's text as its last token: ``model.config.eos_token_id``.
        cache: whether to keep the keys and values of earlier tokens. Without, each token takes the time of the
            whole text, and differs by rounding.
        step: what `compiled_step` returned, to compute all tokens but the first by a plan; it saves one to several
            milliseconds a token, and is recorded once, in a tenth of a second.

    Returns:
        For one prompt, tokens. For several, tuples with a token for each, None for those whose text has ended.

    Raises:
        ArgumentError: a prompt is empty, has a token outside of the model's vocabulary, or is too long for the model
            with ``max_new`` more tokens; or a ``step`` without ``cache``.
        ModuleError: the model is on a device that records a graph.

    >>> from burnpy.models import Gpt2, Gpt2Config
    >>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2), device=NumPy)
    >>> len(list(generate(model, [3, 1, 4], max_new=5)))
    5
    >>> [len(step) for step in generate(model, [[3, 1, 4], [1, 5]], max_new=2)]
    [2, 2]
    """
    prompts, single = _prompts(tokens)
    check_prompts("generate", model, prompts, positive_int("generate", "max_new", max_new))
    if step is not None and not (cache and callable(step)):
        raise ArgumentError(f"generate() got step={describe(step)}, cache={cache}; pass compiled_step(), for a cache")
    refuse_non_functions("generate", sampler, *processors)
    found = _steps(model, prompts, max_new, sampler, processors, stop_tokens("generate", stop), cache, step)
    return (chosen for (chosen,) in found) if single else found


@explained
def compiled_step() -> CompiledStep:
    """Return the step of `generate` as a compiled function. Keep it: it has a plan for each model and length of cache.

    >>> from burnpy.models import Gpt2, Gpt2Config
    >>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2), device=NumPy)
    >>> step = compiled_step()
    >>> tokens = list(generate(model, [3, 1, 4], max_new=5, step=step))
    >>> tokens == list(generate(model, [3, 1, 4], max_new=5)), len(step.plans)
    (True, 1)
    """
    return compiled(_next_logits, donate=("cache",))


def _next_logits(model: Decoder[B], tokens: Ints[B], cache: Caches[B]) -> tuple[Tensor[B], Caches[B]]:
    return model.next_logits(tokens, cache)


def stop_tokens(name: str, stop: Stop) -> frozenset[int]:
    """Return the tokens that end a text, checked to be ints: a string would end none."""
    given: Any = () if stop is None else stop if getattr(stop, "ndim", hasattr(stop, "__iter__")) else (stop,)
    return frozenset(integer(token, "stop", name) for token in given)


def check_prompts(name: str, model: Decoder[Any], prompts: Sequence[Prompt], max_new: int) -> None:
    """Check prompts before anything is computed."""
    given: Any = model
    if not isinstance(given, Decoder):
        raise KindError(f"{name}() takes a language model of burnpy.models, got {a(type(model).__name__)}")
    if in_training_mode(model.device):
        raise ModuleError(f"{name}() got a model on {model.device}, which records a graph; pass model.valid()")
    for k, prompt in enumerate(prompts):
        where = f"prompt {k}" if len(prompts) > 1 else "a prompt"
        if not prompt:
            raise ArgumentError(f"{name}() got {where} without tokens; begin with at least one")
        outside = [token for token in prompt if not 0 <= token < model.vocabulary]
        if outside:
            raise ArgumentError(
                f"{name}() got {where} with the token {outside[0]}, and {type(model).__name__} has a vocabulary of "
                f"{model.vocabulary}; the tokenizer is of another model"
            )
        if model.capacity is not None and len(prompt) + max_new > model.capacity:
            raise ArgumentError(
                f"{name}() got {where} of {len(prompt)} tokens and max_new={max_new}, and {type(model).__name__} has "
                f"room for {model.capacity} in all"
            )


def _prompts(tokens: Any) -> tuple[list[list[int]], bool]:
    """Return prompts as lists of ints, and whether it is a single prompt."""
    if isinstance(tokens, IntTensor):
        if tokens.ndim != 2:
            raise ShapeError(
                f"generate() got an IntTensor of shape {tokens.shape}; expected (N, T), or tokens.tolist() for one "
                "prompt"
            )
        rows: Any = tokens.tolist()
        return rows, False
    try:
        single = not any(hasattr(each, "__len__") for each in tokens)
        return [[index(token) for token in row] for row in ([tokens] if single else tokens)], single
    except TypeError as error:
        raise KindError(f"generate() takes a list of tokens, or a list of such lists, got {tokens!r:.60}") from error


def _steps(
    model: Decoder[B],
    prompts: list[list[int]],
    max_new: int,
    sampler: Sampler[B],
    processors: Sequence[Processor[B]],
    stop: frozenset[int],
    cached: bool,
    step: CompiledStep | None,
) -> Iterator[tuple[int | None, ...]]:
    width, count = max(map(len, prompts)), len(prompts)
    texts = IntTensor.from_data([row[:1] * (width - len(row)) + row for row in prompts], device=model.device)
    gaps = [width - len(row) for row in prompts]
    padding = IntTensor.from_data(gaps, device=model.device) if any(gaps) else None
    capacity = width + max_new - 1
    if step is not None:
        capacity = -(-capacity // _ROUND) * _ROUND  # for fewer plans
    empty = model.empty_cache(count, capacity, padding=padding)
    logits, cache = model.next_logits(texts, empty)
    if step is not None:
        cache = tuple([layer.compiled() for layer in cache])
    running = [True] * count
    for remaining in range(max_new, 0, -1):
        chosen = _chosen(logits, texts, sampler, processors)
        values: Any = chosen.tolist()
        yield tuple([token if runs else None for token, runs in zip(values, running, strict=True)])
        running = [runs and token not in stop for token, runs in zip(values, running, strict=True)]
        if remaining == 1 or not any(running):
            return
        new = chosen.unsqueeze(1)
        if processors or not cached:
            texts = cat([texts, new], 1)
        if step is not None:
            logits, cache = step(model, new, cache)
        else:
            logits, cache = model.next_logits(new, cache) if cached else model.next_logits(texts, empty)


_ROUND = 128  # the capacity of a cache for plans is a multiple of this


def _chosen(
    logits: Tensor[B], texts: IntTensor[B], sampler: Sampler[B], processors: Sequence[Processor[B]]
) -> IntTensor[B]:
    """Return the tokens that a sampler chooses, checked to be one for each text."""
    for processor in processors:
        logits = processor(logits, texts)
    chosen: Any = sampler(logits)
    if not isinstance(chosen, IntTensor) or chosen.shape != logits.shape[:1]:
        got = chosen.shape if isinstance(chosen, IntTensor) else a(type(chosen).__name__)
        raise ShapeError(f"generate() got {got} from the sampler, expected an IntTensor of shape {logits.shape[:1]}")
    return chosen


class Beam(NamedTuple):
    """A continuation that `beam_search` found."""

    tokens: tuple[int, ...]  #: the new tokens
    score: float  #: the sum of their log-probabilities, divided by their number to the power of ``length_penalty``


@explained
def beam_search(
    model: Decoder[B],
    tokens: Sequence[int],
    *,
    max_new: int,
    beams: int,
    stop: Stop = None,
    length_penalty: float = 1.0,
    processors: Sequence[Processor[B]] = (),
) -> list[Beam]:
    """Return up to ``beams`` continuations of a prompt, those with the highest scores, best first.

    The search ends when the best unfinished beam scores no higher than the worst of ``beams`` finished ones, as in
    transformers.

    Args:
        model: a language model on a backend that records no graph.
        tokens: the prompt, at least one token.
        max_new: the largest number of new tokens; beams of this length are finished.
        beams: the number of continuations to follow.
        stop: a token, or several, that finish a beam.
        length_penalty: above 0 to favour long texts, below 0 short ones.
        processors: functions of log-probabilities and the tokens so far: see `burnpy.models.generate`.

    Raises:
        ArgumentError, ModuleError: as `burnpy.models.generate`.

    >>> from burnpy.models import Gpt2, Gpt2Config
    >>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2), device=NumPy)
    >>> found = beam_search(model, [3, 1, 4], max_new=5, beams=3)
    >>> len(found), found[0].score >= found[1].score
    (3, True)
    """
    prompt = [integer(token, "token", "beam_search") for token in tokens]
    beams = positive_int("beam_search", "beams", beams)
    check_prompts("beam_search", model, [prompt], positive_int("beam_search", "max_new", max_new))
    refuse_non_functions("beam_search", *processors)
    ends, device = stop_tokens("beam_search", stop), model.device
    running: list[tuple[list[int], float]] = [([], 0.0)]  # tokens and sums of log-probabilities, best first
    finished: list[Beam] = []
    new: IntTensor[B] = IntTensor.from_data([prompt], device=device)
    cache: Caches[B] = model.empty_cache(1, len(prompt) + max_new - 1)
    for length in range(1, max_new + 1):
        logits, cache = model.next_logits(new, cache)
        scores: Any = logits.float().log_softmax(-1)
        texts = IntTensor.from_data([prompt + text for text, _ in running], device=device)
        for processor in processors:
            scores = processor(scores, texts)
        found = _continuations(scores, [total for _, total in running], max(2, 1 + len(ends)) * beams)
        done = [token in ends or length == max_new for _, token, _ in found]
        finished += [
            Beam((*running[row][0], token), total / length**length_penalty)
            for (row, token, total), ends_here in zip(found[:beams], done, strict=False)
            if ends_here
        ]
        finished = sorted(finished, key=lambda beam: -beam.score)[:beams]
        kept = [each for each, ends_here in zip(found, done, strict=True) if not ends_here][:beams]
        if not kept or (len(finished) == beams and kept[0][2] / length**length_penalty <= finished[-1].score):
            break
        rows = IntTensor.from_data([row for row, _, _ in kept], device=device)
        running = [([*running[row][0], token], total) for row, token, total in kept]
        new = IntTensor.from_data([[token] for _, token, _ in kept], device=device)
        cache = tuple([layer.reordered(rows) for layer in cache])
    return finished


def _continuations(scores: Any, sums: list[float], count: int) -> list[tuple[int, int, float]]:
    """Return row, token and new sum of the best continuations of N texts; ``scores``: logarithms (N, vocabulary)."""
    flat = (scores + type(scores).from_data([[total] for total in sums], device=scores.device)).flatten()
    best, places = flat.topk(min(count, flat.numel()))
    width = scores.shape[-1]
    return [(place // width, place % width, total) for place, total in zip(places.tolist(), best.tolist(), strict=True)]
