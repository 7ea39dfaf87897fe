"""Random number generators: one for each device and thread by default, or passed explicitly.

All randomness comes from a `Generator`. Functions that draw random numbers take ``generator=``; without it, they use
`default_generator` of their device. The thread that called `manual_seed` (before that, the main thread) owns the
device's root generator; every other thread gets a child of it at its first draw, so that threads neither wait for nor
repeat each other. No lock is held while numbers are drawn. `states` and `replayed` draw the same numbers again, where a
function is recomputed.
"""

from __future__ import annotations

import collections.abc as containers
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from operator import index
from typing import Any, NamedTuple, final

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import DTYPES
from burnpy.backend.errors import ArgumentError, RecordingError, ShapeError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.creation import Factory, Size, factory_shape
from burnpy.tensor.levels import drawing_device
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B


@final
class Generator:
    """A source of random numbers, which can be saved, restored and split.

    Args:
        seed: a non-negative int that determines all numbers; None for a seed from the operating system.

    Raises:
        ArgumentError: the seed is not a non-negative int.

    >>> draw = lambda: Tensor[NumPy].uniform((2,), generator=Generator(0)).tolist()
    >>> draw() == draw()
    True
    """

    __slots__ = ("_numpy",)

    _numpy: np.random.Generator

    @explained
    def __init__(self, seed: int | None = None) -> None:
        self._numpy = np.random.Generator(np.random.PCG64(_checked_seed(seed, "Generator()")))

    @explained
    def spawn(self, n: int) -> list[Generator]:
        """Return a list of ``n`` new generators, independent of this one and of each other, for threads or processes.

        Raises:
            ArgumentError: ``n`` is negative.

        >>> len(Generator(0).spawn(3))
        3
        """
        if n < 0:
            raise ArgumentError(f"spawn() got {n} generators; ask for 0 or more")
        return [_from_numpy(child) for child in self._numpy.spawn(n)]

    def get_state(self) -> dict[str, Any]:
        """Return the state as a dict of plain values, which can be pickled or written as JSON."""
        bits = self._numpy.bit_generator
        seeds: Any = bits.seed_seq
        entropy = seeds.entropy
        return {
            "bits": dict(bits.state),
            "entropy": entropy if isinstance(entropy, int) else list(map(int, entropy)),
            "spawn_key": list(map(int, seeds.spawn_key)),
            "spawned": int(seeds.n_children_spawned),
        }

    def set_state(self, state: containers.Mapping[str, Any]) -> None:
        """Restore a state that `get_state` returned: the same numbers and the same children follow.

        Raises:
            ArgumentError: ``state`` was not returned by `get_state`.

        >>> g = Generator()
        >>> state = g.get_state()
        >>> a = g.spawn(1)[0].get_state()
        >>> g.set_state(state)
        >>> g.spawn(1)[0].get_state() == a
        True
        """
        try:
            seeds = np.random.SeedSequence(
                state["entropy"], spawn_key=tuple(state["spawn_key"]), n_children_spawned=state["spawned"]
            )
            bits = np.random.PCG64(seeds)
            bits.state = state["bits"]
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ArgumentError(f"set_state() got {describe(state)}, expected the result of get_state()") from error
        self._numpy = np.random.Generator(bits)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_state, (self.get_state(),)

    def __repr__(self) -> str:
        seeds: Any = self._numpy.bit_generator.seed_seq
        return f"Generator(seed={seeds.entropy}, spawn_key={seeds.spawn_key})"


def _from_numpy(generator: np.random.Generator) -> Generator:
    out = Generator.__new__(Generator)
    out._numpy = generator
    return out


def _from_state(state: dict[str, Any]) -> Generator:
    out = Generator.__new__(Generator)
    out.set_state(state)
    return out


def _checked_seed(seed: Any, operation: str) -> int | None:
    if seed is None:
        return None
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"{operation} got the seed {describe(seed)}; a seed is a non-negative int")
    return number


class _Seeding:
    """The result of one `manual_seed` call: the root generator of each device, and the thread that owns them."""

    __slots__ = ("_lock", "_owner", "_roots", "_seed")

    def __init__(self, seed: int | None, owner: threading.Thread) -> None:
        self._seed, self._owner = seed, owner
        self._roots: dict[Backend, Generator] = {}
        self._lock = threading.RLock()  # reentrant: a signal handler may draw while this thread has the lock

    def generator(self, device: Backend) -> Generator:
        """Create the calling thread's generator for a device."""
        with self._lock:
            root = self._roots.get(device)
            if root is None:
                root = self._roots.setdefault(device, Generator(self._seed))
            return root if threading.current_thread() is self._owner else root.spawn(1)[0]


class _ThreadGenerators(threading.local):
    """The default generators of the calling thread, and the seeding that they came from."""

    seeding: _Seeding | None = None
    generators: dict[Backend, Generator]


recorders: ContextVar[tuple[Any, ...]] = ContextVar("burnpy_recorders", default=())
"""The devices that record compiled functions in this context, the outermost first."""
_seeding = _Seeding(None, threading.main_thread())
_local = _ThreadGenerators()


@explained
def manual_seed(seed: int) -> None:
    """Seed the default generators of all devices, so that the numbers drawn afterwards are reproducible.

    The calling thread draws from a generator with the seed itself, other threads from its children, which are assigned
    in the order of their first draws.

    Raises:
        ArgumentError: the seed is not a non-negative int.

    >>> manual_seed(0)
    >>> a = Tensor[NumPy].normal((3,)).tolist()
    >>> manual_seed(0)
    >>> Tensor[NumPy].normal((3,)).tolist() == a
    True
    """
    global _seeding
    if seed is None:  # pyright: ignore[reportUnnecessaryComparison]  # the type forbids None, which `Generator` would accept
        raise ArgumentError("manual_seed() got None; a seed is a non-negative int")
    _seeding = _Seeding(_checked_seed(seed, "manual_seed()"), threading.current_thread())


def default_generator(device: B | type[B]) -> Generator:
    """Return the generator that the calling thread uses for a device when none is passed.

    `Autodiff[NumPy]` and `NumPy` share one, because the numbers are drawn on the same device.

    >>> default_generator(NumPy) is default_generator(Autodiff[NumPy])
    True
    """
    plain = _beneath_levels(device_of(device))
    while plain.stands_for is not None:
        plain = _beneath_levels(plain.stands_for)
    seeding = _seeding
    if _local.seeding is not seeding:
        _local.seeding, _local.generators = seeding, {}
    generator = _local.generators.get(plain)
    if generator is None:
        generator = _local.generators[plain] = seeding.generator(plain)
    return generator


def _beneath_levels(device: Any) -> Any:
    """Return the device beneath the levels of a device, which draws its random numbers."""
    device = device.discrete
    while device.level:
        device = device.inner.discrete
    return device


def _records(recorder: Any, device: Any) -> bool:
    """Return whether a recorder records the operations on a device: its own, or one outside of it."""
    while device is not recorder and hasattr(device, "inner"):
        if getattr(device, "recorder", None) is recorder:
            return True
        device = device.inner
    return device is recorder


def drawn_from(generator: Generator | None, device: Any, operation: str) -> np.random.Generator:
    """Return the NumPy generator inside of ``generator``, or inside of the default generator for None."""
    if drawing_device(device) is not device:
        raise ArgumentError(
            f"{operation}() cannot draw on {device} for each example of vmap(); call it before, and pass the result to "
            "the function as an argument"
        )
    recording = recorders.get()
    if recording and recording[-1].outer is not None and not _records(recording[-1], device.discrete):
        raise RecordingError(
            f"{operation}() draws on a device from outside of the loop or branch that calls it, and would give the "
            "same numbers in each step; draw on the device of an argument of the function, as with device=x.device"
        )
    if recording and _beneath_levels(device).stands_for is None:
        raise RecordingError(
            f"{operation}() draws on {device}, outside of the compiled function that calls it, and would give the same "
            "numbers in all later calls; draw on the device of an argument, as with device=x.device"
        )
    if generator is None:
        return default_generator(device)._numpy
    if not isinstance(generator, Generator):
        raise ArgumentError(
            f"{operation}() got generator={describe(generator)}; expected a burnpy.Generator, as in burnpy.Generator(0)"
        )
    return generator._numpy


class States(NamedTuple):
    """The state of the calling thread's default generator for each device that it drew from.

    While a device records, its calls that drew take their place, as a draw is computed once in a replay.
    """

    generators: dict[Backend, dict[str, Any]]
    recorder: Any = None
    first: int = 0
    draws: containers.Sequence[Any] = ()


def states() -> States:
    """Return the current states."""
    recording = recorders.get()
    return States({}, recording[-1], len(recording[-1].draws)) if recording else States(_current())


def _current() -> dict[Backend, dict[str, Any]]:
    local = _local
    return {device: g.get_state() for device, g in local.generators.items()} if local.seeding is _seeding else {}


def completed(before: States) -> States:
    """Return ``before``, with the initial states of the generators that the thread has created since then, or draws."""
    if before.recorder is not None:
        return before._replace(draws=before.recorder.draws[before.first :])
    return States({device: _initial_state(state) for device, state in _current().items()} | before.generators)


@contextmanager
def replayed(at: States) -> containers.Generator[None, None, None]:
    """Return a context manager in whose block this thread's default generators start from the states ``at``.

    Afterwards the previous states are restored, and a `manual_seed` within the block is undone.
    """
    global _seeding
    if at.recorder is not None:
        with at.recorder.drawn_again(at.draws):
            yield
        return
    local, seeding = _local, _seeding
    if local.seeding is not seeding:
        local.seeding, local.generators = seeding, {}
    generators_before = local.generators
    before = {device: g.get_state() for device, g in generators_before.items() if device in at.generators}
    local.generators = {device: generators_before.get(device) or Generator(0) for device in at.generators}
    try:
        for device, g in local.generators.items():
            g.set_state(at.generators[device])
        yield
    finally:
        _seeding = local.seeding = seeding
        local.generators = generators_before
        for device, state in before.items():
            generators_before[device].set_state(state)


def _initial_state(state: dict[str, Any]) -> dict[str, Any]:
    seeds = np.random.SeedSequence(state["entropy"], spawn_key=tuple(state["spawn_key"]))
    return {**state, "bits": dict(np.random.PCG64(seeds).state), "spawned": 0}


_INITIAL = """
1 0 1|2 1 1 3|3 1 1 3 1|3 2 1 1 1|4 1 1 1 3 3|4 4 1 3 5 13|5 2 1 1 5 5 17|5 4 1 1 5 5 5|5 7 1 1 7 11 19|5 11 1 1 5 1 1
5 13 1 1 1 3 11|5 14 1 3 5 5 31|6 1 1 3 3 9 7 49|6 13 1 1 1 15 21 21|6 16 1 3 1 13 27 49|6 19 1 1 1 15 7 5
6 22 1 3 1 15 13 25|6 25 1 1 5 5 19 61|7 1 1 3 7 11 23 15 103|7 4 1 3 7 13 13 15 69|7 7 1 1 3 13 7 35 63
7 8 1 3 5 9 1 25 53|7 14 1 3 1 13 9 35 107|7 19 1 3 1 5 27 61 31|7 21 1 1 5 11 19 41 61|7 28 1 3 5 3 3 13 69
7 31 1 1 7 13 1 19 1|7 32 1 3 7 5 13 19 59|7 37 1 1 3 9 25 29 41|7 41 1 3 5 13 23 1 55|7 42 1 3 7 3 13 59 17
7 50 1 3 1 3 5 53 69|7 55 1 1 5 5 23 33 13|7 56 1 1 7 7 1 61 123|7 59 1 1 7 9 13 61 49|7 62 1 3 3 5 3 55 33
8 14 1 3 1 15 31 13 49 245|8 21 1 3 5 15 31 59 63 97|8 22 1 3 1 11 11 11 77 249
"""
"""For each dimension after the first: the degree of its polynomial, the coefficients between the first and the last one
as the bits of a number, and the initial direction numbers."""
MOST_DIMS = 2 + _INITIAL.count("|") + _INITIAL.strip().count("\n")
"""The number of dimensions."""
_BITS = 32
_TABLE_BITS = 10
_TABLE_POINTS = 1 << _TABLE_BITS
"""The number of consecutive points that are computed from one table, and the number of its bits."""


def sobol(cls: Any, shape: Size, start: int, seed: int | None, dtype: Any, device: Any) -> Any:
    """Implement ``Tensor.sobol``."""
    target = Factory(cls, device, "sobol")
    target_dtype, sizes = target.dtype(dtype), factory_shape(shape, target.factory)
    if len(sizes) != 2 or sizes[1] > MOST_DIMS:
        raise ShapeError(
            f"{target.factory}() got shape {sizes}; expected (points, dims), with at most {MOST_DIMS} dims"
        )
    try:
        first = index(start)
    except TypeError:
        first = -1
    if not 0 <= first <= (1 << _BITS) - sizes[0]:
        raise ArgumentError(
            f"{target.factory}() got start={describe(start)} for {sizes[0]} points; expected an int from 0, and "
            f"at most 2**{_BITS} points"
        )
    bits = points(first, *sizes, seed, target.factory)
    kept = min(DTYPES[target_dtype.name].digits, _BITS)  # of a point's bits, so that rounding does not reach 1
    wide = target_dtype if target_dtype.itemsize >= 4 else np.dtype(np.float32)
    values = (bits >> np.uint32(_BITS - kept)).astype(wide) * wide.type(2.0**-kept)
    return target.wrap(target.backend.from_numpy(values.astype(target_dtype, copy=False)))


def points(first: int, count: int, dims: int, seed: int | None, operation: str) -> Any:
    """Return points of shape (count, dims), as uint32 numbers of 1 / 2³²; scrambled, if there is a seed."""
    directions = _directions()[:, :dims]
    shift = np.zeros((dims,), np.uint32)
    if seed is not None:
        directions, shift = _scrambled(directions, _generator(seed, operation))
    order = np.arange(_TABLE_POINTS)
    order ^= order >> 1
    low = _sums(order, directions[:_TABLE_BITS], np.zeros((dims,), np.uint32))
    pair = np.stack((low, low ^ directions[_TABLE_BITS - 1]))  # of blocks with an even and with an odd number
    blocks = np.arange(first >> _TABLE_BITS, ((first + count - 1) >> _TABLE_BITS) + 1)
    out = pair[blocks & 1]
    out ^= _sums(blocks ^ (blocks >> 1), directions[_TABLE_BITS:], shift)[:, None, :]
    skipped = first % _TABLE_POINTS
    return out.reshape(-1, dims)[skipped : skipped + count]


def _sums(chosen: Any, directions: Any, start: Any) -> Any:
    """Return the xor of ``start`` and of the direction numbers whose bits are set in each of the numbers ``chosen``."""
    out = np.broadcast_to(start, (len(chosen), len(start))).copy()
    for bit, numbers in enumerate(directions):
        out ^= ((chosen >> bit) & 1).astype(np.uint32)[:, None] * numbers
    return out


@cache
def _directions() -> Any:
    """Return the direction numbers of all dimensions, of shape (32, `MOST_DIMS`)."""
    out = np.zeros((_BITS, MOST_DIMS), np.uint32)
    out[:, 0] = [1 << (_BITS - 1 - k) for k in range(_BITS)]
    for dim, row in enumerate(_INITIAL.replace("|", "\n").split("\n")[1:-1], 1):
        degree, coefficients, *initial = map(int, row.split())
        numbers = [m << (_BITS - 1 - k) for k, m in enumerate(initial)]
        for k in range(degree, _BITS):
            number = numbers[k - degree] ^ (numbers[k - degree] >> degree)
            for j in range(1, degree):
                if (coefficients >> (degree - 1 - j)) & 1:
                    number ^= numbers[k - j]
            numbers.append(number)
        out[:, dim] = numbers
    out.setflags(write=False)
    return out


def _scrambled(directions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the products of random lower triangular matrices, modulo 2, with direction numbers, and a random shift. A
    dimension has one matrix, whose diagonal is 1, so that each bit depends on itself and on higher ones."""
    dims = directions.shape[1]
    lower = rng.integers(0, 1 << _BITS, (_BITS, dims), np.uint32)
    out = np.zeros_like(directions)
    for row in range(_BITS):  # from the highest bit on
        own = np.uint32(1 << (_BITS - 1 - row))
        higher = np.uint32(((1 << row) - 1) << (_BITS - row))
        parity = np.bitwise_count(directions & ((lower[row] & higher) | own)) & np.uint8(1)
        out |= parity.astype(np.uint32) * own
    return out, rng.integers(0, 1 << _BITS, (dims,), np.uint32)


def _generator(seed: Any, operation: str) -> np.random.Generator:
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"{operation}() got the seed {describe(seed)}; a seed is a non-negative int")
    return np.random.Generator(np.random.PCG64(number))
