"""Study of Kerberos today: the cost of a login with unmodified MIT krb5, by login method.

Terms of the study:

- mechanism: a login method, such as SPAKE or PKINIT (`mechanisms`)
- realms: LOCAL is the user's, REMOTE another one with a cross-realm key, APP that of a service
  which issues its own tickets
- cache: the file with a user's tickets
- armour: the ticket whose key protects a login by FAST
- customer: a user who logs in again and again
"""
