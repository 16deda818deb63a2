"""Worker processes with one job at a time and one BLAS thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from weakprox.experiments.base import Job, JobError, Record
from weakprox.storage.tree import plain

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """One job of one experiment: the experiment's name, its work and the parameters."""

    name: str
    work: Callable[[Job], Record]
    job: Job


def completed(
    tasks: Sequence[Task], processes: int
) -> Generator[tuple[int, Record], None, None]:
    """Yield (place in tasks, result) as jobs end; tasks are started in the order given.

    With processes=1 the jobs run in the calling process. Closing the iterator ends the
    workers. A job that fails raises `JobError` here.
    """
    if processes == 1 or not tasks:
        for place, task in enumerate(tasks):
            yield place, performed(task)
        return
    workers: list[Worker] = []
    waiting = iter(enumerate(tasks))
    try:
        with starting_workers():
            for _ in range(min(processes, len(tasks))):
                workers.append(Worker())
        for worker in workers:
            worker.give(next(waiting, None))
        while busy := {w.pipe: w for w in workers if w.task is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                place, result = worker.take()
                worker.give(next(waiting, None))
                yield place, result
    finally:
        for worker in workers:
            worker.end()


def performed(task: Task) -> Record:
    """Run a job in this process; return its result as JSON would read it back."""
    try:
        result: Record = plain(task.work(dict(task.job)))
    except Exception as error:
        raise JobError(task.name, task.job, f"{type(error).__name__}: {error}") from error
    return result


class Worker:
    """A process and the pipe to it."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would inherit BLAS's threads
        self.pipe, far_end = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(far_end,), daemon=True)
        self.process.start()
        far_end.close()  # this copy only: the pipe must end when the worker does
        self.task: tuple[int, Task] | None = None

    def give(self, numbered: tuple[int, Task] | None) -> None:
        self.task = numbered
        if numbered is not None:
            with suppress(OSError):  # a dead worker is detected when its answer is read
                self.pipe.send(numbered[1])

    def take(self) -> tuple[int, Record]:
        """Return the answer to the last task, or raise its error."""
        assert self.task is not None
        place, task = self.task
        try:
            result, error, trace = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            reason = f"the worker process died (exit code {self.process.exitcode})"
            raise JobError(task.name, task.job, reason) from None
        if error is not None:
            error.add_note(trace)
            raise error
        return place, result

    def end(self) -> None:
        """Stop the process, even during a job."""
        self.pipe.close()
        self.process.terminate()
        self.process.join()
        self.process.close()


def _serve(pipe: Connection[Any, Any]) -> None:
    """Receive and answer tasks until the pipe closes; the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            try:
                pipe.send((performed(task), None, ""))
            except JobError as error:
                pipe.send((None, error, traceback.format_exc()))


def _leave_with_parent() -> None:
    """End this worker when the parent ends, even in the middle of a job."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def starting_workers() -> Iterator[None]:
    """Give new processes one BLAS thread, and have them ignore Ctrl-C while they start.

    They inherit both. BLAS reads its environment when NumPy is imported, and only the main
    thread may set signal handlers.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
