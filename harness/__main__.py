"""`python -m harness`: the program that ./qop starts."""

if __name__ == "__main__":  # processes that dissect import this file, too
    from harness import host_process

    host_process.exit_when_interrupted()
    host_process.prepare()

    import sys

    from harness.cli import main

    sys.exit(main())
