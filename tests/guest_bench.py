"""Guests that a test boots below its folder, with a command instead of the worker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from conftest import PATIENCE_S
from guest.boot import ExitStatus, Guest, boot_guest
from guest.image import GuestImage


class Bench:
    """Boots guests below a test's folder."""

    def __init__(self, image: GuestImage, folder: Path) -> None:
        self.image = image
        self.folder = folder
        self.job = folder / "job"
        self.job.mkdir()

    async def boot(self, *command: str, **options) -> Guest:
        """A guest that runs a command."""
        return await boot_guest(
            self.image,
            self.job,
            console_log=self.folder / "console.log",
            scratch=self.folder / "scratch",
            command=command,
            **options,
        )

    async def run(self, *command: str, **options) -> tuple[str, ExitStatus]:
        """A guest's whole output, and how it ended."""
        async with asyncio.timeout(PATIENCE_S), await self.boot(*command, **options) as guest:
            guest.stdin.close()
            output = await guest.stdout.read()
            return output.decode(), await guest.wait()
