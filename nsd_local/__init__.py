"""nsd-local: faster local inference of GGUF models with Nucleus Speculative Decoding."""

__version__ = "0.1.0"
