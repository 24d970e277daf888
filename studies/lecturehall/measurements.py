"""Define the measured values of lecturehall, as the JSON record of a measurement stores them.

Many stations join one access point at once, and stream to a server. `HallMeasurements` has for each
station the duration of its handshake, the time until it is connected, and the rate of its stream.
"""

from __future__ import annotations

from measure.records.record import RecordPart


class HallMeasurements(RecordPart):
    """Measured values of a repetition. Lists have one value per station, in order."""

    #: Time from the first to the last EAPOL frame at the access point; empty without EAPOL.
    handshakes_s: list[float]
    #: Time from the common start until a station is connected.
    admissions_s: list[float]
    #: Rate of the data that arrived at the server while all stations streamed.
    streams_bps: list[float]
