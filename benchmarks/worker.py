"""The program of a worker process, which measures one peer for `benchmarks.processes`.

It takes a request in JSON, and writes a line to standard output before each measurement and one with the results.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from benchmarks.measure import Effort, Notebook
from benchmarks.peers import Key, load


def main(request: str) -> None:
    job = json.loads(request)
    effort = Effort(**{**job["effort"], "nodes": tuple(job["effort"]["nodes"])})
    notebook = Notebook(wait)
    import_module(f"benchmarks.{job['module']}").work(load(job["peer"]), effort, notebook, job["options"])
    tell("found", {"values": notebook.values, "errors": notebook.errors})


def wait(key: Key) -> None:
    """Report the key of the next measurement, and wait for a line on standard input."""
    tell("turn", key)
    sys.stdin.readline()


def tell(what: str, value: object) -> None:
    """Print a message on a line of its own, even if the peer's last output has no newline."""
    print(f"\n{what} {json.dumps(value)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
