"""Capture packets on a testbed, and dissect them with tshark."""
