"""Snakemake's scheduler does not multiply rounds, and Slurm may be unavailable for a while."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from types import SimpleNamespace

import pytest
from snakemake.scheduling.job_scheduler import JobScheduler

from pisoft.workflow.internals import QUERY, SLURM, one_timer, patient_with_slurm


def test_calls_for_a_later_round_share_one_timer(monkeypatch):
    timers = []

    class Timer:
        def __init__(self, delay, function):
            self.delay, self.function, self.daemon = delay, function, False
            timers.append(self)

        def start(self):
            assert self.daemon, "the end of a run would wait for it"

    monkeypatch.setattr(threading, "Timer", Timer)
    scheduler = SimpleNamespace(_open_jobs=threading.Semaphore(0), _schedule_reevalutation=print)
    assert one_timer(scheduler)
    for _ in range(3):
        scheduler._schedule_reevalutation(5)
    assert [timer.delay for timer in timers] == [5]
    assert not scheduler._open_jobs.acquire(blocking=False)
    timers[0].function()
    assert scheduler._open_jobs.acquire(blocking=False), "a round is requested"
    scheduler._schedule_reevalutation(5)
    assert len(timers) == 2, "the next round has a new timer"


@pytest.mark.parametrize("name", ["_schedule_reevalutation", "_open_jobs"])
def test_a_scheduler_without_the_replaced_methods_is_unchanged(name, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("snakemake.logging"), "propagate", True)
    scheduler = SimpleNamespace(_open_jobs=threading.Semaphore(0), _schedule_reevalutation=print)
    delattr(scheduler, name)
    before = dict(vars(scheduler))
    assert not one_timer(scheduler)
    assert vars(scheduler) == before
    (message,) = caplog.messages
    assert name in message
    assert "\n" not in message


def test_snakemake_has_the_replaced_methods():
    assert callable(JobScheduler._schedule_reevalutation)
    assert "_open_jobs" in JobScheduler._schedule_reevalutation.__code__.co_consts[1].co_names


@pytest.mark.parametrize(
    ("answer", "taken"),
    [((None, None), ({}, 0.0)), (({"1": "PENDING"}, 2.0), ({"1": "PENDING"}, 2.0))],
)
def test_a_failed_slurm_query_loses_no_job(answer, taken, monkeypatch):
    async def query(command, logger):
        return answer

    executor = SimpleNamespace(query_job_status=query)
    monkeypatch.setitem(sys.modules, SLURM, executor)
    assert patient_with_slurm()
    assert asyncio.run(executor.query_job_status("squeue", None)) == taken


def test_a_slurm_executor_without_that_query_is_unchanged(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("snakemake.logging"), "propagate", True)
    monkeypatch.setitem(sys.modules, SLURM, SimpleNamespace())
    assert not patient_with_slurm()
    (message,) = caplog.messages
    assert QUERY in message


def test_without_slurm_nothing_is_replaced(caplog, monkeypatch):
    monkeypatch.delitem(sys.modules, SLURM, raising=False)
    assert not patient_with_slurm()
    assert not caplog.messages
