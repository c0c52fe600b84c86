"""Numbers within bounds, written as grammar (GBNF)."""

from __future__ import annotations

from typing import Final

DIGITS: Final = 15  # a double holds every decimal number of so many digits
_LARGEST: Final = 10**DIGITS - 1

INTEGER: Final = '"0" | "-"? [1-9] [0-9]{0,14}'
NUMBER: Final = '"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?'


def integers(low: int | None, high: int | None) -> str:
    """Every integer from `low` to `high`, both included; "" if there is none. None bounds the number of digits only."""
    forms = []
    if low is None or low < 0:
        most = None if low is None else -low
        negative = _whole(max(1, 1 if high is None else -high), most)
        forms += [f'"-" ({negative})'] if negative else []
    if high is None or high >= 0:
        forms += [_whole(max(0, low or 0), high)]
    return " | ".join(form for form in forms if form)


def numbers(low: int | None, high: int | None, open_low: bool = False, open_high: bool = False) -> str:
    """Decimal numbers between integer bounds, without exponents; an open bound is not included itself."""
    forms = []
    if low is None or low < 0:
        most = None if low is None else -low
        if high is not None and high < 0:
            negative = _decimals(-high, most, open_high, open_low)
        else:
            negative = _decimals(0, most, True, open_low)  # zero has no sign
        forms += [f'"-" ({negative})'] if negative else []
    if high is None or high >= 0:
        least = max(0, low or 0)
        forms += [_decimals(least, high, open_low and low == least, open_high)]
    return " | ".join(form for form in forms if form)


def _decimals(low: int, high: int | None, open_low: bool, open_high: bool) -> str:
    """Unsigned numbers from `low` to `high`."""
    if high is not None and (low > high or (low == high and (open_low or open_high))):
        return ""
    if low == high:
        return f'"{low}"'
    room = DIGITS - len(str(high if high is not None else low))  # so that no fraction rounds to the next integer
    fraction = f'("." [0-9]{{1,{room}}})?' if room > 0 else ""
    forms = []
    if open_low and room > 0:
        forms.append(f'"{low}" "." [0-9]{{0,{room - 1}}} [1-9]')
    whole = _whole(low + open_low, None if high is None else high - 1)
    if whole:
        forms.append(f"({whole}) {fraction}".rstrip())
    if high is not None and not open_high:
        forms.append(f'"{high}"')
    return " | ".join(forms)


def _whole(low: int, high: int | None) -> str:
    """Unsigned integers without leading zeros; `high` None is as many digits as a double holds."""
    high = max(_LARGEST, 10 ** len(str(low)) - 1) if high is None else high
    forms = []
    for n in range(len(str(low)), len(str(high)) + 1):
        first, last = max(low, 10 ** (n - 1) if n > 1 else 0), min(high, 10**n - 1)
        if first > last:
            continue
        if n > 1 and first == 10 ** (n - 1) and last == 10**n - 1 and n < len(str(high)):
            # All numbers of n digits and more, up to those shorter than `high`, at once.
            forms.append(f"[1-9] [0-9]{{{n - 1},{len(str(high)) - 2}}}")
            top = 10 ** (len(str(high)) - 1)
            return " | ".join([*forms, _same_length(str(top), str(high))])
        forms.append(_same_length(str(first), str(last)))
    return " | ".join(forms)


def _same_length(low: str, high: str) -> str:
    """Digit strings from `low` to `high`, which are equally long."""
    if low == high:
        return f'"{low}"' if low else ""
    n = len(low)
    if low[0] == high[0]:
        return f'"{low[0]}" ({_same_length(low[1:], high[1:])})'
    first, last, forms = int(low[0]), int(high[0]), []
    if low[1:] != "0" * (n - 1):
        forms.append(f'"{first}" ({_same_length(low[1:], "9" * (n - 1))})')
        first += 1
    tail = []
    if high[1:] != "9" * (n - 1):
        tail.append(f'"{last}" ({_same_length("0" * (n - 1), high[1:])})')
        last -= 1
    if first <= last:
        digits = f"[{first}-{last}]" if first < last else f'"{first}"'
        forms.append(f"{digits} [0-9]{{{n - 1}}}" if n > 1 else digits)
    return " | ".join([*forms, *tail])
