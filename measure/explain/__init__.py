"""Explain captures of any network (`qop explain`): what took how long, who waited, and why.

qop did not measure these networks. So only the capture is known, and perhaps its keys.
"""
