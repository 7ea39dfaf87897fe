"""Names that an object file refers to and does not define, in the formats of Linux, Windows and macOS."""

from __future__ import annotations

from collections.abc import Iterator
from struct import iter_unpack, unpack_from

_ELF, _MACH_O, _COFF = b"\x7fELF", b"\xcf\xfa\xed\xfe", (b"\x64\x86", b"\x64\xaa")


def undefined(code: bytes) -> set[str]:
    """Return the names of an object file for 64 bits."""
    if code.startswith(_ELF):
        return set(_elf(code))
    if code.startswith(_MACH_O):
        return {name.removeprefix("_") for name in _mach_o(code)}  # which C names have
    assert code.startswith(_COFF)
    return {*_coff(code)} - {"_fltused"}  # which no code refers to


def _elf(code: bytes) -> Iterator[str]:
    (table,) = unpack_from("<Q", code, 40)
    size, count = unpack_from("<HH", code, 58)
    sections = [unpack_from("<IIQQQQIIQQ", code, table + size * k) for k in range(count)]
    for _, kind, _, _, start, length, strings, *_ in sections:
        if kind == 2:
            for name, _, _, section, _, _ in iter_unpack("<IBBHQQ", code[start : start + length]):
                if name and not section:
                    yield _text(code, sections[strings][4] + name)


def _mach_o(code: bytes) -> Iterator[str]:
    place = 32
    for _ in range(unpack_from("<I", code, 16)[0]):
        command, size, symbols, count, strings = unpack_from("<IIIII", code, place)
        place += size
        if command == 2:
            for name, kind, _, _, _ in iter_unpack("<IBBHQ", code[symbols : symbols + 16 * count]):
                if kind == 1:
                    yield _text(code, strings + name)


def _coff(code: bytes) -> Iterator[str]:
    symbols, count = unpack_from("<II", code, 8)
    strings, skipped = symbols + 18 * count, 0
    for name, value, section, _, kind, auxiliary in iter_unpack("<8sIhHBB", code[symbols:strings]):
        if skipped:
            skipped -= 1
            continue
        skipped = auxiliary
        if kind == 2 and section == value == 0:
            is_long = name.startswith(bytes(4))
            yield _text(code, strings + unpack_from("<I", name, 4)[0]) if is_long else _text(name + bytes(1), 0)


def _text(code: bytes, place: int) -> str:
    return code[place : code.index(0, place)].decode()
