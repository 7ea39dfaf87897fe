"""A fresh process that measures one peer, as `benchmarks.processes` asks: a request in JSON, a line for each turn."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from benchmarks.measure import Effort, Notebook
from benchmarks.peers import Key, load


def main(request: str) -> None:
    asked = json.loads(request)
    effort = Effort(**{**asked["effort"], "nodes": tuple(asked["effort"]["nodes"])})
    notebook = Notebook(wait)
    import_module(f"benchmarks.{asked['module']}").work(load(asked["peer"]), effort, notebook, asked["options"])
    tell("found", {"values": notebook.values, "errors": notebook.errors})


def wait(key: Key) -> None:
    """Say what is to be measured next, and wait to be called."""
    tell("turn", key)
    sys.stdin.readline()


def tell(what: str, value: object) -> None:
    """One line, on a line of its own whatever the peer has printed."""
    print(f"\n{what} {json.dumps(value)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
