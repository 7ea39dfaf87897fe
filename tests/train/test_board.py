"""The page of the board: its parts are where they belong, and a browser draws them and follows a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from burnpy.metrics import ConfusionMatrix
from burnpy.nn import Module
from burnpy.optim import AdamW
from burnpy.train import FitStart, Jsonl, Learner, Step, board
from burnpy.train.board import COLORS, HEIGHT, WIDTH, figures, page, runs_in, ticks

from .training import Batches, net, train_step, valid_batches, valid_step


def matrix_step(model: Module[Any], batch: Any) -> Step[Any]:
    step = valid_step(model, batch)  # type: ignore[arg-type]  # a Net
    return Step(step.loss, matrix=ConfusionMatrix.of(model(batch[0]), batch[1]), accuracy=step.metrics["accuracy"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The logs of two runs."""
    for name, rate in (("a", 0.01), ("b<script>", 0.03)):
        log = Jsonl(tmp_path / name / "log.jsonl", every=1, settings={"rate": rate})
        learner: Any = Learner(train_step, matrix_step, optim=AdamW(), lr=rate, loggers=[log])
        learner.fit(net(), Batches(), valid_batches(), epochs=2)
    with (tmp_path / "a" / "log.jsonl").open("a") as file:
        file.write('{"event": "epo')  # a line that is being written
    return tmp_path


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of the page while it is served."""
    server = board.server_of(folder, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_logs_are_read(folder: Path) -> None:
    runs = runs_in(folder)
    assert [(run.name, run.state, run.settings) for run in runs] == [
        ("a", "done", {"rate": 0.01}),
        ("b<script>", "done", {"rate": 0.03}),
    ]
    assert [step for step, _ in runs[0].curves["valid/accuracy"]] == [4, 8]
    assert sum(map(sum, runs[0].matrices["valid/matrix"])) == 50


def test_a_run_that_was_killed_and_resumed_is_one_curve(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"event": "start", "step": 0}, *({"event": "batch", "step": k, "train/loss": 0.5} for k in range(1, 6))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "bat')
    log = Jsonl(path)
    log.log(FitStart(model=net(), epochs=3, epoch=0, batch=3, step=3, batches=4, validates=False, resumed=path))
    log.close()
    assert json.loads(path.read_text().splitlines()[-1])["event"] == "start"
    (run,) = runs_in(tmp_path)
    assert [step for step, _ in run.curves["batch/loss"]] == [1, 2, 3]


def test_everything_is_drawn_inside_of_its_chart(folder: Path) -> None:
    found = ElementTree.fromstring(f"<main>{figures(runs_in(folder))}</main>")
    charts = {svg.get("aria-label"): svg for svg in found.iter("svg")}
    values = {"train/loss", "train/accuracy", "valid/loss", "valid/accuracy", "batch/loss", "batch/accuracy", "lr"}
    assert charts.keys() == {*values, "valid/matrix, a", "valid/matrix, b<script>"}
    for name in values:
        lines = [*charts[name].iter("polyline")]
        assert [line.get("stroke") for line in lines] == [*COLORS[:2]]
        for line in lines:
            points = [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]
            assert len(points) == (8 if name.startswith("batch/") or name == "lr" else 2) + 2 * (name == "lr")
            assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
        assert len([*charts[name].iter("text")]) >= 6
    assert len([*charts["valid/matrix, a"].iter("rect")]) == 4
    head, *rows = (list(row.itertext()) for row in found.iter("tr"))
    assert head == ["run", "state", "step", *sorted(values - {"batch/loss", "batch/accuracy", "lr"}), "settings"]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("a", "done", "8", "rate 0.01"),
        ("b<script>", "done", "8", "rate 0.03"),
    ]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2e-5, 7.1e-5), (1.0, 123456.0), (0.4999, 0.5001)])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 3 <= len(found) <= 8
    assert low <= found[0] < found[-1] <= high


def test_only_the_page_is_served(folder: Path) -> None:
    text = page(runs_in(folder))
    assert "<script>b" not in text
    with served(folder) as address:
        with urllib.request.urlopen(address) as answer:
            assert answer.read().decode() == text
        with urllib.request.urlopen(address + "/runs") as answer:
            assert answer.read().decode() in text
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address + "/../secret")
        refused.value.close()  # it is the answer


def test_the_server_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no folder"):
        board.main([str(tmp_path / "nothing")])
    with board.server_of(tmp_path, 0) as server, pytest.raises(SystemExit, match="choose another with --port"):
        board.main([str(tmp_path), "--port", str(server.server_port)])


def browser() -> str | None:
    """The path of Chromium or Chrome: on PATH, or as Playwright installs it."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
    installed = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    playwright = sorted(installed.glob("chromium-*/chrome-*/chrome"))
    found = [shutil.which(name) for name in (*names, *map(str, playwright))]
    return next((path for path in found if path is not None), None)


@pytest.mark.slow
@pytest.mark.skipif(browser() is None, reason="there is no Chromium on PATH to look at the page with")
def test_a_browser_draws_the_runs_and_follows_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0

    def growing(of: Path) -> Any:
        nonlocal seen
        seen += 1
        if seen == 2:  # after the page itself, and before it asks for what is new
            shutil.copytree(of / "a", of / "later")
        return runs_in(of)

    def run(*options: str) -> str:
        program = browser()
        assert program is not None
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
        with served(folder) as address:
            done = subprocess.run([*command, *options, address], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    picture = folder / "board.png"
    run("--window-size=1300,1000", "--hide-scrollbars", f"--screenshot={picture}")
    with Image.open(picture) as image:
        assert image.size == (1300, 1000)
        colors = {color: count for count, color in image.convert("RGB").getcolors(1 << 24) or ()}
    for color in COLORS[:2]:
        assert colors.get((int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)), 0) > 300
    monkeypatch.setattr(board, "runs_in", growing)
    drawn = run("--virtual-time-budget=5000", "--dump-dom")
    assert drawn.count("<svg") == 10
    assert 'aria-label="valid/matrix, later"' in drawn
