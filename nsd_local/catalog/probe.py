"""What lies at a path of the user's, asked so that no answer of the system is a surprise."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from nsd_local.errors import ModelError

_LONGEST: Final = 120  # characters of a name in a message
_CHECK: Final = "Check the path, or name a model: nsd-local list"


def expanded(path: Path) -> Path:
    """`~` replaced by the home folder. Raises ModelError for the home of nobody."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ModelError(f"There is no file {shown(path)}", str(error), _CHECK) from None


def is_there(path: Path) -> bool:
    """Whether something lies there, or the system says more than that nothing does (the name is too long)."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        pass
    return True


def check_file(path: Path) -> None:
    """Raises ModelError with the reason unless a regular file or a folder lies there."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        why = "it is a symbolic link to nothing" if path.is_symlink() else ""
        raise ModelError(f"There is no file {shown(path)}", why, _CHECK) from None
    except ValueError:
        why = "the path holds characters that no file name can have"
        raise ModelError(f"There is no file {shown(path)}", why, _CHECK) from None
    except OSError as error:
        raise _refused(path, error) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ModelError(f"{shown(path)} is not a regular file", "a model is a .gguf file", "Give the path of one")


def _refused(path: Path, error: OSError) -> ModelError:
    if error.errno == errno.ELOOP:
        return ModelError(f"{shown(path)} is a symbolic link loop", "it leads back to itself", _CHECK)
    if error.errno == errno.ENAMETOOLONG:
        return ModelError(f"There is no file {shown(path)}", "its name is longer than the system allows", _CHECK)
    return ModelError(f"{shown(path)} cannot be read", error.strerror or os.strerror(error.errno or 0), _CHECK)


def shown(path: Path | str) -> str:
    """A path for a message: cut off where it is long, escaped where it cannot be printed."""
    text = str(path)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"
