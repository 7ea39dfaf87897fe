"""The entries of PyTorch's own table of operations, ``op_db``, that are left out of the comparison, and why.

All other entries are compared by ``test_op_db.py``; ``op_calls.py`` says how they are called here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OUT = """
# internal functions, which users do not call
_batch_norm_with_update _chunk_cat _native_batch_norm_legit _segment_reduce _softmax_backward_data
_unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa constant_pad_nd grid_sampler_2d
grid_sampler_3d hash_tensor max_pool2d_with_indices_backward native_batch_norm native_dropout_backward
native_group_norm native_layer_norm rsub slice torch._scaled_mm torch._scaled_mm_v2
torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward
torch.ops.aten._safe_softmax.default unsafe_chunk unsafe_split

# functions for CUDA kernels written as text
jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary jiterator_binary_return_by_ref
jiterator_unary

# copies of views: the entries without _copy are compared
alias_copy as_strided_copy diagonal_copy expand_copy narrow_copy permute_copy split_with_sizes_copy squeeze_copy t_copy
transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy

# memory: the backend chooses the layout, tensors never change, and none is uninitialized
as_strided as_strided_scatter contiguous empty empty_like empty_permuted empty_strided new_empty new_empty_strided
resize_ resize_as_ zero_ fill

# complex numbers of half precision, and memory that is read as if conjugate or negative
chalf resolve_conj resolve_neg

# eigenvalues in no order: test_complex_linalg.py compares them
linalg.eig linalg.eigvals

# bounds that are tensors
linspace_tensor_overload logspace_tensor_overload

# sparse tensors
sparse.mm sparse.sampled_addmm to_sparse

# masked tensors, a prototype
masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum masked.log_softmax masked.logaddexp
masked.logsumexp masked.mean masked.median masked.norm masked.normalize masked.prod masked.softmax masked.softmin
masked.std masked.sum masked.var

# random numbers, which are others here; tests/tensor/test_random.py compares distributions
bernoulli cauchy exponential geometric log_normal multinomial nn.functional.alpha_dropout nn.functional.dropout
nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout
nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.rrelu normal pca_lowrank rand_like
randint randint_like randn randn_like svd_lowrank uniform

# windows of a second module, torch.signal; those of torch itself are compared in test_fft.py
signal.windows.bartlett signal.windows.blackman signal.windows.cosine signal.windows.exponential
signal.windows.gaussian signal.windows.general_cosine signal.windows.general_hamming signal.windows.hamming
signal.windows.hann signal.windows.kaiser signal.windows.nuttall

# Bessel and Airy functions and polynomials, which PyTorch does not differentiate
special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
special.chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he
special.laguerre_polynomial_l special.legendre_polynomial_p special.modified_bessel_i0 special.modified_bessel_i1
special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0
special.scaled_modified_bessel_k1 special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.spherical_bessel_j0

# steps of LAPACK: the decompositions are made of them
geqrf linalg.householder_product linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve lu_unpack ormqr
triangular_solve

# shapes and places, which are Python's and NumPy's here
broadcast_shapes nonzero_static unravel_index

# layers and programs here, compared in test_nn.py
nn.functional.linear_cross_entropy nn.functional.multi_head_attention_forward
"""
"""A reason and the names of entries under it; of a variant, as ``name_variant``."""

REFUSED = {
    "linalg.pinv": "expected a number of at least 0",
    "nn.functional.avg_pool2d": "or two of them: (height, width)",
    "nn.functional.batch_norm": "takes x of shape (N, channels, …)",
    "nn.functional.gaussian_nll_loss": "which must be equal; to broadcast one",
    "nn.functional.multi_margin_loss": "multi_margin_loss()",
    "nn.functional.scaled_dot_product_attention": "no offset of the queries among the keys",
    "histogramdd": "edges that do not ascend",
    "complex": "give both one shape",
    "cat": "cat() got dim 1 for a tensor with 1 dimension",
    "gather": "the index needs as many dimensions",
}
"""Parts of the messages that refuse samples of an entry here, apart from samples that mix kinds."""

SKIPPED: dict[str, Callable[[Any], bool]] = {
    "nn.functional.scaled_dot_product_attention": lambda sample: bool(sample.kwargs.get("dropout_p")),
    **dict.fromkeys(
        ("nn.functional.embedding", "nn.functional.embedding_bag"),
        lambda sample: any(sample.kwargs.get(name) for name in ("max_norm", "scale_grad_by_freq", "sparse")),
    ),
    **dict.fromkeys(
        ("linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex"), lambda sample: sample.kwargs.get("pivot") is False
    ),
    "svd": lambda sample: sample.kwargs.get("some") is False,  # vectors that complete a basis have no derivative
    "linalg.svd": lambda sample: (
        sample.kwargs.get("full_matrices", True) and sample.input.shape[-1] != sample.input.shape[-2]  # as above
    ),
    "istft": lambda sample: "window" in sample.kwargs and not sample.kwargs["window"].is_complex(),  # no gradient
    "cov": lambda sample: (
        sample.kwargs.get("aweights") is not None and sample.input.real.dtype.itemsize == 8
    ),  # in float32
}
"""Samples with arguments that are not here, or whose results are arbitrary."""

KINDS = """
# float int bool
H T __getitem__ all aminmax any argwhere atleast_1d atleast_2d atleast_3d block_diag bool broadcast_tensors
broadcast_to byte cartesian_prod cat char chunk clone column_stack combinations count_nonzero cummax cummin diag
diag_embed diagflat diagonal diagonal_scatter diff double dsplit dstack eq equal expand expand_as flatten flip fliplr
flipud float gather half hsplit hstack index_copy index_fill index_select int isfinite isinf isnan isneginf isposinf
isreal item linalg.diagonal logical_and logical_not logical_or logical_xor long mH mT masked_scatter masked_select
meshgrid mode movedim msort narrow ne new_full new_ones new_zeros nonzero ones ones_like permute put ravel real repeat
repeat_interleave reshape reshape_as roll rot90 scatter scatter_add select select_scatter short slice_scatter split
split_with_sizes squeeze stack sum t take take_along_dim tensor_split tile to transpose tril triu unbind unflatten
unfold unique unique_consecutive unsqueeze view view_as vsplit vstack where zeros zeros_like

# float int
__radd__ __rdiv__ __rmatmul__ __rmod__ __rmul__ __rsub__ abs add addbmm addcmul addmm addmv addr amax amin arange
argmax argmin argsort baddbmm bucketize clamp clamp_max clamp_min corrcoef cov cross cumprod cumsum
cumulative_trapezoid div dot einsum eye float_power floor_divide fmax fmin fmod full full_like ge gt heaviside
index_add index_put index_reduce inner isclose isin kron kthvalue le linalg.cross lt masked_fill matmul max maximum
median min minimum mm mul mv nan_to_num nanmedian nansum neg nn.functional.pad outer positive pow prod remainder
scalar_tensor scatter_reduce searchsorted sgn sign signbit sort square sub sum_to_size tensordot topk trace trapezoid
trapz true_divide vdot

# int bool
__rand__ __ror__ __rxor__ bfloat16 bitwise_and bitwise_not bitwise_or bitwise_xor

# int
bincount bitwise_left_shift bitwise_right_shift gcd lcm nn.functional.one_hot tril_indices triu_indices
"""
"""The kinds of tensors in which entries are compared; all others are functions of floats."""


COMPLEX_TOO = """
H T __getitem__ __radd__ __rdiv__ __rmatmul__ __rmul__ __rpow__ __rsub__ abs acos acosh add addbmm addcdiv addcmul addmm
addmv addr all allclose angle any argwhere asin asinh atan atanh atleast_1d atleast_2d atleast_3d baddbmm block_diag bmm
bool broadcast_tensors broadcast_to cartesian_prod cat cdouble cfloat cholesky cholesky_inverse cholesky_solve chunk
clone column_stack combinations conj conj_physical corrcoef cos cosh count_nonzero cov cross cumprod cumsum
cumulative_trapezoid diag diag_embed diagflat diagonal diagonal_scatter diff dist div dot dsplit dstack einsum eq equal
exp exp2 expand expand_as expm1 eye fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft
fft.ifft2 fft.ifftn fft.ifftshift fft.irfft fft.irfft2 fft.irfftn flatten flip fliplr flipud float_power full full_like
gather gradient hsplit hstack imag index_add index_copy index_fill index_put index_select inner isclose isfinite isinf
isnan isreal istft item kron ldexp lerp linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross linalg.det
linalg.diagonal linalg.eigh linalg.eighh linalg.eigvalsh linalg.inv linalg.inv_ex linalg.lstsq linalg.lu
linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_ex linalg.solve_triangular
linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vander linalg.vecdot linalg.vector_norm linspace
log log10 log1p log2 logaddexp logcumsumexp logdet logical_and logical_not logical_or logical_xor logspace logsumexp lu
lu_solve mH mT masked_fill masked_scatter masked_select matmul matrix_exp mean meshgrid mm movedim mul mv narrow ne neg
new_full new_ones new_zeros nn.functional.channel_shuffle nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.l1_loss
nn.functional.linear nn.functional.normalize nn.functional.pad nn.functional.pairwise_distance
nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.silu_complex nn.functional.softsign
nn.functional.tanhshrink nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss
nn.functional.unfold nonzero norm ones ones_like outer permute pinverse positive pow prod put qr ravel real reciprocal
renorm repeat repeat_interleave reshape reshape_as roll rot90 rsqrt scalar_tensor scatter scatter_add select sgn sigmoid
sin sinc sinh split split_with_sizes sqrt square squeeze stack std std_mean stft sub sum sum_to_size svd t take
take_along_dim tan tanh tensor_split tensordot tile trace transpose trapezoid trapz tril triu true_divide unbind
unflatten unfold unsqueeze var var_mean vdot view view_as view_as_real vsplit vstack where zeros zeros_like
"""
"""Entries that are compared in complex128, too."""


def names(text: str) -> set[str]:
    """The names in a list, without its headings."""
    return set(by_heading(text))


def by_heading(text: str) -> dict[str, str]:
    """The heading above each name of a list."""
    found: dict[str, str] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("# "):
            heading = line[2:]
        else:
            found |= dict.fromkeys(line.split(), heading)
    return found
