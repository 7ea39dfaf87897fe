"""Random number generators: one for each device and thread by default, or passed explicitly.

All randomness comes from a `Generator`. A function that draws takes ``generator=``; without it, it uses
`default_generator` of its device. The thread that called `manual_seed` (before that, the main thread) owns the device's
first generator; every other thread gets a child of it at its first draw, so threads neither wait for nor repeat each
other. No lock is held while numbers are drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from operator import index
from typing import Any, TypeVar, final

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.base import describe

B = TypeVar("B", bound=Backend)


@final
class Generator:
    """A source of random numbers, which can be saved, restored and split.

    Args:
        seed: a non-negative int, from which everything follows; None for one that differs each time.

    Raises:
        ArgumentError: the seed is no such int.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> draw = lambda: Tensor[NumPy].uniform((2,), generator=Generator(0)).tolist()
    >>> draw() == draw()
    True
    """

    __slots__ = ("_numpy",)

    _numpy: np.random.Generator

    def __init__(self, seed: int | None = None) -> None:
        self._numpy = np.random.Generator(np.random.PCG64(_checked(seed, "Generator()")))

    def spawn(self, n: int) -> list[Generator]:
        """``n`` new generators, independent of this one and of each other, for threads or processes.

        Raises:
            ArgumentError: ``n`` is negative.

        >>> len(Generator(0).spawn(3))
        3
        """
        if n < 0:
            raise ArgumentError(f"spawn() was asked for {n} generators; ask for 0 or more")
        return [_around(child) for child in self._numpy.spawn(n)]

    def get_state(self) -> dict[str, Any]:
        """The state as a dict of plain values, which can be pickled or written as JSON."""
        bits = self._numpy.bit_generator
        seeds: Any = bits.seed_seq
        entropy = seeds.entropy
        return {
            "bits": dict(bits.state),
            "entropy": entropy if isinstance(entropy, int) else list(map(int, entropy)),
            "spawn_key": list(map(int, seeds.spawn_key)),
            "spawned": int(seeds.n_children_spawned),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go back to where `get_state` was called: the same numbers and the same children follow.

        Raises:
            ArgumentError: ``state`` is nothing that `get_state` gave.

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
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(f"set_state() was given {describe(state)}, which no get_state() gave") from error
        self._numpy = np.random.Generator(bits)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_state, (self.get_state(),)

    def __repr__(self) -> str:
        seeds: Any = self._numpy.bit_generator.seed_seq
        return f"Generator(seed={seeds.entropy}, spawn_key={seeds.spawn_key})"


def _around(generator: np.random.Generator) -> Generator:
    out = Generator.__new__(Generator)
    out._numpy = generator
    return out


def _from_state(state: dict[str, Any]) -> Generator:
    out = Generator.__new__(Generator)
    out.set_state(state)
    return out


def _checked(seed: Any, operation: str) -> int | None:
    if seed is None:
        return None
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"{operation} was given the seed {describe(seed)}; a seed is a non-negative int")
    return number


class _Seeding:
    """What one call of `manual_seed` started: the first generator of each device, and the thread that owns them."""

    __slots__ = ("_lock", "_owner", "_roots", "_seed")

    def __init__(self, seed: int | None, owner: threading.Thread) -> None:
        self._seed, self._owner = seed, owner
        self._roots: dict[Backend, Generator] = {}
        self._lock = threading.RLock()  # which the handler of a signal may take amid what is done under it

    def generator(self, device: Backend) -> Generator:
        """The calling thread's generator for a device, made now."""
        with self._lock:
            root = self._roots.get(device)
            if root is None:
                root = self._roots.setdefault(device, Generator(self._seed))
            return root if threading.current_thread() is self._owner else root.spawn(1)[0]


class _Mine(threading.local):
    """The calling thread's generators, and the seeding that they came from."""

    seeding: _Seeding | None = None
    generators: dict[Backend, Generator]


_seeding = _Seeding(None, threading.main_thread())
_mine = _Mine()


def manual_seed(seed: int) -> None:
    """Seed the default generators of all devices: what is drawn from then on repeats exactly.

    The calling thread draws from the seed itself, other threads from children of it, in the order of their first draw.

    Raises:
        ArgumentError: the seed is no non-negative int.

    >>> from burnpy import Tensor, manual_seed
    >>> from burnpy.backend import NumPy
    >>> manual_seed(0)
    >>> a = Tensor[NumPy].normal((3,)).tolist()
    >>> manual_seed(0)
    >>> Tensor[NumPy].normal((3,)).tolist() == a
    True
    """
    global _seeding
    if seed is None:  # pyright: ignore[reportUnnecessaryComparison]  # against its type, and it would be no seed
        raise ArgumentError("manual_seed() was given None; a seed is a non-negative int")
    _seeding = _Seeding(_checked(seed, "manual_seed()"), threading.current_thread())


def default_generator(device: B | type[B]) -> Generator:
    """The generator that the calling thread uses for a device where none is passed.

    `Autodiff[NumPy]` and `NumPy` share theirs: the numbers are drawn on the same device.

    >>> from burnpy import Autodiff
    >>> from burnpy.backend import NumPy
    >>> default_generator(NumPy) is default_generator(Autodiff[NumPy])
    True
    """
    plain: Any = device_of(device).discrete
    seeding = _seeding
    if _mine.seeding is not seeding:
        _mine.seeding, _mine.generators = seeding, {}
    found = _mine.generators.get(plain)
    if found is None:
        found = _mine.generators[plain] = seeding.generator(plain)
    return found


def drawn_from(generator: Generator | None, device: Any, operation: str) -> np.random.Generator:
    """NumPy's generator inside of the one that was passed, or of the default.

    Raises:
        ArgumentError: what was passed is no `Generator`.
    """
    if generator is None:
        return default_generator(device)._numpy
    if not isinstance(generator, Generator):
        raise ArgumentError(
            f"{operation}() was given generator={describe(generator)}; it takes a burnpy.Generator, as in "
            "burnpy.Generator(0)"
        )
    return generator._numpy
