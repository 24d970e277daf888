"""Command line of Authenticast: run the server or the client, or make a key.

The commands are `serve CONFIG.json`, `receive CONFIG.json` and `key ALGORITHM BITS FILE`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from protocols.authenticast import receive, serve
from protocols.authenticast.config import ALGORITHMS
from protocols.authenticast.crypto import UnusableKey, generate_key
from protocols.authenticast.events import write_event
from protocols.authenticast.processor import MissingCost
from protocols.fields import ConfigError

_USAGE = ("usage: python3 -m protocols.authenticast serve CONFIG.json | receive CONFIG.json | "
          f"key {'|'.join(ALGORITHMS)} BITS FILE")


def make_key(algorithm: str, bits: str, path: Path) -> None:
    """Write a new key pair to FILE.pem (private) and FILE.pub.pem.

    FILE.pem is created with mode 0600. Raises ConfigError for wrong arguments and UnusableKey for a
    size that the library refuses.
    """
    if algorithm not in ALGORITHMS or not bits.isascii() or not bits.isdigit():
        raise ConfigError(_USAGE)
    key = generate_key(ALGORITHMS[algorithm], int(bits))
    private = path.with_name(path.name + ".pem")
    private.touch(mode=0o600)
    private.chmod(0o600)  # it may have existed
    private.write_bytes(key.to_pem())
    path.with_name(path.name + ".pub.pem").write_bytes(key.public.to_pem())


def main(arguments: list[str]) -> int:
    """Run a command and return its exit status.

    0 is success, 1 an error of the system, 2 an error that the user can correct.
    """
    try:
        match arguments:
            case ["serve", path]:
                serve.run(Path(path))
            case ["receive", path]:
                receive.run(Path(path))
            case ["key", algorithm, bits, path]:
                make_key(algorithm, bits, Path(path))
                return 0
            case _:
                print(_USAGE, file=sys.stderr)
                return 2
    except (ConfigError, UnusableKey, MissingCost) as error:
        write_event("failed", reason=str(error))
        return 2
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        write_event("failed", reason=f"{where}{error.strerror or error}")
        return 1
    write_event("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
