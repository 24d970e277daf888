"""Start the `qop` command line (`python -m harness`, which the script ./qop executes)."""

if __name__ == "__main__":  # worker processes for dissection import this file as well
    from harness import host_process

    host_process.exit_when_interrupted()
    host_process.prepare_process()

    import sys

    from harness.cli import main

    status = main()
    host_process.ignore_interruption()
    if status == host_process.INTERRUPTED:
        host_process.exit_with_interrupted_status()
    sys.exit(status)
