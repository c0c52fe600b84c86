"""`nsd-local`: where the command line begins, and the only place where errors become exit codes.

Nothing heavy is imported before it is known which command runs: `--version` and `--help` need neither llama.cpp nor
numba, and answer at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from nsd_local import __version__
from nsd_local.errors import NsdError

INTERRUPTED = 130
# What writing to standard output can fail with: a full disk, a quota, a limit of the file, a broken device.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failure, 2 usage, 3 model or pair refused, 130 interrupted."""
    given, debug = _take_debug(list(sys.argv[1:] if arguments is None else arguments))
    _open_missing_streams()
    _make_output_unicode()
    try:
        code = _run(given)
        sys.stdout.flush()  # what cannot be written is found out here, not while Python ends
        return code
    except NsdError as error:
        return _told(str(error), error.exit_code, debug)
    except KeyboardInterrupt:
        return _told("Interrupted.", INTERRUPTED, debug)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): that is no failure to report.
        _to_nowhere(sys.stdout)
        return 1
    except Exception as error:  # noqa: BLE001  the last resort: a defect of ours must not greet a person with a traceback
        if isinstance(error, OSError) and error.errno in UNWRITABLE and error.filename is None:
            _to_nowhere(sys.stdout)
            return _told(f"The output could not be written: {error.strerror}", 1, debug)
        kind = type(error).__name__
        return _told(f"nsd-local failed unexpectedly ({kind}: {error}). Run it again with --debug.", 1, debug)


def _run(given: list[str]) -> int:
    if given == ["--version"]:
        print(f"nsd-local {__version__}")
        return 0
    from nsd_local.cli.commands import run

    return run(given or ["--help"])


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """`--debug` works anywhere before a `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    before = [word for word in arguments[:end] if word != "--debug"]
    return before + arguments[end:], len(before) < end


def _told(paragraph: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    try:
        print(paragraph, file=sys.stderr, flush=True)
    except OSError:  # nobody can be told; the exit code still says it
        _to_nowhere(sys.stderr)
    return code


def _open_missing_streams() -> None:
    """Python has None for a stream that was closed before it started (`>&-`): they get the null device instead.

    In this order, so that the lowest free descriptors are theirs, and no file opened later becomes "stdout".
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


def _to_nowhere(stream: TextIO) -> None:
    """What is left in the buffer would fail once more when Python ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError:  # not a file: nothing is written at the end
        return


def _make_output_unicode() -> None:
    """Answers hold any character; a console or pipe of another encoding gets `?` for what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
