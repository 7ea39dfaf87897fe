"""`Config`, the options of an architecture; `Pretrained`, models in folders of transformers; and their `Tokenizer`.

Such a folder has ``config.json`` and ``model.safetensors``, or several such files and an index.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from io import FileIO
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from burnpy.backend.errors import ArgumentError, RecordError, RecordNotFoundError, a, path_shown
from burnpy.backend.lazy import needed
from burnpy.backend.storage import inside, is_file, local_copy, make_folder, opened, path_of, replace
from burnpy.nn.init import init_empty_weights
from burnpy.nn.layers.activation import mish
from burnpy.nn.module import Module
from burnpy.record.safetensors_file import write
from burnpy.record.torch_weights import from_torch, to_torch, torch_names
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.models.decoder import Decoder
    from burnpy.tensor.host_data import DTypeLike

FILE = "config.json"

HARMLESS = (
    "_attn_implementation_autoset, _commit_hash, _name_or_path, architectures, attn_implementation, auto_map, "
    "bos_token_id, chunk_size_feed_forward, dtype, eos_token_id, finetuning_task, gradient_checkpointing, "
    "initializer_factor, initializer_range, is_encoder_decoder, keys_to_ignore_at_inference, label2id, "
    "output_attentions, output_hidden_states, pad_token_id, problem_type, return_dict, task_specific_params, "
    "tokenizer_class, torch_dtype, torchscript, transformers_version, use_bfloat16, use_cache"
)
"""Options of any architecture that do not change what its model computes."""

Activation: TypeAlias = Literal[
    "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu6", "silu", "swish", "tanh", "mish"
]
"""The activations of transformers that models honour."""

_ACTIVATIONS: dict[str, Callable[[Tensor[Any]], Tensor[Any]]] = {
    "gelu": lambda x: x.gelu(),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), lambda x: x.gelu("tanh")),
    "quick_gelu": lambda x: x * (x * 1.702).sigmoid(),
    "relu": lambda x: x.relu(),
    "relu6": lambda x: x.clamp(0.0, 6.0),
    **dict.fromkeys(("silu", "swish"), lambda x: x.silu()),
    "tanh": lambda x: x.tanh(),
    "mish": mish,
}


def activation(name: Activation) -> Callable[[Tensor[Any]], Tensor[Any]]:
    """Return the activation function of a name of transformers."""
    return _ACTIVATIONS[name]


@dataclass(frozen=True, kw_only=True)
class Config(metaclass=Explaining):
    """The base class of configs: frozen dataclasses whose fields are the honoured options.

    Raises:
        ArgumentError: an option has a value of another type, or one that the model does not honour.

    >>> from burnpy.models import Gpt2Config
    >>> Gpt2Config(n_layer=2).n_embd
    768
    >>> Gpt2Config(add_cross_attention=True)
    Traceback (most recent call last):
    burnpy.backend.errors.ArgumentError: Gpt2Config has the option add_cross_attention=True; Gpt2Config honours False
    """

    architectures: ClassVar[Mapping[str, str]]
    """The values of ``model_type`` in files that the config reads, with transformers' class of the model."""
    harmless: ClassVar[str] = ""
    """Options of this architecture that do not change what its model computes."""

    others: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  #: harmless options of the file

    def __post_init__(self) -> None:
        for name, kind in _honoured(type(self)).items():
            value = getattr(self, name)
            value = tuple(value) if isinstance(value, list) else value
            value = float(value) if kind is float and type(value) is int else value
            if not _is(value, kind):
                own = type(self).__name__
                raise ArgumentError(f"{own} has the option {name}={value!r:.80}; {own} honours {_words(kind)}")
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the ``config.json`` of a folder.

        Raises:
            RecordNotFoundError: the folder has no such file.
            RecordError: the file is not JSON, or of another architecture.
            ArgumentError: an option is unknown, or has a value that the model does not honour.
        """
        path = inside(path_of(folder, "from_pretrained()"), FILE)
        try:
            with opened(path) as file:
                options: Any = json.loads(file.read())
        except OSError as error:
            raise RecordNotFoundError(
                f"from_pretrained() takes a folder that has {FILE}, and cannot read {path_shown(path)}; nothing is "
                "downloaded: for a name of the Hugging Face hub give huggingface_hub.snapshot_download(name)"
            ) from error
        except ValueError as error:
            raise RecordError(f"{path_shown(path)} is not JSON: {error}") from error
        if not isinstance(options, dict):
            raise RecordError(f"{path_shown(path)} holds no options, but {options!r:.40}")
        return cls.from_options(options)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Make a config of the options of a file.

        Raises:
            RecordError, ArgumentError: as `read`.
        """
        kind = options.get("model_type")
        if kind not in cls.architectures:
            raise RecordError(
                f"{FILE} has the model_type {kind!r}; {cls.__name__} reads {' or '.join(map(repr, cls.architectures))}"
            )
        given = cls._translated({**options})
        known, harmless = _honoured(cls), {*HARMLESS.split(", "), *cls.harmless.split(", ")}
        if "model_type" not in known:
            del given["model_type"]
        unknown = [name for name in given if name not in known and name not in harmless]
        if unknown:
            listed = ", ".join(f"{name}={given[name]!r:.60}" for name in unknown)
            raise ArgumentError(
                f"{FILE} of a {kind!r} model has options that {cls.__name__} does not know: {listed}; if they do not "
                "change what the model computes, remove them from the file"
            )
        others = {name: value for name, value in given.items() if name not in known}
        return cls(**{name: value for name, value in given.items() if name in known}, others=others)

    def write(self, folder: str, architecture: str) -> None:
        """Write ``config.json`` into a folder, for a class of transformers."""
        text = json.dumps(self.options() | {"architectures": [architecture]}, indent=2, sort_keys=True)

        def fill(file: FileIO) -> None:
            file.write(f"{text}\n".encode())

        replace(inside(folder, FILE), fill)

    @property
    def architecture(self) -> str:
        """The class of transformers that the model equals."""
        return self.architectures[getattr(self, "model_type", next(iter(self.architectures)))]

    def options(self) -> dict[str, Any]:
        """Return all options as they stand in ``config.json``."""
        named = {name: getattr(self, name) for name in _honoured(type(self))}
        return {"model_type": next(iter(self.architectures)), **self.others, **named}

    @classmethod
    def _translated(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a file with the names and forms of the fields."""
        return options


@dataclass(frozen=True, kw_only=True)
class LabelledConfig(Config):
    """The options of a model that classifies: the names of its classes, in the file ``id2label``."""

    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1")  #: the name of each class

    @classmethod
    def _translated(cls, options: dict[str, Any]) -> dict[str, Any]:
        names = options.pop("id2label", None)
        count = options.pop("num_labels", None) if names is None else len(names)
        if names is not None:
            options["labels"] = [str(names.get(str(k), f"LABEL_{k}")) for k in range(len(names))]
        elif count is not None:
            options["labels"] = [f"LABEL_{k}" for k in range(count)]
        options.pop("num_labels", None)
        return options

    def options(self) -> dict[str, Any]:
        """Return all options as they stand in ``config.json``."""
        options = super().options()
        labels = options.pop("labels")
        return options | {
            "id2label": {str(k): label for k, label in enumerate(labels)},
            "label2id": {label: k for k, label in enumerate(labels)},
        }


def _honoured(cls: type[Config]) -> dict[str, Any]:
    """Return the types of the options that a config honours, by name."""
    hints = get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls) if each.name != "others"}


def _is(value: object, kind: Any) -> bool:
    """Return whether a value has the type of a field: a class, a union, a `Literal`, a tuple or a mapping."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in parts)
    if origin in (Union, UnionType):
        return any(_is(value, each) for each in parts)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is(each, parts[0]) for each in value)
    if origin is not None:
        return isinstance(value, Mapping)
    return type(value) is kind


def _words(kind: Any) -> str:
    """Return the values that a type admits, for a message."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in (Union, UnionType):
        return " or ".join(map(_words, parts))
    if origin is tuple:
        return f"a list of {_words(parts[0])}"
    return "null" if kind is NoneType else "options by name" if origin is not None else f"{kind.__name__}"


WEIGHTS = "model.safetensors"


class Pretrained(Module[B]):
    """The base class of the models of `burnpy.models`.

    A subclass has a config, and the ``torch_names`` of the class of transformers that it equals, or `_file_names`.
    """

    config: Any
    """The options, a `Config`; each class has one of its own."""
    _config: ClassVar[type[Config]]
    _prefix: ClassVar[str] = ""
    """The place of this model in transformers' classes with a head."""
    _heads: ClassVar[tuple[str, ...]] = ()
    """The weights of these heads, which this model does not have."""

    @explained
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a folder, from which transformers loads the model.

        The folder is created if it does not exist. Each file is replaced at once or not at all.

        Raises:
            ArgumentError: the model is quantized or has adapters, which its class in transformers has not.
        """
        path = path_of(folder, "save_pretrained()")
        state = to_torch(self)
        with init_empty_weights():
            plain = torch_names(self._of(self.config, self.device))
        others = sorted(set(state) - {part.name for parts in plain.values() for part in parts})
        if others:
            raise ArgumentError(
                f"save_pretrained() got {a(type(self).__name__)} with {others[0]}, which {self._architecture()} does "
                "not have; merge_lora() adapters first, and write quantized weights by record.save(path, model=model)"
            )
        make_folder(path)
        names = self._file_names()
        renamed = {names.get(name, name): array for name, array in state.items()}
        write(inside(path, WEIGHTS), renamed, {"format": "pt"})
        self.config.write(path, self._architecture())

    @classmethod
    def _of(cls, config: Any, device: Any) -> Any:
        """Return a model of the weights that a folder with this config has."""
        made: Any = cls
        return made(config, device=device)

    def _architecture(self) -> str:
        """Return the class of transformers that the model equals."""
        config: Config = self.config
        return config.architecture

    def _file_names(self) -> dict[str, str]:
        """Return the names in the files of transformers, by PyTorch's names, where they differ."""
        return {}


def projections(sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return transformers' names of the projections of a layer's ``attention``, for its ``torch_names``.

    Args:
        sizes: transformers' names of the projections to queries, keys and values, with the sizes of their results.
    """
    return {
        "attention.in_proj_weight": {f"{part}.weight.T": size for part, size in sizes.items()},
        "attention.in_proj_bias": {f"{part}.bias": size for part, size in sizes.items()},
        **dict(zip([f"attention.{part}_proj" for part in "qkv"], sizes, strict=True)),
    }


def pretrained(cls: type[Pretrained[Any]], folder: str | os.PathLike[str], device: Any, dtype: DTypeLike | None) -> Any:
    """Return a model of a class with the options and weights of a folder.

    Args:
        cls: the class.
        folder: has ``config.json``, and ``model.safetensors`` or several such files with an index.
        device: the device of the model.
        dtype: the dtype of the weights; the dtype of the files by default.
    """
    path = path_of(folder, "from_pretrained()")
    config: Any = cls._config.read(path)
    with init_empty_weights():
        model = cls._of(config, device)
    architectures = config.others.get("architectures") or [model._architecture()]
    if model._architecture() not in architectures and not cls._heads:
        raise RecordError(
            f"{path_shown(path)} has the weights of {' or '.join(map(str, architectures))}; {cls.__name__} takes those "
            f"of {model._architecture()}"
        )
    ours = {theirs: name for name, theirs in model._file_names().items()}

    def renamed(name: str) -> str | None:
        if name.startswith(cls._heads):
            return None
        name = name.removeprefix(cls._prefix)
        return str(ours.get(name, name))

    return from_torch(model, path, remap=renamed, dtype="file" if dtype is None else dtype)


TOKENIZER_FILE = "tokenizer.json"


class Tokenizer(metaclass=Explaining):
    """A tokenizer of a model, read from ``tokenizer.json`` by the package ``tokenizers`` (the extra ``burnpy[text]``).

    Args:
        engine: a ``tokenizers.Tokenizer``.

    >>> from tokenizers import Tokenizer as Engine, models, pre_tokenizers
    >>> engine = Engine(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    >>> engine.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> tokenizer = Tokenizer(engine)
    >>> tokenizer.encode("b a c"), tokenizer.decode([1, 0])
    ([1, 0, 2], 'b a')
    """

    def __init__(self, engine: Any) -> None:
        if not hasattr(engine, "get_vocab_size") or isinstance(engine, type):
            raise ArgumentError(f"Tokenizer() got {describe(engine)}; expected a tokenizers.Tokenizer")
        self.engine = engine

    @classmethod
    @explained
    def from_pretrained(cls, folder: str | os.PathLike[str], model: Decoder[Any] | None = None) -> Self:
        """Read the ``tokenizer.json`` of a folder.

        Args:
            folder: a folder of transformers.
            model: a model, whose vocabulary must have all tokens.

        Raises:
            MissingPackageError: the package ``tokenizers`` is not installed.
            RecordNotFoundError: the folder has no such file.
            RecordError: the file describes no tokenizer.
            ArgumentError: the tokenizer has tokens that the model does not know.
        """
        path = inside(path_of(folder, "Tokenizer.from_pretrained()"), TOKENIZER_FILE)
        if not is_file(path):
            raise RecordNotFoundError(
                f"Tokenizer.from_pretrained() takes a folder that has {TOKENIZER_FILE}, not {path_shown(path)}"
            )
        engines = needed("tokenizers", "a Tokenizer", "tokenizers", "text")
        try:
            with local_copy(path) as place:
                engine: Any = engines.Tokenizer.from_file(place)
        except Exception as error:  # the package raises nothing more precise
            raise RecordError(f"{path_shown(path)} describes no tokenizer: {error}") from error
        tokenizer = cls(engine)
        if model is not None and tokenizer.vocabulary > model.vocabulary:
            raise ArgumentError(
                f"{path_shown(path)} has {tokenizer.vocabulary} tokens, and {type(model).__name__} has a vocabulary of "
                f"{model.vocabulary}; take the tokenizer of the model"
            )
        return tokenizer

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return int(self.engine.get_vocab_size())

    @explained
    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: the text.
            special: whether to add the special tokens that the model expects, such as one for the beginning.
        """
        return list(self.engine.encode(text, add_special_tokens=special).ids)

    @explained
    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens.

        Args:
            tokens: the tokens.
            special: whether to include special tokens.
        """
        given = [integer(token, "token", "decode") for token in tokens]
        if given and not 0 <= min(given) <= max(given) < 2**32:
            raise ArgumentError(f"decode() got tokens={describe(tokens)}; the vocabulary has {self.vocabulary}")
        return str(self.engine.decode(given, skip_special_tokens=not special))

    @explained
    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Return an iterator of the text of tokens piece by piece, each as soon as its characters are complete.

        The pieces of ``generate(model, tokenizer.encode(text), max_new=100)`` are the text that it writes.
        """
        return self._pieces(iter(tokens))

    def _pieces(self, tokens: Iterator[int]) -> Iterator[str]:
        so_far, shown = list[int](), ""
        for token in tokens:
            so_far.append(token)
            text = self.decode(so_far)
            whole = not text.endswith("\N{REPLACEMENT CHARACTER}")  # else bytes of a character follow
            if whole and len(text) > len(shown):
                yield text[len(shown) :]
                shown = text
        if rest := self.decode(so_far)[len(shown) :]:
            yield rest
