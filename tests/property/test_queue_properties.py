"""The queue by chance: never two in one place, never too many, never too early, never idle without a reason, never for ever."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from migctl.core.gpu import packing
from migctl.core.gpu.mig import Gpu, Placement
from migctl.core.queueing.queue import decide
from migctl.core.queueing.recut import recut
from migctl.core.queueing.situation import Situation
from migctl.core.queueing.turn import History, Patience, Site, Spare, Stay, Turn, Why, Wish
from migctl.core.runs.record import JobState
from tests.support.brute_force import Instance, allowed, layouts
from tests.support.queue_cases import after, ended, fits, gpu_of, impossible, starts, wish, wrong

BOARDS = ("a30", "a100-40gb", "h100-sxm5-80gb", "rtx-pro-6000-blackwell-96gb")


@st.composite
def sites(draw: st.DrawFn, gpu: Gpu) -> tuple[Site, list[Turn]]:
    """A GPU with running jobs, strangers and instances of ended jobs wherever they can lie, and the turns of the running ones."""
    lie: list[tuple[Placement, int]] = []
    stays: list[Stay] = []
    spares: list[Spare] = []
    turns: list[Turn] = []
    for n in range(draw(st.integers(0, 5))):
        profile = draw(st.sampled_from(gpu.profiles))
        place = draw(st.sampled_from(profile.placements))
        if impossible(gpu, [*lie, (place, profile.id)]):
            continue
        lie.append((place, profile.id))
        kind = draw(st.sampled_from(["ours", "ours", "spare", "spare", "foreign"]))
        job = f"r{gpu.index}{n}"
        if kind == "spare":
            mig = "MIG" if draw(st.booleans()) else None
            spares.append(
                Spare(gpu_uuid=gpu.uuid, gi_id=n, profile_id=profile.id, placement=place, owner="run/x", mig_uuid=mig)
            )
            continue
        ends = draw(st.none() | st.floats(-50, 200))
        mine = kind == "ours"
        stays.append(
            Stay(
                placement=place,
                profile_id=profile.id,
                owner="run" if mine else "not ours",
                job=job if mine else None,
                cores=1,
                ends_at=ends if mine else None,
            )
        )
        if mine:
            turns.append(Turn(name=job, wish=wish(profile.name, gpu), expect_s=ends))
    return Site(gpu=gpu, stays=tuple(stays), spares=tuple(spares)), turns


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    gpus = [gpu_of(board, n) for n, board in enumerate(draw(st.lists(st.sampled_from(BOARDS), min_size=1, max_size=3)))]
    found = [draw(sites(gpu)) for gpu in gpus]
    alive = [turn for _, turns in found for turn in turns]
    names = sorted({profile.name for gpu in gpus for profile in gpu.profiles})
    wishes = [wish(name, *gpus, cores=2, least=draw(st.sampled_from([1, 1, 2]))) for name in names]
    waiting = [
        Turn(
            name=f"w{n}",
            wish=draw(st.sampled_from(wishes)),
            priority=draw(st.sampled_from([0, 0, 1])),
            needs=tuple(draw(st.sets(st.sampled_from(["w0", "w1", "e"]), max_size=1)) - {f"w{n}", "w0"})
            if n > 1
            else (),
            stage=draw(st.sampled_from([None, None, 1, 2])),
            expect_s=draw(st.none() | st.floats(1, 100)),
        )
        for n in range(draw(st.integers(0, 8)))
    ]
    jobs = draw(st.permutations([*waiting, *alive, Turn(name="e", wish=wishes[0])]))
    states = {turn.name: JobState.RUNNING for turn in alive}
    states["e"] = draw(st.sampled_from([JobState.SUCCEEDED, JobState.FAILED]))
    return Situation(
        turns=jobs,
        states=states,
        sites=[site for site, _ in found],
        now=0.0,
        max_parallel=draw(st.none() | st.integers(1, 9)),
        free_cores=draw(st.none() | st.integers(0, 12).map(lambda n: {0: n})),
        held_jobs=frozenset(draw(st.sets(st.sampled_from(["w0", "w3"]), max_size=1))),
        history=History(submitted={turn.name: draw(st.sampled_from([-100.0, 0.0])) for turn in jobs}),
        patience=draw(st.sampled_from([Patience(), Patience(age_s=50.0)])),
    )


def waiting(situation: Situation) -> list[Turn]:
    return [t for t in situation.turns if situation.states.get(t.name, JobState.QUEUED) is JobState.QUEUED]


@settings(max_examples=80, deadline=None)
@given(situations())
def test_what_is_decided_can_be_done_and_is_allowed(situation: Situation) -> None:
    decision = decide(situation)
    known = {turn.name: turn for turn in situation.turns}
    begun = [known[start.job] for start in decision.starts]

    assert wrong(situation, decision) == []
    assert sorted([s.job for s in decision.starts] + list(decision.waits)) == sorted(t.name for t in waiting(situation))
    running = sum(state is JobState.RUNNING for state in situation.states.values())
    assert situation.max_parallel is None or not begun or running + len(begun) <= situation.max_parallel
    if situation.free_cores is not None:
        assert sum(start.cores for start in decision.starts) <= situation.free_cores[0]
        assert all(known[s.job].wish.least_cores <= s.cores <= known[s.job].wish.cores for s in decision.starts)
    done = {JobState.SUCCEEDED}
    assert all(situation.states.get(need) in done for turn in begun for need in turn.needs)
    assert not {turn.name for turn in begun} & situation.held_jobs
    open_stages = [
        t.stage
        for t in situation.turns
        if t.stage is not None
        and not situation.states.get(t.name, JobState.QUEUED).ended
        and t.name not in decision.never
    ]
    assert all(turn.stage is None or turn.stage <= min(open_stages) for turn in begun)


@settings(max_examples=80, deadline=None)
@given(situations())
def test_whoever_waits_for_room_could_not_start_and_whoever_could_waits_for_a_reason(situation: Situation) -> None:
    decision = decide(situation)
    known = {turn.name: turn for turn in situation.turns}
    left = (situation.free_cores[0] if situation.free_cores is not None else 99) - sum(s.cores for s in decision.starts)
    for job, reason in decision.waits.items():
        asked = known[job].wish
        match reason.why:
            case Why.NO_ROOM:
                assert not fits(situation, decision, asked), job
            case Why.NO_CORE:
                assert left < asked.least_cores
            case Why.RESERVED:
                assert decision.reservation is not None
                assert decision.reservation.job == reason.jobs[0]
            case Why.MAX_PARALLEL:
                running = sum(state is JobState.RUNNING for state in situation.states.values())
                assert situation.max_parallel is not None
                assert running + len(decision.starts) >= situation.max_parallel
            case Why.HELD | Why.NEEDS | Why.NEVER | Why.STAGE | Why.LATER:
                pass
    if decision.reservation is None:
        assert all(reason.why is not Why.RESERVED for reason in decision.waits.values())


@settings(max_examples=80, deadline=None)
@given(situations())
def test_nobody_lies_in_room_that_is_kept_when_it_is_needed(situation: Situation) -> None:
    decision = decide(situation)
    kept = decision.reservation
    if kept is None or kept.placement is None:
        return
    known = {turn.name: turn for turn in situation.turns}
    order = sorted(waiting(situation), key=lambda turn: -turn.priority)
    behind = {turn.name for turn in order[order.index(known[kept.job]) :]}
    for start in decision.starts:
        turn = known[start.job]
        if start.gpu_uuid != kept.gpu_uuid or start.placement is None or start.job not in behind:
            continue
        if start.placement.overlaps(kept.placement):
            assert kept.expected_at is not None
            assert turn.expect_s is not None
            assert situation.now + turn.expect_s <= kept.expected_at
    # When those it waits for have ended, and all that end by then, it fits exactly there.
    site = next(site for site in situation.sites if site.gpu.uuid == kept.gpu_uuid)
    profile = known[kept.job].wish.options[kept.gpu_uuid]
    then = [(s.placement, s.profile_id) for s in site.stays if s.job is None or s.job not in kept.waits_for]
    for start in decision.starts:
        lasts = known[start.job].expect_s
        short = kept.expected_at is not None and lasts is not None and situation.now + lasts <= kept.expected_at
        if start.gpu_uuid == kept.gpu_uuid and start.job not in kept.waits_for and not short:
            assert start.profile is not None
            assert start.placement is not None
            then.append((start.placement, start.profile.id))
    assert impossible(site.gpu, [*then, (kept.placement, profile.id)]) == []


@settings(max_examples=40, deadline=None)
@given(situations())
def test_the_same_situation_gives_the_same_decision_and_its_result_a_quiet_one(situation: Situation) -> None:
    decision = decide(situation)

    assert decide(replace(situation)) == decision
    assert decide(after(situation, decision)).starts == ()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["a30", "a100-40gb"]), st.data())
def test_who_starts_on_one_gpu_is_what_trying_every_layout_gives(board: str, data: st.DataObject) -> None:
    gpu = gpu_of(board)
    site, alive = data.draw(sites(gpu))
    names = data.draw(st.lists(st.sampled_from([profile.name for profile in gpu.profiles]), max_size=5))
    wishes = {name: wish(name, gpu) for name in names}
    jobs = [*alive, *(Turn(name=f"w{n}", wish=wishes[name]) for n, name in enumerate(names))]
    situation = Situation(turns=jobs, states={t.name: JobState.RUNNING for t in alive}, sites=[site], now=0.0)
    profiles = {profile.id: profile for profile in gpu.profiles}
    there = [(s.placement, profiles[s.profile_id]) for s in site.stays]
    expected: list[str] = []
    chosen: list[str] = []
    for n, name in enumerate(names):
        wanted = [wishes[one].options[gpu.uuid] for one in [*chosen, name]]
        if next(layouts(gpu, sorted(wanted, key=lambda p: p.id), there), None) is not None:
            expected.append(f"w{n}")
            chosen.append(name)

    assert [start.job for start in decide(situation).starts] == expected


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["a30", "a100-40gb"]), st.data())
def test_no_layout_destroys_fewer_instances_of_ended_jobs(board: str, data: st.DataObject) -> None:
    gpu = gpu_of(board)
    site, _ = data.draw(sites(gpu))
    rules = packing.grid(gpu.profiles)
    taken = packing.used(rules, ((s.placement, s.profile_id) for s in site.stays))
    items = tuple(sorted(data.draw(st.lists(st.integers(0, len(rules.profiles) - 1), min_size=1, max_size=3))))
    spares = tuple((n, s.placement, True) for s in site.spares if (n := rules.position(s.profile_id)) is not None)
    found = recut(rules, taken, spares, items)
    there = [(s.placement, rules.profiles[rules.position(s.profile_id) or 0]) for s in site.stays]
    left = [(place, rules.profiles[n]) for n, place, _ in spares]
    fewest = [
        len(left) - kept
        for seats in layouts(gpu, [rules.profiles[n] for n in items], there)
        # One that is taken over is neither destroyed nor kept beside the new ones.
        for kept in [
            _most_kept(gpu, list(seats), [one for one in left if one not in seats]) + sum(s in left for s in seats)
        ]
    ]

    if found is None:
        assert not fewest
    else:
        assert len(found.destroyed) == min(fewest)


def _most_kept(gpu: Gpu, seats: list[Instance], left: list[Instance]) -> int:
    sizes = range(len(left), -1, -1)
    return next(size for size in sizes if any(allowed(gpu, [*seats, *some]) for some in combinations(left, size)))


def until_all_have_started(situation: Situation, lasts: Callable[[str], float]) -> dict[str, float]:
    """Play the queue with durations that it does not know; when each job started."""
    began: dict[str, float] = {}
    ends: list[tuple[float, str]] = []
    for _ in range(10 * len(situation.turns) + 10):
        decision = decide(situation)
        assert wrong(situation, decision) == []
        for start in decision.starts:
            assert start.job not in began, "started twice"
            began[start.job] = situation.now
            heapq.heappush(ends, (situation.now + lasts(start.job), start.job))
        situation = after(situation, decision)
        if not ends:
            break
        at, job = heapq.heappop(ends)
        situation = ended(situation, job, at)
    return began


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["a30", "a100-40gb"]),
    st.lists(st.tuples(st.integers(0, 30), st.floats(1, 100), st.booleans()), min_size=1, max_size=30),
    st.sampled_from([Patience(), Patience(age_s=20.0), Patience(passed=2)]),
)
def test_everybody_starts_once(board: str, asked: list[tuple[int, float, bool]], patience: Patience) -> None:
    gpu = gpu_of(board)
    wishes = [wish(profile.name, gpu) for profile in gpu.profiles]
    jobs = [
        Turn(name=f"w{n}", wish=wishes[kind % len(wishes)], expect_s=lasts if told else None)
        for n, (kind, lasts, told) in enumerate(asked)
    ]
    lasts = {f"w{n}": lasts for n, (_, lasts, _) in enumerate(asked)}
    began = until_all_have_started(
        Situation(turns=jobs, states={}, sites=[Site(gpu=gpu)], now=0.0, free_cores={0: 5}, patience=patience),
        lambda job: lasts[job],
    )

    assert set(began) == set(lasts)


def stream(large: str, small: list[Wish], lasts: list[float], patience: Patience) -> int:
    """A large job behind a GPU full of small ones, while small ones keep coming; how many of these start before it."""
    gpu = gpu_of("a100-40gb")
    jobs = [Turn(name="s0", wish=small[0]), Turn(name="large", wish=wish(large, gpu))]
    jobs += [Turn(name=f"s{n}", wish=small[n % len(small)]) for n in range(1, 120)]
    situation = Situation(
        turns=jobs,
        states={},
        sites=[Site(gpu=gpu)],
        now=0.0,
        history=History(submitted=dict.fromkeys([turn.name for turn in jobs], 0.0)),
        patience=patience,
    )
    began = until_all_have_started(situation, lambda job: lasts[int(job[1:]) % len(lasts)] if job != "large" else 1.0)
    return sum(at < began["large"] for job, at in began.items() if job != "large")


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(["7g.40gb", "4g.20gb", "3g.20gb"]), st.lists(st.floats(1, 9), min_size=1, max_size=7))
def test_a_stream_of_small_jobs_does_not_starve_a_large_one(large: str, lasts: list[float]) -> None:
    gpu = gpu_of("a100-40gb")
    small = [wish("1g.5gb", gpu), wish("2g.10gb", gpu)]

    # Patience is used up after `passed` starts; from then on what runs ends, each at most nine times as long as the shortest,
    # while beside a part that is kept others come and go.
    assert stream(large, small, lasts, Patience(age_s=1e9, passed=8)) <= 8 + 7 + 7 * 9
    assert stream("7g.40gb", small, lasts, Patience(age_s=1e9, passed=8)) <= 8 + 7


def test_the_order_in_which_equal_gpus_are_given_decides_between_them() -> None:
    gpus = [gpu_of("a100-40gb", n) for n in range(2)]
    one = wish("7g.40gb", *gpus)
    situation = Situation(turns=[Turn(name="a", wish=one)], states={}, sites=[Site(gpu=g) for g in gpus], now=0.0)

    assert starts(decide(situation), gpus) == ["a 7g.40gb@0:0"]
    assert starts(decide(replace(situation, sites=situation.sites[::-1])), gpus) == ["a 7g.40gb@1:0"]
