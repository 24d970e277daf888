"""Metrics and distributions of the study."""

from __future__ import annotations

from studies.study import Metric

SERVICE = Metric("service_time_s", "EAP-TLS service time", unit="ms", scale=1e3, digits=1,
                 short="service", better="lower", negligible=0.005, stops=True,
                 heading=("service", "time"))
SERVICE_P95 = Metric("service_p95_s", "95th percentile of the EAP-TLS service time", unit="ms",
                     scale=1e3, digits=1, short="p95", better="lower", negligible=0.005,
                     heading=("service,", "p95"))
BACKGROUND = Metric("background_s", "latency in the background", unit="ms", scale=1e3, digits=2,
                    short="bg", better="lower", negligible=0.001, heading=("back-", "ground"))
BACKGROUND_P95 = Metric("background_p95_s", "95th percentile in the background", unit="ms",
                        scale=1e3, digits=1, short="bg95", better="lower", negligible=0.002,
                        heading=("backgr.,", "p95"))
UTILIZATION = Metric("utilization_share", "utilization of the server", unit="%", scale=100.0,
                     digits=1, short="util", negligible=0.01, heading=("server", "busy"))
ROUND_TRIPS = Metric("round_trips", "round trips to the server", digits=0, short="trips",
                     better="lower", negligible=0.5, heading=("round", "trips"))
CAPACITY = Metric("capacity_per_s", "capacity of the server", unit="1/s", digits=1,
                  short="capacity", better="higher", negligible=0.5, heading=("capa-", "city"))
METRICS = (SERVICE, SERVICE_P95, BACKGROUND, BACKGROUND_P95, UTILIZATION, ROUND_TRIPS, CAPACITY)
SERVICES = Metric("services_s", "EAP-TLS service times", unit="ms", scale=1e3, digits=1)
LATENCIES = Metric("latencies_s", "latencies in the background", unit="ms", scale=1e3, digits=2)
DISTRIBUTIONS = (SERVICES, LATENCIES)
