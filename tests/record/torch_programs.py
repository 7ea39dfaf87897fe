"""Pickles as hostile programs: made at random of the instructions that PyTorch writes, and by mutation of real ones."""

from __future__ import annotations

import struct
from random import Random

CALLS = (
    b"ccollections\nOrderedDict\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_tensor_v3\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch\nSize\n",
    b"ctorch\ndevice\n",
    b"cbuiltins\nset\n",
)
NAMES = (b"ctorch\nFloatStorage\n", b"ctorch.storage\nUntypedStorage\n", b"ctorch\nfloat32\n", b"ctorch\nfloat8_e5m2\n")


def text(value: str) -> bytes:
    """A string, pushed."""
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


class Programs:
    """Random programs, most of whose instructions make sense: what does not, ends one."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.remembered = 0

    def program(self, parts: int) -> bytes:
        """A pickle of a list of so many values."""
        self.remembered = 0
        return b"\x80\x02](" + b"".join(self.value(4) for _ in range(parts)) + b"e."

    def value(self, depth: int) -> bytes:
        """Push some value, and perhaps remember it."""
        kinds = [self._number, self._text, self._constant, self._get]
        if depth:
            kinds += [self._tuple, self._list, self._dict, self._call, self._call, self._tensor, self._storage]
        made = self.rng.choice(kinds)(depth - 1)
        if self.rng.random() < 0.5:
            made += b"\x94"
            self.remembered += 1
        return made

    def _number(self, depth: int) -> bytes:
        size = self.rng.choice((1, 2, 4, 8, 9, 200))
        return self.rng.choice(
            (
                b"K" + self.rng.randbytes(1),
                b"M" + self.rng.randbytes(2),
                b"J" + self.rng.randbytes(4),
                b"G" + self.rng.randbytes(8),
                b"\x8a" + bytes([size]) + self.rng.randbytes(size),
                b"I%d\n" % self.rng.getrandbits(size),
            )
        )

    def _text(self, depth: int) -> bytes:
        return text(
            self.rng.choice(("a", "weight", "cuda", "storage", "\0", "\U0001f600")) * self.rng.choice((1, 1, 50))
        )

    def _constant(self, depth: int) -> bytes:
        return self.rng.choice((b"N", b"\x88", b"\x89", b")"))

    def _get(self, depth: int) -> bytes:
        if not self.remembered:
            return b"N"
        return b"j" + struct.pack("<I", self.rng.randrange(self.remembered))

    def _values(self, depth: int) -> bytes:
        return b"".join(self.value(depth) for _ in range(self.rng.choice((0, 1, 2, 3, 9))))

    def _tuple(self, depth: int) -> bytes:
        return b"(" + self._values(depth) + b"t"

    def _list(self, depth: int) -> bytes:
        return b"](" + self._values(depth) + b"e"

    def _dict(self, depth: int) -> bytes:
        pairs = (
            self.rng.choice((self._text, self._number))(0) + self.value(depth) for _ in range(self.rng.randrange(5))
        )
        return b"}(" + b"".join(pairs) + b"u" + self.rng.choice((b"", b"Nb"))

    def _call(self, depth: int) -> bytes:
        call = self.rng.choice(CALLS)
        if b"Size" in call or b"set" in call:
            args = self._tuple(depth) if self.rng.random() < 0.5 else b"(" + b"K\x02" * self.rng.choice((2, 60)) + b"t"
            return call + args + b"\x85R"
        if b"device" in call:
            return call + text("cuda") + b"K\x00\x86R"
        if b"OrderedDict" in call:
            return call + self.rng.choice((b")R", b"](" + (text("a") + b"N\x86") * 3 + b"e\x85R"))
        return self._tensor(depth)

    def _storage(self, depth: int) -> bytes:
        size = b"J" + struct.pack("<i", self.rng.choice((4, 4, 4, 16, 0, -1)))
        return b"(" + text("storage") + self.rng.choice(NAMES[:2]) + text("0") + text("cpu") + size + b"tQ"

    def _tensor(self, depth: int) -> bytes:
        dims = self.rng.choice((0, 1, 2, 2, 2, 5, 70))
        sizes = b"(" + b"".join(b"K" + bytes([self.rng.randrange(3)]) for _ in range(dims)) + b"t"
        args = self._storage(depth) + b"K\0" + sizes + sizes + b"\x89)"
        if self.rng.random() < 0.5:
            return CALLS[1] + b"(" + args + b"tR"
        return CALLS[2] + b"(" + args + NAMES[2] + b"tR"


def mutated(data: bytes, rng: Random) -> bytes:
    """Bytes with a few of them changed, left out, doubled or moved."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, length = rng.randrange(len(out)), rng.choice((1, 1, 2, 8, 40))
        match rng.randrange(5):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at : at + length] = rng.randbytes(length)
            case 2 if len(out) > 2 * length:
                del out[at : at + length]
            case 3:
                out[at:at] = out[at : at + length] * rng.choice((1, 2, 50))
            case _:
                other = rng.randrange(len(out))
                out[at:at] = out[other : other + length]
    return bytes(out)
