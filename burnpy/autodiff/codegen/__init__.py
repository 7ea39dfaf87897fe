"""Generation of the methods of `Autodiff`, one for each operation, from the operation's schema and rule.

A method is generated as source text and compiled at its first use, as `dataclasses` does. Compared with closures over
a rule that saves 75 to 150 ns of a tiny operation's 900, and importing burnpy compiles nothing. `source` returns the
generated text::

    >>> print(source("exp"))
    def exp(self, x):
        value = self.computing.exp(x.value)
        out = Tracked()
        out.value = value
        out.meta = x.meta
        parent = x.node
        if parent is None or ((mode := self.mode()) is not None and mode.silences(self.level)):
            out.node = None
            return out
        node = Kind()
        node.parent0 = parent
        node.vjp0 = vjp0
        node.saved0 = value
        node.parent1 = None
        node.alive = True
        node.seq = next_seq()
        if mode is not None:
            mode.record(self, node, value)
        out.node = node
        return out
"""

from __future__ import annotations

from burnpy.autodiff.codegen.compiling import generated
from burnpy.autodiff.codegen.method_source import source

__all__ = ["generated", "source"]
