"""An implicit step for stiff equations: the Rosenbrock method Rodas of order 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.func.derivatives.jacobians import jacfwd
from burnpy.func.derivatives.jvps import jvp
from burnpy.func.solvers.linear import Factors
from burnpy.func.solvers.runge_kutta import Step, combined
from burnpy.tensor.tensor import Tensor

_GAMMA = 0.25
_STIFF_NODES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
_DRIFTS = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)
_STIFF_STAGES: tuple[tuple[float, ...], ...] = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895, 1.0),
)
_COUPLINGS: tuple[tuple[float, ...], ...] = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.7089089320616),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
_STIFF_DENSE = (
    (10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662, 0.0),
    (-0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872, 0.0),
)


def rodas4_step(f: Callable[..., Any], t: Any, y: Any, slope: Any, h: Any) -> Step:
    """Take a step of Rodas, which is L-stable and of order 4, with an error estimate of order 3.

    Each of its six stages is a linear equation with the matrix I / (γ h) - ∂f/∂y, which is factored once.

    Source: Hairer and Wanner, Solving Ordinary Differential Equations II, 1996, section IV.7, and their code RODAS.
    """
    jacobian = jacfwd(lambda x: f(t, x))(y)
    drift = jvp(lambda s: f(s, y), t, t.ones_like())[1]
    scale = 1.0 / h
    matrix = Tensor.eye(y.shape[0], dtype=y.dtype.name, device=y.device) * (scale * (1 / _GAMMA)) - jacobian
    factors = Factors(matrix)
    stages: list[Any] = []
    end = y
    for node, drifts, weights, couplings in zip(_STIFF_NODES, _DRIFTS, _STIFF_STAGES, _COUPLINGS, strict=True):
        right = slope
        if stages:
            end = y + combined(weights, stages)
            right = f(t + h * node, end) + combined(couplings, stages) * scale
        if drifts:
            right = right + drift * (h * drifts)
        stages.append(factors.solve(right))
    error = stages[-1]
    end = end + error
    first, second = [combined(weights, stages) for weights in _STIFF_DENSE]
    dense = (y, end - y + first, second - first, -second)
    return Step(end, f(t + h, end), error, dense)
