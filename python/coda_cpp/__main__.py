"""``python -m coda_cpp``, after installation ``coda``: the command line program of docs/cli.md. Its doctor also looks at
the Python it runs in."""

import signal
import sys

from . import _core
from .host import diagnose


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the program runs outside the interpreter
    sys.stdout.flush()
    return _core._program(sys.argv[1:], [tuple(row) for row in diagnose()])


if __name__ == "__main__":
    sys.exit(main())
