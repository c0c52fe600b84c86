"""A model's chat template: messages in, prompt tokens out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nsd_local.chat.fence import Fence
from nsd_local.chat.message import Message, joined
from nsd_local.chat.reasoning import opened_by, split
from nsd_local.engine.model import Model
from nsd_local.errors import NsdError, UsageError

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}{% if message.role == 'system' %}{{ message.content + '\n\n' }}"
    "{% else %}{{ message.role | capitalize + ': ' + message.content + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
PLAIN_STOPS = ("\nUser:", "\nSystem:")
WORD = "nsdprobe"  # stands in for a message when a template is tried out


class TemplateError(NsdError):
    """The model's chat template cannot render these messages."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. `text` has placeholders for control tokens in messages (see `Fence`)."""

    text: str
    tokens: list[int]
    opened: str  # the reasoning tag that the prompt leaves open, "" if none


class Template:
    """The template of one model, rendered in a sandbox.

    `notices` are lines for the user: what was used in place of a missing or unusable template, and why.
    `stop` are stop strings without which the form used would not end. `variables` are handed to the template,
    such as `{"enable_thinking": False}`.
    """

    _formatter: Any

    def __init__(self, model: Model, variables: Mapping[str, Any] | None = None) -> None:
        self.fence = Fence(model)
        self.variables = dict(variables or {})
        self.notices: tuple[str, ...] = ()
        self.stop: tuple[str, ...] = ()
        self._model = model
        self._parts = False  # the template wants the content as a list of parts
        self.source, self.name = self._choose()
        self.has_system = WORD in self._try(Message("system", WORD), Message("user", "x"))

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """The prompt for the answer to the last message, as token ids. Raises as `prompt`."""
        return self.prompt(messages).tokens

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """The prompt for the answer to the last message.

        Raises UsageError where no message is the user's, TemplateError where the template refuses.
        """
        text = self.render(messages)
        return Prompt(text, self.fence.encode(text), opened_by(text))

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt as text, with placeholders. Raises as `prompt`."""
        if not any(message.role == "user" for message in messages):
            raise UsageError("The conversation has no message of the user", "", "Say something first")
        turns = joined(list(messages))
        if not self.has_system:
            turns = folded(turns)
        return self._render(turns)

    def notices_for(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """What the user should know about how these messages are rendered."""
        if self.has_system or not any(message.role == "system" for message in messages):
            return self.notices
        line = "this model's chat template has no system role: the system prompt is put before the first message"
        return (*self.notices, line)

    def _choose(self) -> tuple[str, str]:
        """The template to use and its name; sets `notices` and `stop` where it is not the model's own."""
        template = self._model.chat_template
        if template:
            problem = self._usable(template)
            if not problem:
                return template, "the model's own"
        else:
            problem = "this model has no chat template"
        if self._model.tokenize("<|im_start|>", special=True, add_bos=False) != self._model.tokenize(
            "<|im_start|>", special=False, add_bos=False
        ):
            self.notices = (f"{problem}: ChatML is used, whose tokens it has",)
            return self._adopt(CHATML), "ChatML"
        self.notices = (f"{problem}: plain 'User:' and 'Assistant:' lines are used",)
        self.stop = PLAIN_STOPS
        return self._adopt(PLAIN), "plain text"

    def _usable(self, template: str) -> str:
        """Why the template cannot be used; "" if it can."""
        try:
            self._adopt(template)
            for self._parts in (False, True):
                if WORD in self._render([Message("user", WORD)]):
                    return ""
        except TemplateError as error:
            return f"this model's chat template does not work ({error.why})"
        return "this model's chat template does not show the message"

    def _adopt(self, template: str) -> str:
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # loads compiled code: late

        self._parts = False
        try:
            self._formatter = Jinja2ChatFormatter(template, self._special("eos"), self._special("bos"))
        except _failures() as error:
            raise TemplateError("The chat template of this model cannot be read", str(error)) from error
        # A template that looks for the tag drops the reasoning of earlier answers itself; another may want
        # it apart. One that knows neither gets the answer as it was generated, which is also what the memory
        # holds.
        self._wants_apart = "</think>" not in template and (
            "reasoning_content" in template or "message.thinking" in template
        )
        return template

    def _special(self, name: str) -> str:
        value = self._model.metadata.get(f"tokenizer.ggml.{name}_token_id", "")
        if not value.isdigit() or int(value) >= self._model.n_vocab:
            return ""
        return self._model.piece(int(value)).decode("utf-8", "replace")

    def _render(self, messages: Sequence[Message]) -> str:
        dicts = [self._as_dict(message) for message in messages]
        try:
            return str(self._formatter(messages=dicts, **self.variables).prompt)
        except _failures() as error:
            raise TemplateError(
                "The chat template of this model refuses these messages",
                f"it says: {error}",
                "Undo the last message, start a new conversation, or use a raw prompt",
            ) from error

    def _as_dict(self, message: Message) -> dict[str, Any]:
        content, extra = message.content, {}
        if message.role == "assistant" and self._wants_apart:
            parts = split(content)
            content = parts.answer
            extra = {"reasoning_content": parts.reasoning, "thinking": parts.reasoning} if parts.reasoning else {}
        shielded = self.fence.shield(content)
        return {
            "role": message.role,
            "content": [{"type": "text", "text": shielded}] if self._parts else shielded,
            **{key: self.fence.shield(value) for key, value in extra.items()},
        }

    def _try(self, *messages: Message) -> str:
        try:
            return self._render(messages)
        except TemplateError:
            return ""


def _failures() -> tuple[type[Exception], ...]:
    """What a template can raise: it is a program in a sandbox, and any of its operations can fail."""
    import jinja2

    kinds = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
    return (jinja2.TemplateError, *kinds)


def folded(messages: Sequence[Message]) -> list[Message]:
    """The same messages with the system prompt put before the first message of the user."""
    system = "\n\n".join(message.content for message in messages if message.role == "system" and message.content)
    rest = [message for message in messages if message.role != "system"]
    for i, message in enumerate(rest):
        if message.role == "user" and system:
            rest[i] = Message("user", f"{system}\n\n{message.content}")
            break
    return rest
