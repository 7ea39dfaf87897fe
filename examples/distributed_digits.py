"""The run of digits_learner.py on several processes: ``mpiexec -n 4 python -m mpi4py examples/distributed_digits.py``.

Each process, a rank, trains on its part of every batch, and all have the same weights after every step; without
``mpiexec`` it is one rank. A run that was stopped goes on from its folder, on as many ranks as there are then. With
``--elastic`` it goes on at once when ranks are killed: ``mpiexec --with-ft ulfm -n 4 python -m mpi4py
examples/distributed_digits.py --elastic``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import burnpy
from burnpy.data import ArrayDataset, Loader, collate
from burnpy.data.transforms import Shift
from burnpy.distributed import DataParallel, Elastic, Group
from burnpy.optim import AdamW, OneCycleLr
from burnpy.train import ByGlobalNorm, Checkpoints, Dashboard, Jsonl, Learner, Result, Steps, Strategy
from digits import Cnn
from digits_learner import BATCH, Digits, Infer, Train, train_step, valid_step
from digits_report import load_digits


def train(strategy: Strategy, epochs: int, folder: Path) -> Result[Cnn[Train]]:
    """Train on all ranks, or go on with the run in the folder."""
    burnpy.manual_seed(0)
    images, labels = load_digits()
    learned, held_out = ArrayDataset(x=images, y=labels).split(0.8, seed=0, stratify="y")
    shifted = collate(Digits[Train], transform=[Shift(1)])
    loader = Loader(learned, shifted, batch_size=BATCH, shuffle=True, seed=0)  # of all ranks together
    learner = Learner(
        train_step,
        valid_step,
        optim=AdamW(weight_decay=0.05),
        lr=OneCycleLr(1e-2, steps=epochs * len(loader)),
        clip=ByGlobalNorm(1.0),
        callbacks=[Checkpoints(folder, every=Steps(20), keep=2)],
        loggers=[Dashboard(), Jsonl(folder / "log.jsonl", settings={"ranks": strategy.group.size})],
        strategy=strategy,
    )
    valid = Loader(held_out, collate(Digits[Infer]), batch_size=BATCH)
    return learner.fit(Cnn(Train), loader, valid, epochs=epochs, resume="auto")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a CNN on handwritten digits on several processes.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("out") / "distributed", metavar="FOLDER", help="of the run")
    parser.add_argument("--elastic", action="store_true", help="go on when ranks are lost")
    options = parser.parse_args(arguments)
    group = Group.world()
    strategy: Strategy = Elastic(group) if options.elastic else DataParallel(group)
    result = train(strategy, options.epochs, options.out)
    if strategy.group.rank == 0:
        accuracy = result.history[-1]["valid/accuracy"]
        print(f"accuracy {accuracy:.2%} after {result.epoch} epochs on {strategy.group.size} ranks")


if __name__ == "__main__":
    main()
