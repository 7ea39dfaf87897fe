"""Small programs that run in burnpy and in PyTorch: operations on matrices of one shape, written once for both.

Tensors of the two are named alike, so that most steps are one lambda. Every step takes one, two or three matrices of
`SHAPE` to one, stays away from kinks and keeps numbers small, so that programs of many steps are well conditioned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import burnpy
from burnpy import BoolTensor, IntTensor
from burnpy.backend import NumPy

SHAPE = (3, 4)
MASK = np.array([[True, False, True, False], [False, True, True, False], [True, True, False, False]])
COLUMNS = np.array([3, 0, 0, 2])  # one of them twice, one never
PICKED = np.array([[0, 3, 3, 1], [2, 2, 2, 2], [1, 0, 3, 0]])


class Ours:
    """What a step needs besides methods of tensors, from burnpy."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.cat, self.stack, self.where, self.maximum = burnpy.cat, burnpy.stack, burnpy.where, burnpy.maximum
        self.mask = BoolTensor[NumPy].from_data(MASK).to_device(device)
        self.columns = IntTensor[NumPy].from_data(COLUMNS).to_device(device)
        self.picked = IntTensor[NumPy].from_data(PICKED).to_device(device)

    def gelu(self, x: Any) -> Any:
        return x.gelu()

    def softplus(self, x: Any) -> Any:
        return x.softplus()

    def silu(self, x: Any) -> Any:
        return x.silu()

    def put(self, x: Any, y: Any) -> Any:
        return x.at[:, 1].set(y[:, 2])

    def put_add(self, x: Any, y: Any) -> Any:
        return x.at[0].add(y[2])

    def mse_loss(self, x: Any, y: Any) -> Any:
        return burnpy.mse_loss(x, y)


class Theirs:
    """The same, from PyTorch."""

    def __init__(self, torch: Any) -> None:
        self.cat, self.stack, self.where, self.maximum = torch.cat, torch.stack, torch.where, torch.maximum
        self.mask, self.columns, self.picked = (torch.from_numpy(a) for a in (MASK, COLUMNS, PICKED))
        functional = torch.nn.functional
        self.gelu, self.softplus, self.silu = functional.gelu, functional.softplus, functional.silu
        self.mse_loss = functional.mse_loss

    def put(self, x: Any, y: Any) -> Any:
        out = x.clone()
        out[:, 1] = y[:, 2]
        return out

    def put_add(self, x: Any, y: Any) -> Any:
        out = x.clone()
        out[0] += y[2]
        return out


@dataclass(frozen=True)
class Step:
    """One operation: how many matrices it takes, and what it does to them, given one of the classes above."""

    name: str
    arity: int
    run: Callable[..., Any]


def _steps(arity: int, **runs: Callable[..., Any]) -> list[Step]:
    return [Step(name, arity, run) for name, run in runs.items()]


STEPS = [
    *_steps(
        1,
        sin=lambda lib, x: x.sin(),
        cos=lambda lib, x: x.cos(),
        tanh=lambda lib, x: x.tanh(),
        exp=lambda lib, x: x.tanh().exp(),
        expm1=lambda lib, x: x.tanh().expm1(),
        log=lambda lib, x: (x * x + 1.5).log(),
        log1p=lambda lib, x: (x * x).log1p(),
        sqrt=lambda lib, x: (x * x + 1.0).sqrt(),
        rsqrt=lambda lib, x: (x.square() + 0.5).rsqrt(),
        reciprocal=lambda lib, x: (x.exp() + 1.0).reciprocal(),
        sigmoid=lambda lib, x: x.sigmoid(),
        erf=lambda lib, x: x.erf(),
        relu=lambda lib, x: (x + 0.01).relu() + 0.1 * x,
        abs=lambda lib, x: x.abs() - 0.5 * x,
        clamp=lambda lib, x: x.clamp(-0.71, 0.83) + 0.3 * x,
        gelu=lambda lib, x: lib.gelu(x),
        silu=lambda lib, x: lib.silu(x),
        softplus=lambda lib, x: lib.softplus(x),
        cube=lambda lib, x: x.tanh() ** 3,
        root=lambda lib, x: (x * x + 1.0) ** 0.25,
        power_of_two=lambda lib, x: 2.0 ** x.tanh(),
        negated=lambda lib, x: 1.0 - x,
        divided=lambda lib, x: 1.0 / (2.0 + x.sin()),
        softmax=lambda lib, x: x.softmax(1) + 0.5 * x,
        log_softmax=lambda lib, x: 0.3 * x.log_softmax(0),
        logsumexp=lambda lib, x: x - x.logsumexp(1, keepdim=True),
        mean=lambda lib, x: x - x.mean(0, keepdim=True),
        mean_of_all=lambda lib, x: x * x.mean(),
        sums=lambda lib, x: 0.3 * (x.sum(1, keepdim=True) + x.sum(0)),
        variance=lambda lib, x: x * (x.var(1, keepdim=True) + 1.0).rsqrt(),
        standardised=lambda lib, x: x / (x.std(0, keepdim=True, correction=0) + 1.0),
        product=lambda lib, x: 0.5 * x + (1.0 + 0.1 * x.tanh()).prod(1, keepdim=True),
        largest=lambda lib, x: 0.5 * (x + x.amax(1, keepdim=True)),
        largest_of=lambda lib, x: 0.5 * (x - x.max(1, keepdim=True).values),
        smallest_of=lambda lib, x: 0.5 * (x + x.min(0).values),
        cumsum=lambda lib, x: 0.4 * x.cumsum(1),
        flip=lambda lib, x: x.flip(1) - 0.5 * x,
        roll=lambda lib, x: x.roll(1, 1) * 0.9,
        transposed=lambda lib, x: x.transpose(0, 1).reshape(3, 4),
        permuted=lambda lib, x: x.reshape(3, 2, 2).permute(2, 0, 1).reshape(3, 4),
        unsqueezed=lambda lib, x: x.unsqueeze(1).expand(3, 5, 4).sum(1) * 0.2,
        flattened=lambda lib, x: x.flatten()[:4] + x,
        sliced=lambda lib, x: lib.cat([x[:, 2:], x[:, :2]], 1),
        strided=lambda lib, x: lib.cat([x[:, ::2], x[:, 1::2]], 1),
        row=lambda lib, x: x - 0.5 * x[1],
        columns=lambda lib, x: x.index_select(1, lib.columns),
        gathered=lambda lib, x: x.gather(1, lib.picked),
        filled=lambda lib, x: x.masked_fill(lib.mask, 0.25),
        tril=lambda lib, x: x.tril(1) + 0.2 * x,
        split=lambda lib, x: lib.cat([part * (k + 1.0) for k, part in enumerate(x.split([1, 2, 1], 1))], 1) * 0.5,
        detached=lambda lib, x: x * x.detach().cos(),
        looped=lambda lib, x: sum((x * (0.2 * k) for k in range(4)), x * 0.0),
    ),
    *_steps(
        2,
        add=lambda lib, x, y: x + y,
        sub=lambda lib, x, y: x - 0.7 * y,
        mul=lambda lib, x, y: x * y,
        div=lambda lib, x, y: x / (y * y + 1.0),
        pow=lambda lib, x, y: (x * x + 0.5) ** y.tanh(),
        column=lambda lib, x, y: x * y[:, :1],
        outer=lambda lib, x, y: 0.5 * (x[:, :1] * y[:1]),
        gram=lambda lib, x, y: 0.2 * (x @ y.mT @ x),
        vector=lambda lib, x, y: 0.3 * (x @ y[0]).unsqueeze(1) + x,
        batched=lambda lib, x, y: (x.reshape(3, 2, 2) @ y.reshape(3, 2, 2)).reshape(3, 4),
        maximum=lambda lib, x, y: lib.maximum(x, y + 0.013),
        where=lambda lib, x, y: lib.where(lib.mask, x, y),
        compared=lambda lib, x, y: lib.where(x > y, x, 0.5 * y),
        cat=lambda lib, x, y: lib.cat([x[:1], y[1:]], 0),
        stack=lambda lib, x, y: lib.stack([x, y, x], 0).mean(0),
        put=lambda lib, x, y: lib.put(x, y),
        put_add=lambda lib, x, y: lib.put_add(x, y),
        scattered=lambda lib, x, y: 0.5 * x.scatter_add(1, lib.picked, y),
        mse_loss=lambda lib, x, y: x * (1.0 + lib.mse_loss(x, y)),
    ),
    *_steps(
        3,
        affine=lambda lib, x, y, z: 0.3 * (x @ y.mT) @ z + x[0],
        mixture=lambda lib, x, y, z: x.sigmoid() * y + (1.0 - x.sigmoid()) * z,
    ),
]


@dataclass(frozen=True)
class Program:
    """Steps, each with the places of its matrices among the inputs and the results so far; the inputs; the weights
    of the results in the sum that is differentiated; and a direction for second derivatives."""

    steps: tuple[tuple[Step, tuple[int, ...]], ...]
    inputs: tuple[npt.NDArray[np.float64], ...]
    weights: npt.NDArray[np.float64]
    directions: tuple[npt.NDArray[np.float64], ...]

    def run(self, lib: Any, inputs: Any, weights: Any) -> Any:
        """The weighted sum of the last result and, a little, of all others."""
        pool = list(inputs)
        for step, places in self.steps:
            pool.append(step.run(lib, *(pool[k] for k in places)))
        total = (pool[-1] * weights).sum()
        for other in pool[len(inputs) : -1]:
            total = total + 0.1 * other.sum()
        return total


def program(seed: int, length: int, inputs: int = 3, *, first: Step | None = None) -> Program:
    """A random program of ``length`` steps; the caller may fix one."""
    rng = np.random.default_rng(seed)
    steps = []
    for k in range(length):
        step = first if first is not None and k == 0 else STEPS[rng.integers(len(STEPS))]
        newest = [inputs + k - 1] if k else [0]  # a chain, into which inputs and older results come again
        places = newest + [int(p) for p in rng.integers(inputs + k, size=step.arity - 1)]
        steps.append((step, tuple(places)))
    draw = [rng.normal(0.0, 0.7, SHAPE) for _ in range(2 * inputs + 1)]
    return Program(tuple(steps), tuple(draw[:inputs]), draw[-1], tuple(draw[inputs:-1]))
