"""`nsd-local`: where the command line begins, and the only place where errors become exit codes.

Nothing heavy is imported before it is known which command runs: `--version` and `--help` need neither llama.cpp nor
numba, and answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from nsd_local import __version__
from nsd_local.errors import NsdError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failure, 2 usage, 3 model or pair refused, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(f"nsd-local {__version__}")
        return 0
    given, debug = _take_debug(given)
    _make_output_unicode()
    try:
        from nsd_local.cli.commands import run

        return run(given or ["--help"])
    except NsdError as error:
        return _told(str(error), error.exit_code, debug)
    except KeyboardInterrupt:
        return _told("Interrupted.", INTERRUPTED, debug)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): that is no failure to report.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001  the last resort: a defect of ours must not greet a person with a traceback
        kind = type(error).__name__
        return _told(f"nsd-local failed unexpectedly ({kind}: {error}). Run it again with --debug.", 1, debug)


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """`--debug` works anywhere before a `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    before = [word for word in arguments[:end] if word != "--debug"]
    return before + arguments[end:], len(before) < end


def _told(paragraph: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(paragraph, file=sys.stderr)
    return code


def _make_output_unicode() -> None:
    """Answers hold any character; a console or pipe of another encoding gets `?` for what it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if encoding != "utf8" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
