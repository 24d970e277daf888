"""Strategy `in_process`: the linear strategy runs each task here, and forks no process for it.

Why not linear itself: it forks once for each host and task, and what the child loads and compiles
is lost with it, which was two thirds of the processor time that rendering took. All that policy.yml
does is local and short, so that nothing is gained by several at once. What is the same for all
tasks and hosts is read once, too: templates, and the files of variables.
"""

# ruff: noqa: INP001  # an __init__.py in ansible/ would shadow ansible-core
from __future__ import annotations

import copy
from typing import Any

from ansible._internal import _task  # type: ignore[import-untyped,unused-ignore]
from ansible._internal._templating._jinja_bits import AnsibleEnvironment, _TemplateCompileContext
from ansible.executor.task_executor import (  # type: ignore[import-untyped,unused-ignore]
    TaskExecutor,
)
from ansible.executor.task_result import (  # type: ignore[import-untyped,unused-ignore]
    _RawTaskResult,
)
from ansible.parsing.dataloader import DataLoader  # type: ignore[import-untyped,unused-ignore]
from ansible.plugins import strategy  # type: ignore[import-untyped,unused-ignore]
from ansible.plugins.strategy import linear  # type: ignore[import-untyped,unused-ignore]


class Worker:
    """Stands in for ansible-core's WorkerProcess, which is a process; does as its `_run` does."""

    exitcode = pid = None

    def __init__(self, **given: Any) -> None:
        self._given = given

    def start(self) -> None:
        """Run the task to its end and send its result.

        Task and host are copies: executing changes both, and other hosts have the same task.
        """
        given = self._given
        task = given["task"].copy(exclude_parent=True, exclude_tasks=True)
        task._parent = given["task"]._parent  # noqa: SLF001 - shared, not copied with all its tasks
        host = copy.copy(given["host"])
        with _task.TaskContext(task):
            said = TaskExecutor(host, task, given["task_vars"], given["play_context"],
                                given["loader"], given["shared_loader_obj"], given["final_q"],
                                given["variable_manager"]).run()
        given["final_q"].send_task_result(_RawTaskResult(
            host=host, task=task, return_data=said, task_fields=task.dump_attrs()))

    def is_alive(self) -> bool:
        """Whether it still runs; it ended when `start` returned."""
        return False

    def close(self) -> None:
        """There is nothing to close."""


def compile_once(environment: type[AnsibleEnvironment]) -> None:
    """Have a template's source compiled once, as all hosts have the same ones."""
    compile_ = environment.compile
    compiled: dict[tuple[Any, ...], Any] = {}

    def look(self: AnsibleEnvironment, source: Any, *how: Any, **more: Any) -> Any:
        if how or more or not isinstance(source, str):
            return compile_(self, source, *how, **more)
        context = _TemplateCompileContext.current(optional=True)
        key = (str(source), context and context.escape_backslashes, self.trim_blocks)
        if key not in compiled:
            compiled[key] = compile_(self, source)
        return compiled[key]

    environment.compile = look


def parse_once(loader: type[DataLoader]) -> None:
    """Have a file of variables parsed once; the manager of variables does it for each task."""
    load = loader.load_from_file

    def look(self: DataLoader, file_name: str, cache: str = "all", **how: Any) -> Any:
        return load(self, file_name, cache="all" if cache == "vaulted" else cache, **how)

    loader.load_from_file = look


class StrategyModule(linear.StrategyModule):  # type: ignore[misc,unused-ignore]
    """Task by task, for all hosts, one after the other."""

    def __init__(self, tqm: Any) -> None:
        super().__init__(tqm)
        strategy.WorkerProcess = Worker


compile_once(AnsibleEnvironment)
parse_once(DataLoader)
