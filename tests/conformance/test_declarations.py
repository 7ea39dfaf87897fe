"""What rules, examples and methods name is declared as an operation.

Their files are read as text, since a rule of an operation that is not declared cannot be imported.
"""

from __future__ import annotations

import re
from pathlib import Path

from burnpy.backend import Backend

ROOT = Path(__file__).parents[2]
DECLARED = "burnpy/backend/operations"
NAMING = {
    "burnpy/testing/cases": r"^_?(?:row|elementwise|diagonals)\(\s*\"(\w+)\"",
    "burnpy/tensor": r"@(?:unary|predicate)\s+def (\w+)",
}
"""The folders whose files name operations, and how."""


def test_what_is_named_is_declared() -> None:
    missing = []
    for folder, pattern in NAMING.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE):
                if not hasattr(Backend, name):
                    where = f"{DECLARED}/{path.name}"
                    where = where if (ROOT / where).exists() else DECLARED
                    missing.append(f"{path.relative_to(ROOT)} names {name}: declare it in {where}")
    assert not missing, "\n".join(["", *missing])
