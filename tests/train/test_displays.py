"""What a person sees of a run: on a terminal, in a file, on a page, and in TensorBoard's files."""

from __future__ import annotations

import io
import math
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from burnpy.errors import ArgumentError
from burnpy.record import load
from burnpy.train import BatchEnd, Dashboard, Jsonl, MLflow, Progress, TensorBoard, find_lr
from burnpy.train.display import History
from tests.rows import every_row

from .training import Batches, learner, net, valid_batches, weights

ROOT = Path(__file__).parents[2]


def fit(logger: Any, epochs: int = 3) -> Any:
    return learner(loggers=[logger]).fit(net(), Batches(), valid_batches(), epochs=epochs)


def test_a_file_gets_a_line_for_each_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    fit(Dashboard())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 epochs of 4 batches"
    assert [line[:9] for line in lines[1:]] == ["epoch 1/3", "epoch 2/3", "epoch 3/3", "done"]
    assert re.search(r"step 4: train/loss [\d.]+, train/accuracy .*, valid/accuracy .*, lr .* samples/s\)", lines[1])


def test_a_terminal_shows_bars_values_and_curves() -> None:
    out = io.StringIO()
    fit(Dashboard(Console(file=out, force_terminal=True, width=100, height=30)))
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    last = shown[shown.rindex("epochs") :]
    for text in ("3/3", "valid/accuracy", "train/loss", "best", "step 12", "samples/s", "done"):
        assert text in last, text
    assert re.search(r"valid/loss +[\d.]+ +[\d.]+ +[▁▂▃▄▅▆▇█]{3}", last)


class Notebook(ModuleType):
    """IPython in a notebook: its shell has a kernel, and its displays are noted."""

    def __init__(self) -> None:
        super().__init__("IPython")
        self.shown: list[dict[str, str]] = []
        self.updates = 0

    def get_ipython(self) -> Any:
        return SimpleNamespace(kernel=object())

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.shown.append(bundle)
        return SimpleNamespace(update=self.update)

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.updates += 1
        self.shown[-1] = bundle


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made)
    return made


def test_a_notebook_shows_one_display_that_changes(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    fit(Dashboard())
    (bundle,) = notebook.shown
    assert notebook.updates in (1, 2), "it is drawn twice a second, and at the end"
    drawn = ElementTree.fromstring(bundle["text/html"])
    assert [svg.get("aria-label") for svg in drawn.iter("svg")] == ["batch loss", "accuracy", "loss"]
    rows = [["".join(cell.itertext()) for cell in row] for row in drawn.iter("tr")]
    assert [row[0] for row in rows] == ["", "valid/loss", "valid/accuracy", "train/loss", "train/accuracy"]
    assert re.match(r"epochs 3/3 · step 12 · lr .* · done: valid/loss [\d.]+, ", bundle["text/plain"])
    assert capsys.readouterr().out == ""


def test_a_notebook_shows_progress_with_and_without_a_total(notebook: Notebook) -> None:
    with Progress(4, "<fit>") as progress:
        for _ in range(4):
            progress.advance(loss=0.5)
    with Progress() as endless:
        endless.advance()
    known, unknown = (ElementTree.fromstring(bundle["text/html"]) for bundle in notebook.shown)
    assert [part.attrib["value"] for part in known.iter("progress")] == ["4"]
    assert "".join(known.itertext()) == "<fit>4/4, loss 0.5"
    assert [*unknown.iter("progress")] == []
    assert [bundle["text/plain"] for bundle in notebook.shown] == ["<fit> 4/4, loss 0.5", "1"]


def test_the_result_shows_its_curves_and_values() -> None:
    result = learner().fit(net(), Batches(), valid_batches(), epochs=2)
    shown = ElementTree.fromstring(result._repr_html_())
    assert [svg.get("aria-label") for svg in shown.iter("svg")] == ["lr", "accuracy", "loss"]
    assert ["".join(row[0].itertext()) for row in shown.iter("tr")] == ["epoch", "1", "2"]
    assert sum(math.isfinite(float(cell.text or "nan")) for cell in shown.iter("td")) == 2 * 6
    assert "2 epochs, 8 steps, last {" in repr(result)
    assert "1 epoch, 1 step, stopped: why, last {}" in repr(replace(result, epoch=1, step=1, stopped="why", history=()))


@pytest.mark.parametrize("lacking", ["rich", "a terminal that moves its cursor"])
def test_a_terminal_without_rich_or_a_cursor_gets_lines(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm" if lacking == "rich" else "dumb")
    if lacking == "rich":
        monkeypatch.setitem(sys.modules, "rich", None)  # which cannot be imported then
    fit(Dashboard(), epochs=1)
    assert list(Progress(title="files").over("a")) == ["a"]
    assert re.sub(r":.*", "", out.getvalue()).splitlines() == [
        "1 epoch of 4 batches",
        "epoch 1/1, step 4",
        "done",
        "files 1/1",
    ]


def test_few_losses_of_a_long_run_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnpy.train.display.READ_EVERY", 0.0)
    monkeypatch.setattr("burnpy.train.display.MOST_READ", 4)
    history = History()
    for event in learner().events(net(), Batches(), valid_batches(), epochs=2):
        history.note(event)
    assert [step for step, _ in history.read] == [1, 5, 7, 8]


def test_losses_are_read_ten_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1.0
    monkeypatch.setattr("burnpy.train.display.time", SimpleNamespace(perf_counter=lambda: now))
    history, read = History(), []
    for event in learner().events(net(), Batches(), valid_batches(), epochs=1):
        history.note(event)
        if isinstance(event, BatchEnd):
            read.append(len(history.losses))
            now += 0.06
    assert read == [1, 1, 2, 2]
    assert history.best("valid/accuracy") == history.values["valid/accuracy"][0]


@pytest.mark.slowest
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_on_a_real_terminal_it_draws_prints_pass_and_ctrl_c_gives_the_terminal_back() -> None:
    script = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from burnpy.train import BatchEnd, Dashboard\n"
        "from tests.train.training import *; from tests.train.training import learner as make\n"
        "def act(event):\n"
        "    if isinstance(event, BatchEnd) and event.step == 2: print('a print of the user')\n"
        "    if isinstance(event, BatchEnd) and event.step == 6: os.kill(os.getpid(), signal.SIGINT)\n"
        "result = make(callbacks=[act], loggers=[Dashboard()]).fit(net(), Batches(), valid_batches(), epochs=3)\n"
        "print('ended', result.stopped, result.step)\n"
    )
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    environment.pop("CI", None)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(ROOT)], stdout=child, stderr=child, cwd=ROOT, env=environment
    )
    os.close(child)
    shown = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(parent)
    assert process.wait() == 0, shown.decode()
    text = shown.decode()
    assert "a print of the user" in text
    assert "ended interrupted 6" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is shown again


def test_progress_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Progress(title="files").over("abc")) == ["a", "b", "c"]
    total: Any
    for total in ("files", 2.5, -1):
        with pytest.raises(ArgumentError, match=r"Progress\(\) got total=.*; expected an int of at least 0"):
            Progress(total)
    assert capsys.readouterr().out.splitlines() == ["files 1/3", "files 2/3", "files 3/3"]
    with Progress(1000) as progress:
        for _ in range(1000):
            progress.advance()
    assert len(capsys.readouterr().out.splitlines()) == 11


@pytest.mark.slowest
def test_tensorboard_files_are_read_back(tmp_path: Path) -> None:
    proto: Any = import_module("tensorboardX.proto.event_pb2")  # which has no types
    result = fit(TensorBoard(tmp_path, every=2))
    (path,) = tmp_path.glob("events.*")
    data, at, seen = path.read_bytes(), 0, dict[tuple[str, int], float]()
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        event = proto.Event.FromString(data[at + 12 : at + 12 + length])
        at += 16 + length
        seen |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
    assert seen["valid/accuracy", 12] == pytest.approx(result.history[-1]["valid/accuracy"], rel=1e-6)
    assert seen["train/loss", 4] == pytest.approx(result.history[0]["train/loss"], rel=1e-6)
    assert {step for tag, step in seen if tag == "batch/loss"} == {2, 4, 6, 8, 10, 12}


@pytest.mark.heavy("mlflow")
def test_mlflow_has_settings_metrics_and_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/runs")
    mlflow: Any = import_module("mlflow")
    result = fit(MLflow("digits", run="first", every=2, settings={"rate": 0.1, "name": None}))
    (run,) = mlflow.search_runs(experiment_names=["digits"], output_format="list")
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params == {"rate": "0.1", "name": "None"}
    client = mlflow.MlflowClient()
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in losses] == [(row["step"], row["train/loss"]) for row in result.history]
    assert [one.step for one in client.get_metric_history(run.info.run_id, "batch/loss")] == [2, 4, 6, 8, 10, 12]
    record = load(client.download_artifacts(run.info.run_id, "model.safetensors", str(tmp_path)))
    assert weights(record.apply_to(net())) == weights(result.model)

    with pytest.raises(RuntimeError, match="no data"):
        learner(loggers=[MLflow("digits")], callbacks=[failing]).fit(net(), Batches(), valid_batches(), epochs=1)
    assert mlflow.search_runs(experiment_names=["digits"], output_format="list")[0].info.status == "FAILED"
    with mlflow.start_run() as active:
        fit(MLflow(model=False), epochs=1)
        assert mlflow.active_run().info.run_id == active.info.run_id
    assert client.get_run(active.info.run_id).data.metrics.keys() >= {"train/loss", "valid/accuracy", "lr"}
    with pytest.raises(ArgumentError, match="no experiment, and no run is active"):
        fit(MLflow())


@every_row(
    "logger, settings, said",
    [
        (Jsonl, {"every": 2.5}, r"Jsonl\(every=\) is 2.5; expected an int of 1 or more"),
        (Jsonl, {"settings": {"rate": np.ones(3)}}, r"Jsonl\(\) got settings=\{'rate': an ndarray"),
        (TensorBoard, {"every": 0}, r"TensorBoard\(every=\) is 0; expected an int of 1 or more"),
        (TensorBoard, {"folder": 3}, r"TensorBoard\(\) got folder=3; expected a string or a path"),
        (MLflow, {"experiment": 3}, r"MLflow\(\) got experiment=3; expected a string or None"),
        (MLflow, {"run": 3}, r"MLflow\(\) got run=3; expected a string or None"),
        (MLflow, {"settings": [1]}, r"MLflow\(\) got settings=\[1\]; expected a dict or None"),
        (MLflow, {"settings": {1: 2}}, r"MLflow\(\) got settings=\{1: 2\}; expected plain values"),
    ],
)
def test_arguments_are_checked_before_packages_are_imported(
    logger: Any, settings: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("mlflow", "tensorboardX"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ArgumentError, match=said):
        logger(**settings)


def failing(event: Any) -> None:
    if isinstance(event, BatchEnd):
        raise RuntimeError("no data")


def test_the_learning_rate_finder_changes_nothing_and_suggests() -> None:
    made, model = learner(), net()
    before = weights(model)
    found = find_lr(made, model, Batches(), start=1e-5, end=10.0, steps=60)
    assert weights(model) == before
    assert made.optim.state() == {}
    assert found.rates[0] < found.suggestion < found.rates[-1]
    assert len(found.rates) == len(found.losses)
    with pytest.raises(ArgumentError, match="upwards from above 0"):
        find_lr(made, model, Batches(), start=1.0, end=0.1)
