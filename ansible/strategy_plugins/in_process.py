"""Run all Ansible tasks of a playbook in one process, without forks: the strategy `in_process`.

The playbook policy.yml uses it to render the daemons' configuration of a policy quickly. Ansible's
own strategy `linear` forks once for each host and task. What the child loads and compiles is then
lost, which was two thirds of the processor time of rendering. All tasks of policy.yml are local and
short, so parallel tasks would gain nothing. Templates and files of variables are the same for all
tasks and hosts, so they are also read only once.
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
    """A replacement of Ansible's WorkerProcess that runs a task in this process."""

    exitcode = pid = None

    def __init__(self, **given: Any) -> None:
        self._given = given

    def start(self) -> None:
        """Run the task to its end and send its result.

        Task and host are copied: execution changes both, and other hosts have the same task.
        """
        given = self._given
        task = given["task"].copy(exclude_parent=True, exclude_tasks=True)
        task._parent = given["task"]._parent  # noqa: SLF001 - shared, not copied with all its tasks
        host = copy.copy(given["host"])
        with _task.TaskContext(task):
            result = TaskExecutor(host, task, given["task_vars"], given["play_context"],
                                  given["loader"], given["shared_loader_obj"], given["final_q"],
                                  given["variable_manager"]).run()
        given["final_q"].send_task_result(_RawTaskResult(
            host=host, task=task, return_data=result, task_fields=task.dump_attrs()))

    def is_alive(self) -> bool:
        """Return whether the task is still running. It has ended when `start` returns."""
        return False

    def close(self) -> None:
        """Do nothing, because there is no process to close."""


def compile_once(environment: type[AnsibleEnvironment]) -> None:
    """Make Ansible compile each template only once, as all hosts have the same templates."""
    compile_ = environment.compile
    compiled: dict[tuple[Any, ...], Any] = {}

    def compile_cached(self: AnsibleEnvironment, source: Any, *how: Any, **more: Any) -> Any:
        if how or more or not isinstance(source, str):
            return compile_(self, source, *how, **more)
        context = _TemplateCompileContext.current(optional=True)
        key = (str(source), context and context.escape_backslashes, self.trim_blocks)
        if key not in compiled:
            compiled[key] = compile_(self, source)
        return compiled[key]

    environment.compile = compile_cached


def parse_once(loader: type[DataLoader]) -> None:
    """Make Ansible parse each file of variables only once, instead of once per task."""
    load = loader.load_from_file

    def load_cached(self: DataLoader, file_name: str, cache: str = "all", **how: Any) -> Any:
        return load(self, file_name, cache="all" if cache == "vaulted" else cache, **how)

    loader.load_from_file = load_cached


class StrategyModule(linear.StrategyModule):  # type: ignore[misc,unused-ignore]
    """An Ansible strategy that runs each task for all hosts, one host after the other."""

    def __init__(self, tqm: Any) -> None:
        super().__init__(tqm)
        strategy.WorkerProcess = Worker


compile_once(AnsibleEnvironment)
parse_once(DataLoader)
