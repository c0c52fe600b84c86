"""Choosing the files of a repository."""

from __future__ import annotations

import pytest

from nsd_local.catalog.choose import choose_files, quants_of
from nsd_local.errors import ModelError

OFFICIAL = [
    "README.md",
    "qwen-7b-instruct-q4_k_m-00001-of-00002.gguf",
    "qwen-7b-instruct-q4_k_m-00002-of-00002.gguf",
    "qwen-7b-instruct-q4_k_m.gguf",
    "qwen-7b-instruct-q8_0.gguf",
]
UNSLOTH = [
    "Qwen3-32B-Q4_K_M.gguf",
    "Qwen3-32B-UD-Q4_K_XL.gguf",
    "BF16/Qwen3-32B-BF16-00002-of-00002.gguf",
    "BF16/Qwen3-32B-BF16-00001-of-00002.gguf",
    "mmproj-F16.gguf",
    "imatrix_unsloth.gguf",
]


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        (OFFICIAL, "Q4_K_M", ("qwen-7b-instruct-q4_k_m.gguf",)),
        (OFFICIAL[:3], "q4_k_m", tuple(OFFICIAL[1:3])),
        (OFFICIAL, "q8_0", ("qwen-7b-instruct-q8_0.gguf",)),
        (OFFICIAL, "", ("qwen-7b-instruct-q4_k_m.gguf",)),
        (OFFICIAL, "qwen-7b-instruct-q8_0.gguf", ("qwen-7b-instruct-q8_0.gguf",)),
        (UNSLOTH, "Q4_K_XL", ("Qwen3-32B-UD-Q4_K_XL.gguf",)),
        (UNSLOTH, "UD-Q4_K_XL", ("Qwen3-32B-UD-Q4_K_XL.gguf",)),
        (UNSLOTH, "BF16", (UNSLOTH[3], UNSLOTH[2])),
        (["only-IQ2_XS.gguf"], "", ("only-IQ2_XS.gguf",)),
        (["m.Q4_1.gguf"], "Q4_1", ("m.Q4_1.gguf",)),
    ],
)
def test_the_right_files_are_chosen(names: list[str], wanted: str, chosen: tuple[str, ...]) -> None:
    assert choose_files(names, wanted, "there") == chosen


@pytest.mark.parametrize(
    ("names", "wanted", "said"),
    [
        (OFFICIAL, "Q4_K", r"no file for 'Q4_K'.*It has Q4_K_M, Q8_0\. Did you mean Q4_K_M\?"),
        (UNSLOTH, "F16", "no file for 'F16'"),
        (["README.md"], "Q4_0", "has no GGUF file"),
        (["a-00001-of-00002.gguf"], "a-00001-of-00002.gguf", r"Missing: a-00002-of-00002\.gguf"),
        (["a-Q2_K.gguf", "a-Q3_K.gguf"], "", "none of the usual ones.*Q2_K, Q3_K"),
    ],
)
def test_what_is_not_there_is_said(names: list[str], wanted: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        choose_files(names, wanted, "there")


def test_quantizations_are_read_from_names() -> None:
    assert quants_of(UNSLOTH[:4]) == ["BF16", "Q4_K_M", "UD-Q4_K_XL"]
