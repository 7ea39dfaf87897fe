"""A rank that exits or hangs while the other one waits for it; see `test_elastic.py`.

``mpiexec --with-ft ulfm -n 2 python -m mpi4py -m tests.distributed.leaving HOW LIMIT``; HOW is "exits", "returns" or
"hangs".
"""

from __future__ import annotations

import os
import signal
import sys
import time

from burnpy.distributed import Elastic, Group


def main() -> None:
    how, limit = sys.argv[1], float(sys.argv[2])
    elastic = Elastic(Group.world(timeout=limit))
    elastic.run(lambda group: group.barrier())
    if elastic.rank == 1:
        if how != "hangs":
            sys.exit(3 if how == "exits" else 0)
        signal.signal(signal.SIGTERM, lambda number, frame: None)  # as a learner, which completes its step first
        print(os.getpid(), flush=True)
        time.sleep(1000.0)
    elastic.run(lambda group: group.barrier())


if __name__ == "__main__":
    main()
