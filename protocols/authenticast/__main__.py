"""Run the server or the client of Authenticast, or generate a key for them.

Authenticast streams signed packets over UDP. The command is `python3 -m protocols.authenticast`:

- `serve CONFIG.json` runs the server (`server_program`).
- `receive CONFIG.json` runs the client (`client_program`).
- `key ALGORITHM BITS FILE` writes a key pair to FILE.pem and FILE.pub.pem.
"""

from __future__ import annotations

import sys
from pathlib import Path

from protocols.authenticast import client_program, server_program
from protocols.authenticast.config import ALGORITHMS
from protocols.authenticast.crypto import UnusableKey, generate_key
from protocols.authenticast.loop import write_event
from protocols.authenticast.processor import MissingCost
from protocols.fields import ConfigError

_USAGE = ("usage: python3 -m protocols.authenticast serve CONFIG.json | receive CONFIG.json | "
          f"key {'|'.join(ALGORITHMS)} BITS FILE")


def make_key(algorithm: str, bits: str, path: Path) -> None:
    """Generate a signature key pair and write it to FILE.pem (private) and FILE.pub.pem (public).

    FILE.pem is created with mode 0600.

    Args:
        algorithm: name of the algorithm, such as DSA.
        bits: size of the key in bits.
        path: FILE without its ending.

    Raises:
        ConfigError: an argument is wrong.
        UnusableKey: the library refuses the size.
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
    """Run the command `serve`, `receive` or `key`.

    Returns:
        The exit status: 0 is success, 1 an error of the system, 2 an error that the user can
        correct.
    """
    try:
        match arguments:
            case ["serve", path]:
                server_program.run(Path(path))
            case ["receive", path]:
                client_program.run(Path(path))
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
