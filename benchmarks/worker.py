"""A fresh process that measures one peer: it is given a request in JSON and answers on its last line."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from benchmarks.measure import Effort, Notebook
from benchmarks.peers import load


def main(request: str) -> None:
    asked = json.loads(request)
    effort = Effort(**{**asked["effort"], "nodes": tuple(asked["effort"]["nodes"])})
    notebook = Notebook()
    import_module(f"benchmarks.{asked['module']}").work(load(asked["peer"]), effort, notebook, asked["options"])
    print()
    print(json.dumps({"values": notebook.values, "errors": notebook.errors}))


if __name__ == "__main__":
    main(sys.argv[1])
