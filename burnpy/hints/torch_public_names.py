"""The public names of PyTorch 2.13.0: made by ``python tests/parity/pytorch_names.py``."""

from __future__ import annotations

TENSOR = """
H T abs abs_ absolute absolute_ acos acos_ acosh acosh_ add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm
addmm_ addmv addmv_ addr addr_ adjoint all allclose amax amin aminmax angle any apply_ arccos arccos_ arccosh arccosh_
arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argmax argmin argsort argwhere
as_strided as_strided_ as_strided_scatter as_subclass asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_
backward baddbmm baddbmm_ bernoulli bernoulli_ bfloat16 bincount bitwise_and bitwise_and_ bitwise_left_shift
bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_
bitwise_xor bitwise_xor_ bmm bool broadcast_to byte cauchy_ ccol_indices cdouble ceil ceil_ cfloat chalf char cholesky
cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ clone coalesce
col_indices conj conj_physical conj_physical_ const_data_ptr contiguous copy_ copysign copysign_ corrcoef cos cos_ cosh
cosh_ count_nonzero cov cpu cross crow_indices cuda cummax cummin cumprod cumprod_ cumsum cumsum_ data data_ptr deg2rad
deg2rad_ dense_dim dequantize det detach detach_ device diag diag_embed diagflat diagonal diagonal_scatter diff digamma
digamma_ dim dim_order dist div div_ divide divide_ dot double dsplit dtype eig element_size eq eq_ equal erf erf_ erfc
erfc_ erfinv erfinv_ exp exp2 exp2_ exp_ expand expand_as expm1 expm1_ exponential_ fill_ fill_diagonal_ fix fix_
flatten flip fliplr flipud float float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod fmod_
frac frac_ frexp gather gcd gcd_ ge ge_ geometric_ geqrf ger get_device grad grad_dtype grad_fn greater greater_
greater_equal greater_equal_ gt gt_ half hardshrink hash_tensor heaviside heaviside_ histc histogram hsplit hypot
hypot_ i0 i0_ igamma igamma_ igammac igammac_ imag index index_add index_add_ index_copy index_copy_ index_fill
index_fill_ index_put index_put_ index_reduce index_reduce_ index_select indices inner int int_repr inverse ipu
is_coalesced is_complex is_conj is_contiguous is_cpu is_cuda is_distributed is_floating_point is_inference is_ipu
is_leaf is_maia is_meta is_mkldnn is_mps is_mtia is_neg is_nested is_nonzero is_pinned is_quantized is_same_size
is_set_to is_shared is_signed is_sparse is_sparse_csr is_vulkan is_xla is_xpu isclose isfinite isinf isnan isneginf
isposinf isreal istft item itemsize kron kthvalue layout lcm lcm_ ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal
less_equal_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal_ log_softmax logaddexp logaddexp2
logcumsumexp logdet logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_
logit logit_ logsumexp long lstsq lt lt_ lu lu_solve mH mT map2_ map_ masked_fill masked_fill_ masked_scatter
masked_scatter_ masked_select matmul matrix_exp matrix_power max maximum mean median min minimum mm mode module_load
moveaxis movedim msort mtia mul mul_ multinomial multiply multiply_ mv mvlgamma mvlgamma_ name nan_to_num nan_to_num_
nanmean nanmedian nanquantile nansum narrow narrow_copy nbytes ndim ndimension ne ne_ neg neg_ negative negative_
nelement new new_empty new_empty_strided new_full new_ones new_tensor new_zeros nextafter nextafter_ nonzero
nonzero_static norm normal_ not_equal not_equal_ numel numpy orgqr ormqr outer output_nr permute pin_memory pinverse
polygamma polygamma_ positive pow pow_ prelu prod put put_ q_per_channel_axis q_per_channel_scales
q_per_channel_zero_points q_scale q_zero_point qr qscheme quantile rad2deg rad2deg_ random_ ravel real reciprocal
reciprocal_ record_stream register_hook register_post_accumulate_grad_hook reinforce relu relu_ remainder remainder_
renorm renorm_ repeat repeat_interleave requires_grad requires_grad_ reshape reshape_as resize resize_ resize_as
resize_as_ resize_as_sparse_ resolve_conj resolve_neg retain_grad retains_grad roll rot90 round round_ row_indices
rsqrt rsqrt_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ select select_scatter set_ sgn
sgn_ shape share_memory_ short sigmoid sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ size slice_inverse
slice_scatter slogdet smm softmax solve sort sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ split
split_with_sizes sqrt sqrt_ square square_ squeeze squeeze_ sspaddmm std stft storage storage_offset storage_type
stride sub sub_ subtract subtract_ sum sum_to_size svd swapaxes swapaxes_ swapdims swapdims_ symeig t t_ take
take_along_dim tan tan_ tanh tanh_ tensor_split tile to to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc
to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr tolist topk trace transpose transpose_ triangular_solve tril
tril_ triu triu_ true_divide true_divide_ trunc trunc_ type type_as unbind unflatten unfold uniform_ unique
unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ untyped_storage values var
vdot view view_as volatile vsplit where xlogy xlogy_ xpu zero_
"""

TORCH = """
abs absolute acos acosh adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv addcmul addmm addmv addr adjoint all
allclose alpha_dropout amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax
argmin argsort argwhere as_strided as_strided_scatter as_tensor asarray asin asinh atan atan2 atanh atleast_1d
atleast_2d atleast_3d autograd avg_pool1d baddbmm bartlett_window batch_norm bernoulli bfloat16 bilinear
binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor blackman_window block_diag bmm bool broadcast_shapes broadcast_tensors broadcast_to
bucketize can_cast cartesian_prod cat cdist cdouble ceil celu cfloat chain_matmul chalf channel_shuffle cholesky
cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone column_stack combinations compile complex
complex128 complex32 complex64 concat concatenate conj conj_physical conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d copysign corrcoef cos cosh cosine_embedding_loss cosine_similarity count_nonzero cov
cross ctc_loss cuda cummax cummin cumprod cumsum cumulative_trapezoid deg2rad dequantize det detach device diag
diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide dot double dropout dsplit dstack dtype
einsum embedding embedding_bag empty empty_like empty_permuted empty_strided enable_grad eq equal erf erfc erfinv exp
exp2 expm1 eye fft fill finfo fix flatten flip fliplr flipud float float16 float32 float64 float_power floor
floor_divide fmax fmin fmod frac frexp frobenius_norm from_dlpack from_numpy frombuffer full full_like gather gcd ge
geqrf ger get_default_device get_default_dtype get_device get_num_threads get_rng_state gradient greater greater_equal
group_norm gt half hamming_window hann_window hardshrink hash_tensor heaviside hinge_embedding_loss histc histogram
histogramdd hsplit hstack hypot i0 igamma igammac iinfo imag index_add index_fill index_put index_reduce index_select
inference_mode initial_seed inner instance_norm int int16 int32 int64 int8 int_repr inverse is_complex is_conj
is_distributed is_floating_point is_grad_enabled is_inference is_neg is_nonzero is_same_size is_signed is_tensor
isclose isfinite isin isinf isnan isneginf isposinf isreal istft kaiser_window kl_div kron kthvalue layer_norm lcm
ldexp le lerp less less_equal lgamma linalg linspace load log log10 log1p log2 log_softmax logaddexp logaddexp2
logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logspace logsumexp long lt lu lu_solve
lu_unpack manual_seed margin_ranking_loss masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max
max_pool1d max_pool2d max_pool3d maximum mean median meshgrid min minimum mm mode moveaxis movedim msort mul
multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative nextafter
no_grad nonzero nonzero_static norm normal not_equal nuclear_norm numel ones ones_like orgqr ormqr outer
pairwise_distance pca_lowrank pdist permute pinverse pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar
polygamma positive pow prelu prod promote_types put q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
q_scale q_zero_point qr quantile rad2deg rand rand_like randint randint_like randn randn_like randperm range ravel real
reciprocal relu remainder renorm repeat_interleave reshape resolve_conj resolve_neg result_type rms_norm roll rot90
round row_stack rrelu rsqrt save scalar_tensor scatter scatter_add scatter_reduce searchsorted seed select
select_scatter selu set_default_device set_default_dtype set_grad_enabled set_num_threads set_printoptions
set_rng_state sgn short sigmoid sign signbit sin sinc sinh slice_inverse slice_scatter slogdet softmax sort
sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor
special split split_with_sizes sqrt square squeeze stack std std_mean stft sub subtract sum svd svd_lowrank swapaxes
swapdims t take take_along_dim tan tanh tensor tensor_split tensordot threshold tile topk trace transpose trapezoid
trapz triangular_solve tril tril_indices triplet_margin_loss triu triu_indices true_divide trunc uint16 uint32 uint64
uint8 unbind unflatten unique unique_consecutive unravel_index unsafe_chunk unsafe_split unsafe_split_with_sizes
unsqueeze use_deterministic_algorithms utils vander var var_mean vdot view_as_complex view_as_real vmap vsplit vstack
where xlogy zeros zeros_like
"""

NN = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d
BatchNorm3d Bilinear Buffer CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d
ConstantPad2d ConstantPad3d Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CrossMapLRN2d DataParallel Dropout Dropout1d Dropout2d Dropout3d
ELU Embedding EmbeddingBag FeatureAlphaDropout Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU
GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity
InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm
LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d
LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU
Linear LinearCrossEntropyLoss LinearCrossEntropyOptions LocalResponseNorm LogSigmoid LogSoftmax MSELoss
MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList
MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d PReLU
PairwiseDistance Parameter ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase
RNNCell RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
ReplicationPad3d SELU Sequential SiLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink
Softsign SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder TransformerDecoderLayer
TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss Unflatten Unfold
UninitializedBuffer UninitializedParameter Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d
ZeroPad3d
"""

FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool1d_with_indices
adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid
alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d
dropout2d dropout3d elu elu_ embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d
fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices gaussian_nll_loss gelu glu
grid_sample group_norm grouped_mm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_
hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu leaky_relu_ linear
linear_cross_entropy local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss
max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d
max_unpool2d max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle
poisson_nll_loss prelu relu relu6 relu_ rms_norm rrelu rrelu_ scaled_dot_product_attention scaled_grouped_mm scaled_mm
selu selu_ sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink
threshold threshold_ triplet_margin_loss triplet_margin_with_distance_loss unfold upsample upsample_bilinear
upsample_nearest
"""

INIT = """
calculate_gain constant constant_ dirac dirac_ eye eye_ kaiming_normal kaiming_normal_ kaiming_uniform kaiming_uniform_
normal normal_ ones_ orthogonal orthogonal_ sparse sparse_ trunc_normal_ uniform uniform_ xavier_normal xavier_normal_
xavier_uniform xavier_uniform_ zeros_
"""

OPTIM = """
ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax ChainedScheduler ConstantLR CosineAnnealingLR
CosineAnnealingWarmRestarts CyclicLR ExponentialLR LBFGS LRScheduler LambdaLR LinearLR MultiStepLR MultiplicativeLR
Muon NAdam OneCycleLR Optimizer PolynomialLR RAdam RMSprop ReduceLROnPlateau Rprop SGD SequentialLR SparseAdam StepLR
lr_scheduler swa_utils swap_in_optimizer_params_and_state
"""

FUNC = """
debug_unwrap functional_call functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize rearrange
replace_all_batch_norm_modules_ stack_module_state vjp vmap
"""

FFT = """
fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft
rfft2 rfftfreq rfftn
"""

SPECIAL = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln
hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p log1p log_ndtr
log_softmax logit logsumexp modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 multigammaln
ndtr ndtri polygamma psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc softmax
spherical_bessel_j0 xlog1py xlogy zeta
"""

LINALG = """
cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor
ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul matrix_exp matrix_norm matrix_power matrix_rank
multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve vander vecdot
vector_norm
"""
