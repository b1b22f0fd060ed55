"""Effects of budgets on jobs: jobs that waited for one are checked again, and jobs that use one up are ended if the
site configures that."""

from ctld.core.lifecycle import job_life
from ctld.core.lifecycle.ready import refresh
from ctld.core.limits import budgets
from ctld.core.records.budget_book import BudgetBook
from ctld.core.state.state import ClusterState
from penstock.values.states import JobState, Reason


def before_pass(state: ClusterState, now_us: int) -> None:
    """Updates the budget books, and checks waiting jobs again, in the order of their priority."""
    kept = state.limits.budgets
    if kept.stale:
        budgets.renew(state, now_us)
    if kept.books:
        budgets.settle(state, now_us)
    if not kept.freed:
        return
    kept.freed = False
    if not kept.waiting:
        return
    waiting = [state.jobs[job_id] for job_id in kept.waiting if job_id in state.jobs]
    kept.waiting = {}
    for job in sorted(waiting, key=lambda one: (-one.priority, one.job_id)):
        if job.state is JobState.PENDING:
            refresh(state, job, now_us)


def due(state: ClusterState, now_us: int, key: str) -> None:
    """Handles the timer of a budget: a period has ended, or the budget may be used up."""
    account, unit, period = key.split("/")
    book = state.limits.budgets.books.get((int(account), unit, period))
    if book is None:
        return
    budgets.advance(state, book, now_us)
    book.due_us = 0
    if state.config.penstock_budget_at_end == "cancel" and book.parts and book.used_at(now_us) >= book.limit:
        _cancel(state, book, now_us)
    budgets.watch(state, book, now_us, seen=True)
    state.changed()


def _cancel(state: ClusterState, book: BudgetBook, now_us: int) -> None:
    for job_id in list(book.parts):
        job = state.jobs[job_id]
        if job.state is not JobState.COMPLETING:
            state.record(now_us, job, "budget", f"{budgets.words(state, book)} is used up")
            job_life.terminate(state, job, JobState.TIMEOUT, Reason.PENSTOCK_BUDGET, now_us, "BUDGET")
