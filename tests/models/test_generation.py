"""Generated tokens: the same with and without a cache, alone and in a batch, and from the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor, models
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError, ModuleError, ShapeError
from burnpy.models import beam_search, generate, sampling
from tests.models import small
from tests.rows import every_row

PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6], [7]]


def alone(model: Any, prompt: Sequence[int], max_new: int = 8, **settings: Any) -> list[int]:
    return list(generate(model, prompt, max_new=max_new, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", small.DECODERS)
def test_a_cache_and_a_batch_change_no_token(name: str) -> None:
    model = small.DECODERS[name]()
    steps = list(generate(model, PROMPTS, max_new=8))
    for k, prompt in enumerate(PROMPTS):
        tokens = alone(model, prompt)
        assert tokens == alone(model, prompt, cache=False) == [step[k] for step in steps]
        best = model(IntTensor[NumPy].from_data([[*prompt, *tokens]])).argmax(dim=-1).tolist()[0]
        assert tokens == best[len(prompt) - 1 : -1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "gemma3"])
def test_a_compiled_step_changes_no_token(name: str) -> None:
    model, step = small.DECODERS[name](), models.compiled_step()
    steps = list(generate(model, PROMPTS, max_new=8))
    assert list(generate(model, PROMPTS, max_new=8, step=step)) == list(generate(model, PROMPTS, max_new=8)) == steps
    assert alone(model, PROMPTS[0], step=step) == alone(model, PROMPTS[0], step=step) == [each[0] for each in steps]
    assert len(step.plans) == 2, "one for each size of batches"
    with pytest.raises(ArgumentError, match="cache=False; pass compiled_step"):
        alone(model, PROMPTS[0], step=step, cache=False)


def test_generation_is_lazy_and_takes_tensors() -> None:
    model = small.gpt2()
    iterator = generate(model, PROMPTS[0], max_new=29)
    assert [next(iterator), next(iterator)] == alone(model, PROMPTS[0])[:2]
    batch = IntTensor[NumPy].from_data([PROMPTS[0], PROMPTS[0]])
    assert list(generate(model, batch, max_new=3)) == [(token, token) for token in alone(model, PROMPTS[0], max_new=3)]


def test_a_text_ends_after_a_stop() -> None:
    model = small.gpt2()
    texts = [alone(model, prompt) for prompt in PROMPTS]
    stop = texts[0][2]
    ended = [text[: text.index(stop) + 1] if stop in text else text for text in texts]
    assert alone(model, PROMPTS[0], stop=stop) == alone(model, PROMPTS[0], stop=[stop, 99]) == ended[0]
    steps = list(generate(model, PROMPTS, max_new=8, stop=stop))
    assert [[step[k] for step in steps if step[k] is not None] for k in range(3)] == ended
    assert all(
        not any(row[k:]) for row in zip(*steps, strict=True) for k in [row.index(None) if None in row else len(row)]
    )


@pytest.mark.slow
def test_samples_are_reproducible_and_follow_the_probabilities() -> None:
    model = small.gpt2()

    def sampled(seed: int, cache: bool = True, step: Any = None, **settings: Any) -> list[int]:
        sampler: models.Sampler[NumPy] = sampling(generator=Generator(seed), **settings)
        return alone(model, PROMPTS[0], max_new=20, sampler=sampler, cache=cache, step=step)

    assert sampled(0, temperature=5.0) == sampled(0, temperature=5.0) != sampled(1, temperature=5.0)
    assert sampled(0, temperature=5.0) == sampled(0, temperature=5.0, cache=False), "the same tokens without a cache"
    assert sampled(0, temperature=5.0) == sampled(0, temperature=5.0, step=models.compiled_step())
    greedy = alone(model, PROMPTS[0], max_new=20)
    assert (
        sampled(0, top_k=1) == sampled(1, top_p=1e-6) == sampled(2, min_p=1.0) == sampled(3, temperature=1e-4) == greedy
    )
    logits = Tensor[NumPy].from_data([[0.0, 1.0, 2.0, 3.0]]).broadcast_to((20000, 4))
    sampler: models.Sampler[NumPy] = sampling(temperature=2.0, top_k=3, generator=Generator(0))
    drawn = sampler(logits).to_numpy()
    weights = np.exp(np.array([0.5, 1.0, 1.5]))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 20000, [0.0, *(weights / weights.sum())], atol=0.015)


def test_processors_see_the_tokens_so_far() -> None:
    model, seen = small.gpt2(), list[list[int]]()

    def only_new(logits: Tensor[Any], tokens: IntTensor[Any]) -> Tensor[Any]:
        rows: Any = tokens.tolist()
        seen.append(rows[0])
        return models.repetition_penalty(logits - logits.amax() - 1.0, tokens, 1e9)

    text = alone(model, PROMPTS[0], processors=[only_new])
    assert len({*PROMPTS[0], *text}) == len(PROMPTS[0]) + len(text), "each token was penalized once it was there"
    assert seen == [PROMPTS[0] + text[:k] for k in range(8)]
    penalized = partial(models.repetition_penalty, penalty=5.0)
    steps = list(generate(model, PROMPTS, max_new=8, processors=[penalized]))
    for k, prompt in enumerate(PROMPTS):
        assert [step[k] for step in steps] == alone(model, prompt, processors=[penalized], cache=False)


def score(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> float:
    """The mean log-probability of the tokens after a prompt."""
    logits = model(IntTensor[NumPy].from_data([[*prompt, *tokens]])).log_softmax(-1).to_numpy()[0]
    places = range(len(prompt) - 1, len(prompt) + len(tokens) - 1)
    return float(np.mean([logits[place, token] for place, token in zip(places, tokens, strict=True)]))


def test_beams_are_sorted_scored_and_no_worse_than_greedy() -> None:
    model = small.llama()
    for prompt in PROMPTS:
        (greedy,) = beam_search(model, prompt, max_new=6, beams=1)
        assert list(greedy.tokens) == alone(model, prompt, max_new=6)
        found = beam_search(model, prompt, max_new=6, beams=4)
        assert [beam.score for beam in found] == sorted((beam.score for beam in found), reverse=True)
        assert len({beam.tokens for beam in found}) == 4
        for beam in found:
            assert beam.score == pytest.approx(score(model, prompt, beam.tokens), rel=1e-4)
        assert len(beam_search(model, prompt, max_new=6, beams=60)) == 60, "more beams than tokens"
    every = beam_search(model, [7], max_new=2, beams=50 * 50)
    assert len(every) == 50 * 50
    assert every[0].score == pytest.approx(max(beam.score for beam in every))


@every_row(
    "tokens, settings, error, message",
    [
        ([], {}, ArgumentError, "a prompt without tokens; begin with at least one"),
        ([[1], []], {}, ArgumentError, "prompt 1 without tokens"),
        (
            [3, 50],
            {},
            ArgumentError,
            "the token 50, and Gpt2 has a vocabulary of 50; the tokenizer is of another model",
        ),
        ([3, -1], {}, ArgumentError, "the token -1, and"),
        (
            [1] * 30,
            {"max_new": 3},
            ArgumentError,
            "a prompt of 30 tokens and max_new=3, and Gpt2 has room for 32 in all",
        ),
        ([1], {"max_new": 0}, ArgumentError, "max_new=0; expected a positive int"),
        ("text", {}, KindError, "takes a list of tokens"),
        ([1], {"stop": "</s>"}, ArgumentError, "the stop '<', which is not an int"),
        ([1], {"stop": 1.0}, ArgumentError, "the stop 1.0"),
        ([1.5], {}, KindError, "takes a list of tokens"),
        (IntTensor[NumPy].from_data([1, 2]), {}, ShapeError, r"shape \(2,\); expected \(N, T\), or tokens\.tolist\(\)"),
    ],
)
def test_mistakes_are_explained_before_anything_is_computed(
    tokens: Any, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        alone(small.gpt2(), tokens, **settings)


def columns(logits: Tensor[Any]) -> IntTensor[Any]:
    """A sampler whose result has the wrong shape."""
    return logits.argmax(dim=-1, keepdim=True)


def test_models_that_cannot_generate_are_explained() -> None:
    with pytest.raises(ModuleError, match=r"records a graph; pass model\.valid\(\)"):
        generate(small.gpt2(Autodiff[NumPy]), [1], max_new=2)
    assert len(list(generate(small.gpt2(Autodiff[NumPy]).valid(), [1], max_new=2))) == 2
    with pytest.raises(KindError, match=r"takes a language model of burnpy\.models, got a Bert"):
        beam_search(small.bert(), [1], max_new=2, beams=2)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ShapeError, match=r"got \(1, 1\) from the sampler, expected an IntTensor of shape \(1,\)"):
        alone(small.gpt2(), [1], sampler=columns)


@every_row(
    "call, message",
    [
        (lambda: sampling(temperature=0.0), "temperature=0.0; expected a number above 0"),
        (lambda: sampling(top_k=0), "top_k=0; expected a positive int"),
        (lambda: sampling(top_p=1.5), "top_p=1.5; expected a number above 0 and at most 1"),
        (lambda: sampling(min_p=0.0), "min_p=0.0; expected a number above 0 and at most 1"),
        (
            lambda: models.keep_top_k(Tensor[NumPy].ones((1, 0)), 1),
            r"takes logits of shape \(…, vocabulary\), got \(1, 0\)",
        ),
        (
            lambda: models.repetition_penalty(Tensor[NumPy].ones((2, 3)), IntTensor[NumPy].zeros((1, 2)), 1.1),
            r"logits \(N, vocabulary\) and tokens \(N, T\), got \(2, 3\) and \(1, 2\)",
        ),
    ],
)
def test_settings_of_samplers_are_checked(call: Any, message: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=message):
        call()


@pytest.mark.parametrize("step", ["plan", 3, []])
def test_a_step_is_a_compiled_one(step: Any) -> None:
    with pytest.raises(ArgumentError, match=r"generate\(\) got step=.*; pass compiled_step\(\), for a cache"):
        generate(small.gpt2(), [1], max_new=2, step=step)
