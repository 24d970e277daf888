"""Metrics of a repetition, each defined once."""

from __future__ import annotations

from studies.study import Metric

RETENTION = Metric("retention_share", "retention", unit="%", scale=100.0, digits=1,
                   short="retention", better="higher", negligible=0.005,
                   heading=("reten-", "tion"))
GOODPUT = Metric("stream_goodput_bps", "goodput", unit="kbit/s", scale=1e-3, digits=0,
                 short="goodput", better="higher", negligible=1000.0)
DELAY_MEDIAN = Metric("delay_median_s", "median delay", unit="ms", scale=1e3, digits=1,
                      short="delay", better="lower", negligible=0.001,
                      heading=("median", "delay"))
DELAY_P99 = Metric("delay_p99_s", "99th percentile of the delay", unit="ms", scale=1e3, digits=0,
                   short="p99", better="lower", negligible=0.005, heading=("delay,", "p99"))
LEVEL = Metric("level_share", "level", unit="%", scale=100.0, digits=1, short="level",
               better="higher", negligible=0.005)
EXPOSURE = Metric("exposure_share", "share of the time exposed", unit="%", scale=100.0, digits=1,
                  short="exposure", better="lower", negligible=0.005,
                  heading=("ex-", "posed"))
SENT = Metric("sent_pps", "sending rate", unit="1/s", digits=1, short="rate", negligible=0.5,
              heading=("sent", "per s"))
MAX_GAP = Metric("max_gap_packets", "largest gap", unit="packets", digits=0, short="gap",
                 better="lower", negligible=1.0, heading=("largest", "gap"))
METRICS = (RETENTION, GOODPUT, DELAY_MEDIAN, DELAY_P99, LEVEL, EXPOSURE, SENT, MAX_GAP)
GAP = Metric("gap_packets", "gap (DELTA) of the first client", unit="packets")
LEVEL_NOW = Metric("level_now_share", "level of the first client", unit="%", scale=100.0)
RETAINED = Metric("retained_share", "retention of the first client, second by second", unit="%",
                  scale=100.0)
TIMELINES = (GAP, LEVEL_NOW, RETAINED)
