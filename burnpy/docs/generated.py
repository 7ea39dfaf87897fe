"""The generated files: ``make generated``, or ``python -m burnpy.docs.generated``, writes those that are out of date.

A test compares each with what its function makes, and names the file that is out of date.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path

from burnpy.docs import generated_code as code
from burnpy.docs import names_elsewhere, programs, reference

PACKAGE = Path(__file__).parents[1]
KINDS = PACKAGE.parent / "tests/func/compiled/captured_kinds.py"
"""The table of tests that a page lists, which only the repository has."""


def _captured_page() -> str:
    """Return the page of the kinds of state that compiled functions read."""
    page: str = import_module("tests.func.compiled.captured_kinds").page()
    return page


READ_FROM_SOURCES: dict[Path, Callable[[], str]] = {
    code.DECLARED: code.declared,
    code.TABLE: code.table,
    code.FACTORIES_STUB: code.factories_stub,
}
"""The functions that make the files of the package itself, which the other functions import."""
FILES: dict[Path, Callable[[], str]] = {
    **READ_FROM_SOURCES,
    **{code.path_of(package): partial(code.exports_stub, package) for package in code.PACKAGES},
    reference.OPERATIONS: reference.operations_page,
    names_elsewhere.PAGE: names_elsewhere.page,
    reference.PUBLIC_API: reference.public_api,
    **({PACKAGE / "docs/captured.md": _captured_page} if KINDS.exists() else {}),
    **{path: partial(programs.picture, page, name) for page in programs.BOOK for path, name in programs.pictures(page)},
}
"""The functions that make the text of each generated file."""


def written(files: Iterable[Path]) -> list[str]:
    """Write those of the files that are out of date, and return their names."""
    names = []
    for path in files:
        text = FILES[path]()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            names.append(name_of(path))
    return names


def name_of(path: Path) -> str:
    """Return the name of a generated file from the root of the repository."""
    return path.relative_to(PACKAGE.parent).as_posix()


def main() -> None:
    """Write the files of the package, start anew if it has changed, and write the others."""
    names = written(READ_FROM_SOURCES)
    if names:
        sys.stdout.write("".join(f"{name}\n" for name in names))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "burnpy.docs.generated"])
    sys.stdout.write("".join(f"{name}\n" for name in written(FILES)))


if __name__ == "__main__":
    main()
