"""Kerberos with public keys as it was proposed before 2002: PKCROSS, PKTAPP, PKINIT by proxy."""
