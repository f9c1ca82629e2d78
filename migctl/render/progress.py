"""Progress as text: from one event to the next, a line to keep and the live line; nothing here knows a clock or a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from migctl.core.runs.events import Event, Moment, NoteEvent, PullEvent, StepEvent
from migctl.core.runs.record import Action
from migctl.core.words import counted
from migctl.render.console import Style
from migctl.render.text import clean, fit, width, wrap

_DONE: Mapping[Action, str] = {
    Action.CREATE_GPU_INSTANCE: "GPU instance made",
    Action.CREATE_COMPUTE_INSTANCE: "compute instance made",
    Action.JOIN_INSTANCE: "GPU instance shared",
    Action.CREATE_CONTAINER: "created",
    Action.START: "started",
    Action.STOP: "stopped",
    Action.REMOVE_CONTAINER: "removed",
    Action.LEAVE_INSTANCE: "GPU instance left to those that share it",
    Action.DESTROY_COMPUTE_INSTANCE: "compute instance destroyed",
    Action.DESTROY_GPU_INSTANCE: "GPU instance destroyed",
}
_DOING: Mapping[Action, str] = {
    Action.CREATE_GPU_INSTANCE: "making the GPU instance",
    Action.CREATE_COMPUTE_INSTANCE: "making the compute instance",
    Action.JOIN_INSTANCE: "sharing the GPU instance",
    Action.CREATE_CONTAINER: "creating",
    Action.START: "starting",
    Action.STOP: "stopping",
    Action.REMOVE_CONTAINER: "removing",
    Action.LEAVE_INSTANCE: "leaving the GPU instance",
    Action.DESTROY_COMPUTE_INSTANCE: "destroying the compute instance",
    Action.DESTROY_GPU_INSTANCE: "destroying the GPU instance",
}
_LAST = frozenset({Action.START, Action.STOP, Action.DESTROY_GPU_INSTANCE})
"""What a person who waits wants to know; the others are said with --verbose."""
_QUARTERS = 4
"""A pull without a terminal is told in so many steps."""
_BAR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What has been told so far.

    Use: `progress = progress.after(event)`, print `progress.lines` (each to be kept), then show `progress.live(style)` in place.
    """

    total: int = 0
    """Jobs to be started or stopped; 0 = not known."""
    verbose: bool = False
    done: int = 0
    pulls: tuple[tuple[str, int, int], ...] = ()
    """Images being pulled: name, bytes done, bytes in all (0 = unknown), in the order they began."""
    doing: str = ""
    """What happens now, without looks."""
    lines: tuple[str, ...] = ()
    """Lines that the last event brought, without looks and uncut."""
    note: str = ""
    """The sentence that it brought: wrapped, never cut, since its end may be the command to type."""

    def after(self, event: Event) -> Progress:
        """The state after one event."""
        match event:
            case StepEvent():
                return replace(self._step(event), note="")
            case PullEvent():
                return replace(self._pull(event), note="")
            case NoteEvent():
                return replace(self, lines=(), note=event.text)
            case _:
                assert_never(event)

    def _step(self, event: StepEvent) -> Progress:
        if event.moment is Moment.INTENT:
            return replace(self, doing=f"{event.job}: {_DOING[event.action]}", lines=())
        if event.moment is Moment.ACTED:
            return replace(self, lines=())
        told = self.verbose or event.action in _LAST
        ended = event.action in (Action.START, Action.STOP)
        return replace(
            self,
            done=self.done + ended,
            doing="" if ended else self.doing,
            lines=(f"{event.job}: {_DONE[event.action]}",) if told else (),
        )

    def _pull(self, event: PullEvent) -> Progress:
        before = {image: (done, total) for image, done, total in self.pulls}
        known = event.image in before
        finished = event.total > 0 and event.done >= event.total
        if finished and not known:
            # Everything was there already: nothing to tell.
            return replace(self, lines=())
        lines: tuple[str, ...] = ()
        if not known:
            lines = (f"pulling {event.image}",)
        elif finished:
            lines = (f"pulled {event.image} ({_amount(event.total)})",)
        elif event.total and (quarter := _quarter(event.done, event.total)) > _quarter(*before[event.image]):
            lines = (f"pulling {event.image}: {100 * quarter // _QUARTERS} %{_of(event.total)}",)
        before[event.image] = (event.done, event.total)
        if finished:
            del before[event.image]
        return replace(self, pulls=tuple((i, d, t) for i, (d, t) in before.items()), lines=lines)

    def kept(self, style: Style) -> tuple[str, ...]:
        """The last event's lines for this terminal; on one with a live line, quarters of a pull are left to that."""
        lines = [line for line in self.lines if not (style.tty and line.startswith("pulling "))]
        cut = [fit(clean(line, style), style.columns, style, "middle") for line in lines]
        return (*cut, *(wrap(self.note, style.columns, style) if self.note else ()))

    def live(self, style: Style) -> str:
        """The line that stands below while it goes on: nothing before the first event."""
        tail = f"{style.signs.dot}{self.done} of {counted(self.total, 'job')}" if self.total else ""
        if self.pulls:
            image, done, total = self.pulls[0]
            more = f" and {len(self.pulls) - 1} more" if len(self.pulls) > 1 else ""
            amount = f"{100 * done // total:>3} %{_of(total)}{more}" if total else f"{_amount(done)}{more}"
            bar = f"{_bar(done, total, style)} " if total and style.columns >= 60 else ""
            room = style.columns - 1 - width("pulling  ") - width(bar) - width(amount)
            name = fit(clean(image, style), max(8, room), style, "middle")
            return fit(f"pulling {name} {bar}{amount}", style.columns - 1, style)
        if not self.doing:
            return f"{self.done} of {counted(self.total, 'job')}" if self.total and self.done else ""
        # The last column stays empty: some terminals wrap when it is written.
        text = fit(clean(self.doing, style), style.columns - 1 - width(tail), style, "middle")
        return f"{text}{tail}"


def _quarter(done: int, total: int) -> int:
    return _QUARTERS * done // total if total else 0


def _bar(done: int, total: int, style: Style) -> str:
    full = min(_BAR, _BAR * done // total)
    return style.signs.full * full + style.signs.empty * (_BAR - full)


def _of(total: int) -> str:
    return f" of {_amount(total)}" if total else ""


def _amount(size: int) -> str:
    """Decimal units, as registries and Docker print them."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
