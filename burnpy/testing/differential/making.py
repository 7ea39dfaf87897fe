"""Makes samples from a seed: chooses operations and building blocks, and values and shapes of their arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float64
from burnpy.backend.errors import BurnpyError
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.blocks import BLOCKS, Block
from burnpy.testing.cases.samples import Array, ByDType, ByKind, CaseDType, Mask
from burnpy.testing.cases.samples import Sample as Description
from burnpy.testing.differential.calls import Applied, Constant, Named, Ref, operation, refs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.entries import Operation
from burnpy.testing.differential.samples import Sample, Step, reference_device

LARGEST = 1500
"""The number of elements of a value above which a step is not taken."""
COSTLY = 400
"""The operations of an element, as the schema counts them, from which on an operation is chosen less often."""
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, 1e-3, -30.0, 30.0, -200.0, 1e5, math.inf, -math.inf, math.nan)
WIDE = (0.0, -0.0, 1e-30, -1e-30, 1e-8, 1.0, 1.0, 8.0, -8.0, 19.5, 30.0, -30.0, 200.0, -200.0, 1e3, 1e3, -1e3, -1e3)
"""Numbers at which functions saturate, underflow and overflow, and ties."""
MODES = {"smooth": 0.52, "ties": 0.11, "special": 0.09, "graded": 0.1, "wide": 0.18}
"""The kinds of numbers, with the share of the samples that have them, of those without an offset."""
LAYOUTS = 0.2
"""The share of the samples that move elements more often, as plans compute permuted values where they lie."""
_SHAPES = (0.25, 0.2, 0.12, 0.12, 0.06, 0.13, 0.04, 0.04, 0.04)
_LAYOUT_SHAPES = (0.25, 0.25, 0.0, 0.4, 0.0, 0.1, 0.0, 0.0, 0.0)
OFFSET = 6
"""One sample in so many has numbers with a large offset, and an operation along dims first, each in turn."""


class Maker:
    """A generator of samples.

    Args:
        seed: the seed.
        entries: operations and building blocks by name; None for all.
        blocks: building blocks of the caller's own, besides those of burnpy.
    """

    def __init__(self, seed: int, entries: Sequence[str] | None = None, blocks: Sequence[Block] = ()) -> None:
        self.seed = seed
        self.blocks: Mapping[str, Block] = BLOCKS | {block.name: block for block in blocks}
        rows = [n for n in ROWS if entries is None or n in entries]
        self.elementwise = [n for n in rows if operation(n).elementwise and "float" in ROWS[n].kinds]
        self.along = [n for n in rows if _along(operation(n)) and "float" in ROWS[n].kinds]
        self.general = [n for n in rows if operation(n).arguments and any(a.kind for a in operation(n).arguments)]
        self.moved = [n for n in rows if n in _MOVED]
        self.composed = [n for n in self.blocks if entries is None or n in entries]
        of_kind = {
            kind: [n for n in self.composed if self.blocks[n].kind == kind]
            for kind in sorted({b.kind for b in self.blocks.values()})
        }
        self.kinds = [names for names in of_kind.values() if names]
        self.turns = [str(n) for n in np.random.default_rng(seed).permutation(self.along)]
        own = [block.name for block in blocks]
        self.groups = [
            (g, w)
            for g, w in (
                (self.elementwise, 0.28),
                (self.along, 0.2),
                (self.general, 0.24),
                (self.moved, 0.08),
                (self.composed, 0.28),
                (own, 0.3),
            )
            if g
        ]

    def sample(self, number: int) -> Sample:
        """Return the sample of a number; it depends on the seed and the number alone."""
        turn, rest = divmod(number, OFFSET)
        first = self.turns[turn % len(self.turns)] if self.turns and not rest else None
        return _Making(self, np.random.default_rng([self.seed, number]), first).sample()


def _along(op: Operation) -> bool:
    """Return whether an operation takes one float along a dim, or along dims."""
    kinds = [a for a in op.arguments if a.kind]
    return (
        len(kinds) == 1
        and kinds[0].floats
        and not kinds[0].sequence
        and any(a.role in ("Dim", "Dims") for a in op.arguments)
    )


def _order(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([int(dim) for dim in rng.permutation(len(shape))])


def _part(rng: np.random.Generator, size: int) -> slice:
    start = int(rng.integers(0, max(size, 1)))
    return slice(start, int(rng.integers(start, size + 1)), int(rng.integers(1, 3)))


_MOVED: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "permute": _order,
    "mT": lambda rng, shape: (),
    "flip": lambda rng, shape: _order(rng, shape)[: int(rng.integers(1, len(shape) + 1))],
    "slice": lambda rng, shape: tuple([_part(rng, n) if rng.random() < 0.5 else slice(0, n, 1) for n in shape]),
    "reshape": lambda rng, shape: tuple([shape[dim] for dim in _order(rng, shape)]) if rng.random() < 0.6 else (-1,),
    "expand": lambda rng, shape: (2, *shape),
    "cat": lambda rng, shape: int(rng.integers(len(shape))),
}
"""Operations that move the elements of any value, and their second argument for a shape."""


class _Making:
    """The state in which one sample is made: of numbers with an offset, if an operation is to be the first step."""

    def __init__(self, maker: Maker, rng: np.random.Generator, first: str | None) -> None:
        self.maker, self.rng, self.first = maker, rng, first
        self.mode = "offset" if first else str(rng.choice(list(MODES), p=list(MODES.values())))
        self.layouts = self.rng.random() < LAYOUTS
        self.infinite = self.mode == "special" or (self.mode == "wide" and rng.random() < 0.3)
        self.steps: list[Step] = []
        self.values: list[Any] = []
        self.narrow = self.rough = False

    def sample(self) -> Sample:
        shapes = self._shapes()
        while self.first and math.prod(shapes[0]) < 2:  # an offset shows in differences of elements
            shapes = self._shapes()
        inputs = [self._array(shape) for shape in shapes]
        self.values = [Tensor.from_data(x, device=reference_device()) for x in inputs]
        wanted = self._wanted()
        if self.first:
            self._take(self.first, self.maker.along)
        firsts = [n for n in range(len(inputs), len(self.values)) if self.values[n].kind == "float"]
        for _ in range(6 * wanted):
            if len(self.steps) >= wanted:
                break
            group = self._group()
            self._take(self._named(group), group)
        chosen = self._results(len(inputs), firsts)
        return Sample(tuple(inputs), tuple(self.steps), chosen, self.narrow, self.rough)._pruned(chosen)

    def _wanted(self) -> int:
        """Choose the number of steps: few after a first one, whose loss they may hide, and many that move elements."""
        if self.layouts and not self.first:
            return int(self.rng.integers(6, 17))
        wanted = int(self.rng.integers(2, 13)) if self.rng.random() < (0.3 if self.first else 0.7) else 2
        return 1 if self.first and self.rng.random() < 0.6 else wanted

    def _group(self) -> Sequence[str]:
        """Choose a group of operations."""
        groups = [group for group, _ in self.maker.groups]
        weights = np.array([w for _, w in self.maker.groups])
        if self.mode == "wide":  # densities, losses and solvers have most to lose
            weights[[k for k, group in enumerate(groups) if group is self.maker.composed]] *= 2.5
        if self.layouts:
            weights[[k for k, group in enumerate(groups) if group is self.maker.moved]] *= 10.0
        return groups[int(self.rng.choice(len(groups), p=weights / weights.sum()))]

    def _results(self, inputs: int, firsts: Sequence[int]) -> tuple[int, ...]:
        """Choose the results among the values that no step reads, and one of ``firsts``; at least one is a float."""
        read = {n for step in self.steps for n in refs(step.args)}
        ends = [n for n in range(inputs, len(self.values)) if n not in read]
        floats = [n for n in ends if self.values[n].kind == "float"]
        chosen = floats[-3:] + [n for n in ends if n not in floats][-1:]
        chosen = [n for n in firsts if n not in chosen][:1] + chosen or [len(self.values) - 1]
        if not any(self.values[n].kind == "float" for n in chosen):
            chosen.insert(0, max(n for n, v in enumerate(self.values) if v.kind == "float"))
        return tuple(chosen)

    def _named(self, group: Sequence[str]) -> str:
        """Choose an operation of a group; one in eight of the very slow ones, which take hundreds of times as long."""
        if group is self.maker.composed:
            group = self.maker.kinds[int(self.rng.integers(len(self.maker.kinds)))]
        name = str(self.rng.choice(group))
        costly = name in ROWS and isinstance(counts := operation(name).counts, int) and counts > COSTLY
        return self._named(group) if costly and self.rng.random() < 0.875 else name

    def _shapes(self) -> list[tuple[int, ...]]:
        n, m, p = (int(k) for k in self.rng.integers(1, 5, 3))
        base: tuple[int, ...] = [(n, n), (n, m), (n,), (n, m, p), (), (3, 3), (0, m), (n, 0), (1, n)][
            int(self.rng.choice(9, p=_LAYOUT_SHAPES if self.layouts else _SHAPES))
        ]
        more = [base, base[-1:], (*base[-2:-1], 1), (), (1,) * len(base), base]
        return [base, *[more[int(self.rng.integers(len(more)))] for _ in range(int(self.rng.integers(0, 3)))]]

    def _array(self, shape: tuple[int, ...]) -> NDArray[Any]:
        rng, uniform = self.rng, self.rng.uniform(-2.0, 2.0, shape).round(3)
        if self.mode == "ties":
            return np.asarray(rng.integers(-2, 3, shape), float64)
        if self.mode == "special":
            return np.asarray(np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), uniform))
        if self.mode == "wide":
            numbers = (*WIDE, math.inf, -math.inf) if self.infinite else WIDE
            return np.asarray(np.where(rng.random(shape) < 0.6, rng.choice(numbers, shape), uniform))
        if self.mode == "graded":
            return np.asarray(uniform * 10.0 ** rng.integers(-4, 5, shape))
        if self.mode == "offset":
            return np.asarray(uniform + 10.0 ** rng.integers(2, 9))
        return np.asarray(uniform)

    def _take(self, name: str, group: Sequence[str]) -> None:
        """Add a step, unless its arguments are invalid or its results too large."""
        block = self.maker.blocks[name] if group is self.maker.composed or name not in ROWS else None
        with np.errstate(all="ignore"):
            try:
                args = self._arguments(name, block, group)
                step = Step(name, args, 1, block)
                found = step.of(self.values, self.values[0])
            except (
                BurnpyError,
                ValueError,
                TypeError,
                IndexError,
                ArithmeticError,
                AttributeError,
                NotImplementedError,
            ):
                return
        if not found or not all(isinstance(x, TensorBase) and math.prod(x.shape) <= LARGEST for x in found):
            return
        floats = [x.to_numpy() for x in found if x.kind == "float"]
        if any(x.dtype.itemsize < 4 for x in floats):
            return
        if not self.infinite and not all(np.isfinite(x).all() and (abs(x) < 1e12).all() for x in floats):
            return
        if any(x.dtype.itemsize < 8 for x in floats):
            self.narrow = True
        self.steps.append(replace(step, results=len(found)))
        self.values += found

    def _arguments(self, name: str, block: Block | None, group: Sequence[str]) -> tuple[Any, ...]:
        if block is not None:
            number = int(self.rng.integers(len(block.examples)))
            example = block.examples[number]
            where = f'BLOCKS["{name}"].examples[{number}]'
            return tuple(self._argument(a, f"{where}[{k}]", block.any_shape) for k, a in enumerate(example))
        row = ROWS[name]
        if group is self.maker.elementwise:
            return self._elementwise(row)
        if group is self.maker.moved:
            return self._moved(name)
        label = str(self.rng.choice(list(row.examples)))
        example = row.examples[label]
        if group is self.maker.along:
            return self._along(row.operation, example)
        rough = row.gradients and not row.smooth(example)
        where = f"ROWS[{name!r}].examples[{label!r}]"
        places = zip(example, row.operation.arguments, strict=False)
        self.rough |= rough
        return tuple(self._argument(a, f"{where}[{k}]", kind=d.kind) for k, (a, d) in enumerate(places))

    def _value(self, kind: str = "float", ndim: int = 0) -> Ref | None:
        """Choose a value, a late one more often."""
        numbers = [n for n, v in enumerate(self.values) if v.kind == kind and len(v.shape) >= ndim]
        if not numbers:
            return None
        weights = np.arange(1.0, len(numbers) + 1)
        return Ref(int(self.rng.choice(numbers, p=weights / weights.sum())))

    def _elementwise(self, row: Any) -> tuple[Any, ...]:
        args: list[Any] = []
        example = next(iter(row.examples.values()))
        shape: tuple[int, ...] | None = None
        for a, declared in zip(example, row.operation.arguments, strict=False):
            if not declared.kind:
                args.append(a)
                continue
            if declared.scalar and self.rng.random() < 0.15:
                args.append(
                    round(float(self.rng.uniform(max(getattr(a, "low", -2), -4), min(getattr(a, "high", 2), 4))), 2)
                )
                continue
            kind = {"Int": "int", "Bool": "bool", "Discrete": "int"}.get(declared.kind, "float")
            ref = self._value(kind)
            if ref is None:
                base = self.values[0].shape
                args.append(
                    Constant(
                        a.array(np.dtype(np.bool_ if kind == "bool" else np.int64), 0)
                        if not base
                        else self.rng.integers(0, 2, base).astype(np.bool_ if kind == "bool" else np.int64)
                    )
                )
                continue
            if shape is not None:
                ref = self._beside(shape, ref, kind)
            shape = self.values[ref.number].shape if shape is None else shape
            tame = isinstance(a, Array) and (a.low, a.high) != (-2.0, 2.0) and self.rng.random() < 0.8
            args.append(Applied("within", (ref, a.low, a.high)) if tame else ref)
        return tuple(args)

    def _beside(self, shape: tuple[int, ...], ref: Ref, kind: str) -> Ref:
        """Choose a value that broadcasts with a shape, and often one of another shape, such as a reduction's."""
        refs = [r for r in [ref, *[self._value(kind) for _ in range(4)]] if r]
        refs = [r for r in refs if _broadcast(shape, self.values[r.number].shape)]
        if self.rng.random() < 0.5:
            refs.sort(key=lambda r: self.values[r.number].shape in (shape, ()))
        return refs[0] if refs else ref

    def _moved(self, name: str) -> tuple[Any, ...]:
        ref = self._value(ndim=1) or Ref(0)
        shape = self.values[ref.number].shape
        given = _MOVED[name](self.rng, shape)
        if name == "cat":
            alike = [n for n, v in enumerate(self.values) if v.kind == "float" and v.shape == shape]
            return [ref, Ref(int(self.rng.choice(alike)))], given
        return (ref,) if name == "mT" else (ref, given)

    def _along(self, op: Operation, example: Sequence[Any]) -> tuple[Any, ...]:
        ref = self._value(ndim=1) or Ref(0)
        ndim = len(self.values[ref.number].shape)
        args: list[Any] = []
        for a, declared in zip(example, op.arguments, strict=False):
            if declared.kind:
                args.append(ref)
            elif declared.role == "Dim":
                long = [d for d, n in enumerate(self.values[ref.number].shape) if n > 1]
                args.append(int(self.rng.choice(long if long and self.first else range(ndim))))
            elif declared.role == "Dims":
                count = int(self.rng.integers(1, ndim + 1))
                args.append(tuple(sorted(int(d) for d in self.rng.choice(ndim, count, replace=False))))
            elif declared.name == "k":  # of topk and kthvalue
                most = self.values[ref.number].shape[args[1]]
                args.append(int(self.rng.integers(min(most, int(op.name.startswith("kthvalue"))), most + 1)))
            else:
                args.append(a)
        return tuple(args)

    def _argument(self, a: Any, source: str, any_shape: bool = False, kind: str | None = None) -> Any:
        if isinstance(a, list):
            return [self._argument(x, f"{source}[{k}]", any_shape) for k, x in enumerate(a)]
        if isinstance(a, Description):
            return self._varied(a, source, any_shape, kind)
        if isinstance(a, (ByKind, ByDType, CaseDType)) or callable(a):
            return Named(a, source)
        return a

    def _varied(self, a: Description, source: str, any_shape: bool, kind: str | None) -> Any:
        """Return an argument that depends on an earlier value, or a constant as in the example."""
        dtype = (
            np.dtype(np.int64)
            if kind in ("Int", "Discrete")
            else np.dtype(np.bool_)
            if isinstance(a, Mask)
            else float64
        )
        seed = int(self.rng.integers(3))
        array = a.array(dtype, seed)
        given = Constant(array, f'{source}.array(np.dtype("{dtype}"), {seed})')
        if dtype is not float64:
            return given
        ref = self._value()
        if array.size > LARGEST:
            raise ValueError("too large")
        if not isinstance(a, Array) or ref is None or self.rng.random() < 0.2:
            return given
        shape = self.values[ref.number].shape
        value: Any = ref
        if any_shape:
            shape = array.shape if len(shape) < len(array.shape) else shape
        else:
            shape = array.shape
        if not any_shape or shape != self.values[ref.number].shape:
            if math.prod(self.values[ref.number].shape) == 0 and shape != self.values[ref.number].shape:
                return given
            value = Applied("fitted", (ref, *shape))
        if type(a).array is not Array.array and array.shape == shape:
            return Applied("described", (Named(a, source), Applied("near", (array, value))))
        usual = 0.9 if self.mode == "wide" else 0.6
        raw = self.rng.random() < (usual if (a.low, a.high) == (-2.0, 2.0) else 0.1)
        return value if raw else Applied("within", (value, a.low, a.high))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))
