"""`Tokenizer`: text to tokens and back, by the package ``tokenizers``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ArgumentError, RecordError, RecordNotFoundError, path_shown
from burnpy.backend.lazy import needed
from burnpy.backend.storage import inside, is_file, local_copy
from burnpy.record.atomic_write import path_of

if TYPE_CHECKING:
    from burnpy.models.decoder import Decoder

FILE = "tokenizer.json"


class Tokenizer:
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
        self.engine = engine

    @classmethod
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
        engines = needed("tokenizers", "a Tokenizer", "tokenizers", "text")
        path = inside(path_of(folder, "Tokenizer.from_pretrained()"), FILE)
        if not is_file(path):
            raise RecordNotFoundError(
                f"Tokenizer.from_pretrained() takes a folder that has {FILE}, not {path_shown(path)}"
            )
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

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: the text.
            special: whether to add the special tokens that the model expects, such as one for the beginning.
        """
        return list(self.engine.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens.

        Args:
            tokens: the tokens.
            special: whether to include special tokens.
        """
        return str(self.engine.decode(list(tokens), skip_special_tokens=not special))

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """Yield the text of tokens piece by piece, each as soon as its characters are complete.

        The pieces of ``generate(model, tokenizer.encode(text), max_new=100)`` are the text that it writes.
        """
        so_far: list[int] = []
        shown = ""
        for token in tokens:
            so_far.append(token)
            text = self.decode(so_far)
            if not text.endswith("\N{REPLACEMENT CHARACTER}") and len(text) > len(
                shown
            ):  # bytes of a character may follow
                yield text[len(shown) :]
                shown = text
        rest = self.decode(so_far)[len(shown) :]
        if rest:
            yield rest
