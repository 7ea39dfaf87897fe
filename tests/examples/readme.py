"""The blocks of Python in README.md, for the test that runs them and for the one that checks their types."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PIECES = [block for block in BLOCKS if "for rows in IntTensor.permutation(" in block]
"""The part of examples/digits.py that it shows."""
WHOLE = [block for block in BLOCKS if block not in PIECES]
NEWER = [block for block in WHOLE if re.search(r"^class \w+\[", block, re.MULTILINE)]
"""Those in the syntax of Python 3.12."""
