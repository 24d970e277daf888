"""Study of public-key Kerberos (2002): extensions by number of servers and by wire."""
