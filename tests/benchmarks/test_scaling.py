"""The simulation of many ranks: what it must conserve, and its algorithms at sizes that can be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import scaling
from benchmarks.scaling import ALGORITHMS, Delayed, Link, Profile, Times, buckets, group_of, simulated
from burnpy.optim import GradientsParams

FREE = Link("free", 0.0, math.inf)
PROFILE = Profile(3.0, ((1.0, 400), (2.0, 400), (4.0, 400), (6.0, 100)), 6.0, 1.0)
LINK = Link("slow", 0.25, 100.0)

profiles = st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 1000)), min_size=1, max_size=8).map(
    lambda ready: Profile(1.0, tuple(ready), max(at for at, _ in ready) + 0.5, 0.25)
)


def test_buckets_hold_all_bytes_and_wait_for_their_last_gradient() -> None:
    assert buckets(PROFILE.ready, 800) == [(2.0, 800), (6.0, 500)]
    assert buckets(PROFILE.ready, 1) == [*PROFILE.ready]
    assert buckets(PROFILE.ready, 1 << 20) == [(6.0, 1300)]
    assert buckets([(3.0, 5), (1.0, 5)], 10) == [(3.0, 10)]


def test_algorithms_at_sizes_counted_by_hand() -> None:
    """There are 4 ranks, 100 bytes, and a link of 1 s and 10 bytes per second."""
    link = Link("", 1.0, 10.0)
    assert ALGORITHMS["ring"](4, 100, link) == 6 * (1.0 + 2.5)
    assert ALGORITHMS["tree"](4, 100, link) == 4 * (1.0 + 10.0)
    assert ALGORITHMS["tree"](5, 100, link) == 6 * (1.0 + 10.0)
    assert ALGORITHMS["halving"](4, 100, link) == 4 * 1.0 + 2 * 0.75 * 10.0
    assert all(f(1, 100, link) == 0.0 for f in ALGORITHMS.values())


def test_a_step_counted_by_hand() -> None:
    """Two buckets, at 2 s and at 6 s, whose sums take 8.5 s and 5.5 s around a ring of two."""
    plain = simulated(PROFILE, 2, LINK, overlap=False, bucket_bytes=800)
    assert plain == Times(3 + 6 + 14 + 1, 14.0, 14.0)
    hidden = simulated(PROFILE, 2, LINK, bucket_bytes=800)
    assert hidden == Times(3 + 2 + 14 + 1, 14.0, 10.0)  # the second sum waits for the first


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@settings(max_examples=15)
@given(profile=profiles, ranks=st.sampled_from([1, 2, 3, 8, 1000]), limit=st.sampled_from([1, 500, 10**6]))
def test_it_conserves(algorithm: str, profile: Profile, ranks: int, limit: int) -> None:
    def times(link: Link, **changed: object) -> Times:
        arguments = {"algorithm": algorithm, "bucket_bytes": limit, **changed}
        return simulated(profile, ranks, link, **arguments)  # type: ignore[arg-type]  # as listed here

    assert times(FREE).step == times(FREE, overlap=False).step == pytest.approx(profile.compute)
    plain, hidden = times(LINK, overlap=False), times(LINK)
    if ranks == 1:
        assert hidden == Times(profile.compute, 0.0, 0.0)
    assert plain.communication == hidden.communication
    assert plain.step == pytest.approx(profile.compute + plain.communication)
    assert hidden.step <= plain.step + 1e-9
    assert hidden.step >= max(profile.compute, profile.forward + hidden.communication + profile.update) - 1e-9
    assert hidden.step == pytest.approx(profile.compute + hidden.exposed)
    assert times(LINK, spread=0.3).step >= hidden.step * 0.9
    assert times(LINK, spread=0.3) == times(LINK, spread=0.3), "the same seed gave another result"


def test_slower_ranks_cost_more_the_more_ranks_there_are() -> None:
    steps = [simulated(PROFILE, ranks, FREE, spread=0.1).step for ranks in (1, 8, 1000)]
    assert steps == sorted(steps)
    assert steps[2] > 1.2 * PROFILE.compute


def test_delayed_links_change_no_gradient_and_take_sums_one_after_the_other() -> None:
    model, loss_of = scaling.model_and_loss(True)
    expected = GradientsParams.from_grads(loss_of(model).backward(), model)
    group = group_of(8, FREE, "ring")
    for _ in range(2):
        grads = group.backward(loss_of(model), model, weight=2.0)
        assert all(np.array_equal(grads[key].to_numpy(), expected[key].to_numpy()) for key in expected)
    calls = Delayed(2, Link("", 0.0, 1e12), "ring")
    first, second = calls.begin_sum(np.ones(4)), calls.begin_sum(np.ones(1000))
    assert second >= first + 8e3 / 1e12


@pytest.mark.slow
def test_the_program_measures_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    profile = scaling.measured(small=True, repeats=2)
    moments = [at for at, _ in profile.ready]
    assert min(moments) > 0.0
    assert max(moments) <= profile.backward
    assert moments[0] < moments[-1], "the last layer's gradient is complete before the first one's"
    scaling.main(["--small", "--algorithm", "tree", "--spread", "0.05", "--bucket-bytes", "1024"])
    printed = capsys.readouterr().out
    assert "| 1000 |" in printed
    assert "executed by" in printed
    assert "latency + n / bandwidth" in printed
