"""The 2002 study of public-key Kerberos: which extension, for how many servers, over which wire."""
