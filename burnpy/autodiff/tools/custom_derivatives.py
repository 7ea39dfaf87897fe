"""`custom_vjp` and `custom_jvp`: functions of tensors with a user-defined derivative, as in JAX.

If a level differentiates an argument, the rule runs in place of the function, on the level beneath, and is itself
differentiated there by the inner levels. Otherwise the function runs unchanged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from burnpy.autodiff.forward import Forward
from burnpy.autodiff.forward_methods import Dual
from burnpy.autodiff.graph import conjugate, from_user
from burnpy.autodiff.joint_nodes import opaque_class, record_outputs
from burnpy.autodiff.tools.batched_rules import Batch, batched_bwd, batched_code, batched_jvp, differentiated_beneath
from burnpy.autodiff.tools.forward_mode import tangent_parts, traced, transposed
from burnpy.autodiff.tools.function import refused, refused_tensors
from burnpy.autodiff.tools.user_code import RuleReads, call_user_code, positional, tensors_in
from burnpy.autodiff.tools.user_values import (
    TensorSpec,
    differentiated,
    in_reverse,
    lifted,
    lined_up,
    lowered,
    packed,
    parts_of,
    primitives,
    regrouped,
    results_of,
    spec_of,
    spec_of_tensor,
    tensor,
    tensors,
    unpacked,
    zero_like,
)
from burnpy.backend.errors import ArgumentError, GraphError, KindError, NotTrackedError
from burnpy.backend.functions import signature
from burnpy.backend.primitives import Float
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.levels import working_on
from burnpy.typevars import F

J = TypeVar("J", bound=Callable[..., tuple[Any, Any]])


class _Custom(Generic[F], metaclass=Explaining):
    """A function of tensors and plain values with a rule for its derivative."""

    def __init__(self, function: F) -> None:
        self._function: Callable[..., Any] = function
        self._name: str = getattr(function, "__name__", type(function).__name__)
        decorator = type(self).__name__
        if not callable(function):
            raise KindError(f"{decorator} decorates a function, not {function!r}")
        for parameter in signature(function).parameters.values():
            if parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
                raise ArgumentError(
                    f"{decorator} was put on {self._name}(), which takes {parameter.name} by keyword only; let it take "
                    "every argument by position, which is how derivatives are told apart"
                )
        self._kind = opaque_class(self._name)
        functools.update_wrapper(cast(Any, self), function)

    if TYPE_CHECKING:
        __call__: F  # pyright takes a property for no callable

    else:

        def __call__(self, *args, **kwargs):
            """Call the function; its rule is used for derivatives."""
            return self._called(positional(self._name, self._function, args, kwargs, 0))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    def _called(self, args: Sequence[Any]) -> Any:
        """Compute the results on the device of the arguments; levels that do not differentiate call the next one."""
        device, arguments = lined_up(self._name, args)
        if device is None or not device.differentiates:
            return self._function(*arguments)
        if device.lifts_discrete:
            beneath = differentiated_beneath(device, arguments)
            return self._on_batch(device, arguments) if beneath else self._function(*arguments)
        specs = [spec_of(a) for a in arguments]
        values = primitives(arguments)
        needs = differentiated(self._name, device, specs, values)
        inner = device.inner
        low = tensors(inner, specs, lowered(device, specs, values))
        if any(needs):
            return self._derived(device, specs, values, needs, low)
        with working_on(inner):
            returned = self._called(low)
        return self._built(device, returned, results_of(f"{self._name}()", returned, inner), [], [])

    def _on_batch(self, device: Any, arguments: Sequence[Any]) -> Any:
        """Compute the results on a level of `vmap`, beneath which a level differentiates an argument."""
        batch = Batch(device, arguments)
        whole = object.__new__(type(self))
        whole._function, whole._name, whole._kind = batched_code(batch, self._function), self._name, self._kind
        self._give_rules(whole, batch)
        returned = whole._called(batch.inner)
        return regrouped(returned, batch.on_level(returned))

    def _give_rules(self, whole: Any, batch: Batch) -> None:
        """Give the function of a batch the rules of this one, for the batch."""
        raise NotImplementedError

    def _derived(
        self,
        device: Any,
        specs: list[TensorSpec | None],
        values: list[Any],
        needs: Sequence[bool],
        low: tuple[Any, ...],
    ) -> Any:
        """Compute the results on a device that differentiates the arguments for which ``needs`` is true; ``low`` are
        the arguments on the level beneath."""
        raise NotImplementedError

    def _built(
        self, device: Any, returned: object, outs: Sequence[Any], places: Sequence[int], recorded: Sequence[Any]
    ) -> Any:
        """Wrap the results of the level beneath for the device: those at ``places`` are ``recorded``, others lifted."""
        out_specs = [spec_of(out) for out in outs]
        results = lifted(device, out_specs, primitives(outs))
        for k, result in zip(places, recorded, strict=True):
            results[k] = result
        return regrouped(returned, tensors(device, out_specs, results))

    def _pair(self, rule: str, what: str, returned: object) -> tuple[Any, Any]:
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ArgumentError(
                f"the {rule} of {self._name}() returned {returned!r:.80}; it must return a pair: {what}"
            )
        return returned

    def _undefined(self, method: str) -> NotTrackedError:
        return NotTrackedError(
            f"{self._name}() cannot be differentiated without a rule; define one with {self._name}.{method}"
        )


class custom_vjp(_Custom[F]):  # noqa: N801  # JAX's name; it is used like a function
    """A decorator for a function whose reverse-mode derivative is defined with `defvjp`; it has no forward mode.

    The function takes tensors and plain values, and returns a tensor or a tuple of tensors.

    >>> from typing import TypeVar
    >>> from burnpy.backend import Backend
    >>> B = TypeVar("B", bound=Backend)
    >>> @custom_vjp
    ... def clipped(x: Tensor[B], limit: float) -> Tensor[B]:
    ...     return x.clamp(-limit, limit)
    >>> def forward(x: Tensor[B], limit: float) -> tuple[Tensor[B], None]:
    ...     return clipped(x, limit), None
    >>> def backward(residuals: None, grad: Tensor[B]) -> tuple[Tensor[B], None]:
    ...     return grad, None  # as if nothing was clipped
    >>> clipped.defvjp(forward, backward)
    >>> x = Tensor[Autodiff[NumPy]].from_data([0.5, 2.0]).require_grad()
    >>> clipped(x, 1.0).sum().backward()[x].tolist()
    [1.0, 1.0]
    """

    _rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, fwd: Callable[..., tuple[Any, Any]], bwd: Callable[[Any, Any], Any]) -> None:
        """Define the derivative.

        Args:
            fwd: takes the arguments of the function; returns its result and the residuals: tensors and plain values in
                any nesting of tuples, lists and dicts.
            bwd: takes the residuals and the gradient of the result (for a tuple of results a tuple of gradients);
                returns the tuple of the gradients of the arguments, None for arguments that are no float tensors or
                have no influence. Missing gradients are passed as zeros, those of int and bool results as None.

        Raises:
            KindError: one of them is not a function.
        """
        for function in (fwd, bwd):
            if not callable(function):
                raise KindError(f"{self._name}.defvjp(fwd, bwd) takes two functions, not {function!r}")
        self._rules = fwd, bwd

    def _give_rules(self, whole: Any, batch: Batch) -> None:
        if self._rules is not None:
            fwd, bwd = self._rules
            whole._rules = batched_code(batch, fwd), batched_bwd(batch, self._name, bwd)

    def _derived(
        self,
        device: Any,
        specs: list[TensorSpec | None],
        values: list[Any],
        needs: Sequence[bool],
        low: tuple[Any, ...],
    ) -> Any:
        name = self._name
        if isinstance(device, Forward):
            raise NotTrackedError(
                f"{name}() was differentiated in forward mode, and custom_vjp has a rule for reverse mode "
                f"only; decorate it with custom_jvp, which serves both{in_reverse(device)}"
            )
        if self._rules is None:
            raise self._undefined("defvjp(fwd, bwd)")
        fwd, bwd = self._rules
        reads = RuleReads(device.inner)
        with reads.block:
            returned = call_user_code(f"the fwd of {name}()", f"what {name}() takes", fwd, device.inner, *low)
        result, residuals = self._pair("fwd", "the result and the residuals", returned)
        outs = results_of(f"the fwd of {name}()", result, device.inner)
        saved: list[Any] = []
        tree = packed(f"the fwd of {name}()", residuals, device.inner, saved)
        if reads.method is not None:
            message, sources = reads.message(f"the fwd of {name}()"), list(tensors_in(low))
            outs = refused_tensors(message, outs, sources)
            saved = primitives(
                refused_tensors(message, list(tensors_in(unpacked(tree, device.inner, tuple(saved)))), sources)
            )
        out_specs = tuple([spec_of_tensor(out) for out in outs])
        places = [k for k, spec in enumerate(out_specs) if spec.floats]
        if not places:
            return self._built(device, result, outs, [], [])
        rule = _BackwardRule(name, bwd, tuple(specs), tuple(needs), out_specs, isinstance(result, tuple), tree)
        floats = [outs[k]._primitive for k in places]
        parents = [v.node for v, needed in zip(values, needs, strict=True) if needed]
        recorded = record_outputs(device, self._kind, floats, parents, _backward_vjp, (rule, *saved))
        return self._built(device, result, outs, places, recorded)


class _BackwardRule(NamedTuple):
    """The data of one call of a `custom_vjp` for its backward rule, without tensors."""

    name: str
    bwd: Callable[[Any, Any], Any]
    arguments: tuple[TensorSpec | None, ...]
    needs: tuple[bool, ...]
    outputs: tuple[TensorSpec, ...]
    several: bool  #: whether the result is a tuple
    residuals: Any  #: the residuals, with a `Slot` for each tensor


def _backward_vjp(inner: Any, grads: Sequence[Any], rule: _BackwardRule, *saved: Any) -> tuple[Float, ...]:
    """Call the backward rule of a `custom_vjp` and return the gradients of the arguments that need one."""
    remaining = iter(grads)
    incoming = []
    for spec in rule.outputs:
        grad = conjugate(inner, next(remaining)) if spec.floats else None
        zero = zero_like(spec, inner) if spec.floats and grad is None else None
        incoming.append(zero if grad is None else tensor(spec, inner, grad))
    residuals = unpacked(rule.residuals, inner, saved)
    who, takes = f"the bwd of {rule.name}()", "the residuals, and then the gradient of the result"
    reads = RuleReads(inner)
    with reads.block:
        returned = call_user_code(
            who, takes, rule.bwd, inner, residuals, tuple(incoming) if rule.several else incoming[0]
        )
    parts = parts_of(who, "gradient", returned, rule.arguments, inner, needed=rule.needs)
    if reads.method is not None:
        sources = [x for x in (*incoming, *tensors_in(residuals)) if x is not None]
        parts = refused(reads.message(who), inner, parts, rule.arguments, sources)
    return from_user(inner, [part for part, needed in zip(parts, rule.needs, strict=True) if needed])


class custom_jvp(_Custom[F]):  # noqa: N801  # as above
    """A decorator for a function whose derivative in both modes is defined with `defjvp`; reverse mode transposes it.

    >>> from typing import TypeVar
    >>> from burnpy.backend import Backend
    >>> B = TypeVar("B", bound=Backend)
    >>> @custom_jvp
    ... def log1pexp(x: Tensor[B]) -> Tensor[B]:
    ...     return (1.0 + x.exp()).log()
    >>> @log1pexp.defjvp
    ... def _(primals: tuple[Tensor[B]], tangents: tuple[Tensor[B]]) -> tuple[Tensor[B], Tensor[B]]:
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1.0 - 1.0 / (1.0 + x.exp()))
    >>> x = Tensor[Autodiff[NumPy]].from_data([0.0, 100.0]).require_grad()
    >>> log1pexp(x).sum().backward()[x].tolist()
    [0.5, 1.0]
    """

    _rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: J) -> J:
        """Define the derivative; returns ``jvp``, so that this can be used as a decorator.

        Args:
            jvp: ``jvp(primals, tangents)`` takes the tuple of the arguments and the tuple of their tangents, None for
                arguments that are no float tensors; returns the result and its tangent (for a tuple of results a tuple
                of tangents, None for zero). The result's tangent must be linear in the tangents: sums of them, and
                products with values that do not depend on them. Reverse mode runs it with zero tangents, records the
                operations on them, and transposes these.

        Raises:
            KindError: ``jvp`` is not a function.
        """
        if not callable(jvp):
            raise KindError(f"{self._name}.defjvp(jvp) takes a function, not {jvp!r}")
        self._rule = jvp
        return jvp

    def _give_rules(self, whole: Any, batch: Batch) -> None:
        if self._rule is not None:
            whole._rule = batched_jvp(batch, self._rule)

    def _derived(
        self,
        device: Any,
        specs: list[TensorSpec | None],
        values: list[Any],
        needs: Sequence[bool],
        low: tuple[Any, ...],
    ) -> Any:
        jvp, inner, who = self._rule, device.inner, f"the jvp of {self._name}()"
        if jvp is None:
            raise self._undefined("defjvp(jvp)")

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            takes = "the tuple of the arguments, then the tuple of their tangents"
            reads = RuleReads(next(tensors_in((primals, tangents))).device)
            with reads.block:
                returned = call_user_code(who, takes, jvp, None, primals, tangents)
            if reads.method is not None:
                raise GraphError(reads.message(who))
            return self._pair("jvp", "the result and its tangent", returned)

        if isinstance(device, Forward):
            tangents = [
                None if spec is None or not spec.floats
                else tensor(spec, inner, v.tangent) if needed
                else zero_like(spec, inner)
                for spec, v, needed in zip(specs, values, needs, strict=True)
            ]  # fmt: skip
            with working_on(inner):
                result, tangent = rule(low, tuple(tangents))
            outs = results_of(who, result, inner)
            parts = tangent_parts(who, outs, tangent, inner)
            places = [k for k, part in enumerate(parts) if part is not None]
            duals = [Dual(outs[k]._primitive, parts[k]) for k in places]
            return self._built(device, result, outs, places, duals)
        result, outs, linear = traced(who, rule, inner, specs, primitives(low), needs)
        if not linear.places:
            return self._built(device, result, outs, [], [])
        floats = [outs[k]._primitive for k in linear.places]
        parents = [v.node for v, needed in zip(values, needs, strict=True) if needed]
        recorded = record_outputs(device, self._kind, floats, parents, transposed, (linear,))
        return self._built(device, result, outs, linear.places, recorded)
