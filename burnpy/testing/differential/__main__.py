"""``python -m burnpy.testing.differential``: samples from a seed on, for some time."""

from __future__ import annotations

import argparse
import time

from burnpy import backend
from burnpy.testing.differential.machine import run


def main(options: argparse.Namespace) -> int:
    """Run the machine; return 1 if something is wrong."""
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)  # noqa: T201
    report = run(
        getattr(backend, options.backend), seed, seconds=options.seconds, count=options.count, only=options.only,
        plans=options.plans, each=options.each, first=options.first, stop=options.stop, entries=options.entries,
        tell=lambda text: print(text, flush=True),  # noqa: T201
    )  # fmt: skip
    print(report)  # noqa: T201
    if options.verbose:
        for title, counts in (("refused", report.refused), ("not comparable", report.unsuitable)):
            for name, n in counts.most_common(60):
                print(f"{title} {n:5}  {name}  {report.examples.get(name, '')}")  # noqa: T201
    return 1 if report.failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m burnpy.testing.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
    parser.add_argument("--count", type=int, help="the number of samples, if it is not to be the time")
    parser.add_argument("--seed", type=int, help="the seed; by default another one each time")
    parser.add_argument("--first", type=int, default=0, help="the number of the first sample")
    parser.add_argument("--backend", default="NumPy", help="a name in burnpy.backend")
    parser.add_argument("--only", help="words, separated by commas: transformations whose names contain one")
    parser.add_argument("--entries", nargs="+", help="operations and building blocks that samples may have")
    parser.add_argument("--plans", type=float, default=0.3, help="the share of samples that are compiled")
    parser.add_argument("--each", type=int, default=6, help="the number of transformations of a sample")
    parser.add_argument("--stop", type=int, default=20, help="the number of failures after which to stop")
    parser.add_argument("--verbose", action="store_true", help="also count what is refused or cannot be compared")
    raise SystemExit(main(parser.parse_args()))
