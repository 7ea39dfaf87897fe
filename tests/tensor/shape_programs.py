"""Programs that rearrange, join, pad and place elements, for PyTorch, burnpy and, by a second function, NumPy.

They are run by tests/tensor/test_shape_programs.py and tests/parity/test_shape_programs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]


class Program(NamedTuple):
    shapes: tuple[Shape, ...]
    run: Callable[..., Any]  #: of a library (`ints`, `bools`, the functions, `pad`) and tensors of the shapes
    numpy: Callable[..., Any] | None = None  #: the same of arrays; None where PyTorch alone is compared with
    kinds: tuple[str, ...] = ("float", "int", "bool")
    linear: bool = True  #: whether second derivatives are 0 and need no check


NUMBERS = ("float", "int")
PROGRAMS: dict[str, Program] = {}


def _of(*shapes: Shape, kinds: tuple[str, ...] = ("float", "int", "bool"), linear: bool = True) -> Any:
    def add(name: str, run: Callable[..., Any], numpy: Callable[..., Any] | None = None) -> None:
        assert name not in PROGRAMS
        PROGRAMS[name] = Program(shapes, run, numpy, kinds, linear)

    return add


_scalar, _empty, _vector, _matrix, _cube = (_of(s) for s in ((), (0, 3), (5,), (3, 4), (2, 3, 4)))

_cube("ravel", lambda m, x: x.ravel(), np.ravel)
_scalar("ravel 0-d", lambda m, x: x.ravel(), np.ravel)
_empty("ravel empty", lambda m, x: x.ravel(), np.ravel)
_cube("swapaxes", lambda m, x: x.swapaxes(0, -1), lambda a: a.swapaxes(0, -1))
_scalar("swapaxes 0-d", lambda m, x: x.swapaxes(0, -1), lambda a: a)
_matrix("unflatten", lambda m, x: x.unflatten(-1, (2, 2)), lambda a: a.reshape(3, 2, 2))
_matrix("unflatten -1", lambda m, x: x.unflatten(1, (-1, 4)), lambda a: a.reshape(3, 1, 4))
_empty("unflatten empty", lambda m, x: x.unflatten(0, (0, 2)), lambda a: a.reshape(0, 2, 3))
_cube("repeat", lambda m, x: x.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3)))
_vector("repeat leading", lambda m, x: x.repeat((3, 2)), lambda a: np.tile(a, (3, 2)))
_scalar("repeat 0-d", lambda m, x: x.repeat(2), lambda a: np.tile(a, 2))
_matrix("repeat 0", lambda m, x: x.repeat(0, 1), lambda a: np.tile(a, (0, 1)))
_scalar("repeat none", lambda m, x: x.repeat(()), lambda a: a)
_matrix("tile", lambda m, x: x.tile(2), lambda a: np.tile(a, 2))
_matrix("tile more", lambda m, x: x.tile((2, 1, 2)), lambda a: np.tile(a, (2, 1, 2)))
_empty("tile empty", lambda m, x: x.tile(dims=(2, 2)), lambda a: np.tile(a, (2, 2)))
_matrix("repeat_interleave", lambda m, x: x.repeat_interleave(2), lambda a: np.repeat(a, 2))
_matrix("repeat_interleave dim", lambda m, x: x.repeat_interleave(3, dim=-1), lambda a: np.repeat(a, 3, -1))
_matrix(
    "repeat_interleave each",
    lambda m, x: x.repeat_interleave(m.ints([2, 0, 3, 1]), dim=1),
    lambda a: np.repeat(a, [2, 0, 3, 1], 1),
)
_matrix(
    "repeat_interleave size",
    lambda m, x: x.repeat_interleave(m.ints([0, 2, 0]), 0, output_size=2),
    lambda a: np.repeat(a, [0, 2, 0], 0),
)
_vector("repeat_interleave 1", lambda m, x: x.repeat_interleave(m.ints([2])), lambda a: np.repeat(a, 2))
_vector("repeat_interleave 0", lambda m, x: x.repeat_interleave(0), lambda a: np.repeat(a, 0))
_scalar("repeat_interleave 0-d", lambda m, x: x.repeat_interleave(3), lambda a: np.repeat(a, 3))
_empty("repeat_interleave empty", lambda m, x: x.repeat_interleave(m.ints([]), 0), lambda a: a)
for _k in (-1, 0, 1, 2, 7):
    _cube(f"rot90 {_k}", lambda m, x, k=_k: x.rot90(k, (0, 2)), lambda a, k=_k: np.rot90(a, k, (0, 2)))
_matrix("rot90 back", lambda m, x: x.rot90(1, [1, 0]), lambda a: np.rot90(a, 1, (1, 0)))
_cube("narrow", lambda m, x: x.narrow(1, 1, 2), lambda a: a[:, 1:3])
_cube("narrow from the end", lambda m, x: x.narrow(-1, -3, 2), lambda a: a[..., 1:3])
_matrix("narrow nothing", lambda m, x: x.narrow(0, 3, 0), lambda a: a[3:])
_cube("select", lambda m, x: x.select(1, -1), lambda a: a[:, -1])
_vector("select one", lambda m, x: x.select(0, 2), lambda a: a[2])
_vector("tensor_split", lambda m, x: x.tensor_split(3), lambda a: tuple(np.array_split(a, 3)))
_vector("tensor_split many", lambda m, x: x.tensor_split(7), lambda a: tuple(np.array_split(a, 7)))
_cube("tensor_split at", lambda m, x: x.tensor_split((1, 3), -1), lambda a: tuple(np.split(a, [1, 3], -1)))
_vector("tensor_split odd", lambda m, x: x.tensor_split((-2, 1, 9)), lambda a: tuple(np.split(a, [-2, 1, 9])))


def _windows(a: Array, dim: int, size: int, step: int) -> Array:
    from numpy.lib.stride_tricks import sliding_window_view

    return np.moveaxis(np.moveaxis(sliding_window_view(a, size, dim), dim, 0)[::step], 0, dim)


for _d, _n, _s in ((0, 2, 1), (1, 2, 2), (1, 2, 3), (-1, 3, 1), (2, 2, 1), (1, 1, 1)):
    _cube(
        f"unfold {_d}, {_n}, {_s}",
        lambda m, x, d=_d, n=_n, s=_s: x.unfold(d, n, s),
        lambda a, d=_d, n=_n, s=_s: _windows(a, d % 3, n, s),
    )
_scalar("unfold 0-d", lambda m, x: x.unfold(0, 1, 1), lambda a: a.reshape(1))
_vector("unfold 0", lambda m, x: x.unfold(0, 0, 2))
_empty("unfold empty", lambda m, x: x.unfold(1, 2, 1))

for _o in (-9, -2, 0, 1, 9):
    _matrix(f"diagonal {_o}", lambda m, x, o=_o: x.diagonal(o), lambda a, o=_o: np.diagonal(a, o))
    _vector(f"diag_embed {_o}", lambda m, x, o=_o: x.diag_embed(o), lambda a, o=_o: np.diag(a, o))
    _matrix(f"diag {_o}", lambda m, x, o=_o: x.diag(o), lambda a, o=_o: np.diag(a, o))
_cube("diagonal dims", lambda m, x: x.diagonal(1, -1, 0), lambda a: np.diagonal(a, 1, -1, 0))
_empty("diagonal empty", lambda m, x: x.diagonal(), np.diagonal)
_vector("diag", lambda m, x: x.diag(1), lambda a: np.diag(a, 1))
_matrix("diag_embed batch", lambda m, x: x.diag_embed())
_matrix("diag_embed dims", lambda m, x: x.diag_embed(-1, 0, 2))
_empty("diag_embed empty", lambda m, x: x.diag_embed(1))
_of((3, 4), kinds=NUMBERS)("trace", lambda m, x: x.trace(), np.trace)
_of((0, 3), kinds=NUMBERS)("trace empty", lambda m, x: x.trace(), np.trace)

_two, _three = _of((3,), (2,)), _of((3,), (2,), ())
_two("meshgrid", lambda m, x, y: m.meshgrid(x, y, indexing="ij"), lambda a, b: tuple(np.meshgrid(a, b, indexing="ij")))
_three("meshgrid xy", lambda m, *xs: m.meshgrid(*xs, indexing="xy"), lambda *a: tuple(np.meshgrid(*a)))
_two("cartesian_prod", lambda m, x, y: m.cartesian_prod(x, y))
_vector("cartesian_prod of one", lambda m, x: m.cartesian_prod(x), lambda a: a)
_of((2, 3), (2,), (), (1, 0))("block_diag", lambda m, *xs: m.block_diag(*xs))
for _f in ("hstack", "vstack", "dstack"):
    _of((3,), (3,))(f"{_f} vectors", lambda m, *xs, f=_f: getattr(m, f)(xs), lambda *a, f=_f: getattr(np, f)(a))
    _of((), ())(f"{_f} 0-d", lambda m, *xs, f=_f: getattr(m, f)(xs), lambda *a, f=_f: getattr(np, f)(a))
    _of((2, 3), (2, 3))(f"{_f} matrices", lambda m, *xs, f=_f: getattr(m, f)(xs), lambda *a, f=_f: getattr(np, f)(a))
for _f in ("atleast_1d", "atleast_2d", "atleast_3d"):
    _of((), (2,), (2, 3), (1, 2, 3, 1))(
        _f, lambda m, *xs, f=_f: getattr(m, f)(*xs), lambda *a, f=_f: tuple(getattr(np, f)(*a))
    )
    _vector(f"{_f} of one", lambda m, x, f=_f: getattr(m, f)(x), lambda a, f=_f: getattr(np, f)(a))

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
for _mode, _theirs in _MODES.items():
    _cube(
        f"pad {_mode}",
        lambda m, x, mode=_mode: m.pad(x, (2, 3), mode=mode),
        lambda a, mode=_theirs: np.pad(a, ((0, 0), (0, 0), (2, 3)), mode=mode),
    )
    _of((1, 2, 3, 4))(
        f"pad {_mode} of images",
        lambda m, x, mode=_mode: m.pad(x, (1, 0, 2, 1), mode),
        lambda a, mode=_theirs: np.pad(a, ((0, 0), (0, 0), (2, 1), (1, 0)), mode=mode),
    )
    _cube(f"pad {_mode} and cut", lambda m, x, mode=_mode: m.pad(x, (-1, 2), mode))
    _of((0, 3, 4))(f"pad {_mode} of no batch", lambda m, x, mode=_mode: m.pad(x, (1, 1), mode))
_cube("pad", lambda m, x: m.pad(x, (1, 2, 0, 3)), lambda a: np.pad(a, ((0, 0), (0, 3), (1, 2))))
_cube("pad all and cut", lambda m, x: m.pad(x, (-1, 2, 1, -2, -1, -1)))
_scalar("pad 0-d", lambda m, x: m.pad(x, ()), lambda a: a)
_empty("pad empty", lambda m, x: m.pad(x, (0, 0, 1, 1), "constant", True), lambda a: np.ones((2, 3), a.dtype))

_INDEX, _GRID = [2, 0, 2], [[0, 2, 1], [2, 2, 0]]


def _written(a: Array, dim: int, index: Any, src: Any, f: Callable[[Any, Any], Any]) -> Array:
    out = a.copy()
    for k, target in enumerate(index):
        at: Any = (slice(None),) * dim
        out[(*at, target)] = f(out[(*at, target)], src[(*at, k)] if np.ndim(src) else src)
    return out


_matrix("take", lambda m, x: x.take(m.ints([[0, -1], [5, 5]])), lambda a: a.take([[0, -1], [5, 5]]))
_scalar("take 0-d", lambda m, x: x.take(m.ints([0, 0])), lambda a: a.take([0, 0]))
_matrix("take one", lambda m, x: x.take(m.ints(3)), lambda a: a.take(3))
_empty("take nothing", lambda m, x: x.take(m.ints([])), lambda a: np.zeros(0, a.dtype))
_pair = _of((3, 4), (3, 4))
_pair(
    "index_copy",
    lambda m, x, y: x.index_copy(0, m.ints(_INDEX), y),
    lambda a, b: _written(a, 0, _INDEX, b, lambda _, v: v),
)
_of((3, 4), (3, 0))("index_copy nothing", lambda m, x, y: x.index_copy(-1, m.ints([]), y), lambda a, b: a)
_of((), (1,))("index_copy 0-d", lambda m, x, y: x.index_copy(0, m.ints([0]), y), lambda a, b: b[0])
_of((3, 4), (3, 4), kinds=NUMBERS)(
    "index_add",
    lambda m, x, y: x.index_add(0, m.ints(_INDEX), y),
    lambda a, b: _written(a, 0, _INDEX, b, np.add),
)
_of((2, 3), (2, 2), kinds=NUMBERS)(
    "index_add alpha",
    lambda m, x, y: x.index_add(-1, m.ints([1, 1]), y, alpha=3),
    lambda a, b: _written(a, 1, [1, 1], 3 * b, np.add),
)
_matrix(
    "index_fill",
    lambda m, x: x.index_fill(1, m.ints([3, 1, 3]), True),
    lambda a: _written(a, 1, [1, 3], 1, lambda _, v: v),
)
_of((3, 4), ())(
    "index_fill 0-d value",
    lambda m, x, y: x.index_fill(0, m.ints(_INDEX), y),
    lambda a, b: _written(a, 0, _INDEX, b, lambda _, v: v),
)
for _r in ("prod", "mean", "amax", "amin"):
    for _self in (True, False):
        _of((4, 3), (3, 3), kinds=NUMBERS, linear=_r != "prod")(
            f"index_reduce {_r} {_self}",
            lambda m, x, y, r=_r, s=_self: x.index_reduce(0, m.ints(_INDEX), y, r, include_self=s),
        )
for _r in ("sum", "prod", "mean", "amax", "amin"):
    for _self in (True, False):
        _of((3, 4), (2, 3), kinds=NUMBERS, linear=_r != "prod")(
            f"scatter_reduce {_r} {_self}",
            lambda m, x, y, r=_r, s=_self: x.scatter_reduce(0, m.ints(_GRID), y, r, include_self=s),
        )
_of((), (), kinds=NUMBERS)("scatter_reduce 0-d", lambda m, x, y: x.scatter_reduce(0, m.ints([0]), y.reshape(1), "mean"))
_of((3, 4), (0, 3), kinds=NUMBERS)(
    "scatter_reduce nothing",
    lambda m, x, y: x.scatter_reduce(1, m.ints(np.zeros((0, 3))), y, "mean", include_self=False),
)
for _r in ("add", "multiply"):
    _of((3, 4), (2, 3), kinds=NUMBERS, linear=_r == "add")(
        f"scatter {_r}", lambda m, x, y, r=_r: x.scatter(1, m.ints(_GRID), y, reduce=r)
    )
_MASK = np.array([[True, False, True, True], [False] * 4, [True, False, False, True]])
_of((3, 4), (3, 3))(
    "masked_scatter",
    lambda m, x, y: x.masked_scatter(m.bools(_MASK), y),
    lambda a, b: _masked(a, _MASK, b),
)
_of((3, 4), (9,))(
    "masked_scatter broadcast",
    lambda m, x, y: x.masked_scatter(m.bools(_MASK[0]), y),
    lambda a, b: _masked(a, np.broadcast_to(_MASK[0], (3, 4)), b),
)
_of((4,), (9,))("masked_scatter expands", lambda m, x, y: x.masked_scatter(m.bools(_MASK), y))
_of((2,), (0,))("masked_scatter nothing", lambda m, x, y: x.masked_scatter(m.bools([False, False]), y), lambda a, b: a)


def _masked(a: Array, mask: Array, values: Array) -> Array:
    out = a.copy()
    out[mask] = values.ravel()[: mask.sum()]
    return out


def arrays(program: Program, kind: str, dtype: Any = None) -> list[Array]:
    """The arguments of a program in a kind: distinct floats, ints with some equal ones, or bools."""
    rng = np.random.default_rng(11)
    given = []
    for shape in program.shapes:
        values = rng.permutation(int(np.prod(shape))).reshape(shape) + rng.uniform(0.1, 0.6, shape)
        if kind == "float":
            given.append(np.asarray(values - 2.3, dtype or np.float64))
        else:
            given.append(np.asarray(values, np.int64) if kind == "int" else np.asarray(values.astype(int) % 2 == 0))
    return given
