"""Kerberos with public keys as proposed before 2002: PKCROSS, PKTAPP and PKINIT by proxy."""
