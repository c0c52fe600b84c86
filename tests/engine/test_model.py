"""Loading, the vocabulary, and the life of native handles."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

import psutil
import pytest

from nsd_local.engine import library
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions, Lora, ModelOptions
from nsd_local.errors import Cancelled, DecodeError, ModelError, UsageError
from tests import tiny
from tests.tiny import Tiny, special


def test_model_tells_what_it_is(tiny_target):
    with Model.load(tiny_target) as model:
        assert model.path == tiny_target
        assert (model.n_vocab, model.n_ctx_train, model.n_layer) == (320, 8192, 2)
        assert model.architecture == "llama"
        assert model.metadata["general.architecture"] == "llama"
        assert model.metadata["llama.context_length"] == "8192"
        assert model.chat_template == tiny.CHATML
        assert model.description.startswith("llama")
        assert model.size_bytes == pytest.approx(tiny_target.stat().st_size, rel=0.1)
        assert model.choices["load mode"].value == "none"
        assert model.choices["load mode"].reason


def test_text_survives_the_vocabulary(tiny_target):
    texts = ["hello the world", " " * 64 + "x", " " * 128, "naïve 你好 🙂\n\ttab", "", "a" * 5_000]
    with Model.load(tiny_target) as model:
        for text in texts:
            tokens = model.tokenize(text, special=False, add_bos=False)
            assert b"".join(model.piece(token) for token in tokens).decode() == text
        assert max(len(model.piece(token)) for token in range(model.n_vocab)) == 64


def test_special_tokens_are_read_only_where_asked(tiny_target):
    with Model.load(tiny_target) as model:
        assert model.tokenize("<|im_end|>", special=True, add_bos=False) == [special("<|im_end|>")]
        spelled = model.tokenize("<|im_end|>", special=False, add_bos=False)
        assert special("<|im_end|>") not in spelled
        assert len(spelled) > 5
        assert model.piece(special("<|im_end|>")) == b"<|im_end|>"


def test_every_end_token_ends(tiny_target):
    with Model.load(tiny_target) as model:
        assert model.eog == {special("<|endoftext|>"), special("<|im_end|>")}
        assert model.is_eog(special("<|im_end|>"))
        assert not model.is_eog(65)


@pytest.mark.parametrize("text", ["hello", "<|endoftext|>hello"])
def test_bos_is_written_once(tiny_model, text):
    bos = special("<|endoftext|>")
    with Model.load(tiny_model(Tiny(add_bos=True))) as model:
        tokens = model.tokenize(text, special=True, add_bos=True)
        assert tokens[0] == bos
        assert tokens.count(bos) == 1
        assert model.tokenize("hello", special=True, add_bos=False)[0] != bos


def test_bos_is_left_out_where_the_model_wants_none(tiny_target):
    with Model.load(tiny_target) as model:
        assert special("<|endoftext|>") not in model.tokenize("hello", special=True, add_bos=True)


@pytest.mark.parametrize("token", [-1, 320, 2**31 - 1])
def test_unknown_token_is_refused(tiny_target, token):
    with Model.load(tiny_target) as model, pytest.raises(ModelError, match="has no token"):
        model.piece(token)


def test_progress_is_told_and_may_stop_the_load(tiny_target):
    shares: list[float] = []
    Model.load(tiny_target, ModelOptions(progress=shares.append)).close()
    assert shares[-1] == 1.0
    assert shares == sorted(shares)

    def stop(share: float) -> None:
        raise Cancelled("enough")

    with pytest.raises(Cancelled, match="Enough"):
        Model.load(tiny_target, ModelOptions(progress=stop))


@pytest.mark.parametrize("mode", ["none", "mmap", "direct", "auto"])
def test_load_modes_give_the_same_numbers(tiny_target, mode):
    with Model.load(tiny_target) as plain, Model.load(tiny_target, ModelOptions(load_mode=mode)) as model:
        options = ContextOptions(n_ctx=256)
        with Context(plain, options) as a, Context(model, options) as b:
            assert (a.evaluate([1, 2, 3], rows=1) == b.evaluate([1, 2, 3], rows=1)).all()


def test_unknown_device_names_the_known_ones(tiny_target):
    with pytest.raises(UsageError, match="CPU"):
        Model.load(tiny_target, ModelOptions(device="CUDA7"))


def test_lora_changes_the_logits_by_its_scale(tiny_target, tmp_path):
    path = tiny.write_lora(tmp_path / "lora.gguf", Tiny(seed=1), seed=5)
    rows = []
    for lora in ((), (Lora(path, 1e-9),), (Lora(path, 1.0),)):
        with Model.load(tiny_target, ModelOptions(lora=lora)) as model, Context(model, ContextOptions(n_ctx=256)) as c:
            rows.append(c.evaluate([1, 2, 3], rows=1)[0].copy())
    assert abs(rows[1] - rows[0]).max() < 1e-3
    assert abs(rows[2] - rows[0]).max() > 0.05


def test_a_file_that_is_no_lora_is_refused_and_frees_the_model(tiny_target, tiny_draft):
    with pytest.raises(ModelError, match="LoRA"):
        Model.load(tiny_target, ModelOptions(lora=(Lora(tiny_draft),)))


def test_closing_a_model_closes_its_contexts_first(tiny_target):
    model = Model.load(tiny_target)
    context = Context(model, ContextOptions(n_ctx=256))
    model.close()
    model.close()
    with pytest.raises(DecodeError, match="closed"):
        context.evaluate([1], rows=1)
    with pytest.raises(ModelError, match="closed"):
        Context(model)
    context.close()


def test_forgotten_handles_are_freed(tiny_target):
    model = Model.load(tiny_target)
    context = Context(model, ContextOptions(n_ctx=256))
    gone = weakref.ref(model)
    del model, context
    gc.collect()
    assert gone() is None


def test_loading_often_leaks_nothing(tiny_model):
    path = tiny_model(Tiny(n_vocab=4_000, n_embd=256))  # 8 MB of weights

    def load() -> int:
        with Model.load(path) as model, Context(model, ContextOptions(n_ctx=2048)) as context:
            context.evaluate(list(range(200)), rows=4)
        return psutil.Process().memory_info().rss

    for _ in range(8):
        before = load()
    for _ in range(20):
        after = load()
    assert after - before < 24e6  # the heap may grow once; 20 leaked models are 160e6, 20 leaked caches 40e6


def test_failed_loads_leak_nothing(tiny_target, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_target.read_bytes().replace(b"output_norm.weight", b"output_form.weight"))

    def fail() -> int:
        with pytest.raises(ModelError):
            Model.load(broken)
        return psutil.Process().memory_info().rss

    for _ in range(10):
        before = fail()
    for _ in range(100):
        after = fail()
    assert after - before < 4e6


def test_nothing_is_printed_at_the_end_of_a_process(tiny_target):
    """What is still open is freed before the log is let go; other exit hooks may run before ours."""
    program = f"""
import weakref
class Other: pass
other = Other()
weakref.finalize(other, print, "other")
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
context = Context(Model.load({str(tiny_target)!r}))
context.evaluate([1], rows=1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "other\n", "")


def test_a_text_is_not_tokenized_in_a_model_that_is_being_freed(tiny_target, monkeypatch):
    """A prompt is tokenized in one thread while another closes the model."""
    model, real = Model.load(tiny_target), library.load().llama_tokenize
    closer, freed = threading.Thread(target=model.close), []

    def slow(*args):
        closer.start()
        closer.join(0.2)
        freed.append(not closer.is_alive())
        return 0 if freed[0] else real(*args)

    monkeypatch.setattr(library.load(), "llama_tokenize", slow)
    assert len(model.tokenize("hello", special=False, add_bos=False)) > 1
    closer.join()
