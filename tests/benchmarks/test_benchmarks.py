"""Every benchmark runs, in this process, with as little work as there is; what it takes is not looked at."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pytest

from benchmarks import (
    chains,
    clipping,
    compiled,
    data,
    distributed,
    full_size,
    inference,
    kernels,
    learner,
    linalg,
    models,
    networks,
    operations,
    processes,
    products,
    roofline,
    solvers,
    special,
    spectra,
    tiny,
    training,
    vmap,
)
from benchmarks.measure import SMOKE, Figures, Notebook, Spread
from benchmarks.peers import EXPRESSIONS, NETWORKS, load
from benchmarks.processes import Job, together
from benchmarks.report import Line, Section, draw
from benchmarks.results import ResultGroup, to_markdown
from benchmarks.tasks import TASKS
from burnpy.train import run_file

pytestmark = pytest.mark.slow

PEERS = ["burnpy", pytest.param("torch", marks=pytest.mark.parity)]


def test_tiny_operations() -> None:
    notebook = Notebook()
    tiny.work(load("burnpy"), SMOKE, notebook, {"tracked": True})
    assert not notebook.errors
    keys = {f"{mode}/{name}" for mode in tiny.MODES for name in EXPRESSIONS | NETWORKS}
    assert set(notebook.values) == keys - {"gradients/x > y"}


def test_chains() -> None:
    notebook = Notebook()
    chains.work(load("burnpy"), SMOKE, notebook, {"limit": SMOKE.nodes[-1], "flat": True})
    assert not notebook.errors
    assert "x * y/twice" in notebook.values


@pytest.mark.parametrize("peer", PEERS)
def test_linalg(peer: str) -> None:
    notebook = Notebook()
    linalg.work(load(peer), SMOKE, notebook, {})
    assert not notebook.errors
    assert linalg.LOGDET in notebook.values


@pytest.mark.parametrize("peer", PEERS)
def test_models(peer: str) -> None:
    notebook = Notebook()
    for compiles in (False, True):
        models.work(load(peer), SMOKE, notebook, {"compiles": compiles})
    assert not notebook.errors
    assert set(notebook.values) == set(models.WORKS)


@pytest.mark.slowest
@pytest.mark.parametrize("peer", PEERS)
def test_special_functions(peer: str) -> None:
    notebook = Notebook()
    special.work(load(peer), SMOKE, notebook, {})
    assert not notebook.errors
    assert set(notebook.values) >= {f"{name} of float32, gradients" for name in special.RANGES}


@pytest.mark.slowest
def test_solvers() -> None:
    notebook = Notebook()
    solvers.work(load("burnpy"), SMOKE, notebook, {})
    assert not notebook.errors
    assert notebook.values.keys() == {solvers.PLAIN, solvers.GRADIENT, solvers.SCIPY}


@pytest.mark.parametrize("peer", PEERS)
def test_spectra(peer: str) -> None:
    notebook = Notebook()
    spectra.work(load(peer), SMOKE, notebook, {})
    assert not notebook.errors
    assert spectra.STFT in notebook.values


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # torch.func's of attention
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # which forward mode of PyTorch calls
@pytest.mark.parametrize("peer", PEERS)
def test_vmap(peer: str) -> None:
    notebook = Notebook()
    vmap.work(load(peer), SMOKE, notebook, {})
    assert not notebook.errors
    assert {*vmap.BUDGETS, vmap.CALLS, vmap.LOOP} <= notebook.values.keys()


@pytest.mark.parametrize("peer", PEERS)
def test_inference_and_large_rows(peer: str) -> None:
    models, rows, lists = Notebook(), Notebook(), Notebook()
    inference.work(load(peer), SMOKE, models, {})
    kernels.work(load(peer), SMOKE, rows, {})
    clipping.work(load(peer), SMOKE, lists, {})
    assert not models.errors | rows.errors | lists.errors
    assert set(lists.values) == set(clipping.CASES)
    assert set(models.values) == {f"{model}/{batch}" for model in TASKS for batch in inference.BATCHES}
    assert set(rows.values) == {f"{name}/{what}" for name in kernels.CASES for what in ("forward", "both")}


@pytest.mark.slowest
@pytest.mark.parametrize("peer", [*PEERS, "burnpy, compiled"])
def test_compiled(peer: str) -> None:
    for what in ("steps", "formulas", "inference"):
        notebook = Notebook()
        compiled.work(load(peer), SMOKE, notebook, {"what": what, "threads": 1})
        assert not notebook.errors
        assert notebook.values
    first = Notebook()
    compiled.work(load(peer), SMOKE, first, {"what": "first"})
    assert first.values
    assert not first.errors


def test_roofline() -> None:
    notebook = Notebook()
    roofline.work(load("NumPy"), SMOKE, notebook, {"threads": 1})
    assert not notebook.errors
    figures = Figures(turns={"burnpy": [{"k": 2.0}], roofline.MACHINE: [{"product": 1e-9, "copy": 1e-10}]})
    assert roofline.Amount(1e9, 1e9).share(figures, "burnpy", "k") == Spread(0.5, 0.5, 0.5)  # a second of products
    assert roofline.Amount(1e9, 1e10).share(figures, "burnpy", "k") == Spread(0.5, 0.5, 0.5)
    assert roofline.Amount().share(figures, "burnpy", "k") is None
    assert notebook.values.keys() == {"product", "copy"}


@pytest.mark.slowest
@pytest.mark.parametrize("model", TASKS)
def test_training(model: str) -> None:
    notebook = Notebook()
    training.work(load("burnpy"), SMOKE, notebook, {"what": "times", "model": model, "threads": 1})
    assert not set(notebook.errors) - {"memory"}  # which only Linux tells
    assert set(training.PHASES) <= set(notebook.values)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", training.LOSSES)
@pytest.mark.parametrize("model", TASKS)
def test_losses_are_those_of_pytorch(model: str, dtype: str) -> None:
    figures, exact = Figures(), Figures()
    for peer, its_dtype, found in (("burnpy", dtype, figures), ("torch", "float64", exact)):
        notebook = Notebook()
        training.work(load(peer), SMOKE, notebook, {"what": "losses", "model": model, "dtype": its_dtype})
        assert not notebook.errors
        found.turns[peer] = [notebook.values]
    error = training.loss_error(figures, "burnpy", exact, SMOKE.steps)
    assert error is not None
    assert error <= training.LOSSES[dtype][1]


@pytest.mark.slowest
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", full_size.NETWORKS)
def test_full_size(name: str, peer: str) -> None:
    times, first = Notebook(), Notebook()
    options = {"name": name, "batch": 1, "threads": 1}
    full_size.work(load(peer), SMOKE, times, {"what": "times", **options})
    full_size.work(load(peer), SMOKE, first, {"what": "first", **options})
    assert not {key for key in times.errors | first.errors if not key.endswith("memory")}  # which only Linux tells
    assert {"training", "inference"} <= set(times.values)
    assert set(first.values) == {"first"}


@pytest.mark.parity
@pytest.mark.parametrize("name", full_size.NETWORKS)
def test_losses_at_full_size_are_those_of_pytorch(name: str) -> None:
    figures = Figures()
    for peer in ("burnpy", "torch"):
        notebook = Notebook()
        full_size.work(load(peer), SMOKE, notebook, {"what": "losses", "name": name, "batch": 2, "dtype": "float64"})
        assert not notebook.errors
        figures.turns[peer] = [notebook.values]
    error = training.loss_error(figures, "burnpy", figures, full_size.LOSSES["float64"][0])
    assert error is not None
    assert error <= full_size.LOSSES["float64"][1]


@pytest.mark.parametrize("peer", PEERS)
def test_data(peer: str) -> None:
    times, memory = Notebook(), Notebook()
    data.work(load(peer), SMOKE, times, {"what": "times", "engine": "threads"})
    data.work(load(peer), SMOKE, memory, {"what": "memory", "engine": "threads"})
    assert not times.errors
    assert len(times.values) == 8
    assert not memory.errors or not Path("/proc/self/smaps_rollup").exists()  # which only Linux tells


@pytest.mark.slowest
@pytest.mark.parametrize("peer", PEERS)
def test_networks(peer: str) -> None:
    notebook = Notebook()
    networks.work(load(peer), SMOKE, notebook, {})
    assert not notebook.errors
    assert len(notebook.values) == 2 * len(networks.CASES) + 3 * len(networks.LAYERS)


@pytest.mark.parametrize("peer", PEERS)
def test_products(peer: str) -> None:
    notebook = Notebook()
    products.work(load(peer), SMOKE, notebook, {"threads": 1})
    assert not notebook.errors
    narrow = [f"{dtype}: {name}" for dtype, cases in products.NARROW.items() for name in cases]
    assert notebook.values.keys() == {*products.CASES, *narrow, products.MEMORY}


@pytest.mark.heavy("mpi4py")
@pytest.mark.parametrize("what", distributed.RANKS)
def test_distributed(what: str) -> None:
    notebook = Notebook()
    distributed.work(load("burnpy"), SMOKE, notebook, {"what": what})
    assert not notebook.errors
    assert {"reduction": "burnpy/4 MB", "mlp": "two", "recovery": "recovery"}[what] in notebook.values


def test_learner() -> None:
    notebook = Notebook()
    for model in learner.BUDGETS:
        learner.work(load("burnpy"), SMOKE, notebook, {"what": "loops", "model": model})
        assert notebook.values["by hand"] > 0
    learner.work(load("burnpy"), SMOKE, notebook, {"what": "saves"})
    assert {"by hand", "learner", "overhead", "stall", "writing"} == notebook.values.keys()


def test_a_file_that_is_written_until_the_next_save_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    write, wait, awaited = run_file._write, run_file.Writer.wait, Event()

    def late(*parts: Any) -> None:
        assert awaited.wait(60)
        write(*parts)

    def waited(writer: run_file.Writer) -> None:
        if writer._pending is not None:
            awaited.set()
        wait(writer)

    monkeypatch.setattr(run_file, "_write", late)
    monkeypatch.setattr(run_file.Writer, "wait", waited)
    assert learner.saves(1, 64)[1] > 0


def test_where_the_time_goes() -> None:
    notebook = Notebook()
    training.work(load("burnpy"), SMOKE, notebook, {"what": "operations", "model": "MLP"})
    assert notebook.values["all"] > 0
    assert any(key.startswith("matmul") and "backward" in key for key in notebook.values)


def test_workers_may_write_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def start(*args: Any, env: Any, **options: Any) -> MagicMock:
        given.append(env)
        return MagicMock(stdout=[], **{"wait.return_value": 0})

    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(processes, "Popen", start)
    processes.Worker(Job("tiny", "NumPy", {}), SMOKE).end()
    assert not given[0]["PYTHONDONTWRITEBYTECODE"]


def test_fresh_processes_take_turns() -> None:
    job = Job("tiny", "NumPy", {}, {"tracked": False})
    said: list[str] = []
    workers = together({"one": job, "two": job}, SMOKE, said.append)
    for worker in workers.values():
        assert not worker.errors
        assert set(worker.values) == {f"untracked/{name}" for name in EXPRESSIONS}
    turns = [f"tiny: untracked/{name}, {column}" for name in EXPRESSIONS for column in workers]
    assert said == ["tiny: one starts", "tiny: two starts", *turns]


def test_a_process_that_fails() -> None:
    job = Job("tiny", "NumPy", {"PYTHONPATH": os.fspath(Path(__file__).parents[2])}, {"untold": True})
    worker = together({"it": job}, SMOKE, lambda progress: None)["it"]
    assert "tracked" in worker.errors[""]
    assert not worker.values


@pytest.mark.slowest
def test_report(tmp_path: Path) -> None:
    figures = Figures(
        turns={"burnpy": [{"k": 1.0}, {"k": 3.0}, {"k": 2.0}], "torch": [{"k": 2.0}, {"k": 2.0}, {"k": 4.0}]},
        errors={"burnpy": {"broken": "ValueError: no"}},
        missing={"MyGrad"},
    )
    ratio = figures.ratio(("burnpy", "k"), ("torch", "k"))
    assert ratio == Spread(0.5, 0.5, 1.5)
    lines = [
        Line.of("kept", figures, {"burnpy": "k", "MyGrad": "k"}, 1e6, ratio, 0.5, curve=("kept", 10)),
        Line.of("missed", figures, {"burnpy": "k"}, 1e6, ratio, 0.4),
        Line.of("broken", figures, {"burnpy": "broken"}, 1e6, None, 0.4),
    ]
    section = Section("Title", "How.", "µs", ["burnpy", "MyGrad"], lines)
    page = to_markdown({"A machine": {"group": ResultGroup("python -m benchmarks", ["Linux"], [section])}})
    assert "Budgets kept: 1 of 2." in page
    assert "- Title: missed" in page
    assert "MyGrad: left out, as it is not installed." in page
    assert "ValueError: no" in page
    pytest.importorskip("matplotlib")
    assert draw([section], tmp_path / "out.png") == tmp_path / "out.png"


@pytest.mark.slowest
@pytest.mark.parametrize("peer", PEERS)
def test_scans_and_the_like(peer: str) -> None:
    notebook = Notebook()
    operations.work(load(peer), SMOKE, notebook, {})
    assert not notebook.errors
    assert {f"{name}/forward" for name in operations.CASES} <= set(notebook.values)
