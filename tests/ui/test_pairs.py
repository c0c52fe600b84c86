"""The pickers: which models may draft for which, and why the others may not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from nsd_local.ui.pairs import drafts_for, targets

from nsd_local.catalog import models_folder
from tests import tiny
from tests.tiny import Tiny


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path))
    made = models_folder()
    made.mkdir(parents=True)
    tiny.write(made / "target.gguf", Tiny(n_layer=4))
    return made


def offers(folder: Path) -> dict[str, str]:
    return {offer.name: offer.refused for offer in drafts_for(str(folder / "target.gguf"))}


def test_a_smaller_model_with_the_same_vocabulary_is_offered(folder: Path, tiny_draft: Path) -> None:
    shutil.copy(tiny_draft, folder / "draft.gguf")
    assert offers(folder) == {"draft.gguf": ""}
    assert str(folder / "draft.gguf") in {offer.spec for offer in targets()}


def test_the_others_are_named_with_the_reason(folder: Path) -> None:
    shutil.copy(folder / "target.gguf", folder / "same.gguf")
    tiny.write(folder / "other.gguf", Tiny(n_vocab=500, n_layer=1))
    (folder / "broken.gguf").write_bytes(b"GGUF" + bytes(40))
    found = offers(folder)
    assert found["same.gguf"].startswith("it is not smaller than the model")
    assert "vocabular" in found["other.gguf"]
    assert found["broken.gguf"].startswith("it cannot be read")


def test_a_deadly_file_is_named_and_ends_nothing(folder: Path, deadly: Path) -> None:
    shutil.copy(deadly, folder / "deadly.gguf")
    assert "ended the process" in offers(folder)["deadly.gguf"]
    (folder / "target.gguf").unlink()
    tiny.write(folder / "small.gguf", Tiny(n_layer=1))
    (offer,) = drafts_for(str(folder / "deadly.gguf"))
    assert "ended the process" in offer.refused


def test_nothing_can_draft_for_a_model_that_is_not_here_but_its_pairs(folder: Path) -> None:
    found = drafts_for("qwen2.5-coder-7b-instruct")
    assert any(not offer.refused for offer in found), "the catalog knows a pair"
    assert all("once the model is on this machine" in offer.refused for offer in found if offer.refused)
