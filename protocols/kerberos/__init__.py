"""Implement Kerberos with public keys, as it was proposed before 2002.

The study `kerberos2002` measures it. With PKINIT a client logs in by a certificate. With PKCROSS
the KDCs of two realms authenticate each other by certificates. With PKTAPP a client gets its ticket
from the application server. A proxy helps slow mobile clients.

Terms of all modules:

- party: a node's role: client, KDC, proxy or application server
- part: a piece of a message that is encrypted with a symmetric key (EncryptedData). A *pack* is a
  symmetric key that is encrypted with a public key.
- chain: the certificates from a party's own up to an authority
- modelled processor: operations take the times that a device file states, instead of the real ones.
  To *charge* an operation is to add its time to the time for which the program has to wait.
- tally: what a program has counted: requests, operations and CPU time
- step: what the work of a party asks its host to do, such as to send a request
"""
