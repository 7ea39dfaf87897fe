"""Notebooks, executed by a kernel: the example, and one in which rich and widgets are missing."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "notebook.ipynb"

pytestmark = [pytest.mark.slow, pytest.mark.heavy("nbclient", "ipykernel")]

RUN = """
import sys
sys.modules |= dict.fromkeys(("rich", "ipywidgets"))  # which cannot be imported then
sys.path.insert(0, {root!r})
from burnpy.train import Dashboard, Progress
from tests.train.training import Batches, learner, net, valid_batches

def fit(callback):
    made = learner(loggers=[Dashboard()], callbacks=[callback])
    return made.fit(net(), Batches(), valid_batches(), epochs=2)
"""
FAILING = """
def fail(event):
    if getattr(event, "step", 0) == 6:
        raise RuntimeError("on purpose")

fit(fail)
"""


def executed(notebook: Any) -> list[list[Any]]:
    """Execute a notebook; return the outputs of its cells with code."""
    with warnings.catch_warnings(action="ignore"):  # those of the packages around the kernel
        client, read = import_module("nbclient"), import_module("nbformat")
        done = read.reads(json.dumps(notebook), 4)
        client.NotebookClient(done, timeout=120, allow_errors=True, kernel_name="python3").execute()
    return [cell.outputs for cell in done.cells if cell.cell_type == "code"]


def html(output: Any) -> ElementTree.Element:
    return ElementTree.fromstring(output.data["text/html"])


def count(output: Any, tag: str) -> int:
    return sum(part.tag.endswith(tag) for part in html(output).iter())  # those of SVG have a namespace


def test_the_example() -> None:
    notebook = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "the outputs are not stored"
    cells = executed(notebook)
    assert [len(outputs) for outputs in cells] == [1] * 8
    images, model, summary, graph, gradients, run, result, weights = (outputs[0] for outputs in cells)
    assert count(images, "img") == 8
    assert count(model, "details") == 3
    assert count(summary, "tr") == 5
    assert count(graph, "rect") == 8
    assert count(gradients, "tr") == 5
    assert run.output_type == "display_data"
    assert (count(run, "progress"), count(run, "svg"), count(run, "polyline")) == (1, 3, 5)
    assert run.data["text/plain"].startswith("epochs 5/5 · step 110 · ")
    assert (count(result, "svg"), count(result, "tr")) == (3, 6)
    assert count(weights, "img") == 1


def test_a_run_without_widgets_an_error_and_a_bar() -> None:
    cells = ["import burnpy\n" + RUN.format(root=str(ROOT)), "fit(lambda event: None).epoch", FAILING]
    cells += ["for k in Progress(title='files <3>').over(range(20)): print(k)"]
    made: list[Any] = [
        {"cell_type": "code", "id": f"c{k}", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
        for k, text in enumerate(cells)
    ]
    _, (run, epoch), (failed, error), progress = executed(
        {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )
    assert set(run.data) == {"text/html", "text/plain"}
    assert "done" in run.data["text/plain"]
    assert epoch.data["text/plain"] == "2"
    assert error.evalue == "on purpose"
    assert failed.data["text/plain"].startswith("epochs 1/2 · step ")
    assert count(failed, "progress") == 2
    bar = next(output for output in progress if output.output_type == "display_data")
    assert bar.data["text/plain"] == "files <3> 20/20"
    assert "".join(html(bar).itertext()) == "files <3>20/20"
    assert "".join(output.text for output in progress if output.output_type == "stream").split() == [
        *map(str, range(20))
    ]
