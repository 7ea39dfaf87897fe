"""Benchmark of data loaders: the time of a batch, the time to the first one, and memory, beside torch's DataLoader.

Images are shifted by up to two pixels and mirrored at random. Two ways of it are measured: by whole batches, as
`burnpy.data.transforms` do it, against PyTorch's way of a function of one sample; and one function of one sample in
NumPy, the same one in both. All times are by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

BATCH, PIXELS, SHIFT = 128, 28, 2
WAYS = ("whole batches", "sample by sample")
WORKERS = (0, 2)

Opened: TypeAlias = Callable[[int], Iterator[Any]]
"""A function that starts an epoch, given its number."""


def images(n: int) -> tuple[Any, Any]:
    """Return images and labels."""
    x = np.zeros((n, 1, PIXELS, PIXELS), np.float32)
    for part in np.array_split(x, max(1, n // 1000)):  # without a second copy in float64
        np.random.default_rng(0).standard_normal(out=part, dtype=np.float32)
    return x, np.arange(n) % 10


def augmented(x: Any, rng: Any) -> Any:
    """Return one image, shifted and perhaps mirrored."""
    top, left = rng.integers(0, 2 * SHIFT + 1, 2)
    padded = np.pad(x, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))[:, top : top + PIXELS, left : left + PIXELS]
    return padded[:, :, ::-1] if rng.random() < 0.5 else padded


def of_sample(sample: Any, rng: Any) -> Any:
    """Return a sample of burnpy's with an augmented image."""
    return {**sample, "x": augmented(sample["x"], rng)}


def burnpy(x: Any, y: Any, way: str, workers: int, engine: str = "threads") -> Opened:
    """Return burnpy's loader."""
    from burnpy.backend import NumPy
    from burnpy.data import ArrayDataset, Dataset, Loader, collate
    from burnpy.data.loader import EngineName
    from burnpy.data.transforms import Flip, Shift

    named: EngineName = "processes" if engine == "processes" else "threads"
    whole = way == WAYS[0]
    data: Dataset[Any] = ArrayDataset(x=x, y=y)
    collator = collate(device=NumPy, transform=[Shift(SHIFT), Flip()] if whole else [])
    source = data if whole else data.map_random(of_sample)
    loader = Loader(source, collator, batch_size=BATCH, shuffle=True, workers=workers, engine=named)
    return loader.epoch


def torch(x: Any, y: Any, way: str, workers: int) -> Opened:
    """Return PyTorch's loader."""
    import torch
    from torch.nn.functional import pad
    from torch.utils.data import DataLoader, Dataset

    xs, ys = torch.from_numpy(x), torch.from_numpy(y)

    class Images(Dataset):  # type: ignore[misc]  # torch is not seen by type checkers
        def __len__(self) -> int:
            return len(xs)

        def __getitem__(self, i: int) -> Any:
            if way == WAYS[1]:
                rng = np.random.default_rng(torch.randint(2**31, ()).item())
                return torch.from_numpy(np.ascontiguousarray(augmented(x[i], rng))), ys[i]
            top, left = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
            image = pad(xs[i], (SHIFT, SHIFT, SHIFT, SHIFT))[:, top : top + PIXELS, left : left + PIXELS]
            return image.flip(2) if torch.rand(()) < 0.5 else image, ys[i]

    loader = DataLoader(Images(), batch_size=BATCH, shuffle=True, num_workers=workers)
    return lambda epoch: iter(loader)


def proportional(pids: list[int]) -> float:
    """Return the memory of processes in bytes, shared pages divided among those that share them. Linux only."""
    total = 0.0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss:", "SwapPss:")):
                total += float(line.split()[1]) * 1024
    return total


def family(pid: int) -> list[int]:
    """Return a process and all that it has started, directly or not. Linux only."""
    pids = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended since
            for child in (thread / "children").read_text().split():
                pids += family(int(child))
    return pids


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure one library in its own process: times for each way and number of workers, or memory."""
    import os

    make: Any = torch if peer.package == "torch" else burnpy
    more = {"engine": options["engine"]} if peer.package != "torch" else {}
    steps = effort.steps
    if options["what"] == "memory":
        n, workers = (256, 1) if not effort.seconds else (80_000, 4)
        make(*images(BATCH), WAYS[0], 0, **more)(0)  # the imports
        next(make(*images(BATCH), WAYS[0], 0, **more)(0))
        before = proportional([os.getpid()])
        x, y = images(n)
        size = float(x.nbytes + y.nbytes)
        epoch = make(x, y, WAYS[0], workers, **more)(0)
        for _ in islice(epoch, min(steps, n // BATCH // 2)):
            pass
        notebook.enter("memory", lambda: (proportional(family(os.getpid())) - before) / size)
        return
    x, y = images(BATCH * (2 if not effort.seconds else 3 * steps))
    for way in WAYS:
        for workers in WORKERS:
            opened = make(x, y, way, workers, **more)

            def first(opened: Opened = opened) -> float:
                start = perf_counter()
                next(opened(0))
                return perf_counter() - start

            def each(opened: Opened = opened) -> float:
                epoch = opened(1)
                next(epoch)
                start = perf_counter()
                count = sum(1 for _ in epoch)
                return (perf_counter() - start) / count

            for _ in range(3 if effort.seconds else 1):
                notebook.enter(f"{way}, {workers} workers/first", first)
                notebook.enter(f"{way}, {workers} workers/each", each)


COLUMNS = {"burnpy": ("burnpy", "threads"), "burnpy, processes": ("burnpy", "processes"), "torch": ("torch", "")}


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure times, then memory."""
    jobs = {
        what: {
            column: Job("data", peer, ONE_THREAD, {"what": what, "engine": engine})
            for column, (peer, engine) in COLUMNS.items()
        }
        for what in ("times", "memory")
    }
    times, memory = (collect(jobs[what], effort, said) for what in jobs)
    each = [_line(times, f"{way}, {workers} workers", "each", 1.0) for way in WAYS for workers in WORKERS]
    first = [
        _line(times, f"{way}, {workers} workers", "first", 0.3 if workers else None)
        for way in WAYS
        for workers in WORKERS
    ]
    line = Line.of(
        "80,000 images, 4 workers", memory, dict.fromkeys(COLUMNS, "memory"), 1.0, memory.of("burnpy", "memory"), 1.1
    )
    how = f"Batches of {BATCH} images of {PIXELS} × {PIXELS}, shifted and mirrored; by the clock, the best of 3 epochs."
    return [
        Section("Data, a batch", f"{how} Ratios are those of threads.", "ms", list(COLUMNS), each),
        Section(
            "Data, the first batch", "From `loader.epoch(0)` on, with the start of workers.", "ms", list(COLUMNS), first
        ),
        Section(
            "Data, memory",
            "Memory of the program and its workers amid an epoch (shared pages once), less that before the data were "
            "made, as a ratio to the data's size. The budget is for threads.",
            "",
            list(COLUMNS),
            [line],
        ),
    ]


def _line(figures: Figures, work: str, what: str, budget: float | None) -> Line:
    key = f"{work}/{what}"
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    return Line.of(work, figures, dict.fromkeys(COLUMNS, key), 1e3, ratio, budget)
