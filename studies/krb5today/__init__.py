"""Study of today's Kerberos: the cost of a login with unmodified MIT krb5, by mechanism."""
