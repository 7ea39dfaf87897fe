"""Generation of the methods of `Autodiff`, one for each operation, from the operation's schema and rule.

A method is generated as source text, as `dataclasses` does, and compiled at its first use, so that importing burnpy
compiles nothing. A closure over a rule would take 75 to 150 ns more, and a tiny operation takes 900. `source` returns
the generated text::

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

``Kind`` is the node class of the operation, and ``vjp0`` its first vjp. ``mode`` is None outside of contexts such as
`burnpy.autodiff.no_grad`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.autodiff.codegen.fragments import saved_names
from burnpy.autodiff.codegen.method_source import source
from burnpy.autodiff.graph import EdgeKind, Tracked, new_node, next_seq, node_class, untracked
from burnpy.autodiff.rule_table import RULES, Rule
from burnpy.backend.backend import Backend
from burnpy.backend.entries import EMPTY, operation
from burnpy.backend.primitives import Float, Shape
from burnpy.backend.rules import FACTOR_VJPS, Vjp

__all__ = ["generated", "source"]


def generated(name: str, *, first: bool = False) -> Callable[..., Any]:
    """Generate and compile the method of `Autodiff` for one operation, or one that records its first result only."""
    op = operation(getattr(Backend, name))
    rule = RULES.get(name)
    names: dict[str, Any] = {
        "Tracked": Tracked,
        "next_seq": next_seq,
        "untracked": untracked,
        "new_node": new_node,
        "promoted": promoted,
        "default": op.function,
    }
    names |= {f"default_{a.name}": a.default for a in op.arguments if a.default is not EMPTY}
    kinds: dict[Vjp, EdgeKind] = {}
    if rule:
        vjps, kinds = _vjps(rule)
        names |= vjps
    names["Kind"] = node_class(name, kinds)
    exec(compile(source(name, first=first), f"<Autodiff.{name}>", "exec"), names)
    method: Callable[..., Any] = names[name]
    method.__doc__ = op.function.__doc__
    method.__qualname__ = f"Autodiff.{name}"
    method.__module__ = __name__
    return method


def _vjps(rule: Rule) -> tuple[dict[str, Vjp], dict[Vjp, EdgeKind]]:
    """Return the vjps of a rule by their names in the generated source, and for each its argument and saved values.
    Vjps that are one product of matrices are added to `FACTOR_VJPS`, so that the engine can add several at once."""
    names: dict[str, Vjp] = {}
    kinds: dict[Vjp, EdgeKind] = {}
    arguments = [a.name for a in rule.operation.float_arguments]
    for k, (argument, vjp) in enumerate(zip(arguments, rule.vjps, strict=False)):
        saved = saved_names(vjp)
        names[f"vjp{k}"], names[f"unbroadcast{k}"] = vjp, unbroadcast(vjp)
        kinds[vjp] = EdgeKind(argument, saved)
        kinds[names[f"unbroadcast{k}"]] = EdgeKind(argument, (f"{argument}_shape", *saved))
    if rule.matrices:
        for k, vjp in enumerate(rule.matrices.vjps):
            names[f"matrix_vjp{k}"] = vjp
            kinds[vjp] = EdgeKind(arguments[k], saved_names(vjp))
        FACTOR_VJPS.update(rule.matrices.vjps)
    if rule.last_two:
        from burnpy.autodiff.joint_nodes import first_of_two, hand_on, relayed, second_of_two

        first, second = first_of_two(rule.last_two), second_of_two(rule.vjps[2])
        names.update(first_vjp=first, second_vjp=second, hand_on=hand_on, relayed=relayed)
        kinds[hand_on] = EdgeKind(None, saved_names(rule.last_two))
        kinds[first], kinds[second] = (EdgeKind(argument, ()) for argument in arguments[-2:])
        FACTOR_VJPS.add(first)
    if rule.joint:
        from burnpy.autodiff.joint_nodes import joined, joint_vjp, of_first_result, record_outputs, single_result_vjp

        names |= {"record_outputs": record_outputs, "joined": joined, "joint": select_needed(rule.joint)}
        names["first_vjp"] = first_vjp = of_first_result(names["joint"], len(rule.operation.results))
        hidden = ("", "", "")  # the nameless values saved first: the vjp, whether it is alone, and needs
        kinds[joint_vjp] = kinds[single_result_vjp] = EdgeKind(None, (*hidden, *saved_names(rule.joint)))
        kinds[first_vjp] = EdgeKind(None, ("", *saved_names(rule.joint)))
    return names, kinds


def unbroadcast(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``vjp`` followed by the adjoint of broadcasting: a sum to the argument's shape. It is used only where an
    argument's shape differs from the result's."""

    def vjp_and_sum(inner: Any, grad: Float, shape: Shape, *saved: Any) -> Float:
        part = vjp(inner, grad, *saved)
        return part if part.shape == shape else inner.sum_to(part, shape)

    return vjp_and_sum


def promoted(device: Any, *operands: Any) -> tuple[Any, ...]:
    """Cast the primitives among the operands of an elementwise operation to their common dtype."""
    cast = iter(device.promote(*[x for x in operands if x.__class__ is Tracked]))
    return tuple([next(cast) if x.__class__ is Tracked else x for x in operands])


def select_needed(vjp: Callable[..., Any]) -> Callable[..., Any]:
    """Return a joint vjp that returns the gradients of the tracked arguments only."""

    def vjp_and_select(inner: Any, grads: Any, needs: tuple[bool, ...], *saved: Any) -> tuple[Float, ...]:
        parts: tuple[Float, ...] = vjp(inner, grads, needs, *saved)
        if False not in needs:
            return parts
        return tuple([part for part, needed in zip(parts, needs, strict=True) if needed])

    return vjp_and_select
