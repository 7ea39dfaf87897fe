"""The names that Burn's tensors have and PyTorch's have not, with what to write here instead; and JAX's for waiting."""

from __future__ import annotations

ROWS = """
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
"""One line for each name: the code to write here, and the difference."""

NAMES = [line.partition(" | ")[0] for line in ROWS.splitlines()[2:]]
