"""The check of grammars: it must agree with llama.cpp's own parser, and say where a grammar is wrong."""

from __future__ import annotations

import random

import pytest

from nsd_local.engine import library
from nsd_local.engine.gbnf import check
from nsd_local.engine.model import Model
from nsd_local.errors import UsageError

LIST = r"""# a list of things
root ::= item+ | "none" nl
item ::= "- " [^\n\r\x0b\u2028]{1,80} nl
nl   ::= "\n"
"""
SUMS = r"""
root  ::= ( expr "=" ws term "\n" )+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""
ODD = 'root ::= a{2,5} ("x" | [^a-z\\-]{0,3}){1,} .\r\na ::= b? c\nb ::= "\\x41" | ""\nc ::= ( "" b )* "u\\u0041"'
TOKENS = 'root ::= <|im_start|> !<[3]> (a b){2}{3}* | "é"\na ::= "q"{0} "r"\nb ::= ""'
GOOD = (LIST, SUMS, ODD, TOKENS)
PIECES = [
    *('"', "(", ")", "{", "}", "[", "]", "*", "+", "?", "|", "\n", "\r", "\\", "#", " ", "<", ">", "!", ".", "-", "^"),
    *("{2,3}", "{0}", "{2001}", "{,2}", "{2,}", "{40}{60}", "\\x4", "::=", "a", "root", '""', "[]", "_", "é"),
]


@pytest.fixture(scope="module")
def model(tiny_target):
    with Model.load(tiny_target) as model:
        yield model


def is_token(model):
    return lambda text: len(model.tokenize(text, special=True, add_bos=False)) == 1


def taken(model, text):
    """Whether llama.cpp takes the grammar."""
    lib = library.load()
    handle = lib.llama_sampler_init_grammar(lib.llama_model_get_vocab(model.handle), text.encode(), b"root")
    if handle:
        lib.llama_sampler_free(handle)
    return bool(handle)


def mutant(rng):
    text = rng.choice(GOOD)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        if rng.random() < 0.4:
            text = text[:at] + text[at + rng.randint(1, 3) :]
        else:
            text = text[:at] + rng.choice(PIECES) + text[at:]
    return text


@pytest.mark.parametrize("text", GOOD)
def test_good_grammars_pass(model, text):
    check(text, is_token(model))
    assert taken(model, text)


def test_mutants_are_judged_as_llama_cpp_judges_them(model, capfd):
    rng = random.Random(11)
    verdicts = {True: 0, False: 0}
    for _ in range(800):
        text, mark = mutant(rng), library.log_mark()
        try:
            check(text, is_token(model))
            ours = True
        except UsageError as error:
            if "impossible" in error.why or "begin with itself" in error.why:
                continue  # llama.cpp might never come back
            ours = False
        theirs = taken(model, text)
        said = library.log_since(mark)
        if ours and not theirs and any("left recursion" in line for line in said):
            continue  # repeating what may be nothing: this reason llama.cpp logs itself
        assert ours == theirs, text
        verdicts[ours] += 1
    assert min(verdicts.values()) > 50  # both kinds were met
    capfd.readouterr()  # llama.cpp prints the grammars it refuses


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1: there is no rule named 'root'"),
        ('a ::= "x"', "there is no rule named 'root'"),
        ('root ::= "x" thing\nb ::= "y"', "line 1, column 14: there is no rule named 'thing'"),
        ('root ::= "x"\nb ::= ("y" | "z"', "line 2, column 17: ) is expected, not the end"),
        ('root = "x"', "line 1, column 6: ::= is expected, not '='"),
        ('root ::= "x', "line 1, column 12: the grammar ends inside quotes or brackets"),
        ("root ::= [a-", "the grammar ends inside quotes or brackets"),
        ('root ::= "a" )', "line 1, column 14: ')' cannot follow here"),
        ("root ::= *", "there is nothing to repeat"),
        ('root ::= ""+', "there is nothing to repeat"),
        ('root ::= "a"{0}*', "there is nothing to repeat"),
        ('root ::= "a"{3,2}', "at least 3 and at most 2 is impossible"),
        ('root ::= "a"{2001}', "repeats things at most 2,000 times"),
        ('root ::= "a"{40}{60}', "repeats things at most 2,000 times"),
        (r'root ::= "\q"', r"line 1, column 12: \q means nothing"),
        (r'root ::= "\x4"', "takes 2 hexadecimal digits"),
        ('root ::= a\na ::= b a "x"\nb ::= c\nc ::= "y" |', "the rule 'a' may begin with itself"),
        ('root ::= root "x" | "y"', "the rule 'root' may begin with itself"),
        ("root ::= <nothing>", "line 1, column 10: <nothing> is not one token of this model"),
        ("root ::= <[x]>", "a token id is expected"),
        ('root ::= "a\0"', "NUL"),
        ("root ::= " + 300 * "(" + '"a"' + 300 * ")", "nested more than 200 deep"),
    ],
)
def test_a_bad_grammar_is_refused_with_the_place(model, text, why):
    with pytest.raises(UsageError) as caught:
        check(text, is_token(model))
    assert why in caught.value.why
