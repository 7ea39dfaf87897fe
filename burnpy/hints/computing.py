"""PyTorch's arithmetic, functions, comparisons, reductions and matrix products, with what to write here instead."""

from __future__ import annotations

ROWS = """
# Arithmetic
add | x.add(y) | also `x + y`; takes `alpha=`
sub | x.sub(y) | also `x - y`; takes `alpha=`
subtract | x.sub(y)
mul | x.mul(y) | also `x * y`
multiply | x.mul(y)
div | x.div(y) | also `x / y`; takes `rounding_mode=`
divide | x.div(y)
true_divide | x.div(y)
floor_divide | x.floor_divide(y) | also `x // y`
remainder | x.remainder(y) | also `x % y`
fmod | x.fmod(y)
pow | x.pow(y) | also `x ** y`
neg | x.neg() | also `-x`
negative | x.neg()
positive | +x
abs | x.abs()
absolute | x.abs()
sign | x.sign()
sgn | x.sign()
square | x.square()
reciprocal | x.reciprocal()
maximum | x.maximum(y)
minimum | x.minimum(y)
fmax | x.fmax(y)
fmin | x.fmin(y)
clamp | x.clamp(low, high) | bounds are numbers or tensors
clip | x.clamp(low, high)
clamp_min | x.clamp_min(low)
clamp_max | x.clamp_max(high)
addcmul | x.addcmul(y, y, value=value)
addcdiv | x.addcdiv(y, y, value=value)
lerp | x.lerp(y, value)
hypot | x.hypot(y)
gcd | i.gcd(j)
lcm | i.lcm(j)
copysign | x.copysign(y)
ldexp | x * 2.0 ** y
nextafter | – | not yet
frexp | – | not yet

# Functions of each element
exp | x.exp()
exp2 | x.exp2()
expm1 | x.expm1()
log | x.log()
log2 | x.log2()
log10 | x.log10()
log1p | x.log1p()
sqrt | x.sqrt()
rsqrt | x.rsqrt()
sin | x.sin()
cos | x.cos()
tan | x.tan()
sinh | x.sinh()
cosh | x.cosh()
tanh | x.tanh()
asin | x.asin()
arcsin | x.asin()
acos | x.acos()
arccos | x.acos()
atan | x.atan()
arctan | x.atan()
atan2 | x.atan2(y)
arctan2 | x.atan2(y)
asinh | x.asinh()
arcsinh | x.asinh()
acosh | x.acosh()
arccosh | x.acosh()
atanh | x.atanh()
arctanh | x.atanh()
deg2rad | x.deg2rad()
rad2deg | x.rad2deg()
sinc | x.sinc()
erf | x.erf()
erfc | x.erfc()
erfinv | x.erfinv()
lgamma | x.lgamma()
mvlgamma | – | not yet
digamma | x.digamma()
polygamma | x.polygamma(1) | `torch.polygamma(1, x)`
igamma | – | not yet
igammac | – | not yet
i0 | – | not yet
floor | x.floor()
ceil | x.ceil()
round | x.round(decimals=1)
trunc | x.trunc()
fix | x.trunc()
frac | x.frac()
nan_to_num | x.nan_to_num(0.0)
logit | p.logit()
xlogy | x.xlogy(y)
heaviside | x.heaviside(y) | `y` may be a number; it has a gradient, where PyTorch raises
logaddexp | x.logaddexp(y)
logaddexp2 | x.mul(math.log(2.0)).logaddexp(y * math.log(2.0)) / math.log(2.0)
sigmoid | x.sigmoid()
relu | x.relu()
prelu | burnpy.where(x > 0.0, x, value * x) | not yet as a layer
hardshrink | burnpy.where(x.abs() > 0.5, x, 0.0)
celu | burnpy.where(x > 0.0, x, x.expm1())
selu | – | not yet
rrelu | – | not yet
threshold | burnpy.where(x > low, x, value)
softmax | x.softmax(dim=1)
log_softmax | x.log_softmax(dim=1)
dropout | burnpy.nn.functional.dropout(x, 0.5)
angle | – | there are no complex numbers
real | x | there are no complex numbers
imag | x.zeros_like() | there are no complex numbers
isreal | x.ones_like() == 1.0 | always: there are no complex numbers
conj | x | there are no complex numbers
conj_physical | x | there are no complex numbers
resolve_conj | x | there are no complex numbers
is_conj | – | there are no complex numbers
is_neg | – | there are no complex numbers
resolve_neg | x | there are no complex numbers
cdouble | – | there are no complex numbers
cfloat | – | there are no complex numbers
chalf | – | there are no complex numbers
complex | – | there are no complex numbers
complex32 | – | there are no complex numbers
complex64 | – | there are no complex numbers
complex128 | – | there are no complex numbers
polar | – | there are no complex numbers
view_as_complex | – | there are no complex numbers
view_as_real | – | there are no complex numbers

# Comparisons and logic
eq | x.eq(y) | also `x == y`
ne | x.ne(y) | also `x != y`
not_equal | x.ne(y)
lt | x.lt(y) | also `x < y`
less | x.lt(y)
le | x.le(y) | also `x <= y`
less_equal | x.le(y)
gt | x.gt(y) | also `x > y`
greater | x.gt(y)
ge | x.ge(y) | also `x >= y`
greater_equal | x.ge(y)
isnan | x.isnan()
isinf | x.isinf()
isfinite | x.isfinite()
isposinf | x == math.inf
isneginf | x == -math.inf
signbit | x.signbit()
equal | bool((x == y).all())
isclose | x.isclose(y)
allclose | x.allclose(y)
isin | (x.unsqueeze(-1) == v).any(-1)
logical_and | b.logical_and(c) | also `b & c`
logical_or | b.logical_or(c) | also `b | c`
logical_xor | b.logical_xor(c) | also `b ^ c`
logical_not | b.logical_not() | also `~b`
bitwise_and | i.bitwise_and(j) | also `i & j`
bitwise_or | i.bitwise_or(j) | also `i | j`
bitwise_xor | i.bitwise_xor(j) | also `i ^ j`
bitwise_not | i.bitwise_not() | also `~i`
bitwise_left_shift | i.bitwise_left_shift(j) | also `i << j`
bitwise_right_shift | i.bitwise_right_shift(j) | also `i >> j`

# Reductions
sum | x.sum(dim=1, keepdim=True)
nansum | burnpy.where(x.isnan(), 0.0, x).sum()
mean | x.mean(dim=1)
nanmean | burnpy.where(x.isnan(), 0.0, x).sum() / x.isnan().logical_not().sum().float()
prod | x.prod(dim=1)
amax | x.amax(dim=1)
amin | x.amin(dim=1)
aminmax | x.amin(dim=1), x.amax(dim=1)
max | x.max(dim=1) | of two tensors `x.maximum(y)`
min | x.min(dim=1) | of two tensors `x.minimum(y)`
argmax | x.argmax(dim=1)
argmin | x.argmin(dim=1)
any | b.any(dim=1)
all | b.all(dim=1)
count_nonzero | (x != 0.0).sum(dim=1)
var | x.var(dim=1, correction=1)
std | x.std(dim=1, correction=1)
var_mean | x.var(dim=1), x.mean(dim=1)
std_mean | x.std(dim=1), x.mean(dim=1)
norm | x.square().sum(dim=1).sqrt() | not yet as one operation, of which the gradient at 0 is 0
frobenius_norm | x.square().sum().sqrt() | not yet as one operation, of which the gradient at 0 is 0
dist | (x - y).square().sum().sqrt() | not yet as one operation, of which the gradient at 0 is 0
logsumexp | x.logsumexp(dim=1)
logcumsumexp | x.exp().cumsum(dim=1).log() | not yet as one operation, which does not overflow
cumsum | x.cumsum(dim=1)
cumprod | x.log().cumsum(dim=1).exp() | not yet; so for positive elements
cummax | – | not yet
cummin | – | not yet
cumulative_trapezoid | ((x[:, 1:] + x[:, :-1]) / 2.0).cumsum(dim=1)
trapezoid | ((x[:, 1:] + x[:, :-1]) / 2.0).sum(dim=1)
trapz | ((x[:, 1:] + x[:, :-1]) / 2.0).sum(dim=1)
diff | x[:, 1:] - x[:, :-1]
gradient | (x[:, 2:] - x[:, :-2]) / 2.0 | of samples; derivatives are burnpy.func.grad's
sum_to_size | x.sum(dim=0, keepdim=True)
median | – | not yet
nanmedian | – | not yet
quantile | – | not yet
nanquantile | – | not yet
mode | – | not yet
kthvalue | – | not yet
sort | – | not yet
argsort | – | not yet
msort | – | not yet
topk | – | not yet; the largest is `x.max(dim)`
unique | – | not yet; `np.unique(x.to_numpy())` has no gradient to lose
unique_consecutive | – | not yet; `np.unique(x.to_numpy())` has no gradient to lose
bincount | i.flatten().one_hot(3).sum(dim=0)
histc | – | not yet; `np.histogram(x.to_numpy())`
histogram | – | not yet; `np.histogram(x.to_numpy())`
histogramdd | – | not yet; `np.histogramdd(x.to_numpy())`
bucketize | (x.unsqueeze(-1) > v).sum(-1)
searchsorted | (x.unsqueeze(-1) > v).sum(-1)
cov | – | not yet
corrcoef | – | not yet
hash_tensor | – | not yet
renorm | – | not yet

# Products of matrices
matmul | x.matmul(m) | also `x @ m`
mm | x @ m
bmm | x @ m | any dimensions before the last two
mv | x @ v
dot | v @ v
inner | x @ y.mT | `x.inner()` is x on the inner backend
vdot | v @ v
outer | v.unsqueeze(1) * v
ger | v.unsqueeze(1) * v
addmm | x.addmm(x @ m, m)
addmv | x @ v + x[:, 0]
addr | m + v.unsqueeze(1) * v
addbmm | y + x @ m
baddbmm | x[None].baddbmm(x[None], m[None])
chain_matmul | x @ m @ m
kron | – | not yet
cross | – | not yet
tensordot | x.reshape(2, 3) @ m.reshape(3, 3) | dimensions that are summed over go next to each other
einsum | – | not yet; `x @ m`, sums and permutations do it
cdist | (x.unsqueeze(1) - m).square().sum(-1).sqrt() | not yet as one operation, with gradient 0 at equal points
pdist | – | not yet
trace | m.trace()
adjoint | x.mT | there are no complex numbers
H | x.T | there are no complex numbers
mH | x.mT | there are no complex numbers
bilinear | – | not yet
cosine_similarity | – | not yet
pairwise_distance | – | not yet
matrix_power | m.matrix_power(3)
matrix_exp | m.matrix_exp()
det | m.det()
logdet | m.logdet()
slogdet | m.slogdet()
inverse | m.inverse()
pinverse | burnpy.linalg.pinv(x)
cholesky | burnpy.linalg.cholesky(m)
cholesky_inverse | burnpy.linalg.cholesky_solve(Tensor.eye(3, device=device), m)
cholesky_solve | burnpy.linalg.cholesky_solve(m, m)
qr | burnpy.linalg.qr(x)
geqrf | burnpy.linalg.qr(x) | not yet in the form of reflectors
orgqr | burnpy.linalg.qr(x) | not yet in the form of reflectors
ormqr | burnpy.linalg.qr(x) | not yet in the form of reflectors
svd | burnpy.linalg.svd(x) | with Vh, the transpose of V
svd_lowrank | burnpy.linalg.svd(x) | not yet by random projections
pca_lowrank | burnpy.linalg.svd(x) | not yet by random projections
eig | – | of matrices that are not symmetric they are complex, and there are no complex numbers; of symmetric ones `burnpy.linalg.eigh(m)`
symeig | burnpy.linalg.eigh(m)
lu | burnpy.linalg.lu_factor(m) | or `burnpy.linalg.lu(m)` for P, L and U
lu_solve | burnpy.linalg.lu_solve(*burnpy.linalg.lu_factor(m), m)
lu_unpack | burnpy.linalg.lu(m) | of the matrix itself
lstsq | burnpy.linalg.lstsq(m, m) | the matrices are the first argument
solve | burnpy.linalg.solve(m, v) | the matrices are the first argument
triangular_solve | burnpy.linalg.solve_triangular(m, m, upper=True) | the matrices are the first argument
nuclear_norm | burnpy.linalg.svdvals(x).sum()
stft | – | not yet: with fft
istft | – | not yet: with fft
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
