"""Programs of complex numbers: a Fourier neural operator, a diagonal state space model, a quantum circuit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, ComplexTensor, Tensor, fft, func
from burnpy.backend import NumPy
from burnpy.nn import ComplexParam, Linear, Module
from burnpy.optim import Adam
from burnpy.typevars import B

Train = Autodiff[NumPy]
rng = np.random.default_rng(3)


class FourierLayer(Module[B]):
    """A linear map of the lowest frequencies, of complex weights, beside a linear layer."""

    def __init__(self, modes: int, channels: int, device: B) -> None:
        shape, scale = (modes, channels, channels), 1.0 / channels
        re, im = rng.normal(0.0, scale, (2, *shape)).astype(np.float32)
        self.weight = ComplexParam(ComplexTensor.from_data(re + 1j * im, device=device))
        self.beside = Linear(channels, channels, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        size, modes = x.shape[1], self.weight.shape[0]
        low = fft.rfft(x, dim=1)[:, :modes]
        changed = burnpy.einsum("bkc,kcd->bkd", low, self.weight.value)
        return fft.irfft(changed, size, dim=1) + self.beside(x)


class Operator(Module[B]):
    """A Fourier neural operator of functions on a circle."""

    def __init__(self, device: B) -> None:
        self.inside = Linear(1, 8, device=device)
        self.first = FourierLayer(5, 8, device)
        self.second = FourierLayer(5, 8, device)
        self.out = Linear(8, 1, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.out(self.second(self.first(self.inside(x)).gelu()))


@pytest.mark.slow
def test_a_fourier_neural_operator_learns_to_differentiate() -> None:
    grid = np.arange(32) * (2 * math.pi / 32)
    waves = rng.normal(size=(2, 24, 4, 1)) / 4
    k = np.arange(1, 5)[:, None]
    x = (waves[0] * np.sin(k * grid) + waves[1] * np.cos(k * grid)).sum(1)[..., None]
    y = (k * (waves[0] * np.cos(k * grid) - waves[1] * np.sin(k * grid))).sum(1)[..., None]
    given, wanted = (Tensor[Train].from_data(v.astype(np.float32)) for v in (x, y))
    model: Operator[Autodiff[NumPy]] = Operator(Train.device())
    optim = Adam()
    losses = []
    for _ in range(150):
        loss = (model(given) - wanted).square().mean()
        losses.append(loss.item())
        model = optim.step(0.01, model, loss.backward())
    assert losses[-1] < 0.05 * losses[0]


def by_complex_numbers(decay: Any, turn: Any, re: Any, im: Any, u: Any) -> Any:
    """Filter a signal by a diagonal state space model, with complex states."""
    size = u.shape[-1]
    steps = Tensor.arange(0.0, size, dtype="float64", device=u.device)
    poles = burnpy.complex(-decay.exp(), turn).unsqueeze(-1)
    kernel = 2.0 * (burnpy.complex(re, im).unsqueeze(-1) * (poles * steps.complex()).exp()).sum(0).real
    return fft.irfft(fft.rfft(kernel, 2 * size) * fft.rfft(u, 2 * size), 2 * size)[..., :size]


def by_floats(decay: Any, turn: Any, re: Any, im: Any, u: Any) -> Any:
    """Do the same with pairs of floats, and the convolution by its definition."""
    size = u.shape[-1]
    steps = Tensor.arange(0.0, size, dtype="float64", device=u.device)
    fall = (-decay.exp().unsqueeze(-1) * steps).exp()
    angle = turn.unsqueeze(-1) * steps
    kernel = 2.0 * (fall * (re.unsqueeze(-1) * angle.cos() - im.unsqueeze(-1) * angle.sin())).sum(0)
    rows = [kernel[: k + 1].flip(0) @ u[: k + 1] for k in range(size)]
    return burnpy.stack(rows)


def test_a_state_space_model_is_that_of_floats() -> None:
    parts = [Tensor[NumPy].from_data(v) for v in (*rng.uniform(-1.0, 0.5, (4, 3)), rng.normal(size=16))]
    found, wanted = by_complex_numbers(*parts), by_floats(*parts)
    np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), 1e-12, 1e-12)
    every = (0, 1, 2, 3, 4)
    transforms: tuple[Any, ...] = (lambda g: func.grad(lambda *p: g(*p).square().sum(), every), func.jacrev)
    for f in transforms:
        results = [f(g)(*parts) for g in (by_complex_numbers, by_floats)]
        pairs = zip(*results, strict=True) if isinstance(results[0], tuple) else [results]
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), 1e-10, 1e-10)


QUBITS = 6
FLIPPED = np.array([[0, 1], [1, 0]])


def turned(state: Any, qubit: int, angles: Any) -> Any:
    """Apply rotations about y and then about z to a qubit of a state of shape (2, …, 2)."""
    half = angles * 0.5
    c, s = half[0].cos(), half[0].sin()
    about_y = burnpy.stack([c, -s, s, c]).reshape(2, 2).complex()
    phases = burnpy.polar(half.ones_like(), burnpy.stack([-half[1], half[1]])).unsqueeze(-1)
    return burnpy.tensordot(phases * about_y, state, dims=([1], [qubit])).movedim(0, qubit)


def entangled(state: Any, control: int, target: int) -> Any:
    """Flip a qubit where another one is 1."""
    one = tuple(slice(1, 2) if q == control else slice(None) for q in range(QUBITS))
    return state.at[one].set(state[one].flip(target))


def energy(angles: Any) -> Any:
    """Return the energy of an Ising chain after a circuit with angles of shape (layers, QUBITS, 2)."""
    start = np.zeros((2,) * QUBITS, np.complex128)
    start[(0,) * QUBITS] = 1.0
    state: Any = ComplexTensor.from_data(start, device=angles.device)
    for layer in range(angles.shape[0]):
        for q in range(QUBITS):
            state = turned(state, q, angles[layer, q])
        for q in range(QUBITS - 1):
            state = entangled(state, q, q + 1)
    weights = state.abs().square()
    signs = [1.0 - 2.0 * np.indices((2,) * QUBITS)[q] for q in range(QUBITS)]
    coupling = Tensor.from_data(sum(signs[q] * signs[q + 1] for q in range(QUBITS - 1)), device=angles.device)
    across = sum([(state.conj() * state.flip(q)).sum().real for q in range(QUBITS)])
    return -(weights * coupling).sum() - 0.8 * across


def test_a_circuit_has_the_gradient_of_shifted_angles() -> None:
    values = rng.uniform(-1.0, 1.0, (2, QUBITS, 2))
    angles = Tensor[NumPy].from_data(values)
    slope = func.grad(energy)(angles)
    for place in ((0, 0, 0), (1, 3, 1), (0, 5, 1), (1, 2, 0)):
        shift = np.zeros_like(values)
        shift[place] = math.pi / 2
        ahead, behind = (energy(Tensor[NumPy].from_data(values + sign * shift)).item() for sign in (1, -1))
        assert math.isclose(slope[place].item(), (ahead - behind) / 2, rel_tol=1e-10, abs_tol=1e-10)
    batch = burnpy.stack([angles, angles * 0.5])
    energies = func.vmap(energy)(batch)
    np.testing.assert_allclose(energies.to_numpy(), [energy(angles).item(), energy(angles * 0.5).item()], 1e-12)


@pytest.mark.slowest
def test_a_circuit_finds_the_ground_state() -> None:
    angles, optim = Tensor[Train].from_data(rng.uniform(-0.5, 0.5, (3, QUBITS, 2))).require_grad(), Adam()
    for _ in range(120):
        angles = optim.step(0.1, angles, energy(angles).backward())
    signs = [np.diag([1.0, -1.0]), np.eye(2), FLIPPED]
    matrix = np.zeros((2**QUBITS, 2**QUBITS))
    for q in range(QUBITS):
        matrix -= 0.8 * chain([signs[2] if k == q else signs[1] for k in range(QUBITS)])
        if q + 1 < QUBITS:
            matrix -= chain([signs[0] if k in (q, q + 1) else signs[1] for k in range(QUBITS)])
    lowest = np.linalg.eigvalsh(matrix)[0]
    assert lowest - 1e-9 <= energy(angles.detach()).item() < 0.95 * lowest


def chain(matrices: list[Any]) -> Any:
    out = np.ones((1, 1))
    for matrix in matrices:
        out = np.kron(out, matrix)
    return out
