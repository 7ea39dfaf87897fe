"""Tokenizers of the package ``tokenizers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnpy.errors import ArgumentError, RecordError, RecordNotFoundError
from burnpy.models import Tokenizer, generate
from tests.models import small

pytestmark = pytest.mark.heavy("tokenizers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a tokenizer of bytes, trained on a few words."""
    import tokenizers

    engine: Any = tokenizers.Tokenizer(tokenizers.models.BPE())
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>"], initial_alphabet=alphabet)
    engine.train_from_iterator(["the cat sat on the mat"] * 5, trainer)
    engine.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    engine.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_texts_become_tokens_and_texts_again(folder: Path) -> None:
    tokenizer = Tokenizer.from_pretrained(folder)
    for text in ("the cat", "naïve Ärger 😀 end", ""):
        tokens = tokenizer.encode(text)
        assert tokens[0] == 0
        assert tokenizer.encode(text, special=False) == tokens[1:]
        assert tokenizer.decode(tokens) == text
        assert tokenizer.decode(tokens, special=True) == f"<s>{text}"
        pieces = list(tokenizer.stream(tokens))
        assert "".join(pieces) == text
        assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces), "characters are whole"
    assert len(list(tokenizer.stream(tokenizer.encode("the cat sat")))) > 1
    no_tokens: Any = 3
    with pytest.raises(ArgumentError, match=r"stream\(\) got tokens=3; expected a list of ints"):
        tokenizer.stream(no_tokens)


def test_generated_text_is_decoded(folder: Path) -> None:
    tokenizer = Tokenizer.from_pretrained(folder)
    model = small.gpt2(vocab_size=tokenizer.vocabulary)
    tokens = list(generate(model, tokenizer.encode("the"), max_new=6))
    streamed = tokenizer.stream(generate(model, tokenizer.encode("the"), max_new=6))
    assert "".join(streamed) == tokenizer.decode(tokens)


def test_mistakes_are_explained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(
        ArgumentError, match=r"tokens, and Gpt2 has a vocabulary of 50; take the tokenizer of the model"
    ):
        Tokenizer.from_pretrained(folder, small.gpt2())
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(RecordNotFoundError, match=r"takes a folder that has tokenizer\.json"):
        Tokenizer.from_pretrained(empty)
    (empty / "tokenizer.json").write_text("{}")
    with pytest.raises(RecordError, match="describes no tokenizer"):
        Tokenizer.from_pretrained(empty)


def test_what_is_no_text_and_no_token_is_refused(folder: Path) -> None:
    tokenizer: Any = Tokenizer.from_pretrained(folder)
    for text in (None, 3, b"the", ["the"]):
        with pytest.raises(ArgumentError, match=r"encode\(\) got text=.*; expected a str"):
            tokenizer.encode(text)
    tokens: Any
    for tokens in ([-1], [2**32]):
        with pytest.raises(ArgumentError, match=r"decode\(\) got tokens=\[.*\]; the vocabulary has"):
            tokenizer.decode(tokens)
    for tokens in ("text", [1.5], [None], 3):
        with pytest.raises(ArgumentError, match=r"decode\(\) got (the token .*, which is not an int|tokens=3)"):
            tokenizer.decode(tokens)
    with pytest.raises(ArgumentError, match=r"Tokenizer\(\) got 'gpt2'; expected a tokenizers.Tokenizer"):
        Tokenizer("gpt2")
    with pytest.raises(ArgumentError, match=r"encode\(\) got special='no'; expected True or False"):
        tokenizer.encode("the", special="no")
