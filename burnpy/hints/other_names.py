"""The names that NumPy, and Burn, have and PyTorch does not, with what to write here instead; JAX's for waiting too."""

from __future__ import annotations

NUMPY = """
# NumPy's names
array | Tensor.from_data([[1.0, 2.0]], device=device)
asanyarray | Tensor.from_data(array, device=device)
ascontiguousarray | x | the backend chooses the memory layout
identity | Tensor.eye(3, device=device)
astype | x.to_dtype("float64") | `x.float()`, `x.int()` and `x.bool()` change the kind
copy | x | tensors never change, so that x itself is as good as a copy
ptp | x.amax() - x.amin()
compress | x[rows]
choose | burnpy.where(b, x, y)
power | x.pow(y) | also `x ** y`
mod | x.remainder(y) | also `x % y`
fabs | x.abs()
rint | x.round()
around | x.round()
cbrt | x.abs() ** (1.0 / 3.0) * x.sign()
average | x.mean()
argpartition | – | not yet
partition | – | not yet
expand_dims | x.unsqueeze(0)
append | burnpy.cat([x, y], dim=0)
delete | x[rows]
insert | burnpy.cat([x[:1], y, x[1:]], dim=0)
array_split | x.tensor_split(2)
rollaxis | x.movedim(0, 1)
fill_diagonal | m = m.at[[0, 1, 2], [0, 1, 2]].set(value)
itemset | x = x.at[0, 0].set(value)
ndindex | np.ndindex(x.shape)
array_equal | bool((x == y).all())
invert | ~i
left_shift | i.bitwise_left_shift(j) | also `i << j`
right_shift | i.bitwise_right_shift(j) | also `i >> j`
iscomplex | z.imag != 0.0 | of complex numbers
pad | burnpy.nn.functional.pad(x, (1, 1)) | a pair for each dimension, the last one's first
random | Tensor.uniform(shape, device=device) | `burnpy.Generator(0)` is a generator of your own
tobytes | x.to_numpy().tobytes()
tofile | x.to_numpy().tofile("x.bin")
setflags | x | tensors never change
strides | – | the backend chooses the memory layout
flat | x.flatten()
base | – | tensors never change, so that it does not matter what shares their memory
byteswap | – | bytes are in this machine's order
dump | record.save("run.safetensors", model=model, step=3)
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""

BURN = """
# Burn's names
from_floats | Tensor.from_data([[1.0, 2.0]], device=device)
from_ints | IntTensor.from_data([1, 2], device=device)
dims | x.shape
into_data | x.to_numpy()
to_data | x.to_numpy()
into_scalar | x[0, 0].item()
without_autodiff | x.inner()
swap_dims | x.transpose(0, 1)
unsqueeze_dim | x.unsqueeze(0)
sum_dim | x.sum(dim=1, keepdim=True)
mean_dim | x.mean(dim=1, keepdim=True)
prod_dim | x.prod(dim=1, keepdim=True)
any_dim | b.any(dim=1, keepdim=True)
all_dim | b.all(dim=1, keepdim=True)
max_dim | x.amax(dim=1, keepdim=True)
min_dim | x.amin(dim=1, keepdim=True)
max_dim_with_indices | x.max(dim=1, keepdim=True)
min_dim_with_indices | x.min(dim=1, keepdim=True)
max_pair | x.maximum(y)
min_pair | x.minimum(y)
sort_with_indices | x.sort(dim=1)
sort_descending | x.sort(dim=1, descending=True)
argsort_descending | x.argsort(dim=1, descending=True)
topk_with_indices | x.topk(2, dim=1)
powf | x.pow(y)
powi | x.pow(y)
powf_scalar | x**2.0
powi_scalar | x**2
add_scalar | x + 2.0
sub_scalar | x - 2.0
mul_scalar | x * 2.0
div_scalar | x / 2.0
recip | x.reciprocal()
greater_elem | x > 2.0
greater_equal_elem | x >= 2.0
lower | x < y
lower_elem | x < 2.0
lower_equal | x <= y
lower_equal_elem | x <= 2.0
equal_elem | x == 2.0
not_equal_elem | x != 2.0
bool_not | ~b
is_nan | x.isnan()
is_inf | x.isinf()
is_finite | x.isfinite()
contains_nan | x.isnan().any()
all_close | x.allclose(y)
mask_fill | x.masked_fill(b, value)
mask_where | burnpy.where(b, y, x)
slice_assign | x.at[0:1].set(y[0:1])
slice_fill | x.at[0:1].set(value)
slice_dim | x.narrow(1, 0, 2)
select_assign | x.at[:, rows].add(y[:, rows])
block_until_ready | x.device.synchronize() | there is nothing to wait for on the CPU
"""
"""As `NUMPY`."""

NAMES = [line.partition(" | ")[0] for rows in (NUMPY, BURN) for line in rows.splitlines()[2:]]
