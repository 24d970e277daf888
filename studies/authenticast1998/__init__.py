"""Authenticast's study: how much authentication a stream's receiver can afford, adapted live."""
