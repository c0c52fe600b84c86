"""Checks of the fields of settings: each raises a UsageError that names the field, what it may be, and what it is.

A field that fits is stored as plain `int` or `float`: numpy's numbers count, and booleans do not.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from nsd_local.errors import UsageError

LARGEST = 1e30  # of numbers that meet float32 logits: products with another setting stay finite


def whole(
    settings: Any, field: str, least: int = 0, most: int | None = None, *, must: str = "", optional: bool = False
) -> None:
    """The field is a whole number from `least` to `most`, or None where it is `optional`. `must` says it in words."""
    value = getattr(settings, field)
    if value is None and optional:
        return
    if not must:
        must = f"be {least} or more" if most is None else f"lie in {least}..{most}"
    _store(settings, field, as_whole(_spelt(field), value, least, most, must=must))


def as_whole(name: str, value: Any, least: int = 0, most: int | None = None, *, must: str = "") -> int:
    """`value` as an int, checked like a field. `name` is what the message calls it."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} must be a whole number, not {shown(value)}")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise UsageError(f"{name} must {must or f'be {least} or more'}, not {shown(number)}")
    return number


def number(
    settings: Any, field: str, fits: Callable[[float], bool], must: str, *, name: str = "", optional: bool = False
) -> None:
    """The field is a number for which `fits` holds (which must not hold for NaN), or None where it is `optional`."""
    value = getattr(settings, field)
    if value is None and optional:
        return
    _store(settings, field, as_number(name or _spelt(field), value, fits, must))


def as_number(name: str, value: Any, fits: Callable[[float], bool], must: str) -> float:
    """`value` as a float (an int stays one), checked like a field."""
    if not _is_number(value):
        raise UsageError(f"{name} must be a number, not {shown(value)}")
    try:
        plain = float(value)
    except OverflowError:
        plain = float("inf") if value > 0 else float("-inf")
    if not fits(plain):
        raise UsageError(f"{name} must {must}, not {shown(value)}")
    return value if isinstance(value, int) else plain


def text(name: str, value: Any) -> None:
    """The value is a text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        code = ord(value[error.start])
        raise UsageError(
            f"{name} holds half a character (U+{code:04X} at place {error.start + 1})",
            "no text of a model contains one",
            "Remove it",
        ) from None


def kind(name: str, value: Any, type_: type) -> None:
    """The value is of this type."""
    if not isinstance(value, type_):
        raise UsageError(f"{name} must be a {type_.__name__}, not {shown(value)}")


def shown(value: Any) -> str:
    """A value for a message: numbers as they are written, others quoted and cut off."""
    if isinstance(value, float | int):
        written = "a number of many digits" if isinstance(value, int) and abs(value) >= 10**40 else str(value)
    else:
        written = str(value) if isinstance(value, Real) else ascii(value)
    return written if len(written) <= 60 else written[:57] + "..."


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _spelt(field: str) -> str:
    return field.replace("_", "-")


def _store(settings: Any, field: str, value: Any) -> None:
    if getattr(settings, field) is not value:
        object.__setattr__(settings, field, value)  # the settings are frozen
