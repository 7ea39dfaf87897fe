"""`beam_search`: the most likely continuations of a prompt, found by following several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.models.generation import Stop, check_prompts, stop_tokens
from burnpy.nn.argument_checks import positive_int
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import IntTensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.models.decoder import Decoder
    from burnpy.models.samplers import Processor


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
    """Return the continuations of a prompt with the highest scores that a beam search finds, best first.

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

    Returns:
        Up to ``beams`` continuations.

    Raises:
        ArgumentError, ModuleError: as `burnpy.models.generate`.

    >>> from burnpy.models import Gpt2, Gpt2Config
    >>> model = Gpt2(Gpt2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2), device=NumPy)
    >>> found = beam_search(model, [3, 1, 4], max_new=5, beams=3)
    >>> len(found), found[0].score >= found[1].score
    (3, True)
    """
    prompt = [int(token) for token in tokens]
    beams = positive_int("beam_search", "beams", beams)
    check_prompts("beam_search", model, [prompt], positive_int("beam_search", "max_new", max_new))
    ends = stop_tokens(stop)
    device = model.device
    running: list[tuple[list[int], float]] = [([], 0.0)]  # tokens and sums of log-probabilities, best first
    finished: list[Beam] = []
    new = IntTensor.from_data([prompt], device=device)
    cache = model.empty_cache(1, len(prompt) + max_new - 1)
    for length in range(1, max_new + 1):
        logits, cache = model.next_logits(new, cache)
        scores: Any = logits.float().log_softmax(-1)
        texts = IntTensor.from_data([prompt + text for text, _ in running], device=device)
        for processor in processors:
            scores = processor(scores, texts)
        sums = type(scores).from_data([[total] for _, total in running], device=device)
        width = scores.shape[-1]
        flat = (scores + sums).flatten()
        best, places = flat.topk(min(max(2, 1 + len(ends)) * beams, flat.numel()))
        found = [(*divmod(place, width), total) for place, total in zip(places.tolist(), best.tolist(), strict=True)]
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
