"""Damaged copies of GGUF files: flipped bytes, cut ends, and header fields with wrong values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_WORTHY = (0, 1, 2, 3, 7, 8, 31, 64, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


@dataclass(frozen=True)
class Field:
    """A number in a header: where it lies, its bytes, what it is."""

    at: int
    size: int
    what: str


def fields(data: bytes) -> tuple[list[Field], int]:
    """All numbers of a sound header, and the size of the header."""
    found: list[Field] = [Field(4, 4, "version"), Field(8, 8, "n_tensors"), Field(16, 8, "n_values")]
    at = 24

    def number(size: int, what: str) -> int:
        nonlocal at
        found.append(Field(at, size, what))
        value = int.from_bytes(data[at : at + size], "little")
        at += size
        return value

    def text(what: str) -> str:
        nonlocal at
        length = number(8, f"length of {what}")
        at += length
        return data[at - length : at].decode()

    n_tensors, n_values = struct.unpack_from("<QQ", data, 8)
    for _ in range(n_values):
        key = text("a key")
        type_ = number(4, f"type of {key}")
        if type_ == 8:
            text(key)
        elif type_ == 9:
            item, count = number(4, f"item type of {key}"), number(8, f"count of {key}")
            for i in range(count):
                if item == 8:
                    text(f"{key}[{i}]")
                else:
                    number(_SIZES[item], f"{key}[{i}]")
        else:
            number(_SIZES[type_], key)
    for _ in range(n_tensors):
        name = text("a tensor's name")
        for i in range(number(4, f"dimensions of {name}")):
            number(8, f"dimension {i} of {name}")
        number(4, f"type of {name}")
        number(8, f"offset of {name}")
    return found, at


def mutants(sound: bytes, count: int, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """`count` damaged copies and what was done to each."""
    found, header = fields(sound)
    # Vocabularies have hundreds of lengths and types: give the few telling fields as much weight as those together.
    telling = [field for field in found if "[" not in field.what]
    for number in range(count):
        data = bytearray(sound)
        way = number % 5
        if way == 0:
            at = int(rng.integers(header))
            data[at] ^= 1 << int(rng.integers(8))
            yield f"bit flipped in the header at {at}", bytes(data)
        elif way == 1:
            places = rng.integers(len(data), size=int(rng.integers(1, 200)))
            data_array = np.frombuffer(data, dtype=np.uint8)
            data_array[places] = rng.integers(256, size=len(places))
            yield f"{len(places)} bytes changed anywhere", bytes(data)
        elif way == 2:
            end = int(rng.integers(len(data)))
            yield f"cut off at {end}", bytes(data[:end])
        else:
            field = (telling if way == 3 else found)[int(rng.integers(len(telling if way == 3 else found)))]
            old = int.from_bytes(data[field.at : field.at + field.size], "little")
            new = _WORTHY[int(rng.integers(len(_WORTHY)))] if rng.random() < 0.6 else old + int(rng.integers(-3, 4))
            new %= 1 << (8 * field.size)
            data[field.at : field.at + field.size] = new.to_bytes(field.size, "little")
            yield f"{field.what} from {old} to {new}", bytes(data)
