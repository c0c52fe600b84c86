"""Whether a draft model can serve a target: llama.cpp's own rule, with the values that break it named.

The same type of vocabulary; the same beginning-of-sequence token, if one is added, and likewise the end; sizes that
differ by at most 128 (padding: Qwen2.5 0.5B has 151,936 ids, the 7B has 152,064); the same text for every id from 5 on.
"""

from __future__ import annotations

from typing import Final

from nsd_local.engine.model import Model
from nsd_local.errors import PairError

MOST_PADDING: Final = 128  # SPEC_VOCAB_MAX_SIZE_DIFFERENCE
FIRST_TEXT: Final = 5  # SPEC_VOCAB_CHECK_START_TOKEN_ID: the first ids are often special and named differently
_DO = "Choose a draft of the target's own family, or go without (--draft none)"


def check_pair(target: Model, draft: Model) -> list[str]:
    """Warnings about a usable pair. Raises PairError naming the rule that failed and both values."""
    t, d = target.vocabulary, draft.vocabulary
    if t.type != d.type:
        raise _refused(target, draft, "type of vocabulary", t.type, d.type)
    for rule, adds, ids in (
        ("bos", (t.add_bos, d.add_bos), (t.bos, d.bos)),
        ("eos", (t.add_eos, d.add_eos), (t.eos, d.eos)),
    ):
        if adds[0] != adds[1]:
            raise _refused(target, draft, f"add_{rule}", _yes(adds[0]), _yes(adds[1]))
        if adds[0] and ids[0] != ids[1]:
            raise _refused(target, draft, f"{rule} token", str(ids[0]), str(ids[1]))
    if abs(t.size - d.size) > MOST_PADDING:
        raise _refused(target, draft, f"vocabulary size (at most {MOST_PADDING} apart)", f"{t.size:,}", f"{d.size:,}")
    _check_texts(target, draft)
    return _warnings(target, draft)


def _check_texts(target: Model, draft: Model) -> None:
    shared = min(target.n_vocab, draft.n_vocab)
    ours, theirs = target.vocabulary.raw_texts()[:shared], draft.vocabulary.raw_texts()[:shared]
    if ours[FIRST_TEXT:] == theirs[FIRST_TEXT:]:
        return
    token = next(i for i in range(FIRST_TEXT, shared) if ours[i] != theirs[i])
    texts = [repr(texts[token].decode("utf-8", "replace")) for texts in (ours, theirs)]
    raise _refused(target, draft, f"text of token {token}", *texts)


def _warnings(target: Model, draft: Model) -> list[str]:
    shared = min(target.n_vocab, draft.n_vocab)
    ours = {token for token in target.eog if token < shared}
    theirs = {token for token in draft.eog if token < shared}
    if ours == theirs:
        return []
    only = []
    for name, tokens in (("the target", ours - theirs), ("the draft", theirs - ours)):
        if tokens:
            texts = ", ".join(repr(target.vocabulary.text(token)) for token in sorted(tokens)[:4])
            only.append(f"only {name} ends at {texts}")
    return [f"the models end an answer at different tokens: {'; '.join(only)}. The target's count"]


def _refused(target: Model, draft: Model, rule: str, ours: str, theirs: str) -> PairError:
    return PairError(
        f"{draft.path.name} cannot draft for {target.path.name}",
        f"the {rule} differs: target {ours}, draft {theirs}",
        _DO,
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"
