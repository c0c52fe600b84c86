"""Files that are not what they should be: the reason in one line, before llama.cpp sees them."""

from __future__ import annotations

import shutil

import gguf
import pytest

from nsd_local.engine.context import Context
from nsd_local.engine.gguf_file import read_gguf
from nsd_local.engine.library import llama_version
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import ModelError
from tests import tiny
from tests.engine.mutants import fields
from tests.tiny import Tiny
from tests.tiny_kinds import KINDS


def refused(path) -> str:
    """The one-line reason; the error's exit code is that of a refused model."""
    with pytest.raises(ModelError) as caught:
        Model.load(path)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_header_says_what_is_inside(tiny_target):
    file = read_gguf(tiny_target)
    assert file.architecture == "llama"
    assert file.n_vocab == 320
    assert file.integer("block_count") == 2
    assert file.size == tiny_target.stat().st_size
    assert file.parts == (tiny_target,)
    shapes = {tensor.name: tensor.shape for tensor in file.tensors}
    assert shapes["output.weight"] == (64, 320)


def test_missing_file(tmp_path):
    assert "There is no file" in refused(tmp_path / "none.gguf")


def test_folder_suggests_what_is_in_it(tmp_path, tiny_target):
    assert "is a folder" in refused(tmp_path)
    shutil.copy(tiny_target, tmp_path / "inside.gguf")
    assert "inside.gguf" in refused(tmp_path)


def test_empty_file(tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    assert "is empty (0 bytes)" in refused(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"Once upon a time there was a model.", "not a GGUF file"),
        (b"G", "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b'\x10\x00\x00\x00\x00\x00\x00\x00{"weights": 1}', "safetensors"),
        (b"GGUF" + (1).to_bytes(4, "little") + bytes(100), "version 1"),
        (b"GGUF" + (3).to_bytes(4, "big") + bytes(100), "big-endian"),
        (b"GGUF" + (3).to_bytes(4, "little") + bytes(16), "names no architecture"),
        (b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16, "damaged or incomplete"),
        (b"GGUF\x03\x00\x00\x00", "damaged or incomplete"),
    ],
)
def test_other_files(tmp_path, content, reason):
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    assert reason in refused(path)


def test_half_a_file_is_told_with_its_size(tmp_path, tiny_target):
    whole = tiny_target.read_bytes()
    path = tmp_path / "half.gguf"
    path.write_bytes(whole[: len(whole) // 2])
    assert f"incomplete: {len(whole) // 2:,} of {len(whole):,} bytes" in refused(path)


def test_a_file_that_ends_within_its_header(tmp_path, tiny_target):
    whole = tiny_target.read_bytes()
    path = tmp_path / "short.gguf"
    for end in (30, 1_000, fields(whole)[1] - 1):
        path.write_bytes(whole[:end])
        assert f"Its header ends early, at byte {end:,}" in refused(path)


def test_one_missing_byte_is_noticed(tmp_path, tiny_target):
    path = tmp_path / "nearly.gguf"
    path.write_bytes(tiny_target.read_bytes()[:-1])
    assert "incomplete" in refused(path)


def test_unknown_architecture_is_named_with_the_version(tmp_path):
    path = tmp_path / "future.gguf"
    writer = gguf.GGUFWriter(path, "llama99")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reason = refused(path)
    assert "'llama99'" in reason
    assert llama_version() in reason


def test_a_missing_tensor_is_named(tmp_path, tiny_target):
    path = tmp_path / "lacking.gguf"
    path.write_bytes(tiny_target.read_bytes().replace(b"output_norm.weight", b"output_form.weight"))
    assert "output_norm.weight" in refused(path)


@pytest.mark.parametrize("name", ["with spaces.gguf", "Übergröße.gguf", "模型 モデル.gguf", "%41 #1 'q'.gguf"])
def test_names_of_every_kind_load(tmp_path, tiny_target, name):
    folder = tmp_path / "ein Ordner für 模型"
    folder.mkdir()
    path = folder / name
    shutil.copy(tiny_target, path)
    with Model.load(path) as model, Context(model, ContextOptions(n_ctx=256)) as context:
        assert context.evaluate([1], rows=1).shape == (1, 320)


def test_tilde_is_the_home_folder(tmp_path, tiny_target, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    shutil.copy(tiny_target, tmp_path / "mine.gguf")
    with Model.load("~/mine.gguf") as model:
        assert model.path == tmp_path / "mine.gguf"


def split_in_two(path, folder, stem="model"):
    """The two parts of a split copy of `path`: all tensors but the last, and the last."""
    reader = gguf.GGUFReader(path)
    parts = []
    for number, tensors in enumerate((reader.tensors[:-1], reader.tensors[-1:])):
        part = folder / f"{stem}-{number + 1:05d}-of-00002.gguf"
        writer = gguf.GGUFWriter(part, "llama")
        if number == 0:
            for field in reader.fields.values():
                if field.name.startswith(("GGUF.", "general.architecture")):
                    continue
                sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub)
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        parts.append(part)
    return parts


def test_split_models_open_by_their_first_part(tmp_path, tiny_target):
    first, second = split_in_two(tiny_target, tmp_path)
    with Model.load(tiny_target) as whole, Model.load(first) as model:
        assert model.file.parts == (first, second)
        with Context(whole, ContextOptions(n_ctx=256)) as a, Context(model, ContextOptions(n_ctx=256)) as b:
            assert (a.evaluate([1, 2], rows=1) == b.evaluate([1, 2], rows=1)).all()
    assert str(first) in refused(second)
    second.unlink()
    assert second.name in refused(first)


def test_a_part_under_another_name_is_told(tmp_path, tiny_target):
    first, _ = split_in_two(tiny_target, tmp_path)
    renamed = first.rename(tmp_path / "renamed.gguf")
    assert "-00001-of-00002.gguf" in refused(renamed)


@pytest.mark.parametrize(
    ("architecture", "reason"), [("llada", "a diffusion model"), ("eurobert", "no memory of a text")]
)
def test_models_that_do_not_write_text_are_refused(tmp_path, monkeypatch, architecture, reason):
    def kind(blocks):
        llama(blocks)
        if architecture == "eurobert":  # an embedding model has no output matrix
            del blocks.writer.tensors[0]["output.weight"]

    llama = KINDS["llama"]
    monkeypatch.setitem(KINDS, architecture, kind)
    path = tiny.write(tmp_path / "other.gguf", Tiny(kind=architecture))
    with pytest.raises(ModelError, match=reason), Model.load(path) as model:
        Context(model, ContextOptions(n_ctx=256))
