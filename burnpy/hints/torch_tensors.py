"""PyTorch's names that create, convert, rearrange, select or join tensors, with what to write here instead."""

from __future__ import annotations

CREATION = """
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
bartlett_window | burnpy.fft.bartlett_window(8, device=device)
blackman_window | burnpy.fft.blackman_window(8, device=device)
hamming_window | burnpy.fft.hamming_window(8, device=device)
hann_window | burnpy.fft.hann_window(8, device=device)
kaiser_window | burnpy.fft.kaiser_window(8, device=device)
vander | burnpy.vander(v)

# Random numbers
rand | Tensor.uniform(shape, device=device) | `generator=` draws from one of yours
randn | Tensor.normal(shape, device=device) | `generator=` draws from one of yours
normal | Tensor.normal(shape, 0.0, 1.0, device=device) | a mean and std that are tensors broadcast to the shape
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
cauchy_ | x = Tensor.student_t(x.shape, 1.0, device=device)
geometric_ | x = Tensor.exponential(x.shape, 0.7, device=device).ceil() | where the rate is -log(1 - p)
log_normal_ | x = x.normal_like(1.0, 2.0).exp()
poisson | Tensor.poisson(p.shape, p)
binomial | Tensor.binomial(p.shape, 10, p) | the count is a number, an IntTensor or a Tensor
manual_seed | burnpy.manual_seed(0)
seed | burnpy.manual_seed(0) | a generator is seeded by a number that you know
initial_seed | burnpy.Generator(0) | a generator is seeded by a number that you know
get_rng_state | burnpy.Generator(0).get_state()
set_rng_state | burnpy.Generator(0).set_state(burnpy.Generator(0).get_state())

# Attributes of a tensor
shape | x.shape | a tuple
size | x.shape | a tuple; of one dimension x.shape[dim]; `x.size` is NumPy's, the number of elements
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
is_complex | x.kind == "complex"
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
to | x.to_device(device) | for dtypes `x.to_dtype(dtype)`; `x.float()`, `x.int()` and `x.bool()` change the kind
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
float_power | x.float_power(2.0)

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
vmap | func.vmap(f)(x.inner()) | from burnpy import func

# torch itself
save | record.save("run.safetensors", model=model, step=3)
load | record.load("run.safetensors")
compile | burnpy.compiled(f)(x.inner()) | records f once, and refuses code that depends on values
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
fft | from burnpy import fft | spectra are `ComplexTensor`
special | from burnpy import special
utils | – | loaders are in `burnpy.data`, checkpoints in `burnpy.autodiff`, clipping is in `burnpy.optim`
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
REARRANGEMENT = """
# Shape
reshape | x.reshape(3, 2)
reshape_as | x.reshape(y.shape)
view | x.reshape(3, 2) | copies only if no view is possible; for dtypes `x.to_dtype(dtype)`
view_as | x.reshape(y.shape)
flatten | x.flatten()
ravel | x.ravel()
unflatten | x.unflatten(1, (3, 1))
squeeze | x.squeeze()
unsqueeze | x.unsqueeze(0)
expand | x.expand(4, 2, 3)
expand_as | x.expand_as(y)
broadcast_to | x.broadcast_to((4, 2, 3))
broadcast_tensors | burnpy.broadcast_tensors(x, v)
broadcast_shapes | np.broadcast_shapes(x.shape, v.shape)
atleast_1d | burnpy.atleast_1d(x)
atleast_2d | burnpy.atleast_2d(v)
atleast_3d | burnpy.atleast_3d(x)
resize | x.reshape(3, 2) | a tensor keeps its number of elements
resize_as | x.reshape(y.shape) | a tensor keeps its number of elements
permute | x.permute(1, 0)
transpose | x.transpose(0, 1)
swapaxes | x.swapaxes(0, 1)
swapdims | x.transpose(0, 1)
t | x.T
T | x.T | of a matrix; of more dimensions mT or permute
mT | x.mT
movedim | x.movedim(0, 1)
moveaxis | x.movedim(0, 1)
flip | x.flip(0)
fliplr | x.fliplr()
flipud | x.flipud()
rot90 | x.rot90()
roll | x.roll(1, 0)
repeat | x.repeat(2, 1) | NumPy's repeats elements, as `x.repeat_interleave(2)`
tile | x.tile((2, 1))
repeat_interleave | x.repeat_interleave(2, dim=0)
unfold | x.unfold(1, 2, 1) | of images `burnpy.nn.functional.unfold(x, 2)`
as_strided | – | the backend chooses the memory layout
meshgrid | burnpy.meshgrid(v, v) | `indexing="ij"` by default; NumPy's default is "xy"
cartesian_prod | burnpy.cartesian_prod(v, v)
combinations | burnpy.combinations(v)
pixel_shuffle | burnpy.nn.functional.pixel_shuffle(y.reshape(6, 1, 1)[:4], 2)
pixel_unshuffle | burnpy.nn.functional.pixel_unshuffle(y[:, :2].unsqueeze(0), 2)
channel_shuffle | burnpy.nn.functional.channel_shuffle(y.reshape(1, 6, 1), 2)

# Joining and splitting
cat | burnpy.cat([x, y], dim=0)
concat | burnpy.cat([x, y], dim=0)
concatenate | burnpy.cat([x, y], dim=0)
stack | burnpy.stack([x, y])
hstack | burnpy.hstack([x, y])
vstack | burnpy.vstack([x, y])
row_stack | burnpy.vstack([x, y])
column_stack | burnpy.column_stack([x, y])
dstack | burnpy.dstack([x, y])
block_diag | burnpy.block_diag(x, m)
split | x.split(1)
split_with_sizes | x.split([1, 1])
chunk | x.chunk(2)
tensor_split | x.tensor_split((1, 2), dim=1)
hsplit | x.tensor_split((1, 2), dim=1)
vsplit | x.tensor_split((1,), dim=0)
dsplit | x.unsqueeze(2).tensor_split(1, dim=2)
unbind | x.unbind()
unsafe_chunk | x.chunk(2)
unsafe_split | x.split(1)
unsafe_split_with_sizes | x.split([1, 1])

# Choosing and writing elements
where | burnpy.where(b, x, y)
index | x[rows] | every form of NumPy's, steps backward too; an int among indices places no dimension
gather | x.gather(0, i)
take_along_dim | x.take_along_dim(i, dim=0)
take | x.take(rows)
index_select | x.index_select(0, rows)
masked_select | x.masked_select(b)
masked_fill | x.masked_fill(b, value)
nonzero | x.nonzero() | takes `as_tuple=`
argwhere | x.argwhere()
nonzero_static | x.nonzero() | with as many rows as there are
narrow | x.narrow(1, 0, 2)
narrow_copy | x.narrow(1, 0, 2)
select | x.select(0, 1)
tril | x.tril()
triu | x.triu()
diagonal | m.diagonal()
diag | m.diag()
diag_embed | v.diag_embed()
diagflat | x.diagflat()
scatter | x.scatter(0, i, y) | takes `reduce=`; of a repeated index the last value alone gets a gradient
scatter_add | x.scatter_add(0, i, y)
scatter_reduce | x.scatter_reduce(0, i, y, "amax") | takes `include_self=`
index_add | x.index_add(0, rows, y) | takes `alpha=`
index_copy | x.index_copy(0, rows, y) | of a repeated index the last slice alone gets a gradient
index_fill | x.index_fill(0, rows, value)
index_put | x.at[rows].set(y) | `accumulate=True` is `.add(y)`
index_reduce | x.index_reduce(0, rows, y, "amax") | takes `include_self=`
put | x.put(rows, v[:2]) | takes `accumulate=`
select_scatter | x.select_scatter(v, 0, 1)
slice_scatter | x.slice_scatter(y[:, 1:], 1, start=1)
slice_inverse | – | internal there
diagonal_scatter | m.diagonal_scatter(v)
as_strided_scatter | – | the backend chooses the memory layout
masked_scatter | x.masked_scatter(b, y)
unravel_index | np.unravel_index(3, x.shape)
embedding | burnpy.nn.functional.embedding(rows, m)
fill | x.full_like(value)

# In place
zero_ | x = x.zeros_like()
fill_ | x = x.full_like(value)
fill_diagonal_ | m = m.at[[0, 1, 2], [0, 1, 2]].set(value)
copy_ | x = y
set_ | x = y
resize_ | x = x.reshape(3, 2)
resize_as_ | x = x.reshape(y.shape)
as_strided_ | – | the backend chooses the memory layout
map_ | x = x + y | write it with operations, which are differentiated too
map2_ | x = x + y | write it with operations, which are differentiated too
apply_ | x = x.sin() | write it with operations, which are differentiated too
share_memory_ | – | threads share tensors as they are
sparse_resize_ | – | there are no sparse tensors
resize_as_sparse_ | – | there are no sparse tensors
sparse_resize_and_clear_ | – | there are no sparse tensors

# Memory, layouts and other devices
stride | – | the backend chooses the memory layout
storage_offset | – | the backend chooses the memory layout
storage | – | the backend chooses the memory layout
storage_type | – | the backend chooses the memory layout
untyped_storage | – | the backend chooses the memory layout
data_ptr | – | the backend chooses the memory layout
const_data_ptr | – | the backend chooses the memory layout
dim_order | – | the backend chooses the memory layout
layout | – | the backend chooses the memory layout
is_set_to | – | the backend chooses the memory layout
pin_memory | – | the backend chooses the memory layout
is_pinned | – | the backend chooses the memory layout
is_shared | – | threads share tensors as they are
record_stream | – | the backend chooses the memory layout
as_subclass | – | the three kinds of tensors are final classes
module_load | model = model.load_record(model.into_record())
is_meta | – | there are no tensors without values
is_nested | – | there are no nested tensors
to_padded_tensor | – | there are no nested tensors
is_distributed | – | tensors are on one device
coalesce | – | there are no sparse tensors
is_coalesced | – | there are no sparse tensors
is_sparse | – | there are no sparse tensors
is_sparse_csr | – | there are no sparse tensors
indices | – | there are no sparse tensors
values | – | there are no sparse tensors
ccol_indices | – | there are no sparse tensors
col_indices | – | there are no sparse tensors
crow_indices | – | there are no sparse tensors
row_indices | – | there are no sparse tensors
dense_dim | – | there are no sparse tensors
sparse_dim | – | there are no sparse tensors
sparse_mask | – | there are no sparse tensors
smm | – | there are no sparse tensors
sspaddmm | – | there are no sparse tensors
to_dense | x | there are no sparse tensors
to_sparse | – | there are no sparse tensors
to_sparse_bsc | – | there are no sparse tensors
to_sparse_bsr | – | there are no sparse tensors
to_sparse_coo | – | there are no sparse tensors
to_sparse_csc | – | there are no sparse tensors
to_sparse_csr | – | there are no sparse tensors
sparse_bsc_tensor | – | there are no sparse tensors
sparse_bsr_tensor | – | there are no sparse tensors
sparse_compressed_tensor | – | there are no sparse tensors
sparse_coo_tensor | – | there are no sparse tensors
sparse_csc_tensor | – | there are no sparse tensors
sparse_csr_tensor | – | there are no sparse tensors
dequantize | – | there are no quantized tensors
int_repr | – | there are no quantized tensors
is_quantized | – | there are no quantized tensors
q_per_channel_axis | – | there are no quantized tensors
q_per_channel_scales | – | there are no quantized tensors
q_per_channel_zero_points | – | there are no quantized tensors
q_scale | – | there are no quantized tensors
q_zero_point | – | there are no quantized tensors
qscheme | – | there are no quantized tensors
to_mkldnn | – | the backends are NumPy (CPU) and CuPy (GPU)
is_mkldnn | – | the backends are NumPy (CPU) and CuPy (GPU)
is_ipu | – | the backends are NumPy (CPU) and CuPy (GPU)
is_maia | – | the backends are NumPy (CPU) and CuPy (GPU)
is_mps | – | the backends are NumPy (CPU) and CuPy (GPU)
is_mtia | – | the backends are NumPy (CPU) and CuPy (GPU)
is_vulkan | – | the backends are NumPy (CPU) and CuPy (GPU)
is_xla | – | the backends are NumPy (CPU) and CuPy (GPU)
is_xpu | – | the backends are NumPy (CPU) and CuPy (GPU)
ipu | – | the backends are NumPy (CPU) and CuPy (GPU)
mtia | – | the backends are NumPy (CPU) and CuPy (GPU)
xpu | – | the backends are NumPy (CPU) and CuPy (GPU)
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
