"""``python -m burnpy`` prints what a bug report needs to say about an installation: see `burnpy.environment`."""

from __future__ import annotations

import argparse
import os
import sys

from burnpy.environment import report

if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m burnpy",
        description="Print versions, backends, kernels, threads and extras, for a bug report; whatever is broken or "
        "missing is part of it. Other commands: python -m burnpy_numpy.warm compiles common kernels ahead; "
        "python -m burnpy.train.board FOLDER shows the runs that Jsonl logged.",
    ).parse_args()
    try:
        print(report(), flush=True)  # noqa: T201  # the command's result
    except BrokenPipeError:  # the reader, such as head, has read enough; what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
