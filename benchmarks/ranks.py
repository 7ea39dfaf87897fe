"""The program of `benchmarks.distributed`, which mpiexec starts: ``mpiexec -n 2 python -m benchmarks.ranks mlp 20``.

Rank 0 prints the figures as JSON: the minimum of each, as the measurements take turns.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import resident
from benchmarks.tasks import TASKS
from burnpy import Autodiff, IntTensor, Tensor, cross_entropy
from burnpy.backend import NumPy
from burnpy.distributed import Elastic, Group
from burnpy.optim import Adam, GradientsParams

Train = Autodiff[NumPy]
WIDTHS = {"4 MB": 512, "23 MB": 4096}
"""The first width of an MLP whose gradients are summed, by their bytes."""


def least(measured: dict[str, Callable[[], Any]], group: Group, repeats: int) -> dict[str, float]:
    """Return the least seconds of each function, which all ranks begin together, one function after the other."""
    seconds = dict.fromkeys(measured, float("inf"))
    for repeat in range(repeats + 2):
        for name, f in measured.items():
            group.barrier()
            began = time.perf_counter()
            f()
            if repeat >= 2:
                seconds[name] = min(seconds[name], time.perf_counter() - began)
    return seconds


def reduction(group: Group, repeats: int) -> dict[str, float]:
    """Return the mean of an MLP's gradients beside MPI's sum of as many bytes, and the memory that it takes."""
    from mpi4py import MPI

    values: dict[str, float] = {}
    for name, width in (WIDTHS if repeats > 3 else {"4 MB": 8}).items():
        shapes = [(784, width), (width,), (width, 512), (512,), (512, 512), (512,), (512, 10), (10,)]
        drawn = np.random.default_rng(0)
        tensors = {
            f"{k}": Tensor[NumPy].from_data(drawn.normal(size=shape), dtype="float32") for k, shape in enumerate(shapes)
        }
        grads = GradientsParams(NumPy, tensors, paths={ident: ident for ident in tensors})
        raw = np.ones(sum(grad.numel() for grad in grads.values()), np.float32)
        kept = [grads]

        def mean(grads: Any = grads, kept: Any = kept) -> None:
            kept[0] = group.mean(grads, weight=3)  # as a loop keeps the gradients of the last step

        def allreduce(raw: Any = raw) -> None:
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, raw)

        gc.collect()
        before = resident("VmRSS")
        values |= least({f"burnpy/{name}": mean, f"Allreduce/{name}": allreduce}, group, repeats)
        values[f"memory/{name}"] = max(0.0, resident("VmRSS") - before) / raw.nbytes
    return values


def mlp(group: Group, repeats: int) -> dict[str, float]:
    """Return a training step of the MLP: on one rank, while the other waits; on both; and on both by PyTorch."""
    task: Any = TASKS["MLP"](np.random.default_rng(0), repeats <= 3)
    from benchmarks.peers.ours import Mlp

    model: Any = group.broadcast(Mlp(Train, task.sizes["sizes"]))
    x = Tensor[Train].from_data(task.inputs[group.rank], dtype="float32")
    y = IntTensor[Train].from_data(task.labels[group.rank])
    models, optims = {"one": model, "two": model}, {"one": Adam(), "two": Adam()}

    def gradients(model: Any) -> GradientsParams[Any]:
        return GradientsParams.from_grads(cross_entropy(model(x), y).backward(), model)

    def one() -> None:
        if group.rank == 0:
            models["one"] = optims["one"].step(1e-3, models["one"], gradients(models["one"]))

    def two() -> None:
        models["two"] = optims["two"].step(1e-3, models["two"], group.mean(gradients(models["two"]), weight=len(y)))

    measured = {"one": one, "two": two}
    torch_step = _torch(group, task)
    if torch_step is not None:
        measured["torch"] = torch_step
    return least(measured, group, repeats)


def _torch(group: Group, task: Any) -> Callable[[], None] | None:
    """Return the same step by PyTorch's DistributedDataParallel; None where it is not installed."""
    try:
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
    except ImportError:
        return None
    from benchmarks.peers.pytorch import Mlp

    torch.set_num_threads(1)
    place = group.broadcast(f"file:///tmp/burnpy-gloo-{os.getpid()}")
    dist.init_process_group("gloo", init_method=place, rank=group.rank, world_size=group.size)
    atexit.register(dist.destroy_process_group)  # its threads, if they run at the end, sometimes abort the process
    model = DistributedDataParallel(Mlp(task.sizes["sizes"]))
    optim = torch.optim.Adam(model.parameters(), 1e-3)
    x = torch.from_numpy(task.inputs[group.rank].astype(np.float32))
    y = torch.from_numpy(task.labels[group.rank])

    def step() -> None:
        optim.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optim.step()

    return step


def recovery(group: Group, repeats: int) -> dict[str, float]:
    """Return the seconds that a step takes longer in which the last rank is killed, on those that are left."""
    elastic = Elastic(group)
    grads = GradientsParams(NumPy, {"w": Tensor[NumPy].ones((1000,))}, paths={"w": "w"})
    last, usual = elastic.size - 1, float("inf")
    for step in range(7):
        if step == 6 and elastic.rank == last:
            os.kill(os.getpid(), signal.SIGKILL)
        began = time.perf_counter()
        elastic.run(lambda group: group.mean(grads, weight=1))
        seconds = time.perf_counter() - began
        usual = min(usual, seconds)
    return {"recovery": seconds, "usual": usual}


def main(what: str, repeats: str) -> None:
    group = Group.world(timeout=60)
    values = {"reduction": reduction, "mlp": mlp, "recovery": recovery}[what](group, int(repeats))
    if group.leads:
        print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
