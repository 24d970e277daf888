"""The 2007 paper's study: what twelve policies cost, at home and roaming."""
