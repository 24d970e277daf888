"""The subcommands of `./qop`, one module for each."""
