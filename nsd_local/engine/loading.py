"""Loading weights: what to put where, and why a load failed."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nsd_local.engine import library
from nsd_local.engine.devices import Device, devices, gpus
from nsd_local.engine.gguf_file import GgufFile, read_gguf
from nsd_local.engine.held_interrupt import HeldInterrupt
from nsd_local.engine.memory_free import as_size, available_memory
from nsd_local.engine.options import Choice, ModelOptions, Progress
from nsd_local.errors import ModelError, NsdError, UsageError

if TYPE_CHECKING:
    from nsd_local.engine.model import Model

_MODES = {"none": 0, "mmap": 1, "mlock": 2, "mmap+mlock": 3, "direct": 4}  # enum llama_load_mode
_GPU_SHARE = 0.9  # of a GPU's free memory, for weights; the rest is for caches and computing


@dataclass(frozen=True, slots=True)
class Weights:
    """A native model and where it went."""

    handle: Any
    gpu_layers: int
    choices: dict[str, Choice]


def load_weights(file: GgufFile, options: ModelOptions) -> Weights:
    """Raises ModelError with llama.cpp's reason; what the consumer's progress callback raises."""
    lib = library.load()
    params = lib.llama_model_default_params()
    chosen = _devices(options)
    layers, layers_choice = _gpu_layers(file, options, chosen)
    mode, mode_choice = _load_mode(file, options, layers)
    params.n_gpu_layers = layers
    params.load_mode = mode
    params.use_extra_bufts = options.repack
    array = None
    if options.device is not None:
        handles = [device.handle for device in chosen]
        array = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)  # ends with NULL
        params.devices = ctypes.cast(array, ctypes.c_void_p)
    watcher = _Watcher(options.progress)
    params.progress_callback = callback = lib.llama_progress_callback(watcher)
    mark = library.log_mark()
    with watcher:
        handle = lib.llama_model_load_from_file(library.encode_path(file.path), params)
    del callback, array  # alive until here: llama.cpp holds bare pointers
    if watcher.error is not None:
        if handle:
            lib.llama_model_free(handle)
        raise watcher.error
    if not handle:
        raise load_error(file, mark)
    return Weights(handle, layers, {"gpu layers": layers_choice, "load mode": mode_choice})


class _Watcher(HeldInterrupt):
    """llama.cpp's progress callback. What the consumer or an interrupt raises stops the load and is raised after it."""

    def __init__(self, progress: Progress | None) -> None:
        super().__init__()
        self._progress = progress

    def __call__(self, share: float, _user: Any) -> bool:
        try:
            if self._progress is not None:
                self._progress(share)
        except BaseException as error:  # noqa: BLE001  must not pass through C; raised by load_weights
            self.error = error
        return self.error is None


def _devices(options: ModelOptions) -> list[Device]:
    """The GPUs to use. Raises UsageError for a name that is not there."""
    if options.device is None:
        return gpus()
    if options.device.lower() in ("none", "cpu"):
        return []
    found = [device for device in devices() if device.name.lower() == options.device.lower()]
    if not found:
        names = ", ".join(device.name for device in devices())
        raise UsageError(f"There is no device {options.device}", f"this build of llama.cpp sees: {names}")
    return found


def _gpu_layers(file: GgufFile, options: ModelOptions, found: list[Device]) -> tuple[int, Choice]:
    total = file.integer("block_count") + 1  # the output layer counts as one
    if options.gpu_layers is not None:
        layers = total if options.gpu_layers < 0 else options.gpu_layers
        if layers and not found:
            return 0, Choice("0", "this build of llama.cpp or this machine has no GPU")
        return layers, Choice(str(layers), "as asked")
    if not found:
        return 0, Choice("0", "no GPU")
    free = sum(device.free for device in found)
    fits = int(total * min(1.0, _GPU_SHARE * free / max(1, file.size)))
    names = ", ".join(device.name for device in found)
    if fits >= total:
        return total, Choice(f"all {total}", f"{as_size(file.size)} fit into {as_size(free)} free on {names}")
    return fits, Choice(f"{fits} of {total}", f"{as_size(file.size)} do not fit into {as_size(free)} free on {names}")


def _load_mode(file: GgufFile, options: ModelOptions, gpu_layers: int) -> tuple[int, Choice]:
    """On a CPU the weights are copied into a layout that computes faster. Mapped pages then stay beside the copy, so a
    model that fits is read instead; one that does not fit can only be mapped.
    """
    free = available_memory()
    if options.load_mode != "auto":
        if options.load_mode in ("none", "mlock", "direct") and not gpu_layers:
            _check_fits(file, free)
        return _MODES[options.load_mode], Choice(options.load_mode, "as asked")
    if gpu_layers:
        return _MODES["mmap"], Choice("mmap", "layers go to the GPU; the mapped pages can be dropped")
    if not options.repack:
        return _MODES["mmap"], Choice("mmap", "weights are used as they lie in the file")
    if file.size > 0.9 * free:
        return _MODES["mmap"], Choice(
            "mmap", f"{as_size(file.size)} do not fit into {as_size(free)} of free memory: pages are read as needed"
        )
    return _MODES["none"], Choice("none", "read into memory once: half of what mapping takes, as weights are repacked")


def _check_fits(file: GgufFile, free: int) -> None:
    if file.size > free:
        raise ModelError(
            f"{file.path.name} needs {as_size(file.size)} of memory",
            f"{as_size(free)} are free",
            "Choose a smaller model or quantization, or load mode mmap, which is slow but works",
        )


def load_error(file: GgufFile, mark: int) -> NsdError:
    """Why llama.cpp did not load a file, from its log."""
    text = " ".join(library.log_since(mark, library.ERROR))
    if found := re.search(r"unknown model architecture: '([^']*)'", text):
        return ModelError(
            f"{file.path} has the architecture {found[1]!r}",
            f"this llama.cpp, {library.llama_version()}, does not know it",
            "Update llama-cpp-python, or choose another model",
        )
    reason = re.sub(r"^(error loading model[\w ]*: |check_tensor_dims: )+", "", library.reason_since(mark))
    return ModelError(f"{file.path} cannot be loaded", reason, "Download it again, or choose another file")


def check_generates(model: Model) -> None:
    """Refuse models that do not write text from left to right."""
    lib, what = library.load(), ""
    if lib.llama_model_has_encoder(model.handle):
        what = "an encoder-decoder model"
    elif not lib.llama_model_has_decoder(model.handle):
        what = "an embedding model"
    elif lib.llama_model_is_diffusion(model.handle):
        what = "a diffusion model"
    elif model.n_vocab < 1 or model.vocabulary.type == "none":
        what = "a model without a vocabulary"
    if what:
        raise ModelError(f"{model.path} is {what}", "nsd-local continues texts token by token", "Choose another model")


def load_adapters(handle: Any, options: ModelOptions) -> list[tuple[Any, float]]:
    """LoRA adapters of `options`. llama.cpp frees them with the model. Raises ModelError."""
    lib = library.load()
    adapters = []
    for lora in options.lora:
        file = read_gguf(lora.path)
        mark = library.log_mark()
        adapter = lib.llama_adapter_lora_init(handle, library.encode_path(file.path))
        if not adapter:
            why = library.reason_since(mark)
            raise ModelError(f"{file.path} cannot be used as a LoRA adapter", why, "Check that it fits the model")
        adapters.append((adapter, lora.scale))
    return adapters
