"""Puts faults that the differential machine is to find back into the source, and counts the samples that it takes.

    python -m tests.mutations.faults --seeds 0 1 2 --count 1000

Each fault is the change of one place. A copy of the tree is changed, and `burnpy.testing.differential` runs there until
a sample disagrees.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.mutations.__main__ import HERE, Suite


class Fault(NamedTuple):
    """The change of one place of a file that gives wrong numbers."""

    name: str
    file: str
    right: str
    wrong: str
    ways: str  #: words of the names of the transformations that can find it


FAULTS = (
    Fault(
        "a plan reads a value for each row as one for each column",
        "burnpy/backend/plans/fusion.py",
        "return all(known.get(number, role) == role for number, role in roles.items())",
        "return len(known) >= 0",
        "compiled",
    ),
    Fault(
        "an inner vmap takes the arrays of the outer one's values",
        "burnpy/batching/batch_methods.py",
        "fold(self, x) if k in primitives and x is not None",
        "_value(fold(self, x)) if k in primitives and x is not None",
        "vmap(vmap",
    ),
    Fault(
        "a checkpoint in a plan draws again",
        "burnpy/backend/decorators/recorded.py",
        "before, self._again = self._again, [*draws[::-1]]",
        "before, self._again = self._again, []",
        "compiled",
    ),
    Fault(
        "gradients of eigenvectors lack terms of small gaps",
        "burnpy/backend/operations/linalg.py",
        "lost = d.bitwise_and(i.le(size, i.mul(i.detach(noise), eps)), i.le(gap, i.mul(i.detach(largest), eps)))",
        "lost = i.le(gap, i.mul(i.detach(largest), 4 * x.shape[-1] * eps))",
        "float32",
    ),
    Fault(
        "a probability of 0 has the slope of its logarithm",
        "burnpy/distributions/categorical.py",
        'return computed("log_prob", _log_share, wide, wide.sum(dim=-1, keepdim=True)).to_dtype(self._dtype)',
        "return (wide.log() - wide.sum(dim=-1, keepdim=True).log()).to_dtype(self._dtype)",
        "differences",
    ),
    Fault(
        "weights of logcumsumexp come from its rounded result",
        "burnpy/backend/operations/scans.py",
        "own = i.where(infinite, i.exp(i.sub(x, most)), i.div(own, total))",
        "own = i.exp(i.sub(x, i.logcumsumexp(x, dim)))",
        "float32",
    ),
    Fault(
        "an event's time has derivatives of first order alone",
        "burnpy/func/solvers/odeint.py",
        "for _ in range(derivative_order(event(time, state.at(time)))):",
        "for _ in range(1):",
        "hvp(f) = differences",
    ),
    Fault(
        "OneHot takes an index modulo the depth",
        "burnpy/interop/onnx/operators/shapes.py",
        "chosen = wrapped(index, depth[0]).unsqueeze(-1)",
        "chosen = (index % depth[0]).unsqueeze(-1)",
        "f of ONNX, foreign nodes",
    ),
    Fault(
        "Split has as many parts as somebody reads",
        "burnpy/interop/onnx/reader.py",
        '("outputs", len(proto.output))',
        '("outputs", sum(map(bool, proto.output)))',
        "f of ONNX, foreign nodes",
    ),
)
"""The faults. Their files and places are those of today's code."""


def samples_until(fault: Fault | None, seed: int, count: int, work: Path, every: bool) -> str:
    """Return the number of samples until one disagrees, with the transformation, in a tree with a fault or without."""
    suite = Suite(HERE, [], work, 0)
    copy = suite.copied("fault")
    if fault is not None:
        path = copy / fault.file
        text = path.read_text(encoding="utf-8")
        assert text.count(fault.right) == 1, f"{fault.file} does not have the place of {fault.name!r} once"
        path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    command = ["-m", "burnpy.testing.differential", "--seed", str(seed), "--count", str(count), "--stop", "1"]
    command += ["--seconds", "3600", "--plans", "1"] + (
        ["--only", fault.ways] if fault is not None and not every else []
    )
    _, output, seconds = suite.run(copy, command, 3600)
    found = re.search(r"^(\S.*?): (.*)  \(sample (\d+) of seed", output, re.M)
    if found is None:
        ran = re.search(r"^(\d+) samples, (\d+) comparisons", output, re.M)
        return f"not in {ran[1] if ran else output[-300:]} samples ({seconds:.0f} s)"
    return f"{int(found[3]) + 1} samples, by {found[1]}: {found[2][:80]} ({seconds:.0f} s)"


def main(options: argparse.Namespace) -> None:
    """Print a line for each fault and seed."""
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).resolve()
        chosen = [fault for k, fault in enumerate(FAULTS) if options.only is None or k in options.only]
        for fault in [*chosen, *([None] if options.unchanged else [])]:
            for seed in options.seeds:
                found = samples_until(fault, seed, options.count, work, options.every)
                print(f"{fault.name if fault else 'unchanged'} | seed {seed} | {found}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations.faults", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--count", type=int, default=1000, help="the number of samples after which to give up")
    parser.add_argument("--only", type=int, nargs="+", metavar="K", help="of the faults, these")
    parser.add_argument("--every", action="store_true", help="try all transformations, not only those that can find it")
    parser.add_argument("--unchanged", action="store_true", help="also run without a fault")
    parser.add_argument("--work", type=Path, help="a folder for the copy and caches, which the next run finds again")
    main(parser.parse_args())
