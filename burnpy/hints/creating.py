"""PyTorch's names that create tensors, convert them or describe them, with what to write here instead."""

from __future__ import annotations

ROWS = """
# Making tensors
tensor | Tensor.from_data([[1.0, 2.0]], device=device) | the class is the kind: IntTensor, BoolTensor
as_tensor | Tensor.from_data(array, device=device) | copies; `copy=False` takes an array that nobody can write to
asarray | Tensor.from_data(array, device=device) | copies; `copy=False` takes an array that nobody can write to
from_numpy | Tensor.from_data(array, device=device) | copies; `copy=False` takes an array that nobody can write to
frombuffer | Tensor.from_data(array, device=device) | where `array = np.frombuffer(...)`
from_dlpack | Tensor.from_dlpack(array, device=device) | copies, so that nobody writes to a tensor
scalar_tensor | Tensor.from_data(1.0, device=device)
zeros | Tensor.zeros(shape, device=device) | the class is the kind: IntTensor.zeros makes ints
ones | Tensor.ones(shape, device=device) | the class is the kind: IntTensor.ones makes ints
full | Tensor.full(shape, value, device=device) | the class is the kind: IntTensor.full makes ints
empty | Tensor.zeros(shape, device=device) | there are no uninitialized tensors
eye | Tensor.eye(3, device=device)
arange | Tensor.arange(0.0, 1.0, 0.25, device=device) | the class is the kind: IntTensor.arange counts in ints
range | Tensor.arange(0.0, 1.25, 0.25, device=device) | the end is not part of it; deprecated there
linspace | Tensor.linspace(low, high, 5, device=device)
logspace | 10.0 ** Tensor.linspace(low, high, 5, device=device)
zeros_like | x.zeros_like()
ones_like | x.ones_like()
full_like | x.full_like(value)
empty_like | x.zeros_like() | there are no uninitialized tensors
new | Tensor.zeros(shape, device=x.device) | deprecated there
new_tensor | Tensor.from_data([1.0, 2.0], device=x.device)
new_zeros | Tensor.zeros(shape, dtype=x.dtype, device=x.device)
new_ones | Tensor.ones(shape, dtype=x.dtype, device=x.device)
new_full | Tensor.full(shape, value, dtype=x.dtype, device=x.device)
new_empty | Tensor.zeros(shape, dtype=x.dtype, device=x.device) | there are no uninitialized tensors
tril_indices | Tensor.ones((3, 3), device=device).tril().nonzero().mT
triu_indices | Tensor.ones((3, 3), device=device).triu().nonzero().mT
empty_strided | – | the backend chooses the memory layout
empty_permuted | – | the backend chooses the memory layout
new_empty_strided | – | the backend chooses the memory layout
bartlett_window | – | not yet: with spectra
blackman_window | – | not yet: with spectra
hamming_window | – | not yet: with spectra
hann_window | – | not yet: with spectra
kaiser_window | – | not yet: with spectra
vander | v.unsqueeze(1) ** Tensor.arange(0.0, 3.0, device=device) | powers ascend

# Random numbers
rand | Tensor.uniform(shape, device=device) | `generator=` draws from one of yours
randn | Tensor.normal(shape, device=device) | `generator=` draws from one of yours
normal | Tensor.normal(shape, 0.0, 1.0, device=device) | of tensors `mean + std * x.normal_like()`
randint | IntTensor.randint(0, 10, shape, device=device) | the shape comes last, as there
randperm | IntTensor.permutation(5, device=device)
rand_like | x.uniform_like()
randn_like | x.normal_like()
randint_like | IntTensor.randint(0, 10, x.shape, device=device)
bernoulli | p.bernoulli() | of probabilities, as there
multinomial | p.multinomial(2, replacement=True) | of logits `x.categorical()` draws one from each row
uniform_ | x = x.uniform_like(low, high)
normal_ | x = x.normal_like(0.0, 1.0)
bernoulli_ | x = x.full_like(0.5).bernoulli()
random_ | x = x.uniform_like(0.0, 10.0).floor()
exponential_ | x = Tensor.exponential(x.shape, rate=1.0, device=device)
cauchy_ | – | not yet; draw from Tensor.uniform and transform
geometric_ | – | not yet; draw from Tensor.uniform and transform
log_normal_ | x = x.normal_like(1.0, 2.0).exp()
poisson | – | not yet: with distributions
binomial | – | not yet: with distributions
manual_seed | burnpy.manual_seed(0)
seed | burnpy.manual_seed(0) | a generator is seeded by a number that you know
initial_seed | burnpy.Generator(0) | a generator is seeded by a number that you know
get_rng_state | burnpy.Generator(0).get_state()
set_rng_state | burnpy.Generator(0).set_state(burnpy.Generator(0).get_state())

# Attributes of a tensor
shape | x.shape | a tuple
size | x.shape | a tuple; of one dimension x.shape[dim]
ndim | x.ndim
dim | x.ndim
ndimension | x.ndim
numel | x.numel()
nelement | x.numel()
dtype | x.dtype | NumPy's
device | x.device | the backend that computes
get_device | x.device
is_floating_point | x.kind == "float"
is_signed | x.dtype.kind != "u"
is_complex | x.kind == "complex" | never: there are no complex numbers
is_tensor | isinstance(x, Tensor)
is_same_size | x.shape == y.shape
is_nonzero | bool(x[0, 0]) | of one element
element_size | x.dtype.itemsize
itemsize | x.dtype.itemsize
nbytes | x.numel() * x.dtype.itemsize
is_cpu | – | the type says it: Tensor[NumPy], Tensor[Autodiff[NumPy]]
is_cuda | – | the type says it: Tensor[CuPy], Tensor[Autodiff[CuPy]]
is_inference | – | tensors of inference_mode are like any other
name | – | tensors have no names
result_type | (x + y).dtype | the same rules, within a kind
promote_types | (x + y).dtype | the same rules, within a kind
can_cast | – | within a kind every dtype can be cast: `x.to_dtype(dtype)`
finfo | np.finfo(x.dtype) | dtypes are NumPy's
iinfo | np.iinfo(i.dtype) | dtypes are NumPy's
get_default_dtype | x.dtype | Python numbers become float32, unless `dtype=` says otherwise
set_default_dtype | x.to_dtype("float64") | no global setting: numbers become float32, unless `dtype=` says otherwise
get_default_device | x.device | a type, `Tensor[Train]`, or `device=` says where
set_default_device | Tensor.zeros(shape, device=device) | no global setting: `Tensor[Train]`, or `device=`, says where

# Converting
to | x.to_device(device) | of dtypes `x.to_dtype(dtype)`; `x.float()`, `x.int()` and `x.bool()` change the kind
type | x.to_dtype("float64") | `x.float()`, `x.int()` and `x.bool()` change the kind
type_as | x.to_dtype(y.dtype) | and of another kind `y.float()`, `y.int()`, `y.bool()`
cpu | x.to_device(device) | device = NumPy, or Autodiff[NumPy] to train; `x.to_numpy()` is its values on the CPU
cuda | x.to_device(device) | device = CuPy, or Autodiff[CuPy] to train: `from burnpy.backend import CuPy`
float | x.float()
double | x.double()
half | x.half()
bfloat16 | x.bfloat16() | needs the package ml_dtypes
int | x.int() | gives int64; `x.int("int32")` gives PyTorch's int32
long | x.int()
short | x.int("int16")
char | x.int("int8")
byte | x.int("uint8")
bool | x.bool()
float16 | burnpy.float16 | dtypes are NumPy's
float32 | burnpy.float32 | dtypes are NumPy's
float64 | burnpy.float64 | dtypes are NumPy's
int8 | burnpy.int8 | dtypes are NumPy's
int16 | burnpy.int16 | dtypes are NumPy's
int32 | burnpy.int32 | dtypes are NumPy's
int64 | burnpy.int64 | dtypes are NumPy's
uint8 | burnpy.uint8 | dtypes are NumPy's
uint16 | burnpy.uint16 | dtypes are NumPy's
uint32 | burnpy.uint32 | dtypes are NumPy's
uint64 | burnpy.uint64 | dtypes are NumPy's
numpy | x.to_numpy() | read-only, which PyTorch ignores: `np.array(x)` and `torch.from_dlpack(x)` are copies of your own
tolist | x.tolist()
item | x[0, 0].item()
clone | x | tensors never change, so that x itself is as good as a copy
contiguous | x | the backend chooses the memory layout
is_contiguous | – | the backend chooses the memory layout
float_power | x.double() ** 2.0

# Autograd
backward | loss.backward(retain_graph=True)
grad | x.grad(grads)
grad_fn | loss.grad_fn
grad_dtype | x.dtype
requires_grad | x.is_require_grad() | `x = x.require_grad()` makes a leaf
requires_grad_ | x = x.require_grad()
is_leaf | x.grad_fn is None
data | x.inner() | the values, on the backend where nothing is recorded
volatile | x.inner() | deprecated there
detach | x.detach() | or `x.inner()`, whose type says it too
detach_ | x = x.detach()
retain_grad | loss.retain_grad()
retains_grad | loss.grad_fn.name == "retain_grad"
register_hook | x, handle = x.register_hook(hook)
register_post_accumulate_grad_hook | x, handle = x.register_hook(hook) | it sees a leaf's gradient when it is complete
output_nr | – | results of one operation are known by the tensors themselves
reinforce | – | not there any more either
no_grad | burnpy.autodiff.no_grad() | or compute with `x.inner()`
enable_grad | burnpy.autodiff.enable_grad()
inference_mode | burnpy.autodiff.inference_mode()
set_grad_enabled | burnpy.autodiff.set_grad_enabled(True)
is_grad_enabled | burnpy.autodiff.is_grad_enabled()
autograd | burnpy.autodiff
vmap | func.jacobian(f, chunk_size=8)(x.inner()) | for gradients of samples; else write for batches

# torch itself
save | record.save("run.safetensors", model=model, step=3)
load | record.load("run.safetensors")
compile | – | operations run as they are called
torch.cuda | burnpy.backend | CuPy computes on the GPU, and Autodiff[CuPy] trains there
torch.device | Train.device() | a device is an instance of a backend
torch.dtype | np.dtype | dtypes are NumPy's
torch.float | burnpy.float32
torch.double | burnpy.float64
torch.half | burnpy.float16
torch.int | burnpy.int32
torch.long | burnpy.int64
torch.short | burnpy.int16
torch.bool | burnpy.bool_
set_printoptions | np.set_printoptions(precision=4) | tensors are printed as NumPy says
get_num_threads | – | set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS before NumPy is imported
set_num_threads | – | set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS before NumPy is imported
use_deterministic_algorithms | – | on the CPU every result is the same each time
linalg | from burnpy import linalg
fft | – | not yet
special | – | use the tensor methods instead
utils | – | checkpoints are in `burnpy.autodiff`, clipping is in `burnpy.optim`
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
