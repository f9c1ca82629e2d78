"""Queues with jobs that share instances, by chance: never more on one than it has seats, and no seat stays empty for nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.gpu.company import Company
from migctl.core.gpu.mig import Placement
from migctl.core.queueing.forecast import forecast
from migctl.core.queueing.queue import decide
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import Site, Stay, Turn, Why
from migctl.core.runs.record import JobState
from tests.support.queue_cases import after, ended, gpu_of, impossible, wish

BOARDS = ("a100-40gb", "h100-sxm5-80gb", "a30")
ALONE = None
KINDS = (ALONE, Company(2), Company(3), Company(2, mps=True))


@st.composite
def queues(draw: st.DrawFn) -> Situation:
    gpus = [gpu_of(board, n) for n, board in enumerate(draw(st.lists(st.sampled_from(BOARDS), min_size=1, max_size=2)))]
    names = sorted({profile.name for gpu in gpus for profile in gpu.profiles if not profile.attribute})
    wishes = [
        replace(wish(name, *gpus), company=kind)
        for name, kind in draw(
            st.lists(st.tuples(st.sampled_from(names), st.sampled_from(KINDS)), min_size=1, max_size=4, unique=True)
        )
    ]
    jobs = [
        Turn(name=f"j{n}", wish=draw(st.sampled_from(wishes)), expect_s=draw(st.sampled_from([10.0, 20.0, 35.0])))
        for n in range(draw(st.integers(1, 14)))
    ]
    return Situation(turns=jobs, states={}, sites=[Site(gpu=gpu) for gpu in gpus], now=0.0)


def benches(site: Site) -> dict[Placement, list[Stay]]:
    found: dict[Placement, list[Stay]] = {}
    for stay in site.stays:
        found.setdefault(stay.placement, []).append(stay)
    return found


def check(situation: Situation) -> None:
    """Nothing lies where it cannot, and jobs sit together only where they may."""
    for site in situation.sites:
        lie = {(stay.placement, stay.profile_id) for stay in site.stays}
        assert impossible(site.gpu, [*lie, *((spare.placement, spare.profile_id) for spare in site.spares)]) == []
        for here in benches(site).values():
            kept = here[0].company
            assert len(here) <= (kept.seats if kept is not None else 1)
            assert {stay.company for stay in here} == {kept}


def has_seat(situation: Situation, turn: Turn) -> bool:
    kept = turn.wish.company
    for site in situation.sites:
        profile = turn.wish.options.get(site.gpu.uuid)
        for here in benches(site).values():
            same = profile is not None and here[0].profile_id == profile.id
            if kept is not None and here[0].company == kept and same and len(here) < kept.seats:
                return True
    return False


@settings(max_examples=60, deadline=None)
@given(queues(), st.data())
def test_a_queue_with_shared_instances_comes_to_its_end(situation: Situation, data: st.DataObject) -> None:
    turns = {turn.name: turn for turn in situation.turns}
    for _ in range(3 * len(turns) + 1):
        decision = decide(situation)
        situation = after(situation, decision)
        check(situation)
        assert decide(situation).starts == ()
        for job, reason in decision.waits.items():
            assert reason.why is not Why.NO_ROOM or not has_seat(situation, turns[job]), job
        running = sorted(name for name, state in situation.states.items() if state is JobState.RUNNING)
        if not running:
            break
        situation = ended(situation, data.draw(st.sampled_from(running)), situation.now + 1.0)
        check(situation)

    assert {name for name, state in situation.states.items() if state is JobState.SUCCEEDED} | set(
        never(situation)
    ) == set(turns)


def never(situation: Situation) -> list[str]:
    """Jobs whose profile none of the GPUs has."""
    return [turn.name for turn in situation.turns if not turn.wish.options]


@settings(max_examples=40, deadline=None)
@given(queues())
def test_the_course_foreseen_never_has_more_jobs_on_an_instance_than_seats(situation: Situation) -> None:
    course = forecast(situation)
    turns = {turn.name: turn for turn in situation.turns}
    spans = [(name, one) for name, one in course.jobs.items() if one.start is not None and one.end is not None]

    for name, one in spans:
        together = [
            other
            for other, two in spans
            if (two.gpu_uuid, two.placement) == (one.gpu_uuid, one.placement)
            and two.start is not None
            and two.end is not None
            and one.start is not None
            and two.start <= one.start < two.end
        ]
        kept = turns[name].wish.company
        assert len(together) <= (kept.seats if kept is not None else 1)
        assert {turns[other].wish.company for other in together} == {kept}
