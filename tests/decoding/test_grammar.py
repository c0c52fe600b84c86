"""Answers under a grammar, with drafting on: every one follows it, and its law is the target's own, masked."""

from __future__ import annotations

import gc
import json
import re
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from nsd_local.decoding.constraint import Constraint
from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.events import Step
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary
from nsd_local.drafting.lookup import Lookup
from nsd_local.drafting.mixed import Mixed
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.context import Context
from nsd_local.engine.grammar import Grammar
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import DecodeError, UsageError
from nsd_local.sampling import Law, Penalties
from nsd_local.verification import Exact, Nucleus
from nsd_local.verification.rules import RULES, make
from tests import tiny
from tests.decoding.decoders import PROMPT, decoder, fresh_logits, ids, run
from tests.decoding.test_law import fits, relaxed
from tests.tiny import Tiny
from tests.verification.oracle import nucleus, shaped

WORDS = 'root ::= word ("," word){2,9} "."\nword ::= [a-z]{1,6}'
WORDS_TEXT = re.compile(r"[a-z]{1,6}(,[a-z]{1,6}){2,9}\.")
LAWS = [
    Law(temperature=1.0),
    Law(temperature=0.7, min_p=0.05),
    Law(temperature=1.2, top_p=0.8),
    Law(temperature=1.0, top_k=6),
    Law(temperature=0.9, top_k=20, top_p=0.9, min_p=0.1),
    Law(temperature=0.0),
]
BASE = Settings(law=LAWS[0], rule=Nucleus(0.9), exact_first=0, grammar=WORDS, draft_tokens=4, max_tokens=200, seed=1)
# A random model may begin characters it never finishes: keep it to ASCII.
ASCII = tuple((byte, -np.inf) for byte in range(0x80, 0x100))
CARD = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "kind": {"enum": ["person", "place", 'a "thing"']},
        "year": {"type": "integer", "minimum": 1, "maximum": 2100},
        "known": {"type": "boolean"},
    },
    "required": ["name", "kind"],
    "additionalProperties": False,
}
POINTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"x": {"type": "number", "minimum": -1, "maximum": 1}, "label": {"enum": ["a", "b", None]}},
        "required": ["x", "label"],
    },
    "minItems": 1,
    "maxItems": 3,
}
TREE = {
    "$defs": {
        "leaf": {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]},
        "pair": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/leaf"}, "right": {"$ref": "#/$defs/leaf"}},
            "required": ["left", "right"],
        },
    },
    "anyOf": [
        {"$ref": "#/$defs/leaf"},
        {"$ref": "#/$defs/pair"},
        {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,4}$"},
    ],
}


def allowed_first(model):
    """(V,) tokens that may begin a text of WORDS, found without llama.cpp."""
    return np.array([bool(re.fullmatch(rb"[a-z]{1,6}", model.piece(token))) for token in range(model.n_vocab)])


# --- every text follows the grammar --------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_every_answer_follows_the_grammar(tiny_target, tiny_draft, law):
    with decoder(tiny_target, tiny_draft) as loop:
        for seed in range(12):
            result = run(loop, replace(BASE, law=law, seed=seed))
            assert result.finish_reason == "stop"
            assert WORDS_TEXT.fullmatch(result.text), result.text
            assert Summary(result.rounds).deviation_sum == 0.0
            assert Summary(result.rounds).drafted > 0
            assert loop.target.tokens == [*PROMPT, *ids(result)][: len(loop.target.tokens)]


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.drafts])
def test_no_rule_relaxes_under_a_grammar(tiny_target, tiny_far, name):
    law = Law(temperature=0.0) if name in ("asd", "mars") else LAWS[0]
    with decoder(tiny_target, tiny_far) as loop:
        for seed in range(4):
            result = run(loop, replace(BASE, rule=make(name, {}), law=law, seed=seed))
            assert WORDS_TEXT.fullmatch(result.text), result.text
            assert Summary(result.rounds).deviation_sum == 0.0


@pytest.mark.parametrize("proposer", ["ngram", "auto", "none"])
def test_lookup_and_mixed_drafts_follow_too(tiny_target, tiny_draft, proposer):
    prompt = [*b"one,two,three,one,two,three,one,two,"]  # a lookup has much to offer, some of it forbidden at first
    with (
        Model.load(tiny_target) as model,
        Model.load(tiny_draft) as small,
        Context(model, ContextOptions(n_ctx=512, threads=1)) as context,
        Context(small, ContextOptions(n_ctx=512, threads=1)) as memory,
    ):
        proposers = {"ngram": Lookup(), "auto": Mixed(Lookup(), ModelDraft(memory, model.n_vocab)), "none": None}
        loop = Decoder(context, proposers[proposer])
        for seed in range(8):
            result = run(loop, replace(BASE, seed=seed, relax_point_mass=True), prompt)
            assert WORDS_TEXT.fullmatch(result.text), result.text
            assert Summary(result.rounds).deviation_sum == 0.0
            assert result.active == (proposer != "none")


def test_penalties_act_beside_a_grammar(tiny_target, tiny_draft):
    with decoder(tiny_target, tiny_draft) as loop:
        result = run(loop, replace(BASE, law=LAWS[-1], penalties=Penalties(presence=50.0)))
    assert WORDS_TEXT.fullmatch(result.text)
    letters = [token for token in ids(result) if token != ord(",")]
    assert len(set(letters)) == len(letters)  # nothing is said twice while something else may be


@pytest.mark.parametrize("schema", [CARD, POINTS, TREE], ids=["card", "points", "tree"])
def test_fifty_generations_fit_each_schema(tiny_target, tiny_draft, schema):
    settings = replace(BASE, grammar=None, json_schema=json.dumps(schema), logit_bias=ASCII, max_tokens=480)
    drafted = kept = 0
    with decoder(tiny_target, tiny_draft) as loop:
        for seed in range(50):
            result = run(loop, replace(settings, seed=seed))
            assert result.finish_reason == "stop", result.text
            jsonschema.Draft202012Validator(schema).validate(json.loads(result.text))
            summary = Summary(result.rounds)
            drafted, kept = drafted + summary.drafted, kept + summary.accepted
    assert kept > 0.3 * drafted > 100  # the draft is masked as well: much of what it says is kept


# --- the law -------------------------------------------------------------------------------------------------------

REQUESTS = 4000


@pytest.mark.parametrize("law", LAWS[:5], ids=str)
def test_the_first_tokens_have_the_masked_laws(tiny_target, tiny_far, law):
    """The rule would relax: under a grammar it must not. A false alarm has probability 1e-6 per comparison."""
    options = {name: getattr(law, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    counts = np.zeros((2, 320))
    with decoder(tiny_target, tiny_far) as loop:
        allowed = allowed_first(loop.target.model)
        p = shaped(np.where(allowed, fresh_logits(tiny_target, PROMPT), -np.inf), **options)
        first = int(p.argmax())
        assert len(loop.target.model.piece(first)) == 1  # so up to five more letters may follow, or a comma
        after = allowed & np.array([len(loop.target.model.piece(token)) <= 5 for token in range(320)])
        after[ord(",")] = True
        p_next = shaped(np.where(after, fresh_logits(tiny_target, [*PROMPT, first]), -np.inf), **options)
        for seed in range(REQUESTS):
            tokens = ids(run(loop, replace(BASE, law=law, draft_tokens=2, max_tokens=2, seed=seed)))
            counts[0, tokens[0]] += 1
            if tokens[0] == first:
                counts[1, tokens[1]] += 1
    assert fits(counts[0], p)
    assert fits(counts[1], p_next)


def test_the_test_of_laws_would_see_a_relaxed_rule(tiny_target, tiny_far):
    """The pair is far enough apart that a rule relaxed under the same grammar would fail the test above."""
    with Model.load(tiny_target) as model:
        allowed = allowed_first(model)
    rows = [np.where(allowed, fresh_logits(path, PROMPT), -np.inf) for path in (tiny_target, tiny_far)]
    p, q = (shaped(row, temperature=1.0) for row in rows)
    counts = np.round(REQUESTS * relaxed(p, q, nucleus(p, rows[0], 0.9), 1.0))
    assert not fits(counts, p)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_looking_up_only_what_matters_gives_the_same_law(tiny_target, law):
    options = {name: getattr(law, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    rng = np.random.default_rng(7)
    with Model.load(tiny_target) as model:
        everything = np.arange(model.n_vocab)
        constraint = Constraint(Grammar.compile(model, WORDS), model, law)
        for spread in (0.5, 2.0, 5.0, 12.0):
            for drafts in ([], [ord("a")], [ord("a"), ord(",")], [ord("a"), ord(","), ord("b")], [ord("x")]):
                row = (spread * rng.standard_normal(model.n_vocab)).astype(np.float32)
                row[rng.integers(0, model.n_vocab, 20)] = -np.inf
                with Grammar.compile(model, WORDS) as grammar:
                    for token in drafts:
                        grammar.accept(token)
                    full = np.where(grammar.allows(everything), row, -np.inf)
                assert constraint.mask(row, drafts)
                np.testing.assert_allclose(shaped(row, **options), shaped(full, **options), rtol=1e-9)
        constraint.close()


def test_rows_after_a_forbidden_draft_or_the_end_are_left_alone(tiny_target):
    end = tiny.special("<|im_end|>")
    with Model.load(tiny_target) as model:
        constraint = Constraint(Grammar.compile(model, 'root ::= "a"'), model, LAWS[0])
        for drafts in ([ord("b")], [end], [ord("a"), end], [ord("a"), end, ord("z")]):
            row = np.zeros(model.n_vocab, np.float32)
            assert constraint.mask(row, drafts)
            assert not row.any()
        row = np.zeros(model.n_vocab, np.float32)
        constraint.mask(row, [ord("a")])
        assert set(np.flatnonzero(row == 0.0)) == model.eog
        with pytest.raises(DecodeError, match="forbids"):
            constraint.commit([ord("b")])
        constraint.close()


def test_the_exact_rule_is_no_different(tiny_target, tiny_draft):
    """Under a grammar a relaxed rule is the exact one: the same uniforms give the same text."""
    with decoder(tiny_target, tiny_draft) as loop:
        for seed in range(5):
            assert run(loop, replace(BASE, seed=seed)).text == run(loop, replace(BASE, seed=seed, rule=Exact())).text


# --- ends and errors -----------------------------------------------------------------------------------------------


def test_the_longest_answer_wanted_ends_in_the_middle(tiny_target, tiny_draft):
    with decoder(tiny_target, tiny_draft) as loop:
        result = run(loop, replace(BASE, max_tokens=3))
        assert result.finish_reason == "length"
        assert len(ids(result)) == 3
        assert not WORDS_TEXT.fullmatch(result.text)
        assert run(loop, BASE).finish_reason == "stop"


def test_a_stop_string_ends_a_constrained_answer(tiny_target, tiny_draft):
    with decoder(tiny_target, tiny_draft) as loop:
        result = run(loop, replace(BASE, stop=(",",)))
        assert result.finish_reason == "stop_string"
        assert re.fullmatch("[a-z]{1,6}", result.text)


def test_the_same_seed_gives_the_same_constrained_text(tiny_target, tiny_draft):
    with decoder(tiny_target, tiny_draft) as loop:
        assert run(loop, BASE).text == run(loop, BASE).text != run(loop, replace(BASE, seed=2)).text


def test_a_draft_of_a_smaller_vocabulary_follows(tiny_model):
    target, draft = tiny_model(Tiny(seed=1, n_vocab=320)), tiny_model(Tiny(seed=1, n_vocab=300))
    with decoder(target, draft) as loop:
        result = run(loop, BASE)
        assert WORDS_TEXT.fullmatch(result.text)
        assert result.active


def test_a_grammar_that_leads_nowhere_is_named_and_the_next_request_works(tiny_target, tiny_draft):
    nowhere = 'root ::= "a" <[319]> "b"'  # a token without text: no model may say it
    with decoder(tiny_target, tiny_draft) as loop:
        with pytest.raises(DecodeError, match="A grammar or a logit bias may forbid every token"):
            run(loop, replace(BASE, grammar=nowhere))
        assert WORDS_TEXT.fullmatch(run(loop, BASE).text)


def test_an_abandoned_answer_frees_its_grammars(tiny_target, tiny_draft):
    with decoder(tiny_target, tiny_draft) as loop:
        stream = loop.stream(PROMPT, BASE)
        next(event for event in stream if isinstance(event, Step))
        assert open_grammars()
        stream.close()
        assert not open_grammars()
        run(loop, BASE)
        assert not open_grammars()


def open_grammars():
    return [thing for thing in gc.get_objects() if isinstance(thing, Grammar) and thing._handle is not None]


def test_what_cannot_constrain_is_refused_before_anything_is_read(tiny_target):
    with pytest.raises(UsageError, match="exclude each other"):
        Settings(grammar=WORDS, json_schema="{}")
    with pytest.raises(UsageError, match="column 10: there is no rule named 'nothing'"):
        Settings(grammar="root ::= nothing")
    with pytest.raises(UsageError, match="uniqueItems"):
        Settings(json_schema='{"type": "array", "uniqueItems": true}')
    with decoder(tiny_target, None) as loop:
        with pytest.raises(UsageError, match="is not one token of this model"):  # only a model can tell
            run(loop, replace(BASE, grammar="root ::= <nothing>"))
        assert loop.target.tokens == []


# --- the default pair ----------------------------------------------------------------------------------------------


COLOURS = {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 3, "maxItems": 4}


@pytest.mark.real
def test_the_default_pair_answers_in_json():
    import nsd_local

    asked = (
        (CARD, "Describe Ada Lovelace as JSON with name, kind, year of birth and whether she is known."),
        (COLOURS, "Name some colours."),
    )
    with nsd_local.load(ctx=512) as engine:
        for schema, prompt in asked:
            settings = Settings(json_schema=json.dumps(schema), draft_tokens=4, max_tokens=120, seed=1)
            result = engine.generate(prompt, settings)
            assert result.finish_reason == "stop", result.text
            jsonschema.Draft202012Validator(schema).validate(json.loads(result.text))
            summary = Summary(result.rounds)
            assert summary.deviation_sum == 0.0
            assert summary.acceptance_rate > 0.3
