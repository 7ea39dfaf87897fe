"""Train a small transformer to generate Python, character by character: ``python examples/char_gpt.py``.

The training text is the source of the standard library, which every Python installation includes. After each quarter of
the training a generated sample is printed: first noise, then words, then lines that look like code.
"""

from __future__ import annotations

import argparse
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.nn import Embedding, Linear, Module, Param, TransformerEncoder, init, rebound
from burnpy.optim import AdamW, GradientsParams, Group, OneCycleLr, clip_by_global_norm

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

CONTEXT = 64  # characters of context
SIZE, HEADS, LAYERS = 128, 4, 2
BATCH, LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 8, 3e-3, 0.1, 1.0
HELD_OUT = 0.05  # the share of the text for validation
ALPHABET = "\n\t" + "".join(map(chr, range(32, 127)))


def standard_library() -> str:
    """Return the source of the standard library's top-level modules, in alphabetical order."""
    folder = Path(sysconfig.get_path("stdlib"))
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    return "".join(text for text in texts if text.isascii())


def encoded(text: str) -> npt.NDArray[np.int64]:
    """Return the index of each character in the alphabet, skipping others; a level of indentation is one character."""
    numbers = {character: k for k, character in enumerate(ALPHABET)}
    return np.array([numbers[character] for character in text.replace("    ", "\t") if character in numbers])


def decoded(numbers: Sequence[int]) -> str:
    """Return the text of a sequence of character indices."""
    return "".join(ALPHABET[number] for number in numbers).replace("\t", "    ")


class Gpt(Module[B]):
    """A causal transformer that predicts the logits of the next character at each position."""

    def __init__(self, device: B | type[B]) -> None:
        small = init.Normal(0.0, 0.02)
        self.characters = Embedding(len(ALPHABET), SIZE, device=device, initializer=small)
        self.places = Param(small((CONTEXT, SIZE), device=device))
        self.blocks = TransformerEncoder(
            LAYERS, SIZE, HEADS, feedforward=4 * SIZE, dropout=0.0, norm_first=True, device=device
        )
        self.logits = Linear(SIZE, len(ALPHABET), device=device, initializer=small)

    def forward(self, text: IntTensor[B]) -> Tensor[B]:
        """Map character indices (batch, length) to logits (batch, length, len(ALPHABET)); length is at most CONTEXT."""
        x = self.characters(text) + self.places.value[: text.shape[1]]
        return self.logits(self.blocks(x, causal=True))

    def valid(self: Gpt[Autodiff[I]]) -> Gpt[I]:
        """Return the same model on the inner backend; overridden to give type checkers the class."""
        return rebound(self)


def mean_loss(model: Gpt[B], windows: IntTensor[B]) -> Tensor[B]:
    """Return the cross entropy of a model on windows of text, (batch, CONTEXT + 1), in nats per character."""
    logits = model(windows[:, :-1])
    return burnpy.cross_entropy(logits.reshape(-1, len(ALPHABET)), windows[:, 1:].reshape(-1))


def written(model: Gpt[B], start: str, length: int, temperature: float = 0.6) -> str:
    """Generate text after ``start``, sampling character by character."""
    text = IntTensor.from_data(encoded(start)[None], device=model.device)
    for _ in range(length):
        logits = model(text[:, -CONTEXT:])[:, -1] / temperature
        text = burnpy.cat([text, logits.categorical()[:, None]], dim=1)
    return decoded(text[0].tolist())


def show(text: str) -> None:
    """Print a text with a margin."""
    print("".join(f"  |{line}\n" for line in text.strip("\n").splitlines()), flush=True)


def train(device: Autodiff[I] | type[Autodiff[I]], steps: int, seed: int, length: int) -> None:
    """Train the model and print generated samples."""
    burnpy.manual_seed(seed)
    rng = np.random.default_rng(seed)
    text = encoded(standard_library())
    held_out, learned = np.split(text, [int(HELD_OUT * len(text))])

    def windows(source: npt.NDArray[np.int64], count: int) -> IntTensor[Autodiff[I]]:
        starts = rng.integers(0, len(source) - CONTEXT, (count, 1))
        return IntTensor.from_data(source[starts + np.arange(CONTEXT + 1)], device=device)

    model = Gpt(device)
    optim = AdamW(
        betas=(0.9, 0.98),
        weight_decay=WEIGHT_DECAY,
        groups=[Group(lambda path, param: param.ndim < 2, weight_decay=0.0)],
    )
    schedule = OneCycleLr(LEARNING_RATE, max(steps, 2), rising=0.1)
    test = windows(held_out, 128).inner()
    print(f"{model.num_params:,} parameters, {len(learned):,} characters to learn from, {len(held_out):,} held out")

    begin = time.perf_counter()
    for step in range(steps + 1):
        if step in {k * steps // 4 for k in range(5)}:
            plain = model.valid()
            test_loss, seconds = mean_loss(plain, test).item(), time.perf_counter() - begin
            print(f"step {step}, {seconds:.0f} s: loss {test_loss:.2f} on the text held out. It writes:")
            show(written(plain, "\n    def ", length))
        if step < steps:
            loss = mean_loss(model, windows(learned, BATCH))
            grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), MAX_NORM)
            model = optim.step(schedule(step), model, grads)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a small transformer on the standard library's source.")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the batches and the samples")
    parser.add_argument("--length", type=int, default=240, help="number of characters per sample")
    options = parser.parse_args(arguments)
    train(Autodiff[NumPy], options.steps, options.seed, options.length)


if __name__ == "__main__":
    main()
