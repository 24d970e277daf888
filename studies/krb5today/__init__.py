"""The study of today's Kerberos: what a login costs by unmodified MIT krb5, by its mechanism."""
