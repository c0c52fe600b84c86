"""Places in a grammar, on llama.cpp's own sampler."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from nsd_local.engine.grammar import Grammar
from nsd_local.engine.model import Model
from nsd_local.errors import DecodeError, ModelError, UsageError
from tests import tiny

WORD = 'root ::= "he" [a-c]{2,3} ("x" | "y")?'


@pytest.fixture(scope="module")
def model(tiny_target):
    with Model.load(tiny_target) as model:
        yield model


def pieces(model, grammar):
    """The texts that may come next."""
    tokens = np.arange(model.n_vocab)
    return {model.piece(int(token)) for token in tokens[grammar.allows(tokens)]}


def follow(grammar, text):
    """Byte by byte: every byte is a token of the tiny models."""
    for byte in text.encode():
        grammar.accept(byte)


def test_what_may_come_next_is_told_at_every_place(model):
    with Grammar.compile(model, WORD) as grammar:
        assert pieces(model, grammar) == {b"h", b"he"}
        follow(grammar, "hea")
        assert pieces(model, grammar) == {b"a", b"b", b"c"}
        follow(grammar, "b")
        ends = {text.encode() for text in tiny.STOPS}
        assert pieces(model, grammar) == {b"a", b"b", b"c", b"x", b"y", *ends}
        follow(grammar, "x")
        assert pieces(model, grammar) == ends
        grammar.accept(tiny.special("<|im_end|>"))


def test_a_clone_goes_its_own_way(model):
    with Grammar.compile(model, WORD) as grammar:
        follow(grammar, "he")
        with grammar.clone() as clone:
            follow(clone, "aax")
            assert b"a" not in pieces(model, clone)
            assert pieces(model, grammar) == {b"a", b"b", b"c"}
        follow(grammar, "cc")
        assert b"x" in pieces(model, grammar)


def test_some_tokens_are_judged_as_all_are(model):
    tokens = np.arange(model.n_vocab)
    with Grammar.compile(model, 'root ::= [^a-m]+ "!"') as grammar:
        everything = grammar.allows(tokens)
        assert 0 < everything.sum() < model.n_vocab
        for part in np.array_split(np.random.default_rng(3).permutation(tokens), 7):
            assert (grammar.allows(part) == everything[part]).all()
        assert grammar.allows(tokens[:0]).shape == (0,)


def test_a_character_may_come_in_pieces(model):
    with Grammar.compile(model, 'root ::= "é" [α-ω]') as grammar:
        assert pieces(model, grammar) == {b"\xc3"}
        grammar.accept(0xC3)
        assert pieces(model, grammar) == {b"\xa9"}
        grammar.accept(0xA9)
        assert pieces(model, grammar) == {b"\xce", b"\xcf"}


def test_tokens_may_be_named(model):
    with Grammar.compile(model, 'root ::= <|im_start|> !<[65]> "z"') as grammar:
        grammar.accept(tiny.special("<|im_start|>"))
        assert not grammar.allows(np.array([65]))[0]
        assert grammar.allows(np.array([66]))[0]


def test_what_is_forbidden_is_refused_and_changes_nothing(model):
    with Grammar.compile(model, WORD) as grammar:
        follow(grammar, "he")
        for token in (ord("x"), tiny.special("<|im_end|>")):
            with pytest.raises(DecodeError, match="does not allow"):
                grammar.accept(token)
        for token in (-1, model.n_vocab):
            with pytest.raises(DecodeError, match="outside the vocabulary"):
                grammar.accept(token)
        assert pieces(model, grammar) == {b"a", b"b", b"c"}


def test_a_bad_grammar_names_its_place_and_prints_nothing(model, capfd):
    with pytest.raises(UsageError, match="column 16: there is no rule named 'nothing'"):
        Grammar.compile(model, 'root ::= "a" | nothing')
    with pytest.raises(UsageError, match="left recursion"):  # found by llama.cpp, told by its log
        Grammar.compile(model, 'root ::= ("a" |)* "b"')
    assert capfd.readouterr().err == ""


def test_a_closed_grammar_says_so(model):
    grammar = Grammar.compile(model, WORD)
    grammar.close()
    grammar.close()
    with pytest.raises(DecodeError, match="closed"):
        grammar.accept(ord("h"))
    with pytest.raises(DecodeError, match="closed"):
        grammar.clone()


def test_a_grammar_does_not_outlive_its_model(tiny_target):
    with Model.load(tiny_target) as model:
        grammar = Grammar.compile(model, WORD)
    with pytest.raises(ModelError, match="closed"):
        grammar.allows(np.array([1]))
    grammar.close()


def test_a_forgotten_grammar_frees_its_sampler(model):
    grammar = Grammar.compile(model, WORD)
    free, seen = grammar._free, weakref.ref(grammar)
    assert free.alive
    del grammar
    gc.collect()
    assert seen() is None
    assert not free.alive
