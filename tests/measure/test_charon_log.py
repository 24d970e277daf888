"""Tests of measure.charon_log on lines as charon writes them."""

from __future__ import annotations

from measure.charon_log import clue

LOG = b"""\
05[CFG] vici initiate CHILD_SA 'qop'
09[IKE] <qop|3> initiating Main Mode IKE_SA qop[3] to 10.1.0.1
08[ENC] <qop|3> parsed INFORMATIONAL_V1 request 2147 [ N(NO_PROP) ]
08[IKE] <qop|3> received NO_PROPOSAL_CHOSEN error notify
"""


def test_the_last_telling_line_without_its_beginning() -> None:
    """Thread, part and connection are left off; a connection is not always there."""
    assert clue(LOG) == "received NO_PROPOSAL_CHOSEN error notify"
    assert clue(LOG + b"08[KNL] unable to add SAD entry: failed\n") == \
        "unable to add SAD entry: failed"


def test_a_log_that_tells_nothing() -> None:
    """Charon's answer has to do, then."""
    assert clue(b"") == clue(LOG[:80]) == ""
