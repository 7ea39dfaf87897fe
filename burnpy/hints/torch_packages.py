"""PyTorch's modules, optimizers and schedules, and the names in its packages, with what to write here instead."""

from __future__ import annotations

BURNPY = """
grad | burnpy.func.grad(f)(x) | the gradients of a backward pass are x.grad(grads)
device_put | x.to_device(device)
lax | – | scan, cond and while_loop are in burnpy.func
tree | – | tuples, lists, dicts and modules are trees; model.map(f) is of parameters
onnx | burnpy.interop.onnx.export(model, (x,), path)
quasirandom | Tensor.sobol((64, 2), device=device) | Sobol points, scrambled by seed=
SobolEngine | Tensor.sobol((64, 2), device=device) | Sobol points, scrambled by seed=
signal | burnpy.fft.hann_window(64, device=device) | windows are in burnpy.fft
amp | Autodiff[Mixed[NumPy]] | products of 16-bit floats; burnpy.optim.GradScaler scales losses
autocast | Autodiff[Mixed[NumPy]] | products of 16-bit floats; burnpy.optim.GradScaler scales losses
jit | burnpy.compiled(f)
fx | burnpy.compiled(f) | its explain(*args) lists the operations
profiler | burnpy.backend.Profiled
FloatTensor | Tensor.from_data(data, device=device)
DoubleTensor | Tensor.from_data(data, dtype="float64", device=device)
HalfTensor | Tensor.from_data(data, dtype="float16", device=device)
BFloat16Tensor | Tensor.from_data(data, dtype="bfloat16", device=device)
LongTensor | IntTensor.from_data(data, device=device)
ShortTensor | IntTensor.from_data(data, dtype="int16", device=device)
CharTensor | IntTensor.from_data(data, dtype="int8", device=device)
ByteTensor | IntTensor.from_data(data, dtype="uint8", device=device)
Size | tuple | shapes are tuples
OutOfMemoryError | burnpy.errors.OutOfMemoryError
pi | math.pi
e | math.e
inf | math.inf
nan | math.nan
newaxis | None
segment_sum | Tensor.zeros((3,), device=device).index_add(0, index, x)
scatter_mean | x.scatter_reduce(0, index, y, "mean", include_self=False)
typename | type(x).__name__
version | burnpy.__version__
to_dlpack | x.__dlpack__()
lstm | burnpy.nn.Lstm
gru | burnpy.nn.Gru
rnn_tanh | burnpy.nn.Rnn
rnn_relu | burnpy.nn.Rnn
lstm_cell | burnpy.nn.LstmCell
gru_cell | burnpy.nn.GruCell
rnn_tanh_cell | burnpy.nn.RnnCell
rnn_relu_cell | burnpy.nn.RnnCell
lobpcg | burnpy.linalg.eigh(x)
convolution | burnpy.nn.functional.conv2d
affine_grid_generator | burnpy.nn.functional.affine_grid
grid_sampler | burnpy.nn.functional.grid_sample
memory_format | – | the backend chooses the memory layout
channels_last | – | the backend chooses the memory layout
channels_last_3d | – | the backend chooses the memory layout
contiguous_format | – | the backend chooses the memory layout
preserve_format | – | the backend chooses the memory layout
strided | – | the backend chooses the memory layout
sparse | – | there are no sparse tensors
sparse_coo | – | there are no sparse tensors
sparse_csr | – | there are no sparse tensors
nested | – | there are no nested tensors
masked | – | there are no masked tensors; x.masked_fill(mask, 0.0) replaces elements
quantization | model.quantized("int8")
ao | model.quantized("int8")
float8_e4m3fn | – | floats have 16, 32 or 64 bits
float8_e5m2 | – | floats have 16, 32 or 64 bits
set_float32_matmul_precision | – | products of float32 are exact to float32; 16-bit ones are burnpy.backend.Mixed
get_float32_matmul_precision | – | products of float32 are exact to float32; 16-bit ones are burnpy.backend.Mixed
set_flush_denormal | – | subnormal numbers are kept
set_default_tensor_type | – | factories take dtype= and device=
set_num_interop_threads | – | set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS before NumPy is imported
get_num_interop_threads | – | set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS before NumPy is imported
set_deterministic_debug_mode | – | on the CPU every result is the same each time
are_deterministic_algorithms_enabled | – | on the CPU every result is the same each time
"""

NN = """
ReLU | Relu
GELU | Gelu
SiLU | Silu
ReLU6 | Relu6
LeakyReLU | LeakyRelu
PReLU | PRelu
ELU | Elu
CELU | Celu
SELU | Selu
GLU | Glu
LSTM | Lstm
LSTMCell | LstmCell
GRU | Gru
GRUCell | GruCell
RNN | Rnn
RNNCell | RnnCell
MultiheadAttention | MultiHeadAttention
BatchNorm1d | BatchNorm
BatchNorm2d | BatchNorm
BatchNorm3d | BatchNorm
InstanceNorm1d | InstanceNorm
InstanceNorm2d | InstanceNorm
InstanceNorm3d | InstanceNorm
RMSNorm | RmsNorm
ConstantPad1d | ConstantPad | with dims=1
ConstantPad2d | ConstantPad
ConstantPad3d | ConstantPad | with dims=3
ZeroPad1d | ZeroPad | with dims=1
ZeroPad2d | ZeroPad
ZeroPad3d | ZeroPad | with dims=3
ReflectionPad1d | ReflectionPad | with dims=1
ReflectionPad2d | ReflectionPad
ReflectionPad3d | ReflectionPad | with dims=3
ReplicationPad1d | ReplicationPad | with dims=1
ReplicationPad2d | ReplicationPad
ReplicationPad3d | ReplicationPad | with dims=3
CircularPad1d | CircularPad | with dims=1
CircularPad2d | CircularPad
CircularPad3d | CircularPad | with dims=3
UpsamplingNearest2d | Upsample
UpsamplingBilinear2d | Upsample | with mode="bilinear", align_corners=True
CrossMapLRN2d | LocalResponseNorm
LPPool1d | LpPool1d
LPPool2d | LpPool2d
LPPool3d | LpPool3d
SyncBatchNorm | BatchNorm | it normalizes by a rank's own samples, and its running statistics are of all ranks
CTCLoss | CtcLoss
NLLLoss | NllLoss
MSELoss | MseLoss
BCEWithLogitsLoss | BceWithLogitsLoss
BCELoss | BceLoss
KLDivLoss | KlDivLoss
PoissonNLLLoss | PoissonNllLoss
GaussianNLLLoss | GaussianNllLoss
Parameter | Param
Container | Sequential
ModuleList | a list, as a field of a Module
ModuleDict | a dict, as a field of a Module
ParameterList | a list of Param, as a field of a Module
ParameterDict | a dict of Param, as a field of a Module
Unflatten | x.reshape(2, 3, 1) | in forward()
UninitializedParameter | Param | sizes are given
UninitializedBuffer | Buffer | sizes are given
LazyLinear | Linear | sizes are given
LazyConv1d | Conv1d | sizes are given
LazyConv2d | Conv2d | sizes are given
LazyConv3d | Conv3d | sizes are given
LazyConvTranspose1d | ConvTranspose1d | sizes are given
LazyConvTranspose2d | ConvTranspose2d | sizes are given
LazyConvTranspose3d | ConvTranspose3d | sizes are given
LazyBatchNorm1d | BatchNorm | sizes are given
LazyBatchNorm2d | BatchNorm | sizes are given
LazyBatchNorm3d | BatchNorm | sizes are given
LazyInstanceNorm1d | InstanceNorm | sizes are given
LazyInstanceNorm2d | InstanceNorm | sizes are given
LazyInstanceNorm3d | InstanceNorm | sizes are given
RNNBase | Lstm, Gru or Rnn
RNNCellBase | LstmCell, GruCell or RnnCell
Transformer | TransformerEncoder and TransformerDecoder
Softmax2d | Softmax(dim=1)
NLLLoss2d | NllLoss
CosineSimilarity | burnpy.cosine_similarity(x, y)
PairwiseDistance | burnpy.pairwise_distance(x, y)
TripletMarginWithDistanceLoss | TripletMarginLoss | of other distances write (margin + d(a, p) - d(a, n)).relu().mean()
LinearCrossEntropyLoss | CrossEntropyLoss | after a Linear
LinearCrossEntropyOptions | CrossEntropyLoss | after a Linear
AdaptiveLogSoftmaxWithLoss | – | not yet; LogSoftmax and NllLoss have all classes
FractionalMaxPool2d | AdaptiveMaxPool2d | not yet of random regions
FractionalMaxPool3d | AdaptiveMaxPool3d | not yet of random regions
RReLU | LeakyRelu | not yet with random slopes
DataParallel | burnpy.distributed.DataParallel
utils | – | clipping is in burnpy.optim, padding is burnpy.data.pad_collate, and WeightNorm and SpectralNorm are layers
"""

FUNCTIONAL = """
one_hot | i.one_hot(3)
focal_loss | sigmoid_focal_loss(x, target)
upsample | interpolate(image, 4)
upsample_nearest | interpolate(image, 4)
upsample_bilinear | interpolate(image, 4, mode="bilinear", align_corners=True)
multi_head_attention_forward | burnpy.nn.MultiHeadAttention
max_pool1d_with_indices | max_pool1d(x, 2, return_indices=True)
max_pool2d_with_indices | max_pool2d(x, 2, return_indices=True)
max_pool3d_with_indices | max_pool3d(x, 2, return_indices=True)
adaptive_max_pool1d_with_indices | adaptive_max_pool1d(x, 2, return_indices=True)
adaptive_max_pool2d_with_indices | adaptive_max_pool2d(x, 2, return_indices=True)
adaptive_max_pool3d_with_indices | adaptive_max_pool3d(x, 2, return_indices=True)
fractional_max_pool2d | adaptive_max_pool2d(x, 2) | not yet of random regions
fractional_max_pool3d | adaptive_max_pool3d(x, 2) | not yet of random regions
fractional_max_pool2d_with_indices | adaptive_max_pool2d(x, 2, return_indices=True) | not yet of random regions
fractional_max_pool3d_with_indices | adaptive_max_pool3d(x, 2, return_indices=True) | not yet of random regions
triplet_margin_with_distance_loss | (margin + d(a, p) - d(a, n)).relu().mean() | triplet_margin_loss uses a p-norm
linear_cross_entropy | cross_entropy(linear(x, weight), target)
conv_tbc | conv1d(x.permute(1, 2, 0), weight)
grouped_mm | x.bmm(y) | of groups of one size
scaled_mm | x @ y | floats have 16 bits or more
scaled_grouped_mm | x.bmm(y) | floats have 16 bits or more
"""

INIT = """
calculate_gain | gain
constant_ | Constant
dirac_ | – | not yet
eye_ | – | not yet
kaiming_normal_ | KaimingNormal
kaiming_uniform_ | KaimingUniform
normal_ | Normal
ones_ | Ones
orthogonal_ | Orthogonal
sparse_ | – | not yet
trunc_normal_ | TruncatedNormal
uniform_ | Uniform
xavier_normal_ | XavierNormal
xavier_uniform_ | XavierUniform
zeros_ | Zeros
"""

OPTIM = """
SGD | Sgd
RMSprop | RmsProp
Adagrad | AdaGrad
ConstantLR | ConstantLr
ExponentialLR | ExponentialLr
LinearLR | LinearLr
MultiStepLR | MultiStepLr
OneCycleLR | OneCycleLr
PolynomialLR | PolynomialLr
SequentialLR | SequentialLr
StepLR | StepLr
CosineAnnealingLR | CosineLr
CosineAnnealingWarmRestarts | CosineRestartsLr
ChainedScheduler | ProductLr
LRScheduler | LrSchedule
LambdaLR | a subclass of LrSchedule with a method at(step)
MultiplicativeLR | a subclass of LrSchedule with a method at(step)
CyclicLR | CyclicLr
ReduceLROnPlateau | ReduceOnPlateau | observe(loss) gives the next, whose lr is the rate
Adadelta | AdaDelta
LBFGS | LBfgs | its minimize(rate, model, loss_and_grads) takes a function of the model
ASGD | Asgd
clip_grad_norm_ | clip_by_global_norm | it returns new ones: grads = clip_by_global_norm(grads, 1.0)
clip_grad_value_ | clip_by_value | it returns new ones: grads = clip_by_value(grads, 1.0)
SparseAdam | Adam | gradients are dense
Rprop | Rprop
lr_scheduler | StepLr, CosineLr and the like, in burnpy.optim itself
swa_utils | Ema | a value: ema = ema.update(model)
"""

FUNC = """
vmap | vmap(f) | the same, in burnpy.func
grad_and_value | value_and_grad | it gives the value first
functional_call | grad(loss)(model) | modules are trees; model.with_state(weights) takes other weights
functionalize | – | everything is functional already
stack_module_state | stack_models([model, model]) | the same, as one model
rearrange | burnpy.einops.rearrange(x, "a b -> b a") | needs burnpy[einops]
debug_unwrap | x.inner()
replace_all_batch_norm_modules_ | – | a forward pass changes no state
jit | compiled(f) | the same, as jax.jit
fori_loop | scan(lambda x, k: (f(x), k), x, Tensor.arange(3, device=device)) | with a fixed number of steps
switch | cond(x.sum() > 0.0, f, f, x) | of two functions; nest it for more
map | vmap(f) | of slices: scan(f, carry, xs) calls f for one after another
lax | – | scan, cond and while_loop are in burnpy.func itself
pmap | – | burnpy.distributed trains on several devices
stop_gradient | x.detach()
tree_map | model.map(f) | of parameters; register_tree makes trees of other classes
"""

FFT = """
bartlett | bartlett_window(64, False, device=device)
blackman | blackman_window(64, False, device=device)
cosine | cosine_window(64, False, device=device)
gaussian | gaussian_window(64, False, std=1.0, device=device)
hamming | hamming_window(64, False, device=device)
hann | hann_window(64, False, device=device)
kaiser | kaiser_window(64, False, device=device)
nuttall | nuttall_window(64, False, device=device)
"""

SPECIAL = """
modified_bessel_i0 | i0(x)
modified_bessel_i1 | i1(x)
spherical_bessel_j0 | sinc(x / math.pi)
airy_ai | scipy.special.airy(x.to_numpy())[0] | not yet
bessel_j0 | scipy.special.j0(x.to_numpy()) | not yet
bessel_j1 | scipy.special.j1(x.to_numpy()) | not yet
bessel_y0 | scipy.special.y0(x.to_numpy()) | not yet
bessel_y1 | scipy.special.y1(x.to_numpy()) | not yet
modified_bessel_k0 | scipy.special.k0(x.to_numpy()) | not yet
modified_bessel_k1 | scipy.special.k1(x.to_numpy()) | not yet
scaled_modified_bessel_k0 | scipy.special.k0e(x.to_numpy()) | not yet
scaled_modified_bessel_k1 | scipy.special.k1e(x.to_numpy()) | not yet
chebyshev_polynomial_t | scipy.special.eval_chebyt(3, x.to_numpy()) | not yet
chebyshev_polynomial_u | scipy.special.eval_chebyu(3, x.to_numpy()) | not yet
shifted_chebyshev_polynomial_t | scipy.special.eval_sh_chebyt(3, x.to_numpy()) | not yet
shifted_chebyshev_polynomial_u | scipy.special.eval_sh_chebyu(3, x.to_numpy()) | not yet
hermite_polynomial_h | scipy.special.eval_hermite(3, x.to_numpy()) | not yet
hermite_polynomial_he | scipy.special.eval_hermitenorm(3, x.to_numpy()) | not yet
laguerre_polynomial_l | scipy.special.eval_laguerre(3, x.to_numpy()) | not yet
legendre_polynomial_p | scipy.special.eval_legendre(3, x.to_numpy()) | not yet
"""

DISTRIBUTIONS = """
MixtureSameFamily | Mixture
TransformedDistribution | Transformed
kl_divergence | kl
Transform | bijections.Bijection
AffineTransform | bijections.Affine
ComposeTransform | Transformed | it takes several bijections
ExpTransform | bijections.Exp
LowerCholeskyTransform | bijections.LowerCholesky
PowerTransform | bijections.Power
SigmoidTransform | bijections.Sigmoid
SoftplusTransform | bijections.Softplus
StickBreakingTransform | bijections.StickBreaking
TanhTransform | bijections.Tanh
transforms | bijections
biject_to | Distribution.trainable | it holds parameters by bijections
transform_to | Distribution.trainable | it holds parameters by bijections
constraints | – | each distribution checks its parameters, and messages name the constraint
GeneralizedPareto | – | not yet
"""

LINALG = """
cho_factor | cholesky(x)
cho_solve | cholesky_solve(y, cholesky(x))
ldl_factor | lu_factor(x) | not yet
ldl_factor_ex | lu_factor(x) | not yet
ldl_solve | lu_solve(*lu_factor(x), y) | not yet
householder_product | qr(x) | not yet
matmul | x @ y
"""

AUTODIFF = """
Variable | x.require_grad() | a tensor is all that is needed
variable | x.require_grad() | a tensor is all that is needed
functional | burnpy.func
set_multithreading_enabled | – | a pass runs in the thread that calls it
profiler | burnpy.backend.Profiled
forward_ad | make_dual, unpack_dual
gradcheck | burnpy.testing.gradcheck
gradgradcheck | burnpy.testing.gradgradcheck
"""

DATA = """
DataLoader | Loader(data, collate(device=device), batch_size=64)
TensorDataset | ArrayDataset(x=images, y=labels)
ConcatDataset | data + other
ChainDataset | a Stream that reads one after another
StackDataset | data.zip(other)
Subset | data.subset(indices)
IterableDataset | Stream
random_split | data.split(0.8, seed=0)
default_collate | collate(device=device)
default_convert | collate(device=device)
get_worker_info | – | a sample does not depend on the worker; BatchRandom has its random numbers
BatchSampler | Sampler | its plan() decides what goes into a batch
SequentialSampler | InOrder
RandomSampler | Shuffled
SubsetRandomSampler | Loader(data.subset(indices), collate(device=device), batch_size=64, shuffle=True)
WeightedRandomSampler | Weighted(weights, n=100)
DistributedSampler | loader.shard(rank, size)
"""

METRICS = """
RMSE | MSE | take the root of its value(), after all batches
MeanSquaredError | MSE
MeanAbsoluteError | MAE
R2Score | R2
ROCAUC | AUROC
AUC | AUROC
JaccardIndex | IoU
F1Score | F1
MeanMetric | Mean
accuracy_score | Accuracy | Accuracy.of(logits, y).value()
confusion_matrix | ConfusionMatrix
"""

MODELS = """
AutoModelForCausalLM | Gpt2 | or Llama, which reads Mistral, Qwen and Gemma too: the class is named
GPT2LMHeadModel | Gpt2
LlamaForCausalLM | Llama
MistralForCausalLM | Llama
Qwen2ForCausalLM | Llama
Qwen3ForCausalLM | Llama
GemmaForCausalLM | Llama
BertModel | Bert
BertForSequenceClassification | BertClassifier
ViTForImageClassification | Vit
ResNetForImageClassification | ResNet
AutoModel | Bert.from_pretrained(folder, device=device) | the class is named
AutoTokenizer | Tokenizer
AutoConfig | BertConfig | the class is named
GenerationConfig | – | the settings are arguments of generate and sampling
LogitsProcessor | Processor | a function of logits and the tokens so far
resnet18 | ResNet(ResNetConfig.of_depth(18), device=device)
resnet34 | ResNet(ResNetConfig.of_depth(34), device=device)
resnet50 | ResNet(ResNetConfig.of_depth(50), device=device)
resnet101 | ResNet(ResNetConfig.of_depth(101), device=device)
resnet152 | ResNet(ResNetConfig.of_depth(152), device=device)
vit_b_16 | Vit(VitConfig(), device=device)
"""

TRAIN = """
Trainer | Learner(train_step, valid_step, optim=AdamW(), lr=0.001)
TrainingArguments | – | the settings are arguments of Learner and fit
LightningModule | – | a step is a function of the model and a batch that returns Step(loss)
TrainState | – | the model and the optimizer are values; Checkpoints saves both
ModelCheckpoint | Checkpoints
LearningRateMonitor | – | the history has the rate as lr
ProgressBar | Progress
TQDMProgressBar | Progress
RichProgressBar | Dashboard
TensorBoardLogger | TensorBoard
SummaryWriter | TensorBoard
CSVLogger | Jsonl
MLFlowLogger | MLflow
WandbLogger | – | not yet; a Logger is a class with log(event) and close()
StochasticWeightAveraging | Averaging
EMA | Averaging
LRFinder | find_lr
"""

TESTING = """
assert_close | np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=1e-5)
assert_allclose | np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=1e-5)
"""

DISTRIBUTED = """
init_process_group | Group.world()
destroy_process_group | – | a group ends with the program
new_group | – | not yet: a group is all ranks
get_rank | Group.world().rank
get_world_size | Group.world().size
is_initialized | Group.world().size > 1
all_reduce | group.sum(value) | of gradients, group.mean(grads, weight=len(batch))
reduce | group.sum(value)
all_gather | group.gather(value)
all_gather_object | group.gather(value)
gather_object | group.gather(value)
broadcast | group.broadcast(value)
broadcast_object_list | group.broadcast(value)
barrier | group.barrier()
DistributedDataParallel | DataParallel(group) | for a learner; in a loop, group.backward(loss, model, weight=len(batch))
DistributedSampler | loader.shard(group.rank, group.size)
ZeroRedundancyOptimizer | ZeroRedundancy(AdamW(), group)
FullyShardedDataParallel | – | not yet; ZeroRedundancy divides the states of an optimizer
"""
