"""A run whose ranks `test_elastic.py` kills: ``mpiexec --with-ft ulfm -n 4 python -m tests.distributed.killed DIR``.

Each rank writes its process id into the folder. Those that are left print what the run came to.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from burnpy.distributed import Elastic, Group
from burnpy.optim import AdamW

from .ranks import ROWS, batches, gradients, network, same, shares

STEPS = 40


def main() -> None:
    folder = Path(sys.argv[1])
    elastic = Elastic(Group.world(timeout=30))
    model: Any = elastic.run(lambda group: group.broadcast(network(norm=False)))
    whole, mine, alone, slowest = model, AdamW(), AdamW(), 0.0
    (folder / f"{elastic.rank}.pid").write_text(str(os.getpid()))
    for x, y in batches(STEPS):

        def step(group: Group, model: Any = model, x: Any = x, y: Any = y) -> Any:
            rows = shares(group.size)[group.rank]
            return group.mean(gradients(model, x[rows], y[rows]), weight=len(rows))

        losses, began = len(elastic.lost), time.perf_counter()
        grads = elastic.run(step)
        if len(elastic.lost) > losses:
            slowest = max(slowest, time.perf_counter() - began)
        model = mine.step(1e-2, model, grads)
        whole = alone.step(1e-2, whole, gradients(whole, x, y))
        time.sleep(0.01)  # a step takes longer than a recovery in most programs
    apart = max(
        (p.value.inner() - q.value.inner()).abs().max().item()
        for p, q in zip(model.params(), whole.params(), strict=True)
    )
    equal = elastic.run(lambda group: same(group, model))
    # Each rank, as one may be killed after the last exchange, which the others do not notice.
    result = {"apart": apart, "same": equal, "size": elastic.size, "lost": elastic.lost, "slowest": slowest}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    assert ROWS >= 4
    main()
