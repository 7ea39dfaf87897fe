"""MyGrad: untracked under ``no_autodiff``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mygrad
import mygrad.nnet

from benchmarks.peers import EXPRESSIONS, Array, Peer


class MyGrad(Peer):
    package = "mygrad"
    expressions = EXPRESSIONS | {
        "sin": "mg.sin(x)",
        "exp": "mg.exp(x)",
        "relu": "mg.nnet.relu(x)",
        "softmax": "mg.nnet.softmax(m, axis=1)",
    }

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        mygrad.no_autodiff.__enter__()
        return {name: mygrad.tensor(array) for name, array in arrays.items()} | {"mg": mygrad}

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        mygrad.no_autodiff.__exit__(None, None, None)
        return {name: self.leaf(array) for name, array in arrays.items()} | {"mg": mygrad}

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        read = "; ".join(f"{leaf}.grad" for leaf in leaves)
        return f"({expression}).backward({seed or ''}); {read}"

    def leaf(self, array: Array) -> Any:
        return mygrad.tensor(array, constant=array.dtype.kind != "f")

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        f(*leaves).backward()
        return [leaf.grad for leaf in leaves]

    def sin(self, x: Any) -> Any:
        return mygrad.sin(x)


PEER = MyGrad()
