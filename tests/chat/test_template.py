"""Templates of models: their own, missing, broken, without a system role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nsd_local.chat.message import Message
from nsd_local.chat.template import PLAIN_STOPS, Template, TemplateError
from nsd_local.engine.model import Model
from nsd_local.errors import UsageError
from tests import tiny
from tests.tiny import CHATML, Tiny

USER, ASSISTANT, SYSTEM = Message("user", "hi"), Message("assistant", "ho"), Message("system", "Be brief.")
Load = Callable[..., Model]

# Written for these tests, in the manner of published ones.
REFUSES_SYSTEM = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}"
)
DROPS_SYSTEM = "{% for m in messages if m.role != 'system' %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
WANTS_PARTS = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}|{% endfor %}"
DROPS_REASONING = (
    "{% for m in messages %}{{ m.role }}: "
    "{{ m.content.split('</think>')[-1].lstrip('\n') if m.role == 'assistant' else m.content }}\n{% endfor %}"
    "{{ '<think>\n' }}"
)
REASONING_APART = (
    "{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}({{ m.reasoning_content }}) {% endif %}"
    "{{ m.content }}\n{% endfor %}"
)


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    with ExitStack() as models:

        def load(template: str | None, *, add_bos: bool = False) -> Model:
            path = tiny.write(tmp_path / "model.gguf", Tiny(template=template, add_bos=add_bos))
            return models.enter_context(Model.load(path))

        yield load


def test_tokens_are_those_of_the_whole_text(load: Load) -> None:
    model = load(CHATML)
    template = Template(model)
    messages = [SYSTEM, USER, ASSISTANT, Message("user", "  a\n\n" + " " * 64 + "日本 👩‍👧 \n")]
    text = "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in messages) + "<|im_start|>assistant\n"
    assert template.render(messages) == text
    assert template.tokens(messages) == model.tokenize(text, special=True, add_bos=False)
    assert (template.name, template.notices, template.stop) == ("the model's own", (), ())


@pytest.mark.parametrize("template", [CHATML, "{{ bos_token }}" + CHATML])
@pytest.mark.parametrize("add_bos", [False, True])
def test_bos_at_most_once(load: Load, template: str, add_bos: bool) -> None:
    tokens = Template(load(template, add_bos=add_bos)).tokens([USER])
    bos = tiny.special("<|endoftext|>")
    assert tokens.count(bos) == (1 if add_bos or "bos_token" in template else 0)
    assert bos not in tokens[1:]


@pytest.mark.parametrize("source", [REFUSES_SYSTEM, DROPS_SYSTEM])
def test_system_prompt_without_a_system_role(load: Load, source: str) -> None:
    template = Template(load(source))
    assert not template.has_system
    assert "Be brief.\n\nhi" in template.render([SYSTEM, USER, ASSISTANT, USER])
    assert any("no system role" in line for line in template.notices_for([SYSTEM, USER]))
    assert template.notices_for([USER]) == ()


def test_neighbours_of_one_role_are_joined(load: Load) -> None:
    text = Template(load(REFUSES_SYSTEM)).render([USER, Message("user", "there"), ASSISTANT, USER])
    assert "hi\n\nthere<|im_end|>" in text


def test_refusal_is_an_error_that_says_why(load: Load) -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        Template(load(REFUSES_SYSTEM)).tokens([ASSISTANT, USER])


def test_no_message_of_the_user(load: Load) -> None:
    with pytest.raises(UsageError, match="no message of the user"):
        Template(load(CHATML)).tokens([SYSTEM])


def test_content_as_a_list_of_parts(load: Load) -> None:
    template = Template(load(WANTS_PARTS))
    assert template.render([USER, ASSISTANT, USER]) == "hi|ho|hi|"
    assert template.notices == ()


@pytest.mark.parametrize(
    "source",
    [
        None,
        "{% for m in messages %}",  # does not parse
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",  # tries to leave the sandbox
        "{{ messages[0].content + 1 }}",
        "{{ 1 / 0 }}",
        "Hello!",  # shows no message
    ],
)
def test_unusable_template_falls_back_to_chatml(load: Load, source: str | None) -> None:
    template = Template(load(source))
    assert template.name == "ChatML"
    assert len(template.notices) == 1
    assert "ChatML is used" in template.notices[0]
    assert template.tokens([SYSTEM, USER]) == Template(load(CHATML)).tokens([SYSTEM, USER])


def test_plain_text_where_the_vocabulary_has_no_chatml(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "SPECIALS", ("<|endoftext|>", "<|turn|>", "<|im_end|>"))
    template = Template(load(None))
    assert template.name == "plain text"
    assert template.stop == PLAIN_STOPS
    assert "User:" in template.notices[0]
    assert (
        template.render([SYSTEM, USER, ASSISTANT, USER]) == "Be brief.\n\nUser: hi\nAssistant: ho\nUser: hi\nAssistant:"
    )


def test_template_that_drops_reasoning_itself(load: Load) -> None:
    template = Template(load(DROPS_REASONING))
    prompt = template.prompt([USER, Message("assistant", "<think>\nwhy\n</think>\n\nbecause"), USER])
    assert prompt.text == "user: hi\nassistant: because\nuser: hi\n<think>\n"
    assert prompt.opened == "<think>"


def test_template_that_wants_reasoning_apart(load: Load) -> None:
    template = Template(load(REASONING_APART))
    text = template.render([USER, Message("assistant", "<think>why</think>because"), USER])
    assert text == "user: hi\nassistant: (why) because\nuser: hi\n"


def test_template_that_knows_no_reasoning_gets_what_was_generated(load: Load) -> None:
    text = Template(load(CHATML)).render([USER, Message("assistant", "<think>why</think>because"), USER])
    assert "<think>why</think>because" in text


def test_variables_reach_the_template(load: Load) -> None:
    source = CHATML + "{% if enable_thinking is false %}off{% endif %}"
    assert Template(load(source), {"enable_thinking": False}).render([USER]).endswith("off")


@pytest.mark.parametrize(
    "value", ["hi", {"role": "user"}, {"role": "tool", "content": ""}, {"role": "user", "content": 1}]
)
def test_what_is_no_message(value: object) -> None:
    with pytest.raises(UsageError):
        Message.of(value)


def test_message_from_an_object() -> None:
    assert Message.of({"role": "user", "content": "hi"}) == USER == Message.of(USER)
