"""The program that ./qop starts (`python -m harness`)."""

if __name__ == "__main__":  # worker processes for dissection import this file as well
    from harness import host_process

    host_process.exit_when_interrupted()
    host_process.prepare_process()

    import sys

    from harness.cli import main

    status = main()
    if status == host_process.INTERRUPTED:
        host_process.block_interruption()
    sys.exit(status)
