"""What may be typed after -m and -d."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsd_local.catalog.catalog import load_catalog
from nsd_local.catalog.entry import Entry
from nsd_local.catalog.resolve import interpret, locate, resolve
from nsd_local.errors import ModelError, UsageError


@pytest.mark.parametrize(
    ("spec", "role", "name"),
    [
        ("default", "target", "qwen2.5-coder-1.5b-instruct"),
        ("default", "draft", "qwen2.5-coder-0.5b-instruct"),
        ("Qwen2.5-Coder-1.5B", "target", "qwen2.5-coder-1.5b-instruct"),
        ("qwen2.5-coder-1.5b", "draft", "qwen2.5-coder-1.5b-instruct"),
        ("smollm2-135m", "draft", "smollm2-135m-instruct"),
        ("llama-3.1-8b+1b", "draft", "llama-3.2-1b-instruct"),
        ("Qwen/Some-GGUF:q4_k_m", "target", "Qwen/Some-GGUF:Q4_K_M"),
        ("Qwen/Some-GGUF", "target", "Qwen/Some-GGUF"),
        ("Qwen/Some-GGUF:dir/some-file.gguf", "target", "Qwen/Some-GGUF:dir/some-file.gguf"),
    ],
)
def test_names_and_repositories(spec: str, role: str, name: str) -> None:
    meant = interpret(spec, role=role)  # type: ignore[arg-type]
    assert isinstance(meant, Entry)
    assert meant.name == name


@pytest.mark.parametrize(
    "spec",
    ["/models/a.gguf", "~/a.gguf", "./a", "../b/c", "a b/ü 漢字.gguf", "owner/file.gguf", "C:\\m\\a.gguf", "C:/m/a"],
)
def test_paths_are_not_repositories(spec: str) -> None:
    assert isinstance(interpret(spec), Path)


def test_a_file_wins_over_a_repository_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(interpret("models/mine"), Entry)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine").write_bytes(b"GGUF")
    assert isinstance(interpret("models/mine"), Path)


@pytest.mark.parametrize("name", ["with space.gguf", "grüße-漢字.gguf", "no-suffix"])
def test_paths_of_the_users_are_taken_as_they_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "模型 folder"
    folder.mkdir()
    (folder / name).write_bytes(b"GGUF...")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for spec in (str(folder / name), f"~/模型 folder/{name}"):
        found = resolve(spec, offline=True)
        assert found.path == folder / name
        assert (found.trust, found.verified, found.size, found.draft) == ("none", False, 7, None)


def test_a_split_model_is_found_from_any_of_its_parts(tmp_path: Path) -> None:
    parts = [tmp_path / f"big-{n:05}-of-00002.gguf" for n in (1, 2)]
    parts[1].write_bytes(b"22")
    with pytest.raises(ModelError, match=r"Missing: big-00001-of-00002\.gguf"):
        resolve(str(parts[1]))
    parts[0].write_bytes(b"1")
    for part in parts:
        found = resolve(str(part))
        assert (found.files, found.size, found.name) == (tuple(parts), 3, "big")


def test_missing_files_and_folders_say_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no file") as caught:
        resolve(str(tmp_path / "none.gguf"))
    assert caught.value.exit_code == 3
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"is a folder, not a GGUF file\. It holds a\.gguf"):
        resolve(str(tmp_path))


def test_unknown_names_get_suggestions() -> None:
    with pytest.raises(UsageError, match="Did you mean qwen3-8b") as caught:
        resolve("qwen3-8b-instruct")
    assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match="nsd-local list"):
        resolve("zzzzzz")


@pytest.mark.parametrize("spec", ["default", "qwen3-8b", "some/repo:Q4_0"])
def test_offline_never_fetches(spec: str) -> None:
    with pytest.raises(ModelError, match=r"not on this machine.*nsd-local pull"):
        resolve(spec, offline=True)
    assert locate(spec) is None


def test_the_first_pair_of_a_target_names_its_draft() -> None:
    catalog = load_catalog()
    assert catalog.draft_for("qwen2.5-coder-7b-instruct") == catalog.models["qwen2.5-coder-0.5b-instruct"]
    assert catalog.draft_for("smollm2-135m-instruct") is None
