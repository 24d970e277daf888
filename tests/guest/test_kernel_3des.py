"""The guest's own 3DES (guest/sources/crypto/des3_cbc.c) answers as OpenSSL's does."""

from __future__ import annotations

import json
import random

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from guest.image import GuestImage, ensure_image
from guest_bench import Bench

pytestmark = pytest.mark.shareable

#: Of each [key, iv, data] in /host/cases.json, in hex, says what the kernel makes of them, both
#: ways, in one piece and in odd ones, whose blocks lie across their borders.
SCRIPT = """
import json, re, socket
ENCRYPT, DECRYPT = 1, 0
text = open("/proc/crypto").read()
blocks = [dict(re.findall("^(\\\\w+) *: (.*)$", one, re.M)) for one in text.split("\\n\\n")]
best = max((one for one in blocks if one.get("name") == "cbc(des3_ede)"),
           key=lambda one: int(one["priority"]))
def ask(key, iv, data, way, pieces):
    with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET) as asked:
        asked.bind(("skcipher", "cbc(des3_ede)"))
        asked.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
        with asked.accept()[0] as taking:
            taking.sendmsg_afalg(op=way, iv=iv, flags=socket.MSG_MORE)
            for begin, end in zip(pieces, pieces[1:]):
                taking.send(data[begin:end], socket.MSG_MORE if end < len(data) else 0)
            return taking.recv(len(data)).hex()
answers = []
for line in json.load(open("/host/cases.json")):
    key, iv, data = map(bytes.fromhex, line)
    odd = sorted({0, len(data) // 3, len(data) // 2 + 1, len(data)})
    answers.append([ask(key, iv, data, way, pieces) for way in (ENCRYPT, DECRYPT)
                    for pieces in ([0, len(data)], odd)])
print(json.dumps([best["driver"], answers]))
"""
#: NIST SP 800-67, appendix B: keys, and what becomes of the first block, "The qufc".
NIST = (bytes.fromhex("0123456789abcdef23456789abcdef01456789abcdef0123"), "a826fd8ce53b855f")


@pytest.fixture(scope="session")
def image() -> GuestImage:
    """The real image, built if this machine has none."""
    return ensure_image()


def _cases() -> list[tuple[bytes, bytes, bytes]]:
    """Keys, vectors and data of every length that lanes may leave over, and of pages and more."""
    rng = random.Random(3)
    lengths = [*range(8, 23 * 8, 8), *range(70 * 8, 88 * 8, 8), 1448, 1480, 4096, 4104, 12000,
               32768]
    return [(NIST[0], bytes(8), b"The qufc"),
            *((rng.randbytes(24), rng.randbytes(8), rng.randbytes(length)) for length in lengths)]


def _openssl(key: bytes, iv: bytes, data: bytes) -> list[str]:
    cipher = Cipher(TripleDES(key), modes.CBC(iv))
    sealed, opened = (way.update(data).hex() for way in (cipher.encryptor(), cipher.decryptor()))
    return [sealed, sealed, opened, opened]


@pytest.mark.guest
@pytest.mark.parametrize("clock", ["real", "virtual"])
async def test_3des_is_openssls(image, tmp_path, clock):
    """Each case is the same both ways, one block after the other and many side by side.

    The guest's own driver answers, and one bit of a key changes all.
    """
    bench = Bench(image, tmp_path)
    cases = _cases()
    key, iv, data = cases[-1]
    cases.append((bytes([key[0] ^ 2, *key[1:]]), iv, data))
    (bench.job / "cases.json").write_text(
        json.dumps([[part.hex() for part in case] for case in cases]))
    output, end = await bench.run("python3", "-c", SCRIPT, clock=clock)
    assert end.ok
    driver, answers = json.loads(output)
    assert driver == "cbc-des3_ede-lanes"
    for case, answer in zip(cases, answers, strict=True):
        assert answer == _openssl(*case), len(case[2])
    assert all(one != other for one, other in zip(answers[-1], answers[-2], strict=True))
    assert answers[0][0] == NIST[1]
