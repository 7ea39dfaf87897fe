"""Every claim about groups of ranks, checked in one launch: ``mpiexec -n 2 python -m tests.distributed.claims``.

Every rank runs all of them, in order. Rank 0 prints, as JSON, what failed on which rank.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable

from burnpy.distributed import Group
from tests.distributed import overlapped, ranks

CLAIMS = ranks.CLAIMS | overlapped.CLAIMS


def outcome(check: Callable[[Group], None], group: Group) -> str:
    try:
        check(group)
    except Exception:  # whatever it is, it is told
        return traceback.format_exc()
    return ""


def main() -> None:
    group = Group.world(timeout=60)
    results = {name: group.gather(outcome(check, group)) for name, check in CLAIMS.items()}
    if group.leads:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
