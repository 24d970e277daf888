"""Study of Kerberos with public keys: the response time of logins, after a paper of 2002.

It compares extensions (PKINIT, PKCROSS, PKTAPP, a proxy for mobile clients) by number of servers
and users, and by network. The paper is Harbitter and Menascé (2002).

Terms of the study, beyond those of `protocols.kerberos`:

- variant: a login protocol of the paper. Its *way* is its family: `pkcross`, `pktapp` or `mobile`
  (`variants`).
- transaction: a complete login, from the first request to the answer of the application server. A
  *customer* is a user who logs in again and again.
- proxy: it forwards messages of a mobile client. A *trusted* one gets a key, an *assisting* one
  adds the client's certificates.
- phases: the parts of a login in the paper's Table III
"""
