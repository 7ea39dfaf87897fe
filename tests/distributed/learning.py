"""A learner's run that goes on from a folder: ``mpiexec -n 2 python -m tests.distributed.learning FOLDER [KILL]``.

With KILL, it is elastic, and rank 0 kills itself after so many steps. The first of the ranks that are
left prints what the run gave, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from burnpy.distributed import DataParallel, Elastic, Group
from burnpy.train import BatchEnd, Checkpoints, Steps, Strategy
from tests.distributed.learner_claims import EPOCHS, digest
from tests.train.ranks import learner, loaders, net


def main() -> None:
    folder, kill = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    group = Group.world(timeout=60)
    strategy: Strategy = DataParallel(group) if kill is None else Elastic(group)
    rank = group.rank

    def killed(event: Any) -> None:
        if rank == 0 and isinstance(event, BatchEnd) and event.step == kill:
            os.kill(os.getpid(), signal.SIGKILL)

    run = learner(strategy, callbacks=[Checkpoints(folder, every=Steps(3), keep=None), killed])
    result = run.fit(net(), *loaders(), epochs=EPOCHS, resume="auto")
    every = strategy.run(lambda group: group.gather(digest(result)))
    if strategy.group.rank == 0:
        weights = {path: x.value.tolist() for path, x in result.model.into_record().items()}
        out = {"weights": weights, "history": result.history, "step": result.step, "stopped": result.stopped}
        print(json.dumps({**out, "same": len(set(every)) == 1, "size": strategy.group.size}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
