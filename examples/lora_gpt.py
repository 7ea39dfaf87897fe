"""Teach a transformer that writes Python to write its manual, by low-rank adapters: ``python examples/lora_gpt.py``.

The transformer of ``char_gpt.py`` learns from the source of the standard library. Then its linear layers become ints of
8 bits, and adapters with 9 % of its parameters learn from the texts of ``help()``, which are in the standard library,
too. One beginning is continued before and after. Only the adapters are saved, in PEFT's files.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import TypeVar

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import Autodiff, IntTensor, record
from burnpy.backend import Backend, NumPy
from burnpy.nn import add_lora, merge_lora, quantization_error
from burnpy.optim import AdamW, GradientsParams, OneCycleLr, clip_by_global_norm
from char_gpt import BATCH, CONTEXT, Gpt, encoded, mean_loss, show, standard_library, written

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself

START = "The "


def windows(text: npt.NDArray[np.int64], count: int, device: B | type[B], rng: np.random.Generator) -> IntTensor[B]:
    """Return windows of a text that begin anywhere, (count, CONTEXT + 1)."""
    starts = rng.integers(0, len(text) - CONTEXT, (count, 1))
    return IntTensor.from_data(text[starts + np.arange(CONTEXT + 1)], device=device)


def trained(
    model: Gpt[Autodiff[I]], text: npt.NDArray[np.int64], steps: int, rate: float, rng: np.random.Generator
) -> Gpt[Autodiff[I]]:
    """Return the model after some steps on a text. Frozen parameters stay as they are."""
    optim, schedule = AdamW(betas=(0.9, 0.98)), OneCycleLr(rate, max(steps, 2), rising=0.1)
    for step in range(steps):
        loss = mean_loss(model, windows(text, BATCH, model.device, rng))
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 1.0)
        model = optim.step(schedule(step), model, grads)
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, train on code, and tune on the manual."""
    parser = argparse.ArgumentParser(description="Tune a small transformer by low-rank adapters.")
    parser.add_argument("--steps", type=int, default=1300, help="steps on the source of the standard library")
    parser.add_argument("--tune", type=int, default=600, help="steps of the adapters on the manual")
    parser.add_argument("--rank", type=int, default=8, help="rank of the adapters")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, the batches and the samples")
    parser.add_argument("--length", type=int, default=300, help="number of characters per sample")
    options = parser.parse_args(arguments)
    burnpy.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    code, manual = encoded(standard_library()), encoded("".join(topics.values()))
    unseen, manual = np.split(manual, [len(manual) // 20])
    test = windows(unseen, 64, NumPy, rng)

    model = trained(Gpt(Autodiff[NumPy]), code, options.steps, 3e-3, rng)
    print(f"learned from code: loss {mean_loss(model.valid(), test).item():.2f} on the manual. It writes:")
    show(written(model.valid(), START, options.length))

    small = model.quantized("int8")
    error = quantization_error(model.valid(), small.valid(), test[:, :-1])
    print(f"weights of 8 bits: loss {mean_loss(small.valid(), test).item():.2f}, {error.relative:.1%} error of logits")

    adapted = add_lora(small, rank=options.rank, alpha=2.0 * options.rank)
    count = sum(param.numel() for param in adapted.params() if not param.frozen)
    adapted = trained(adapted, manual, options.tune, 1e-2, rng)
    print(f"tuned {count:,} of {model.num_params:,}: loss {mean_loss(adapted.valid(), test).item():.2f}. It writes:")
    show(written(adapted.valid(), START, options.length))

    with tempfile.TemporaryDirectory() as folder:
        record.to_peft(adapted, folder)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        again = merge_lora(record.from_peft(small, folder))
    print(f"saved in {size / 1e3:.0f} kB; loaded and merged: loss {mean_loss(again.valid(), test).item():.2f}")


if __name__ == "__main__":
    main()
