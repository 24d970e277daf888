"""Count how many attempts of a negative control the receiver accepted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from studies.adp1987.authenticated import OWNER
from studies.adp1987.body import AttackRecord
from studies.adp1987.evidence import Exhibit


def build_attack_record(fault: str, proof: Exhibit, out: Path) -> AttackRecord:
    """Return how often an attack was tried and how often the receiver accepted it.

    Args:
        fault: Name of the negative control, one of `attacks.ATTACKS`.
        proof: Captures and logs of the repetition.
        out: Folder of the repetition.
    """
    phase = proof.logs.phases["proof"]
    delivered, shipments = proof.logs.delivered, len(phase.shipments)
    handed = [proof.payload.message_checksum(number, message.bytes)
              for number, message in enumerate(phase.messages)]
    true = set(handed)
    match fault:
        case "replayed":
            tried, accepted = shipments, len(delivered) - len(handed)
        case "stale-channel":
            tried, accepted = shipments, len(json.loads(gzip.decompress(
                (out / "later.json.gz").read_bytes()))["delivered"])
        case "relayed-owner":
            tried = 1
            accepted = sum(entry[3] == OWNER and entry[4] == "mid" for entry in delivered)
        case "forged-owner":
            tried, accepted = len(handed), len(delivered)
        case _:
            tried, accepted = shipments, sum(entry[2] not in true for entry in delivered)
    notes = sorted({f"{note[0]}: {note[1].get('reason', '')}" for note in proof.logs.notes
                    if note[0] in ("dropped", "refused")})
    return AttackRecord(fault=fault, tried=tried, accepted=max(0, accepted),
                        detail="; ".join(notes) or "the receiver noticed nothing")
